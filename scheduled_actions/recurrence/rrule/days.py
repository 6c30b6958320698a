"""Which days a rule names: the date part of RFC 5545's table of what expands and what limits.

On the days of one period (a year, a month, a week) every BY part is a condition, whether the RFC says that it expands
or limits; what differs is only what stands in for the parts that were not given, and whether the nth weekday is counted
in the month or in the year.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from dataclasses import replace
from datetime import date, datetime
from typing import TYPE_CHECKING

from scheduled_actions.recurrence.rrule.parts import NthDay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduled_actions.recurrence.rrule.parts import Parts

_MONTHS_A_YEAR = 12


def completed(parts: Parts, start: datetime) -> Parts:
    """Return the parts with the days that the start fills in where the rule names none.

    Source: RFC 5545 §3.3.10, "Information, not contained in the rule"; a BYWEEKNO alone takes the start's weekday.
    """
    if parts.by_day or parts.by_month_day or parts.by_year_day:
        return parts
    match parts.frequency:
        case "YEARLY" if parts.by_week_number:
            return replace(parts, by_day=(NthDay(0, start.weekday()),))
        case "YEARLY":
            return replace(parts, by_month=parts.by_month or (start.month,), by_month_day=(start.day,))
        case "MONTHLY":
            return replace(parts, by_month_day=(start.day,))
        case "WEEKLY":
            return replace(parts, by_day=(NthDay(0, start.weekday()),))
        case _:
            return parts


class Days:
    """The days that completed parts name, in the calendar of a start.

    Sets of days of a month are bits of an integer: bit 9 is the 9th. What a month looks like depends on few facts of
    its year, so each is worked out once.
    """

    def __init__(self, parts: Parts, start: date) -> None:
        self._parts = parts
        self._start = start
        self._numbered_in_month = parts.frequency == "MONTHLY" or bool(parts.by_month)
        self._every_weekday = frozenset(day.weekday for day in parts.by_day if not day.nth)
        self._numbered = frozenset(day for day in parts.by_day if day.nth)
        self._month_days = frozenset(parts.by_month_day)
        self._year_days = frozenset(parts.by_year_day)
        self._weeks_of_year = frozenset(parts.by_week_number)
        self._masks: dict[tuple[int, int, bool, bool, bool], int] = {}

    def includes(self, day: date) -> bool:
        """Whether the rule names that day, intervals aside."""
        return bool(self._in_month(day.year, day.month) >> day.day & 1)

    def first_from(self, day: date, last: date) -> date | None:
        """Return the first day from `day` to `last` that the rule names, intervals aside."""
        year, month, low = day.year, day.month, day.day
        while (year, month) <= (last.year, last.month):
            mask = self._in_month(year, month) >> low
            if mask:
                return date(year, month, low + (mask & -mask).bit_length() - 1)
            year, month, low = (year + 1, 1, 1) if month == _MONTHS_A_YEAR else (year, month + 1, 1)
        return None

    def periods(self, since: date, until: date) -> Iterator[list[int]]:
        """Yield the days of each period in turn, as ordinals in order, from the one that holds `since`.

        Where no BYSETPOS needs a whole year at once, the periods of YEARLY and DAILY rules are months.
        """
        match self._parts.frequency:
            case "YEARLY" if self._parts.by_set_position:
                yield from self._years(since, until)
            case "YEARLY":
                yield from self._months_of_years(since, until)
            case "MONTHLY":
                yield from self._months(since, until)
            case "WEEKLY":
                yield from self._weeks(since, until)
            case _:
                yield from self._days(since, until)

    def _years(self, since: date, until: date) -> Iterator[list[int]]:
        for year in self._counted(self._start.year, since.year, until.year):
            yield [day for month in range(1, _MONTHS_A_YEAR + 1) for day in self._ordinals(year, month)]

    def _months_of_years(self, since: date, until: date) -> Iterator[list[int]]:
        months = self._parts.by_month or range(1, _MONTHS_A_YEAR + 1)
        for year in self._counted(self._start.year, since.year, until.year):
            for month in months:
                if (year, month) >= (since.year, since.month):
                    yield self._ordinals(year, month)

    def _months(self, since: date, until: date) -> Iterator[list[int]]:
        first, low, high = (day.year * _MONTHS_A_YEAR + day.month - 1 for day in (self._start, since, until))
        for index in self._counted(first, low, high):
            yield self._ordinals(index // _MONTHS_A_YEAR, index % _MONTHS_A_YEAR + 1)

    def _weeks(self, since: date, until: date) -> Iterator[list[int]]:
        week_start = self._parts.week_start
        first, low, high = (_week_of(day.toordinal(), week_start) for day in (self._start, since, until))
        ahead = sorted((weekday - week_start) % 7 for weekday in self._every_weekday)
        for week in self._counted(first, low, high):
            opening = week * 7 + 1 + week_start
            days = [opening + after for after in ahead]
            if self._parts.by_month:
                days = [day for day in days if date.fromordinal(day).month in self._parts.by_month]
            yield days

    def _days(self, since: date, until: date) -> Iterator[list[int]]:
        first, interval = self._start.toordinal(), self._parts.interval
        year, month = since.year, since.month
        while (year, month) <= (until.year, until.month):
            days = self._ordinals(year, month)
            yield days if interval == 1 else [day for day in days if not (day - first) % interval]
            year, month = (year + 1, 1) if month == _MONTHS_A_YEAR else (year, month + 1)

    def _counted(self, first: int, low: int, high: int) -> range:
        """Return the periods from `low` to `high` that the interval meets, counted from `first`."""
        interval = self._parts.interval
        return range(max(first, low + (first - low) % interval), high + 1, interval)

    def _ordinals(self, year: int, month: int) -> list[int]:
        mask = self._in_month(year, month)
        if not mask:
            return []
        before = date(year, month, 1).toordinal() - 1
        return [before + day for day in range(1, mask.bit_length()) if mask >> day & 1]

    def _in_month(self, year: int, month: int) -> int:
        """Return the days of that month which the rule names, as bits."""
        if self._parts.by_month and month not in self._parts.by_month:
            return 0
        # January 1st and the lengths of three years tell every weekday and week: at the turns of a year its days belong
        # to weeks of its neighbours.
        key = (month, date(year, 1, 1).weekday(), isleap(year - 1), isleap(year), isleap(year + 1))
        mask = self._masks.get(key)
        if mask is None:
            length = monthrange(year, month)[1]
            named = (day for day in range(1, length + 1) if self._names(date(year, month, day), length))
            mask = self._masks[key] = sum(1 << day for day in named)
        return mask

    def _names(self, day: date, month_length: int) -> bool:
        """Whether every part but BYMONTH holds for a day."""
        parts = self._parts
        if parts.by_month_day and not _counts(day.day, month_length, self._month_days):
            return False
        year_length = 366 if isleap(day.year) else 365
        year_day = day.toordinal() - date(day.year, 1, 1).toordinal() + 1
        if parts.by_year_day and not _counts(year_day, year_length, self._year_days):
            return False
        if parts.by_week_number and not _counts(*_week_number(day, parts.week_start), self._weeks_of_year):
            return False
        if not parts.by_day or day.weekday() in self._every_weekday:
            return True
        position, length = (day.day, month_length) if self._numbered_in_month else (year_day, year_length)
        from_start, from_end = (position - 1) // 7 + 1, -((length - position) // 7) - 1
        return not self._numbered.isdisjoint({(from_start, day.weekday()), (from_end, day.weekday())})


def picked(positions: tuple[int, ...], count: int) -> list[int]:
    """Return the places in a set of `count` that BYSETPOS picks, from 0, in order."""
    places = {position - 1 if position > 0 else count + position for position in positions}
    return sorted(place for place in places if 0 <= place < count)


def _counts(number: int, length: int, wanted: frozenset[int]) -> bool:
    """Whether the `number`th of `length` is wanted, counted from the start or from the end."""
    return number in wanted or number - length - 1 in wanted


def _week_of(ordinal: int, week_start: int) -> int:
    """Return the number of a day's week since the first week of the calendar."""
    return (ordinal - 1 - week_start) // 7


def _week_number(day: date, week_start: int) -> tuple[int, int]:
    """Return the number of a day's week, and how many weeks that week's year has.

    Source: RFC 5545 §3.3.10: the first week of a year is the first that has four of its days.
    """
    fourth = date.fromordinal(day.toordinal() - (day.weekday() - week_start) % 7 + 3)
    year_day = fourth.timetuple().tm_yday
    weeks_before = (year_day - 1) // 7
    weeks_after = ((366 if isleap(fourth.year) else 365) - year_day) // 7
    return weeks_before + 1, weeks_before + 1 + weeks_after
