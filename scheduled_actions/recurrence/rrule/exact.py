"""Compute the instants of rules that follow real time: HOURLY, MINUTELY, SECONDLY.

Hours, minutes and seconds are counted from the start in real time; clock changes neither skip nor repeat any. The wall
clock determines only which of them the BY parts accept, and which instants of an hour or a minute they select.
FREQ=HOURLY;BYHOUR=2 therefore has no occurrence on a day on which the clocks skip that hour, and two on a day on which
they repeat it.

In this module, instants are whole seconds since 1970.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from math import gcd
from typing import NamedTuple
from zoneinfo import ZoneInfo

from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.recurrence.model import DAY, SECOND, Occurrence, resolve
from scheduled_actions.recurrence.phrases import time_text
from scheduled_actions.recurrence.rrule.parts import Parts
from scheduled_actions.recurrence.rrule.wall import Days, pick

_UNITS = {"HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}
_HOUR, _MINUTE, _DAY = 3600, 60, 86_400
_1970 = datetime(1970, 1, 1, tzinfo=UTC)


class ExactTimes:
    """The occurrences of a rule that follows real time.

    Args:
        parts: The parts, completed from the start.
        start: The instant from which periods are counted, in UTC.
        zone: The zone whose wall clock the BY parts refer to.
    """

    def __init__(self, parts: Parts, start: datetime, zone: ZoneInfo) -> None:
        self._zone = zone
        self._positions = parts.by_set_position
        self._unit = _UNITS[parts.frequency]
        self._step = self._unit * parts.interval
        self._start = _since_1970(start)
        wall = start.astimezone(zone)
        elapsed = (wall.minute * _MINUTE + wall.second) % self._unit
        #: The beginning of the period that contains the start.
        self._origin = self._start - elapsed
        #: The minutes of BYMINUTE in an HOURLY rule; otherwise empty.
        self._named_minutes = frozenset(parts.by_minute) if self._unit == _HOUR else frozenset()
        #: The length of one of these minutes; without them, of a period.
        self._unit_of_minutes = _MINUTE if self._named_minutes else self._unit
        #: The instants of a period, or of each of these minutes, in seconds after its beginning.
        minute = 0 if self._named_minutes else elapsed - elapsed % _MINUTE
        seconds = parts.by_second if self._unit > 1 else ()
        self._seconds = [minute + second for second in seconds or (elapsed % _MINUTE,)]
        self._limits = _Limits(parts, wall, zone, origin=self._origin, unit=self._unit)

    def after(self, moment: datetime, until: datetime, budget: EvaluationBudget) -> Iterator[Occurrence]:
        """Yield the occurrences after `moment` and up to `until`, both in UTC, in strictly ascending order.

        Raises:
            BudgetExceeded: The search took too many steps.
        """
        last = _since_1970(until)
        cursor = max(_since_1970(moment) + 1, self._start)
        while True:
            budget.spend()
            # The first period that has not ended at the cursor.
            period = self._origin + ((cursor - self._origin - self._unit) // self._step + 1) * self._step
            cursor = max(cursor, period)
            if cursor > last:
                return
            cursor = self._limits.first_from(cursor, last, budget)
            if cursor < period + self._unit:
                for instant in self._instants(period, cursor, budget):
                    if cursor <= instant <= last:
                        budget.spend()
                        yield self._occurrence(instant)
                cursor = period + self._unit

    def _instants(self, period: int, cursor: int, budget: EvaluationBudget) -> Iterable[int]:
        """Return the instants of the rule in a period, in order; instants before `cursor` may be missing."""
        minutes = self._limits.minutes_of(period, self._named_minutes) if self._named_minutes else [period]
        if not self._positions:
            minutes = [minute for minute in minutes if minute + self._unit_of_minutes > cursor]
        named = (minute + second for minute in minutes for second in self._seconds)
        accepted = (instant for instant in named if self._limits.first_from(instant, instant, budget) == instant)
        if not self._positions:
            return accepted
        budget.spend(len(minutes) * len(self._seconds) // 4)
        of_period = list(accepted)
        return [of_period[place] for place in pick(self._positions, len(of_period))]

    def _occurrence(self, instant: int) -> Occurrence:
        at = _1970 + SECOND * instant
        wall = at.astimezone(self._zone)
        if wall.utcoffset() == wall.replace(fold=1 - wall.fold).utcoffset():
            return Occurrence(at)
        which = f"on {wall:%Y-%m-%d} in {self._zone.key}: this is the {'second' if wall.fold else 'first'}"
        return Occurrence(at, (f"{time_text(wall)} occurs twice {which}",))


class _Stretch(NamedTuple):
    """A part of a local day in which the clock does not change."""

    begin: int
    #: The end, excluded.
    end: int
    #: The instant of its midnight, as if the clock had not changed before it.
    midnight: int
    day: date
    #: Whether a clock change ends it, rather than the end of the day.
    ends_in_change: bool
    #: Whether the day matches the parts.
    is_named: bool
    #: Whether any period may begin in it at a time of day that the parts accept.
    may_meet: bool


class _Limits:
    """The conditions on the wall clock: the parts of the unit of the frequency, and of coarser units."""

    def __init__(self, parts: Parts, start: datetime, zone: ZoneInfo, *, origin: int, unit: int) -> None:
        self._zone = zone
        has_days = parts.by_month or parts.by_year_day or parts.by_month_day or parts.by_day
        self._days = Days(parts, start) if has_days else None
        hours, minutes = parts.by_hour, parts.by_minute if unit <= _MINUTE else ()
        seconds = parts.by_second if unit == 1 else ()
        self._is_any = bool(has_days or hours or minutes or seconds)
        self._first_from = [_first_from(hours, 24), _first_from(minutes, 60), _first_from(seconds, 60)]
        self._origin, self._unit = origin, unit
        #: All periods begin at the same remainder modulo this number of seconds, counted from a midnight.
        self._cycle = gcd(unit * parts.interval, _DAY)
        self._hours = hours or range(24)
        self._named_minutes = (minutes or range(60)) if unit < _HOUR else (0,)
        self._named_seconds = (seconds or range(60)) if unit < _MINUTE else (0,)
        self._meets: dict[int, bool] = {}
        self._stretch = _Stretch(0, 0, 0, start, ends_in_change=False, is_named=False, may_meet=False)

    def first_from(self, instant: int, last: int, budget: EvaluationBudget) -> int:
        """Return the first instant from `instant` on that meets the conditions; one after `last` if there is none."""
        if not self._is_any:
            return instant
        while instant <= last:
            stretch = self._stretch
            if not stretch.begin <= instant < stretch.end:
                budget.spend(2)  # for each day: to find its clock changes, and whether it matches
                stretch = self._stretch = self._stretch_from(instant)
            if stretch.may_meet:
                found = stretch.midnight + self._time_from(instant - stretch.midnight)
                if found < stretch.end:
                    return found
            instant = stretch.end if stretch.is_named else self._next_day(stretch, last)
        return instant

    def minutes_of(self, hour: int, named: frozenset[int]) -> list[int]:
        """Return the beginnings of the minutes, in the hour from `hour` on, at which the clock shows one of `named`."""
        stretch = self._stretch_from(hour)
        if hour + _HOUR <= stretch.end:
            return sorted(hour + (minute - (hour - stretch.midnight) // _MINUTE) % 60 * _MINUTE for minute in named)
        return [
            at
            for at in range(hour, hour + _HOUR, _MINUTE)
            if (at - self._stretch_from(at).midnight) % _HOUR // _MINUTE in named
        ]

    def _may_meet(self, midnight: int) -> bool:
        """Whether any period begins at an accepted time of day, on some day with that midnight's offset.

        Without this check, FREQ=SECONDLY;INTERVAL=2;BYSECOND=1 would search each minute of thirty years.
        """
        remainder = (self._origin - midnight) % self._cycle
        if remainder not in self._meets:
            finer = {
                (minute * _MINUTE + second) % self._cycle
                for minute in self._named_minutes
                for second in self._named_seconds
            }
            self._meets[remainder] = bool(remainder % self._unit) or any(
                (remainder - hour * _HOUR) % self._cycle in finer for hour in self._hours
            )
        return self._meets[remainder]

    def _time_from(self, time: int) -> int:
        """Return the first time of day from `time` on that all parts accept, in seconds; 86,400 if there is none."""
        hours, minutes, seconds = self._first_from
        while time < _DAY:
            hour, minute, second = time // _HOUR, time % _HOUR // _MINUTE, time % _MINUTE
            if hours[hour] != hour:
                time = hours[hour] * _HOUR
            elif minutes[minute] != minute:
                time = hour * _HOUR + minutes[minute] * _MINUTE
            elif seconds[second] != second:
                time += seconds[second] - second
            else:
                return time
        return _DAY

    def _next_day(self, stretch: _Stretch, last: int) -> int:
        """Return the instant from which to continue after a day that does not match."""
        if stretch.ends_in_change or self._days is None:
            return stretch.end
        day = self._days.first_from(stretch.day + DAY, (_1970 + SECOND * (last + _DAY)).date())
        if day is None:
            return last + 1
        # A day that begins twice may have begun before the end of the stretch.
        return max(stretch.end, _since_1970(resolve(datetime.combine(day, time.min), self._zone).at))

    def _stretch_from(self, instant: int) -> _Stretch:
        wall, offset = self._shown(instant)
        midnight = instant - wall.hour * _HOUR - wall.minute * _MINUTE - wall.second
        end = midnight + _DAY
        changes = self._shown(end)[1] != offset
        if changes:
            end = instant + bisect_left(range(instant, end), 1, key=lambda at: self._shown(at)[1] != offset)
        is_named = self._days is None or self._days.includes(wall)
        return _Stretch(
            instant, end, midnight, wall.date(), changes, is_named, may_meet=is_named and self._may_meet(midnight)
        )

    def _shown(self, instant: int) -> tuple[datetime, timedelta | None]:
        wall = (_1970 + SECOND * instant).astimezone(self._zone)
        return wall, wall.utcoffset()


def _first_from(wanted: tuple[int, ...], count: int) -> list[int]:
    """Return, for each number below `count`, the first wanted number from it on; `count` if there is none."""
    if not wanted:
        return list(range(count))
    return [min((number for number in wanted if number >= low), default=count) for low in range(count)]


def _since_1970(moment: datetime) -> int:
    return (moment - _1970) // SECOND
