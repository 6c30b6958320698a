"""Instants of the rules that follow real time: HOURLY, MINUTELY, SECONDLY.

Hours, minutes and seconds are counted from the start as they pass, through clock changes: none is lost, none comes
twice. What the wall clock shows decides only which of them BY parts let through, and which instants of an hour or a
minute they name. So FREQ=HOURLY;BYHOUR=2 has nothing on a day whose clocks skip that hour, and twice on a day that has
it twice.

Instants are whole seconds since 1970 here.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from scheduled_actions.recurrence.model import Occurrence
from scheduled_actions.recurrence.phrases import time_text
from scheduled_actions.recurrence.rrule.days import Days, picked
from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date
    from zoneinfo import ZoneInfo

    from scheduled_actions.core.evaluation_budget import EvaluationBudget
    from scheduled_actions.recurrence.rrule.parts import Parts

_UNITS = {"HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}
_HOUR, _MINUTE, _DAY = 3600, 60, 86_400
_SECOND = timedelta(seconds=1)
#: What looking at one day takes: where its clocks change, and whether it is named.
_DAY_STEPS = 2
#: Instants of a set from which BYSETPOS picks.
_INSTANTS_A_STEP = 4
_1970 = datetime(1970, 1, 1, tzinfo=UTC)


class ExactTimes:
    """The occurrences of a rule that follows real time.

    Args:
        parts: Completed.
        start: The instant from which periods are counted, in UTC.
        zone: Whose wall clock the BY parts read.
    """

    def __init__(self, parts: Parts, start: datetime, zone: ZoneInfo) -> None:
        self._zone = zone
        self._positions = parts.by_set_position
        self._unit = _UNITS[parts.frequency]
        self._step = self._unit * parts.interval
        self._start = _since_1970(start)
        wall = start.astimezone(zone)
        into = (wall.minute * _MINUTE + wall.second) % self._unit
        #: Where the period of the start begins.
        self._origin = self._start - into
        #: The minutes of an hour, where a part names them.
        self._named_minutes = frozenset(parts.by_minute) if self._unit == _HOUR else frozenset()
        #: How long what begins at one of them lasts; without them the period is all.
        self._unit_of_minutes = _MINUTE if self._named_minutes else self._unit
        self._within = _within(parts, self._unit, into)
        self._limits = _Limits(parts, _Grid(self._origin, self._step, self._unit), wall, zone)

    def after(self, moment: datetime, until: datetime, budget: EvaluationBudget) -> Iterator[Occurrence]:
        """Yield the occurrences after `moment` and up to `until`, both in UTC, in strict order.

        Raises:
            BudgetExceeded: On the way.
        """
        last = _since_1970(until)
        cursor = max(_since_1970(moment) + 1, self._start)
        while True:
            budget.spend()
            # The first period that is not over at the cursor.
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
        """Return the instants that the rule names in a period, in order; it may leave out what is before `cursor`."""
        minutes = self._limits.minutes_of(period, self._named_minutes) if self._named_minutes else [period]
        if not self._positions:
            minutes = [minute for minute in minutes if minute + self._unit_of_minutes > cursor]
        named = (minute + second for minute in minutes for second in self._within)
        found = (instant for instant in named if self._limits.first_from(instant, instant, budget) == instant)
        if not self._positions:
            return found
        budget.spend(len(minutes) * len(self._within) // _INSTANTS_A_STEP)
        of_period = list(found)
        return [of_period[place] for place in picked(self._positions, len(of_period))]

    def _occurrence(self, instant: int) -> Occurrence:
        at = _1970 + _SECOND * instant
        wall = at.astimezone(self._zone)
        if wall.utcoffset() == wall.replace(fold=1 - wall.fold).utcoffset():
            return Occurrence(at)
        which = "second" if wall.fold else "first"
        remark = f"{time_text(wall)} comes twice on {wall:%Y-%m-%d} in {self._zone.key}: this is the {which}"
        return Occurrence(at, (remark,))


class _Grid(NamedTuple):
    """The begins of a rule's periods: `step` seconds from each to the next, `unit` seconds long."""

    origin: int
    step: int
    unit: int


class _Stretch(NamedTuple):
    """A part of a local day through which the clock is not changed."""

    begin: int
    #: The first instant that is no longer part of it.
    end: int
    #: The instant of its midnight, were the clock not changed before it.
    midnight: int
    day: date
    #: Whether it ends because the clock is changed, rather than with the day.
    ends_in_change: bool
    #: Whether the parts name that day.
    is_named: bool
    #: Whether any period may begin in it at a time of day that the parts let through.
    may_meet: bool


