"""Parse and evaluate cron expressions; clock changes are handled as in Debian's cron.

croniter parses the fields; this module computes the instants of the wall times in a zone:

* An expression with fixed times of day (neither its minute nor its hour field begins with `*`) runs once for each of
  them. A time inside a DST gap runs at the first minute after the gap; a time that occurs twice runs the first time.
* Any other expression follows real time: it runs at every minute whose wall time matches, so it runs twice in an hour
  that occurs twice, and not at all in an hour that is skipped.
* A day matches if one of the two day fields matches; if one of them begins with `*`, both must match.

The library cronsim, which also follows Debian, gives other instants in these cases:

* cronsim steps whole hours on the wall clock. It loses up to half an hour after a change that is not a whole hour
  (`*/15 2 * * *` in Australia/Lord_Howe), and starts a day at midnight even if midnight is skipped (`*/30 0 * * *` in
  Africa/Cairo). This module compares the time that the clocks show.
* If a search starts in the second occurrence of an hour, cronsim returns times of the first, which are past.
* `5-5/10` matches minute 5 only; cronsim continues to the end of the hour.
* Searches end after thirty years; those of cronsim after fifty.
"""

import calendar
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, timedelta
from typing import ClassVar
from zoneinfo import ZoneInfo

from scheduled_actions.core.errors import NeverOccurs, RecurrenceInvalid
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.recurrence.cron.fields import Fields, describe, does_not_exist, read_fields, warnings_about
from scheduled_actions.recurrence.model import (
    BETWEEN_CHANGES,
    HORIZON_YEARS,
    SECOND,
    Kind,
    Occurrence,
    Rule,
    clock_changes,
    following_month,
    offset_at,
    resolve,
)

_MINUTE = timedelta(minutes=1)
_SHORTEST_MONTH = 28
#: The days 1, 8, 15, 22 and 29 of a month as bits.
_WEEKLY = 1 << 1 | 1 << 8 | 1 << 15 | 1 << 22 | 1 << 29


def parse_cron(text: str, *, zone: ZoneInfo, anchor: datetime) -> "CronRule":
    """Parse a five-field cron expression, or a macro like `@daily`.

    Args:
        text: `minute hour day-of-month month day-of-week`, with names, lists, ranges, steps, `L`, `L5` and `5#2`.
        zone: The zone of the wall times.
        anchor: Aware; determines only which clock changes `warnings` mentions, not the occurrences.

    Raises:
        RecurrenceInvalid: The message names the field, the problem and what to write instead.
    """
    fields = read_fields(text)
    return CronRule(text, zone, anchor, fields, matching_times(text, fields))


@dataclass(frozen=True, slots=True, eq=False)
class CronMatchingTimes:
    """The wall times that an expression matches.

    Each set of numbers is stored as the bits of an integer: bit 9 of `hours` means 09:00. There are only 28 kinds of
    months (by length and weekday of the first day), so the days of each are computed once.
    """

    minutes: int
    hours: int
    months: int
    #: The days of a month, by its length (28 first) and the weekday of its first day (Monday first).
    days: tuple[int, ...]

    def first_from(self, wall: datetime) -> datetime | None:
        """Return the first match at or after `wall` (naive, a whole minute); None if there is none in thirty years."""
        if self._days_in(wall.year, wall.month) >> wall.day & 1:
            minutes = self.minutes >> wall.minute if self.hours >> wall.hour & 1 else 0
            if minutes:
                return wall.replace(minute=wall.minute + _lowest(minutes))
            later_hours = self.hours >> wall.hour + 1
            if later_hours:
                return wall.replace(hour=wall.hour + 1 + _lowest(later_hours), minute=_lowest(self.minutes))
        year, month, day = wall.year, wall.month, wall.day + 1
        for _ in range(12 * HORIZON_YEARS + 1):
            days = self._days_in(year, month) >> day
            if days:
                return datetime(year, month, day + _lowest(days), _lowest(self.hours), _lowest(self.minutes))  # noqa: DTZ001 (wall)
            (year, month), day = following_month(year, month), 1
            if year > MAXYEAR:
                break
        return None

    def _days_in(self, year: int, month: int) -> int:
        if not self.months >> month & 1:
            return 0
        weekday, length = calendar.monthrange(year, month)
        return self.days[(length - _SHORTEST_MONTH) * 7 + weekday]


