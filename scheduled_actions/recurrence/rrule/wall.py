"""Compute the instants of rules that follow the calendar: DAILY, WEEKLY, MONTHLY, YEARLY.

Their occurrences are wall times of matching days, which `model.resolve` converts to instants. A time inside a DST gap
moves later by the gap, and is counted. A time that occurs twice means its first occurrence (RFC 5545 §3.3.10, erratum
4271).

For the days of a period (a year, a month, a week), every BY part is a condition, whether the RFC calls it an expansion
or a limit. The frequencies differ only in the parts that are taken from the start, and in whether the nth weekday is
counted in the month or in the year.
"""

from bisect import bisect_left
from calendar import isleap, monthrange
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import product
from zoneinfo import ZoneInfo

from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.recurrence.model import DAY, Occurrence, following_month, instant_of, resolve
from scheduled_actions.recurrence.phrases import refuse
from scheduled_actions.recurrence.rrule.parts import NthDay, Parts

#: Maximum number of times of day in a rule: one per minute. Rules with more need MINUTELY or SECONDLY.
TIMES_A_DAY_MOST = 1_440


def complete(parts: Parts, start: datetime) -> Parts:
    """Return the parts, with days taken from the start if the rule has none.

    Source: RFC 5545 §3.3.10, "Information, not contained in the rule"; a BYWEEKNO alone takes the start's weekday.
    """
    if parts.by_day or parts.by_month_day or parts.by_year_day:
        return parts
    match parts.frequency:
        case "YEARLY" if not parts.by_week_number:
            return replace(parts, by_month=parts.by_month or (start.month,), by_month_day=(start.day,))
        case "MONTHLY":
            return replace(parts, by_month_day=(start.day,))
        case "YEARLY" | "WEEKLY":
            return replace(parts, by_day=(NthDay(0, start.weekday()),))
        case _:
            return parts


