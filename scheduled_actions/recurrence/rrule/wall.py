"""Instants of the rules that follow the calendar: DAILY, WEEKLY, MONTHLY, YEARLY.

Their occurrences are wall times of named days; `zones.resolve` makes instants of them. A time that the clocks skip
moves on by the gap and counts; one that they show twice is its first showing (RFC 5545 §3.3.10, erratum 4271).
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING

from scheduled_actions.recurrence.model import Occurrence
from scheduled_actions.recurrence.rrule.dates import Malformed
from scheduled_actions.recurrence.rrule.days import Days, picked
from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from zoneinfo import ZoneInfo

    from scheduled_actions.core.evaluation_budget import EvaluationBudget
    from scheduled_actions.recurrence.rrule.parts import Parts

#: More than once a minute is for MINUTELY and SECONDLY, which need no list of all times of a day.
TIMES_A_DAY_MOST = 1_440
#: No clock has ever been moved by more than a day.
_LONGEST_GAP = timedelta(hours=24)


class WallTimes:
    """The occurrences of a rule that follows the calendar.

    Args:
        parts: Completed.
        start: The first wall time that counts.
        zone: Whose wall clock.

    Raises:
        Malformed: It names more times of day than minutes.
    """

    def __init__(self, parts: Parts, start: datetime, zone: ZoneInfo) -> None:
        self._start = start
        self._zone = zone
        self._days = Days(parts, start)
        self._positions = parts.by_set_position
        self.times = _times_of_day(parts, start)
        if parts.frequency == "DAILY" and self._positions:
            # The set is the times of one day: what BYSETPOS picks is the same on each.
            self.times = [self.times[index] for index in picked(self._positions, len(self.times))]
            self._positions = ()

    def after(self, moment: datetime, until: datetime, budget: EvaluationBudget) -> Iterator[Occurrence]:
        """Yield the occurrences after `moment` and up to `until`, both in UTC, in strict order.

        Raises:
            BudgetExceeded: On the way.
        """
        wall = moment.astimezone(self._zone)
        # A time within a gap before `moment` may have moved to after it.
        moved = wall.utcoffset() != (moment - _LONGEST_GAP).astimezone(self._zone).utcoffset()
        since = wall.replace(tzinfo=None) - _LONGEST_GAP if moved else wall.replace(tzinfo=None)
        last = until.astimezone(self._zone).replace(tzinfo=None)
        for occurrence in self._in_order(self._walls(max(since, self._start), last, budget)):
            if occurrence.at > until:
                return
            if occurrence.at > moment:
                yield occurrence

    def _in_order(self, walls: Iterable[datetime]) -> Iterator[Occurrence]:
        """Yield the instants of ordered wall times in order; two wall times may be one instant."""
        waiting: dict[datetime, Occurrence] = {}
        waiting_for = datetime.min  # noqa: DTZ901 (wall time)
        for wall in walls:
            if waiting and wall > waiting_for:
                yield from sorted(waiting.values(), key=_instant)
                waiting.clear()
            at, remark = resolve(wall, self._zone)
            occurrence = Occurrence(at, (remark,) if remark else ())
            shown = at.astimezone(self._zone).replace(tzinfo=None) if remark else wall
            if shown > wall:
                # It moved past times that come after it on the clock.
                waiting_for = max(waiting_for, shown)
            elif not waiting:
                yield occurrence
                continue
            waiting.setdefault(at, occurrence)
        yield from sorted(waiting.values(), key=_instant)

    def _walls(self, since: datetime, last: datetime, budget: EvaluationBudget) -> Iterator[datetime]:
        """Yield the wall times from `since` to `last` in order."""
        first = since.toordinal(), since.hour * 3600 + since.minute * 60 + since.second
        last_day = last.toordinal()
        for days in self._days.periods(since, last):
            budget.spend()
            for day, time in self._picked(days, first):
                if day > last_day:
                    return
                budget.spend()
                yield datetime.fromordinal(day) + timedelta(seconds=time)

    def _picked(self, days: list[int], first: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """Yield the days and times of a period, in order, from a day and time on."""
        times, count = self.times, len(self.times)
        if self._positions:
            places = picked(self._positions, len(days) * count)
            named = ((days[place // count], times[place % count]) for place in places)
            yield from (one for one in named if one >= first)
            return
        for day in days:
            if day >= first[0]:
                yield from ((day, time) for time in times[bisect_left(times, first[1]) if day == first[0] else 0 :])


def _instant(occurrence: Occurrence) -> datetime:
    return occurrence.at


def _times_of_day(parts: Parts, start: datetime) -> list[int]:
    """Return the times of day in seconds, in order."""
    hours, minutes = parts.by_hour or (start.hour,), parts.by_minute or (start.minute,)
    seconds = parts.by_second or (start.second,)
    count = len(hours) * len(minutes) * len(seconds)
    if count > TIMES_A_DAY_MOST:
        raise Malformed(
            f"names {count:,} times a day, and FREQ={parts.frequency} takes at most {TIMES_A_DAY_MOST:,}: "
            "take FREQ=MINUTELY or SECONDLY"
        )
    return [hour * 3600 + minute * 60 + second for hour, minute, second in product(hours, minutes, seconds)]