def matching_times(text: str, fields: Fields) -> CronMatchingTimes:
    """Return the wall times that valid fields match, as croniter interprets them.

    Args:
        text: The expression as given, for errors.
        fields: The fields of that expression.

    Raises:
        RecurrenceInvalid: croniter rejects the expression.
    """
    from croniter import CroniterError, croniter  # type: ignore[import-untyped] # noqa: PLC0415 (slow to import)

    try:
        (minutes, hours, days, months, weekdays), nth = croniter.expand(str(fields))
    except CroniterError:
        raise RecurrenceInvalid(text, "cannot be evaluated as a cron expression") from None
    of_month, of_week = _bits(days, 1, 31), 0 if nth else _bits(weekdays, 0, 6)

    def days_of(length: int, first_weekday: int) -> int:
        """Return the matching days, as bits, of a month with that length and that first weekday (0 is Monday)."""
        by_month = of_month & (2 << length) - 2 | (1 << length if "l" in days else 0)
        by_week = _days_by_week(of_week, nth, length, first_weekday)
        return (by_month & by_week if fields.needs_both_days else by_month | by_week) & (2 << length) - 2

    return CronMatchingTimes(
        minutes=_bits(minutes, 0, 59),
        hours=_bits(hours, 0, 23),
        months=_bits(months, 1, 12),
        days=tuple(days_of(length, weekday) for length in range(_SHORTEST_MONTH, 32) for weekday in range(7)),
    )


