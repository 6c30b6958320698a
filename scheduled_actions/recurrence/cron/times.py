"""The wall times a cron expression names, found without a step from minute to minute.

Sets of numbers are bits of an integer: bit 9 of the hours is nine o'clock. A month can only look in 28 ways (its length
and the weekday of its first), so the days of each are worked out when the expression is read.
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import MAXYEAR, datetime
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import RecurrenceInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduled_actions.recurrence.cron.fields import Fields

_SHORTEST_MONTH = 28
#: Day 1, and each a week later.
_WEEKLY = 1 << 1 | 1 << 8 | 1 << 15 | 1 << 22 | 1 << 29


@dataclass(frozen=True, slots=True, eq=False)
class WallTimes:
    """What an expression matches: minutes of the wall clock, before any zone is asked."""

    minutes: int
    hours: int
    months: int
    #: The days of a month, by its length (28 first) and the weekday of its first day (Monday first).
    days: tuple[int, ...]

    def first_from(self, wall: datetime, *, years: int) -> datetime | None:
        """Return the first match at or after `wall` (naive, a whole minute); None when there is none in `years`."""
        if self._days_in(wall.year, wall.month) >> wall.day & 1:
            time = self._time_from(wall.hour, wall.minute)
            if time is not None:
                return wall.replace(hour=time[0], minute=time[1])
        year, month, day = wall.year, wall.month, wall.day + 1
        for _ in range(12 * years + 1):
            days = self._days_in(year, month) >> day
            if days:
                return datetime(year, month, day + _lowest(days), _lowest(self.hours), _lowest(self.minutes))  # noqa: DTZ001 (wall)
            year, month, day = (year + 1, 1, 1) if month == 12 else (year, month + 1, 1)  # noqa: PLR2004 (December)
            if year > MAXYEAR:
                break
        return None

    def _days_in(self, year: int, month: int) -> int:
        if not self.months >> month & 1:
            return 0
        weekday, length = calendar.monthrange(year, month)
        return self.days[(length - _SHORTEST_MONTH) * 7 + weekday]

    def _time_from(self, hour: int, minute: int) -> tuple[int, int] | None:
        """Return the first hour and minute of a day at or after these; None when the day has no more."""
        if self.hours >> hour & 1:
            minutes = self.minutes >> minute
            if minutes:
                return hour, minute + _lowest(minutes)
        hours = self.hours >> hour + 1
        return (hour + 1 + _lowest(hours), _lowest(self.minutes)) if hours else None


@dataclass(frozen=True, slots=True)
class _Days:
    """What the two day fields match."""

    of_month: int
    has_last: bool
    #: 0 is Sunday.
    of_week: int
    #: By day of week: which of them in a month, "l" for the last.
    nth: Mapping[int, Iterable[int | str]]
    needs_both: bool

    def in_month(self, length: int, weekday: int) -> int:
        """Return the matching days of a month of that length whose first is that weekday (0 is Monday)."""
        whole = (2 << length) - 2
        by_month = self.of_month & whole | (1 << length if self.has_last else 0)
        by_week = 0
        for day in range(7):
            # The first `day` of the month is `ahead` days after its 1st.
            ahead = (day - 1 - weekday) % 7
            if self.of_week >> day & 1:
                by_week |= _WEEKLY << ahead
            for which in self.nth.get(day, ()):
                weeks = (length - 1 - ahead) // 7 if which == "l" else int(which) - 1
                by_week |= 2 << ahead + 7 * weeks
        return by_month & by_week & whole if self.needs_both else (by_month | by_week) & whole


def wall_times(text: str, fields: Fields) -> WallTimes:
    """Return what valid fields match, as croniter reads them.

    Args:
        text: The expression as it was given, for errors.
        fields: Of that expression.

    Raises:
        RecurrenceInvalid: croniter refuses the expression.
    """
    from croniter import CroniterError, croniter  # type: ignore[import-untyped] # noqa: PLC0415 (slow to import)

    try:
        (minutes, hours, days, months, weekdays), nth = croniter.expand(str(fields))
    except CroniterError:
        raise RecurrenceInvalid(text, "is not a cron expression that can be read") from None
    matching = _Days(
        of_month=_bits(days, 1, 31),
        has_last="l" in days,
        of_week=0 if nth else _bits(weekdays, 0, 6),
        nth=nth,
        needs_both=fields.needs_both_days,
    )
    shapes = ((length, weekday) for length in range(_SHORTEST_MONTH, 32) for weekday in range(7))
    return WallTimes(
        minutes=_bits(minutes, 0, 59),
        hours=_bits(hours, 0, 23),
        months=_bits(months, 1, 12),
        days=tuple(matching.in_month(length, weekday) for length, weekday in shapes),
    )


def _bits(values: Iterable[int | str], low: int, high: int) -> int:
    """Return the numbers among croniter's values; its star is all of the field."""
    numbers = range(low, high + 1) if "*" in values else (value for value in values if isinstance(value, int))
    return sum(1 << number for number in numbers)


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
