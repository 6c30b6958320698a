"""Intervals: `every 30 minutes`, `daily`, `every 2 weeks at 09:00`, `PT10M`, `P1M`.

Seconds, minutes and hours are real time. Days, weeks, months and years are dates in the zone, at one wall time. Every
occurrence is counted from the anchor, never from the one before it: nothing drifts, and none is far away.
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import NeverOccurs
from scheduled_actions.recurrence.intervals.grammar import AVERAGE_MONTH, parse_length
from scheduled_actions.recurrence.model import HORIZON_YEARS, Kind, Occurrence, Rule
from scheduled_actions.recurrence.phrases import MONTHS, WEEKDAYS, listed, time_text
from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from scheduled_actions.core.evaluation_budget import EvaluationBudget
    from scheduled_actions.recurrence.intervals.grammar import Length

_ZERO = timedelta(0)
_DAY = timedelta(days=1)
_ONE_MICROSECOND = timedelta(microseconds=1)
#: Every month has these.
_SHORTEST_MONTH = 28
_MONTHS_A_YEAR = 12
_LEAP_DAY = (2, 29)
#: P5M is five months: those who write it often mean PT5M. Few mean P1M so.
_MEANT_MINUTES = re.compile(r"[Pp](?:[2-9]|[0-9]{2,3})[Mm]", re.ASCII)


def parse_interval(text: str, *, zone: ZoneInfo, anchor: datetime, since: datetime) -> Rule:
    """Return the rule that steps from `anchor` by the interval that `text` names.

    Args:
        text: `every N units`, `every unit`, `every other unit`, `hourly` … `yearly`, or an ISO 8601 duration; after
            calendar units also `at 09:00`. In any case.
        zone: Whose calendar and wall clock days, weeks, months and years follow.
        anchor: Aware; an occurrence, unless `at` names another time of day.
        since: Aware, at or before the anchor; nothing occurs before it.

    Raises:
        RecurrenceInvalid: It names no interval, or one shorter than a second.
        NeverOccurs: It is longer than thirty years.

    Source: ISO 8601-1:2019 §5.5.2; RFC 5545 §3.3.6 for calendar units before exact ones.
    """
    length = parse_length(text)
    if length.average > HORIZON_YEARS * _MONTHS_A_YEAR * AVERAGE_MONTH:
        raise NeverOccurs(text, f"is longer than {HORIZON_YEARS} years")
    anchor = anchor.astimezone(UTC)
    exact = timedelta(microseconds=length.microseconds)
    if not length.months and not length.days:
        return _ExactInterval(
            zone=zone,
            description=f"Every {_said(length)}",
            warnings=_exact_warnings(exact, zone, anchor),
            anchor=anchor,
            step=exact,
            least_steps=-((anchor - since) // exact),
        )
    first = anchor.astimezone(zone).replace(tzinfo=None, fold=0)
    if length.at is not None:
        first = datetime.combine(first, length.at)
    average = timedelta(microseconds=length.average)
    return _CalendarInterval(
        zone=zone,
        description=f"Every {_said(length)}{_where(length, first)} at {time_text(first)}",
        warnings=_calendar_warnings(length, first, text),
        anchor=anchor,
        first=first,
        clock=first.time(),
        months=length.months,
        days=timedelta(days=length.days),
        exact=exact,
        average=average,
        earliest=since - anchor - _ONE_MICROSECOND,
        least_steps=(since - anchor) // average - 1 if since < anchor else 0,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _ExactInterval:
    """Steps in real time."""

    zone: ZoneInfo
    description: str
    warnings: tuple[str, ...]
    #: In UTC.
    anchor: datetime
    step: timedelta
    #: Those of the first occurrence; below 0 where it is before the anchor.
    least_steps: int
    kind: Kind = "interval"
    ending: str = ""

    def next_after(self, moment: datetime, _budget: EvaluationBudget | None = None) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`; None where the calendar ends."""
        steps = max((moment - self.anchor) // self.step + 1, self.least_steps)
        try:
            return Occurrence(self.anchor + steps * self.step)
        except OverflowError:
            return None


@dataclass(frozen=True, slots=True, eq=False)
class _CalendarInterval:
    """Steps from date to date at one wall time; its exact part, if it has one, is added in real time."""

    zone: ZoneInfo
    description: str
    warnings: tuple[str, ...]
    #: In UTC.
    anchor: datetime
    #: Naive, in the zone, as all wall times here: where the dates are counted from.
    first: datetime
    #: Its time of day.
    clock: time
    months: int
    days: timedelta
    exact: timedelta
    #: How long a step is on average.
    average: timedelta
    #: Counted from the anchor: nothing occurs at or before.
    earliest: timedelta
    #: No fewer are tried; below 0 where occurrences may be before the anchor.
    least_steps: int
    kind: Kind = "interval"
    ending: str = ""

    def next_after(self, moment: datetime, _budget: EvaluationBudget | None = None) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`; None where the calendar ends."""
        # Naive instants, as if in UTC: what is left of the work would cost twice as much with aware ones.
        origin = self.anchor.replace(tzinfo=None)
        after = origin + max(moment - self.anchor, self.earliest)
        try:
            # Never too many: a wall time is less than a day from UTC, and so many months are days off their average.
            steps = max((after - self.first) // self.average, self.least_steps)
            wall, at = self._step(steps)
            while at <= after:
                steps += 1
                wall, at = self._step(steps)
            if self.zone.utcoffset(wall) == self.zone.utcoffset(datetime.combine(wall, self._again)):
                return Occurrence(self.anchor + (at - origin))
            at, remark = resolve(wall, self.zone)
            return Occurrence(at + steps * self.exact, (remark,) if remark else ())
        except (OverflowError, ValueError):
            return None

    def _step(self, steps: int) -> tuple[datetime, datetime]:
        """Return a step's wall time and its instant, not before that of the step before: a gap is a day at most."""
        wall = self._wall(steps)
        # Read as its first showing, and in a gap with the offset before the change: as resolve reads it.
        return wall, wall - (self.zone.utcoffset(wall) or _ZERO) + steps * self.exact

    def _wall(self, steps: int) -> datetime:
        if not self.months:
            return self.first + steps * self.days
        first = self.first
        year, month = divmod(first.year * _MONTHS_A_YEAR + first.month - 1 + steps * self.months, _MONTHS_A_YEAR)
        day = first.day
        if day > _SHORTEST_MONTH:
            day = min(day, calendar.monthrange(year, month + 1)[1])
        wall = datetime.combine(date(year, month + 1, day), self.clock)
        return wall + steps * self.days if self.days else wall

    @property
    def _again(self) -> time:
        return self.clock.replace(fold=1)


def _said(length: Length) -> str:
    """Return `10 minutes`, `day`, `2 weeks`, `1 day and 12 hours`: as it was written."""
    if len(length.parts) == 1 and length.parts[0][0] == "1":
        return length.parts[0][1]
    return listed([f"{count} {unit}{'' if count == '1' else 's'}" for count, unit in length.parts])


def _where(length: Length, first: datetime) -> str:
    """Return on which day it falls, where that is always the same."""
    if length.microseconds or (length.months and length.days):
        return ""
    if length.months % _MONTHS_A_YEAR:
        return f" on day {first.day}{' (or the last)' if first.day > _SHORTEST_MONTH else ''}"
    if length.months:
        is_leap_day = (first.month, first.day) == _LEAP_DAY
        return f" on {first.day} {MONTHS[first.month - 1]}{' (or the last)' if is_leap_day else ''}"
    return f" on {WEEKDAYS[first.weekday()]}" if length.parts[0][1] == "week" and length.days % 7 == 0 else ""


def _exact_warnings(step: timedelta, zone: ZoneInfo, anchor: datetime) -> tuple[str, ...]:
    if step % _DAY or not _changes_clocks(zone, anchor):
        return ()
    days = step // _DAY
    same = "daily" if days == 1 else f"every {days} days"
    return (f'Hours are real time: when the clocks of {zone.key} change, so does its time of day; "{same}" keeps it',)


def _changes_clocks(zone: ZoneInfo, anchor: datetime) -> bool:
    """Return whether the zone's offset changes within a year of the anchor."""
    try:
        return len({(anchor + days * _DAY).astimezone(zone).utcoffset() for days in range(0, 366, 30)}) > 1
    except OverflowError:
        return False


def _calendar_warnings(length: Length, first: datetime, text: str) -> tuple[str, ...]:
    told = []
    if length.months and first.day > _SHORTEST_MONTH:
        is_yearly = length.months % _MONTHS_A_YEAR == 0
        if not is_yearly:
            told.append(f"Months without a day {first.day} have it on their last day")
        elif (first.month, first.day) == _LEAP_DAY:
            told.append("Years without a 29 February have it on the 28th")
    if length.microseconds:
        told.append("Its hours are real time and add up: when the clocks change, so does its time of day")
    if _MEANT_MINUTES.fullmatch(text):
        told.append(f"{text} counts months; minutes come after a T: PT{text[1:]}")
    return tuple(told)
