"""Forecast the load of a range hour by hour, and compare it with the capacity of ticks; without clock or database."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple, Protocol

from scheduled_actions.core.errors import BudgetExceeded, NeverOccurs
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.recurrence.model import Occurrence
from scheduled_actions.schedules.model import Schedule

#: Maximum number of remarks.
REMARKS_MOST = 200
#: Assumed duration of a handler that was never measured.
USUAL_SECONDS = 0.1
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)


class OccurrenceRule(Protocol):
    """The occurrences and the skipped instants of a recurrence."""

    def next_after(self, moment: datetime) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`; None if the rule has ended.

        Raises:
            NeverOccurs: The search found no further occurrence.
            BudgetExceeded: The search took too many steps.
        """

    def left_out(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        """Yield the skipped instants of a range, each with the reason."""


class Load(NamedTuple):
    """Actions of one type that are due in the same minute."""

    #: An instant in that minute; aware.
    at: datetime
    action_type: str
    actions: int


class Capacity(NamedTuple):
    """The capacity of ticks."""

    #: Maximum number of handlers that run at once.
    concurrency: int
    #: Seconds of each minute in which handlers start.
    run_seconds: float

    @property
    def a_minute(self) -> float:
        """Handler seconds per minute."""
        return self.concurrency * min(60.0, self.run_seconds)


class Remark(NamedTuple):
    """A note about an occurrence that is shifted, skipped or dropped, or a rule that cannot be evaluated."""

    #: Aware, in UTC.
    at: datetime
    #: Name of the schedule, or its action type.
    series: str
    text: str


@dataclass(slots=True)
class SimulatedHour:
    """One hour of a simulation."""

    #: Start of the hour; aware, in UTC.
    at: datetime
    #: Number of actions by type.
    runs: Counter[str] = field(default_factory=Counter)
    #: Occurrences skipped because the previous one would still be running.
    overlapping: int = 0
    #: Handler seconds of the runs.
    seconds: float = 0.0
    #: Load of the busiest minute as a share of the capacity of a minute; above 1, actions start late.
    peak: float = 0.0
    #: The longest time from due to start, in seconds.
    behind_seconds: float = 0.0


@dataclass(slots=True)
class Simulation:
    """The forecast of a range."""

    #: Aware, in UTC, as is `end`.
    start: datetime
    end: datetime
    capacity: Capacity
    #: Every hour of the range, in order.
    hours: list[SimulatedHour] = field(default_factory=list)
    #: By time; at most `REMARKS_MOST`.
    remarks: list[Remark] = field(default_factory=list)
    #: Whether occurrences or pending actions were left out.
    is_capped: bool = False

    def __post_init__(self) -> None:
        first = self.start.replace(minute=0, second=0, microsecond=0)
        self.hours = [SimulatedHour(first + number * _HOUR) for number in range(-((first - self.end) // _HOUR))]

    @property
    def runs(self) -> int:
        """Number of actions that run."""
        return sum(hour.runs.total() for hour in self.hours)

    def hour_of(self, moment: datetime) -> SimulatedHour:
        """Return the hour that contains an instant of the range; the end of the range belongs to the last hour."""
        return self.hours[min((moment - self.hours[0].at) // _HOUR, len(self.hours) - 1)]


def simulate(
    series: Iterable[tuple[Schedule, OccurrenceRule]],
    waiting: Iterable[Load],
    *,
    start: datetime,
    end: datetime,
    seconds: Mapping[str, float],
    capacity: Capacity,
    budget: EvaluationBudget,
) -> Simulation:
    """Forecast the actions that run after `start` and up to `end`.

    An occurrence that is due while the previous one would still be running is skipped if its schedule's `overlap` is
    `skip`. A rolling occurrence is planned from the end of the previous run. Load that exceeds the capacity of a minute
    moves to the next minute.

    Args:
        series: The active schedules with their rules; of a rule that exceeds its budget, only the
            occurrences found before are counted.
        waiting: Other pending actions; those due before or after the range are ignored.
        start: Aware.
        end: Aware, after `start`.
        seconds: Duration of handlers by action type; `USUAL_SECONDS` for unknown types.
        capacity: The capacity of ticks.
        budget: Each occurrence takes one step; once the budget is spent, `is_capped` of the result is True.
    """
    found = Simulation(start.astimezone(UTC), end.astimezone(UTC), capacity)
    loads: defaultdict[datetime, float] = defaultdict(float)
    for schedule, rule in series:
        name = schedule.name or schedule.action_type
        try:
            for occurrence, overlaps in _runs(schedule, rule, found, seconds.get(schedule.action_type, USUAL_SECONDS)):
                budget.spend()
                found.remarks += [Remark(occurrence.at, name, text) for text in occurrence.remarks]
                if overlaps:
                    found.hour_of(occurrence.at).overlapping += 1
                    found.remarks.append(
                        Remark(occurrence.at, name, "is skipped: the previous one would still be running")
                    )
                else:
                    _add_load(found, loads, Load(occurrence.at, schedule.action_type, 1), seconds)
            skipped = islice(rule.left_out(found.start, found.end), REMARKS_MOST)
            found.remarks += [Remark(at, name, text) for at, text in skipped]
        except BudgetExceeded:
            found.is_capped = True
    for load in waiting:
        if found.start < load.at + _MINUTE and load.at <= found.end:
            _add_load(found, loads, load._replace(at=max(load.at, found.start)), seconds)
    _carry_over(found, loads)
    found.remarks = heapq.nsmallest(REMARKS_MOST, found.remarks)
    return found


def _runs(
    schedule: Schedule, rule: OccurrenceRule, found: Simulation, took: float
) -> Iterator[tuple[Occurrence, bool]]:
    """Yield the occurrences of a schedule, and whether each is skipped because the previous one is still running."""
    left = schedule.remaining
    busy_until = moment = found.start
    is_rolling = schedule.recurrence_type == "rolling"
    while left is None or left > 0:
        try:
            occurrence = rule.next_after(moment)
        except NeverOccurs:
            return
        if occurrence is None or occurrence.at > found.end:
            return
        overlaps = occurrence.at < busy_until and schedule.overlap == "skip" and not is_rolling
        yield occurrence, overlaps
        if not overlaps:
            busy_until = max(busy_until, occurrence.at) + timedelta(seconds=took)
            left = None if left is None else left - 1
        moment = busy_until if is_rolling else occurrence.at


def _add_load(found: Simulation, loads: defaultdict[datetime, float], load: Load, seconds: Mapping[str, float]) -> None:
    took = load.actions * seconds.get(load.action_type, USUAL_SECONDS)
    hour = found.hour_of(load.at)
    hour.runs[load.action_type] += load.actions
    hour.seconds += took
    loads[load.at.replace(second=0, microsecond=0)] += took


def _carry_over(found: Simulation, loads: Mapping[datetime, float]) -> None:
    """Process as many handler seconds in each minute as the capacity allows, and carry the excess to the next one."""
    a_minute = found.capacity.a_minute
    backlog, before = 0.0, found.start
    for minute, load in sorted(loads.items()):
        idle_minutes = max(0.0, (minute - before) / _MINUTE - 1)
        backlog = max(0.0, backlog - idle_minutes * a_minute) + load
        backlog, before = max(0.0, backlog - a_minute), minute
        hour = found.hour_of(max(minute, found.start))
        hour.peak = max(hour.peak, load / a_minute)
        hour.behind_seconds = max(hour.behind_seconds, backlog / a_minute * 60)