class _Limits:
    """What the wall clock must show: the parts of the frequency's own unit and of coarser ones."""

    def __init__(self, parts: Parts, grid: _Grid, start: datetime, zone: ZoneInfo) -> None:
        self._zone = zone
        has_days = parts.by_month or parts.by_year_day or parts.by_month_day or parts.by_day
        self._days = Days(parts, start) if has_days else None
        hours, minutes = parts.by_hour, parts.by_minute if grid.unit <= _MINUTE else ()
        seconds = parts.by_second if grid.unit == 1 else ()
        self._is_any = bool(has_days or hours or minutes or seconds)
        self._hours = _first_from(hours, 24)
        self._minutes = _first_from(minutes, 60)
        self._seconds = _first_from(seconds, 60)
        self._grid = grid
        self._named = (hours or range(24), minutes or range(60), seconds or range(60))
        self._meets: dict[int, bool] = {}
        self._stretch = _Stretch(0, 0, 0, start, ends_in_change=False, is_named=False, may_meet=False)

    def first_from(self, instant: int, last: int, budget: EvaluationBudget) -> int:
        """Return the first instant from `instant` on at which the clock shows what it must; after `last` for none."""
        if not self._is_any:
            return instant
        while instant <= last:
            stretch = self._stretch
            if not stretch.begin <= instant < stretch.end:
                budget.spend(_DAY_STEPS)
                stretch = self._stretch = self._stretch_from(instant)
            if stretch.may_meet:
                found = stretch.midnight + self._time_from(instant - stretch.midnight)
                if found < stretch.end:
                    return found
            instant = stretch.end if stretch.is_named else self._next_day(stretch, last)
        return instant

    def minutes_of(self, hour: int, named: frozenset[int]) -> list[int]:
        """Return the begins of the minutes, in an hour that begins at `hour`, for which the clock shows a named one."""
        stretch = self._stretch_from(hour)
        first = (hour - stretch.midnight) // _MINUTE
        if hour + _HOUR <= stretch.end:
            return sorted(hour + (minute - first) % 60 * _MINUTE for minute in named)
        minutes = range(hour, hour + _HOUR, _MINUTE)
        return [at for at in minutes if (at - self._stretch_from(at).midnight) % _HOUR // _MINUTE in named]

    def _may_meet(self, midnight: int) -> bool:
        """Whether any period begins at a time of day that is let through, on some day with that midnight's offset.

        Without it, FREQ=SECONDLY;INTERVAL=2;BYSECOND=1 would look at each minute of thirty years.
        """
        # All begins have the same remainder, counted from any midnight.
        cycle = gcd(self._grid.step, _DAY)
        remainder = (self._grid.origin - midnight) % cycle
        if remainder not in self._meets:
            hours, minutes, seconds = self._named
            unit = self._grid.unit
            finer = {
                (minute * _MINUTE + second) % cycle
                for minute in (minutes if unit < _HOUR else (0,))
                for second in (seconds if unit < _MINUTE else (0,))
            }
            is_aligned = not remainder % unit
            self._meets[remainder] = not is_aligned or any(
                (remainder - hour * _HOUR) % cycle in finer for hour in hours
            )
        return self._meets[remainder]

    def _time_from(self, time: int) -> int:
        """Return the first time of day from `time` on that every part lets through; 24 hours for none."""
        while time < _DAY:
            hour, minute, second = time // _HOUR, time % _HOUR // _MINUTE, time % _MINUTE
            if self._hours[hour] != hour:
                time = self._hours[hour] * _HOUR
            elif self._minutes[minute] != minute:
                time = hour * _HOUR + self._minutes[minute] * _MINUTE
            elif self._seconds[second] != second:
                time += self._seconds[second] - second
            else:
                return time
        return _DAY

    def _next_day(self, stretch: _Stretch, last: int) -> int:
        """Return where to go on after a day that no part names."""
        if stretch.ends_in_change or self._days is None:
            return stretch.end
        tomorrow = stretch.day + timedelta(days=1)
        day = self._days.first_from(tomorrow, (_1970 + _SECOND * (last + _DAY)).date())
        if day is None:
            return last + 1
        begin = resolve(datetime(day.year, day.month, day.day), self._zone).at  # noqa: DTZ001 (wall time)
        # A day that begins twice has begun before.
        return max(stretch.end, _since_1970(begin))

    def _stretch_from(self, instant: int) -> _Stretch:
        wall, offset = self._shown(instant)
        midnight = instant - wall.hour * _HOUR - wall.minute * _MINUTE - wall.second
        end = midnight + _DAY
        changes = self._shown(end)[1] != offset
        if changes:
            low, high = instant, end
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self._shown(middle)[1] == offset else (low, middle)
            end = high
        is_named = self._days is None or self._days.includes(wall)
        may_meet = is_named and self._may_meet(midnight)
        return _Stretch(instant, end, midnight, wall.date(), changes, is_named, may_meet)

    def _shown(self, instant: int) -> tuple[datetime, timedelta | None]:
        wall = (_1970 + _SECOND * instant).astimezone(self._zone)
        return wall, wall.utcoffset()


def _within(parts: Parts, unit: int, into: int) -> list[int]:
    """Return the instants of a period, or of each named minute of an hour, in seconds after its begin."""
    if unit == 1:
        return [0]
    seconds = parts.by_second or (into % _MINUTE,)
    before = 0 if parts.by_minute and unit == _HOUR else into - into % _MINUTE
    return [before + second for second in seconds]


def _first_from(wanted: tuple[int, ...], count: int) -> list[int]:
    """Return for each number below `count` the first wanted one from it on; `count` where there is none."""
    if not wanted:
        return list(range(count))
    return [min((number for number in wanted if number >= low), default=count) for low in range(count)]


def _since_1970(moment: datetime) -> int:
    return (moment - _1970) // _SECOND