def _days_by_week(of_week: int, nth: Mapping[int, Iterable[int | str]], length: int, first_weekday: int) -> int:
    """Return the days, as bits, that the day-of-week field matches.

    Args:
        of_week: The days of the week as bits; bit 0 is Sunday.
        nth: By day of the week, the positions in the month; "l" is the last.
        length: The number of days in the month.
        first_weekday: The weekday of the first day of the month; 0 is Monday.
    """
    by_week = 0
    for day in range(7):
        # The month's first such weekday (0 is Sunday) is `ahead` days after its 1st.
        ahead = (day - 1 - first_weekday) % 7
        if of_week >> day & 1:
            by_week |= _WEEKLY << ahead
        for which in nth.get(day, ()):
            by_week |= 2 << ahead + 7 * ((length - 1 - ahead) // 7 if which == "l" else int(which) - 1)
    return by_week


def _bits(values: Iterable[int | str], low: int, high: int) -> int:
    """Return the numbers among croniter's values as bits; "*" means all values of the field."""
    return sum(1 << number for number in range(low, high + 1) if "*" in values or number in values)


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


@dataclass(frozen=True, slots=True, eq=False)
class CronRule(Rule):
    """A cron expression in a zone; the docstring of the module describes clock changes."""

    kind: ClassVar[Kind] = "cron"
    anchor: datetime
    fields: Fields
    times: CronMatchingTimes

    @property
    def description(self) -> str:
        """The expression in words: "At 09:00, only on Monday"."""
        return describe(self.fields)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about likely mistakes in the expression, and about the next clock changes that affect it."""
        return (*warnings_about(self.fields, self.zone), *self._moved_within_a_year())

    def next_after(self, moment: datetime, _budget: EvaluationBudget | None = None) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`; a cron expression never ends.

        Raises:
            NeverOccurs: Nothing occurs within thirty years.
        """
        try:
            moment = moment.astimezone(UTC)
            found = self._next_named(moment) if self.fields.is_fixed else self._next_shown(moment + datetime.resolution)
        except OverflowError:  # the calendar ends with the year 9999
            found = None
        if found is None:
            raise NeverOccurs(
                self.text,
                f"matches no day from {moment.year} to {moment.year + HORIZON_YEARS} (day of month "
                f"{self.fields.day_of_month}, month {self.fields.month}, day of week {self.fields.day_of_week})",
            )
        return found

    def _next_named(self, moment: datetime) -> Occurrence | None:
        """Return the first occurrence after `moment` of an expression with fixed times of day."""
        wall = _shown_at(moment, self.zone).replace(second=0, microsecond=0)
        while (named := self.times.first_from(wall + _MINUTE)) is not None:
            occurrence, wall = self._occurrence(named), named
            # Otherwise `moment` is in the second occurrence of an hour, and this time was in the first.
            if occurrence.at > moment:
                return occurrence
        return None

    def _next_shown(self, start: datetime) -> Occurrence | None:
        """Return the first instant at or after `start` at which the clock shows a matching time."""
        while True:
            shown = _shown_at(start, self.zone)
            wall = self.times.first_from(_whole_minute(shown))
            if wall is None:
                return None
            # The instant at which the clock shows `wall` if it does not change before.
            at = start + (wall - shown)
            change = next(clock_changes(self.zone, start, min(at, start + 2 * BETWEEN_CHANGES)), None)
            if change is not None:
                start = change
            elif at - start <= 2 * BETWEEN_CHANGES:
                return Occurrence(at)
            else:
                # No change in between moves the clock so far that it would show a match earlier.
                start = at - BETWEEN_CHANGES

    def _occurrence(self, wall: datetime) -> Occurrence:
        """Return the occurrence of a fixed time of day.

        Source: PEP 495: the offset before a change is that of `fold=0`, the one after it that of `fold=1`.
        """
        occurrence = resolve(wall, self.zone)
        if not occurrence.remarks:
            return occurrence
        at, gap = occurrence.at, offset_at(wall, self.zone, fold=1) - offset_at(wall, self.zone)
        if gap < timedelta(0):
            where = f"on {wall:%Y-%m-%d} in {self.zone.key}"
            return Occurrence(at, (f"{wall:%H:%M} occurs twice {where}: runs once, the first time",))
        # The first minute that the clock shows after the gap.
        shown = _whole_minute(_shown_at(next(clock_changes(self.zone, at - gap, at)), self.zone))
        walls = [wall]
        while (named := self.times.first_from(walls[-1] + _MINUTE)) is not None and named <= shown:
            walls.append(named)
        return Occurrence(resolve(shown, self.zone).at, (does_not_exist(walls, shown, self.zone),))

    def _moved_within_a_year(self) -> list[str]:
        """Return remarks on the first times that a clock change skips or repeats within a year after the anchor."""
        if not self.fields.is_fixed or self.anchor.year >= MAXYEAR - 1:
            return []
        remarks: dict[bool, tuple[str, ...]] = {}
        for change in clock_changes(self.zone, self.anchor.astimezone(UTC), self.anchor + timedelta(days=366)):
            shown = _shown_at(change, self.zone)
            would_show = _shown_at(change - SECOND, self.zone) + SECOND
            wall = self.times.first_from(_whole_minute(min(shown, would_show)))
            if wall is not None and wall < max(shown, would_show):
                remarks.setdefault(shown > would_show, self._occurrence(wall).remarks)
        return [remark for of_change in remarks.values() for remark in of_change]


def _shown_at(instant: datetime, zone: ZoneInfo) -> datetime:
    """Return the wall time of an instant, naive, with fold=0."""
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _whole_minute(wall: datetime) -> datetime:
    """Return the first whole minute at or after a wall time."""
    whole = wall.replace(second=0, microsecond=0)
    return whole if whole == wall else whole + _MINUTE
