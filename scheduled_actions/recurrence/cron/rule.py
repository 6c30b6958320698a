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
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, timedelta
from functools import lru_cache
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
    shown_at,
)

_MINUTE = timedelta(minutes=1)
#: croniter's symbol for the last day of a month, and for the last such weekday.
_LAST = "l"
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
    return CronRule(text, zone, anchor, *_read(text))


@lru_cache(maxsize=1024)
def _read(text: str) -> "tuple[Fields, CronMatchingTimes]":
    """Parse an expression; results are cached, because many schedules share a text.

    Raises:
        RecurrenceInvalid: As for `parse_cron`.
    """
    fields = read_fields(text)
    return fields, matching_times(text, fields)


@dataclass(frozen=True, slots=True, eq=False)
class CronMatchingTimes:
    """The wall times that an expression matches.

    Each set of numbers is stored as the bits of an integer: bit 9 of `hours` means 09:00.
    """

    minutes: int
    hours: int
    #: The days of the month; bit 0 is the last day.
    days: int
    months: int
    #: The days of the week that match in every week; bit 0 is Monday.
    weekdays: int
    #: The days of the week that match in one week: each with its place in the month, from 0; -1 is the last.
    nth_weekdays: tuple[tuple[int, int], ...]
    #: Whether a day must match both day fields, rather than either.
    needs_both_days: bool

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
        """Return the matching days of a month as bits; bit 1 is its first day."""
        if not self.months >> month & 1:
            return 0
        first_weekday, length = calendar.monthrange(year, month)
        by_month = self.days | (self.days & 1) << length
        # One week, whose first bit is the weekday of the month's first day, is repeated.
        week = (self.weekdays | self.weekdays << 7) >> first_weekday & 0b1111111
        by_week = week * _WEEKLY
        for weekday, nth in self.nth_weekdays:
            # The month's first such weekday is `ahead` days after its 1st.
            ahead = (weekday - first_weekday) % 7
            by_week |= 2 << ahead + 7 * (nth if nth >= 0 else (length - 1 - ahead) // 7)
        days = by_month & by_week if self.needs_both_days else by_month | by_week
        return days & (2 << length) - 2


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
    # croniter's week begins with Sunday.
    from_sunday = 0 if nth else _bits(weekdays, 0, 6)
    return CronMatchingTimes(
        minutes=_bits(minutes, 0, 59),
        hours=_bits(hours, 0, 23),
        days=_bits([0 if day == _LAST else day for day in days], 1, 31),
        months=_bits(months, 1, 12),
        weekdays=from_sunday >> 1 | (from_sunday & 1) << 6,
        nth_weekdays=tuple(
            ((day - 1) % 7, -1 if place == _LAST else place - 1) for day, places in nth.items() for place in places
        ),
        needs_both_days=fields.needs_both_days,
    )


def _bits(values: Iterable[int | str], low: int, high: int) -> int:
    """Return the numbers of a field as bits; "*" stands for all of them."""
    bits = 0
    for value in values:
        bits |= (2 << high) - (1 << low) if value == "*" else 1 << int(value)
    return bits


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
        wall = shown_at(moment, self.zone).replace(second=0, microsecond=0)
        while (named := self.times.first_from(wall + _MINUTE)) is not None:
            occurrence, wall = self._occurrence(named), named
            # Otherwise `moment` is in the second occurrence of an hour, and this time was in the first.
            if occurrence.at > moment:
                return occurrence
        return None

    def _next_shown(self, start: datetime) -> Occurrence | None:
        """Return the first instant at or after `start` at which the clock shows a matching time."""
        while True:
            shown = shown_at(start, self.zone)
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
        shown = _whole_minute(shown_at(next(clock_changes(self.zone, at - gap, at)), self.zone))
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
            shown = shown_at(change, self.zone)
            would_show = shown_at(change - SECOND, self.zone) + SECOND
            wall = self.times.first_from(_whole_minute(min(shown, would_show)))
            if wall is not None and wall < max(shown, would_show):
                remarks.setdefault(shown > would_show, self._occurrence(wall).remarks)
        return [remark for of_change in remarks.values() for remark in of_change]


def _whole_minute(wall: datetime) -> datetime:
    """Return the first whole minute at or after a wall time."""
    whole = wall.replace(second=0, microsecond=0)
    return whole if whole == wall else whole + _MINUTE