class RRuleWallTimes:
    """The occurrences of a rule that follows the calendar.

    Args:
        parts: The parts, completed from the start.
        start: The first wall time that may be an occurrence.
        zone: The zone of the wall times.

    Raises:
        Malformed: The rule has more than `TIMES_A_DAY_MOST` times of day.
    """

    def __init__(self, parts: Parts, start: datetime, zone: ZoneInfo) -> None:
        self._start = start
        self._zone = zone
        self._days = Days(parts, start)
        self._positions = parts.by_set_position
        self.times = _times_of_day(parts, start)
        if parts.frequency == "DAILY" and self._positions:
            # The set is the times of one day: BYSETPOS picks the same times every day.
            self.times = [self.times[index] for index in pick(self._positions, len(self.times))]
            self._positions = ()

    def after(self, moment: datetime, until: datetime, budget: EvaluationBudget) -> Iterator[Occurrence]:
        """Yield the occurrences after `moment` and up to `until`, both in UTC, in strictly ascending order.

        Raises:
            BudgetExceeded: The search took too many steps.
        """
        since = moment.astimezone(self._zone)
        # A time within a gap before `moment` may have moved to after it; no clock ever moved by more than a day.
        if since.utcoffset() != (moment - DAY).astimezone(self._zone).utcoffset():
            since -= DAY
        last = until.astimezone(self._zone).replace(tzinfo=None)
        for occurrence in self._in_order(self._walls(max(since.replace(tzinfo=None), self._start), last, budget)):
            if occurrence.at > until:
                return
            if occurrence.at > moment:
                yield occurrence

    def _in_order(self, walls: Iterable[datetime]) -> Iterator[Occurrence]:
        """Yield the instants of ascending wall times in order; equal instants of two wall times are yielded once."""
        waiting: dict[datetime, Occurrence] = {}
        waiting_for = datetime.min  # noqa: DTZ901 (wall time)
        for wall in walls:
            if waiting and wall > waiting_for:
                yield from sorted(waiting.values(), key=instant_of)
                waiting.clear()
            occurrence = resolve(wall, self._zone)
            shown = occurrence.at.astimezone(self._zone).replace(tzinfo=None) if occurrence.remarks else wall
            if shown > wall:
                # A DST gap moved this time past later wall times.
                waiting_for = max(waiting_for, shown)
            elif not waiting:
                yield occurrence
                continue
            waiting.setdefault(occurrence.at, occurrence)
        yield from sorted(waiting.values(), key=instant_of)

    def _walls(self, since: datetime, last: datetime, budget: EvaluationBudget) -> Iterator[datetime]:
        """Yield the wall times from `since` to the end of the day of `last`, in order."""
        first = since.toordinal(), since.hour * 3600 + since.minute * 60 + since.second
        for days in self._days.periods(since, last):
            budget.spend()
            for day, time in self._named(days, first):
                if day > last.toordinal():
                    return
                budget.spend()
                yield datetime.fromordinal(day) + timedelta(seconds=time)

    def _named(self, days: list[int], first: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """Yield the matching days and times of a period, in order, from the day and time `first` on."""
        times, count = self.times, len(self.times)
        if self._positions:
            places = pick(self._positions, len(days) * count)
            named = ((days[place // count], times[place % count]) for place in places)
            yield from (day_and_time for day_and_time in named if day_and_time >= first)
            return
        for day in days:
            if day >= first[0]:
                yield from ((day, time) for time in times[bisect_left(times, first[1]) if day == first[0] else 0 :])


def _times_of_day(parts: Parts, start: datetime) -> list[int]:
    """Return the times of day in seconds, in order."""
    hours, minutes = parts.by_hour or (start.hour,), parts.by_minute or (start.minute,)
    seconds = parts.by_second or (start.second,)
    count = len(hours) * len(minutes) * len(seconds)
    refuse(
        (
            count > TIMES_A_DAY_MOST,
            (
                f"has {count:,} times a day, but FREQ={parts.frequency} allows at most {TIMES_A_DAY_MOST:,}: "
                "use FREQ=MINUTELY or SECONDLY"
            ),
        ),
    )
    return [hour * 3600 + minute * 60 + second for hour, minute, second in product(hours, minutes, seconds)]


class Days:
    """The days that match the parts of a rule.

    Args:
        parts: The parts, completed from the start.
        start: The first day; the interval is counted from it.
    """

    def __init__(self, parts: Parts, start: date) -> None:
        self._parts = parts
        self._start = start
        self._matching = matching_days(parts)

    def includes(self, day: date) -> bool:
        """Whether a day matches the rule, regardless of the interval."""
        return bool(self._matching.in_month(day.year, day.month) >> day.day & 1)

    def first_from(self, day: date, last: date) -> date | None:
        """Return the first day from `day` to `last` that matches, regardless of the interval; None if there is none."""
        year, month, low = day.year, day.month, day.day
        while (year, month) <= (last.year, last.month):
            mask = self._matching.in_month(year, month) >> low
            if mask:
                return date(year, month, low + (mask & -mask).bit_length() - 1)
            (year, month), low = following_month(year, month), 1
        return None

    def periods(self, since: date, until: date) -> Iterator[list[int]]:
        """Return the matching days of each period as sorted ordinals.

        The first period is the one that contains `since`, the last one contains `until`.

        Unless BYSETPOS needs a whole year at once, the periods of YEARLY and DAILY rules are months.
        """
        match self._parts.frequency:
            case "YEARLY":
                return self._years(since, until)
            case "MONTHLY":
                first, low, high = (day.year * 12 + day.month - 1 for day in (self._start, since, until))
                return (self._ordinals(index // 12, index % 12 + 1) for index in self._counted(first, low, high))
            case "WEEKLY":
                return self._weeks(since, until)
            case _:
                return self._days(since, until)

    def _years(self, since: date, until: date) -> Iterator[list[int]]:
        months = self._parts.by_month or range(1, 13)
        for year in self._counted(self._start.year, since.year, until.year):
            if self._parts.by_set_position:
                yield [day for month in months for day in self._ordinals(year, month)]
            else:
                yield from (
                    self._ordinals(year, month) for month in months if (year, month) >= (since.year, since.month)
                )

    def _weeks(self, since: date, until: date) -> Iterator[list[int]]:
        week_start, months = self._parts.week_start, self._parts.by_month
        first, low, high = ((day.toordinal() - 1 - week_start) // 7 for day in (self._start, since, until))
        ahead = sorted((weekday - week_start) % 7 for weekday in self._matching.every_weekday)
        for week in self._counted(first, low, high):
            days = [week * 7 + 1 + week_start + after for after in ahead]
            yield [day for day in days if date.fromordinal(day).month in months] if months else days

    def _days(self, since: date, until: date) -> Iterator[list[int]]:
        first, interval = self._start.toordinal(), self._parts.interval
        year, month, low = since.year, since.month, since.day
        while (year, month) <= (until.year, until.month):
            days = self._ordinals(year, month, low)
            yield days if interval == 1 else [day for day in days if not (day - first) % interval]
            (year, month), low = following_month(year, month), 1

    def _counted(self, first: int, low: int, high: int) -> range:
        """Return the periods from `low` to `high` that the interval selects, counted from `first`."""
        interval = self._parts.interval
        return range(max(first, low + (first - low) % interval), high + 1, interval)

    def _ordinals(self, year: int, month: int, low: int = 1) -> list[int]:
        """Return the matching days of a month from the day `low` on."""
        mask, before = self._matching.in_month(year, month), date(year, month, 1).toordinal() - 1
        return [before + day for day in range(low, mask.bit_length()) if mask >> day & 1]


class _MatchingDays:
    """The days of months that match the parts of a rule, whatever its start and interval.

    A set of days of a month is stored as the bits of an integer: bit 9 means the 9th. The sets depend on few properties
    of the year, so each variant is computed only once.

    Args:
        parts: The parts, completed from the start.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._is_nth_in_month = parts.frequency == "MONTHLY" or bool(parts.by_month)
        self.every_weekday = frozenset(day.weekday for day in parts.by_day if not day.nth)
        self._nth_days = frozenset(day for day in parts.by_day if day.nth)
        self._month_days = frozenset(parts.by_month_day)
        self._year_days = frozenset(parts.by_year_day)
        self._weeks_of_year = frozenset(parts.by_week_number)
        self._masks: dict[tuple[int, int, bool, bool, bool], int] = {}

    def in_month(self, year: int, month: int) -> int:
        """Return the matching days of a month as bits."""
        if self._parts.by_month and month not in self._parts.by_month:
            return 0
        # The weekday of January 1st and the lengths of three years determine every weekday and week: at the turn of a
        # year, days belong to weeks of its neighbours.
        key = (month, date(year, 1, 1).weekday(), isleap(year - 1), isleap(year), isleap(year + 1))
        if key not in self._masks:
            length = monthrange(year, month)[1]
            self._masks[key] = sum(
                1 << day for day in range(1, length + 1) if self._matches(date(year, month, day), length)
            )
        return self._masks[key]

    def _matches(self, day: date, month_length: int) -> bool:
        """Whether a day matches every part except BYMONTH."""
        year_length = 366 if isleap(day.year) else 365
        year_day = day.toordinal() - date(day.year, 1, 1).toordinal() + 1
        if (
            (self._month_days and not _is_wanted(day.day, month_length, self._month_days))
            or (self._year_days and not _is_wanted(year_day, year_length, self._year_days))
            or (self._weeks_of_year and not _is_wanted(*_week_number(day, self._parts.week_start), self._weeks_of_year))
        ):
            return False
        if not self._parts.by_day or day.weekday() in self.every_weekday:
            return True
        position, length = (day.day, month_length) if self._is_nth_in_month else (year_day, year_length)
        from_start, from_end = (position - 1) // 7 + 1, -((length - position) // 7) - 1
        return not self._nth_days.isdisjoint({(from_start, day.weekday()), (from_end, day.weekday())})


@lru_cache(maxsize=1024)
def matching_days(parts: Parts) -> _MatchingDays:
    """Return the matching days of parts, which rules with equal parts share."""
    return _MatchingDays(parts)


def pick(positions: tuple[int, ...], count: int) -> list[int]:
    """Return the indexes, ascending, that BYSETPOS selects in a set of `count` elements."""
    places = {position - 1 if position > 0 else count + position for position in positions}
    return sorted(place for place in places if 0 <= place < count)


def _is_wanted(number: int, length: int, wanted: frozenset[int]) -> bool:
    """Whether the `number`th element of `length` is wanted, counted from the start or (negative) from the end."""
    return number in wanted or number - length - 1 in wanted


def _week_number(day: date, week_start: int) -> tuple[int, int]:
    """Return the number of a day's week, and the number of weeks in the year of that week.

    Source: RFC 5545 §3.3.10: the first week of a year is the first that has four of its days.
    """
    fourth = date.fromordinal(day.toordinal() - (day.weekday() - week_start) % 7 + 3)
    year_day = fourth.timetuple().tm_yday
    week = (year_day - 1) // 7 + 1
    return week, week + ((366 if isleap(fourth.year) else 365) - year_day) // 7
