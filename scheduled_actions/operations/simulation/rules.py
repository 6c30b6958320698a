"""What will run in a stretch of time, hour by hour, and whether ticks can carry it: decided here, without a clock."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from scheduled_actions.core.errors import BudgetExceeded, NeverOccurs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scheduled_actions.core.evaluation_budget import EvaluationBudget
    from scheduled_actions.recurrence.model import Occurrence
    from scheduled_actions.schedules.model import Schedule

#: Remarks kept: what the clocks, skips and overlaps do.
REMARKS_MOST = 200
#: How long a handler takes of which nothing is known.
USUAL_SECONDS = 0.1
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)


class Rule(Protocol):
    """The instants of a recurrence, and those it leaves out."""

    def next_after(self, moment: datetime) -> Occurrence | None:
        """Return the first occurrence strictly after `moment`; None once it has ended."""

    def left_out(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        """Yield the instants between two that are no occurrences, each with the reason."""


class Load(NamedTuple):
    """Actions of one type that wait, as many as come due in one minute."""

    #: The minute's beginning; aware.
    at: datetime
    action_type: str
    actions: int


class Capacity(NamedTuple):
    """What the ticks can carry."""

    #: Handlers at once.
    concurrency: int
    #: Seconds of a minute in which handlers are started.
    run_seconds: float

    @property
    def a_minute(self) -> float:
        """Return the handler seconds of one minute."""
        return self.concurrency * min(60.0, self.run_seconds)


class Remark(NamedTuple):
    """What a rule alone does not show."""

    #: Aware, in UTC.
    at: datetime
    #: The schedule's name, or its action type where it has none.
    series: str
    text: str


@dataclass(slots=True)
class Hour:
    """One hour of a simulation."""

    #: Its beginning; aware, in UTC.
    at: datetime
    #: How many actions run, by type.
    runs: Counter[str] = field(default_factory=Counter)
    #: Occurrences left out because the one before would still be at work.
    overlapping: int = 0
    #: The handler seconds that the runs take.
    seconds: float = 0.0
    #: What its fullest minute asks for, as a share of what ticks can carry: above 1 something waits.
    peak: float = 0.0
    #: The latest that anything starts, in seconds after it is due.
    behind_seconds: float = 0.0


@dataclass(slots=True)
class Simulation:
    """What will run in a stretch of time."""

    #: Aware, in UTC, as is `end`.
    start: datetime
    end: datetime
    capacity: Capacity
    #: Every hour of the stretch, in order.
    hours: list[Hour] = field(default_factory=list)
    #: In order, at most `REMARKS_MOST`.
    remarks: list[Remark] = field(default_factory=list)
    #: Some series, or all together, have more occurrences than were looked at.
    is_capped: bool = False

    def __post_init__(self) -> None:
        first = self.start.replace(minute=0, second=0, microsecond=0)
        count = -((first - self.end) // _HOUR)
        self.hours = [Hour(first + number * _HOUR) for number in range(count)]

    @property
    def runs(self) -> int:
        """How many actions run."""
        return sum(hour.runs.total() for hour in self.hours)

    def hour_of(self, moment: datetime) -> Hour:
        """Return the hour that an instant of the stretch lies in; its very end counts to the last one."""
        return self.hours[min((moment - self.hours[0].at) // _HOUR, len(self.hours) - 1)]


class _Run(NamedTuple):
    at: datetime
    remarks: tuple[str, ...]
    is_overlapping: bool


def simulate(
    series: Iterable[tuple[Schedule, Rule]],
    waiting: Iterable[Load],
    *,
    start: datetime,
    end: datetime,
    seconds: Mapping[str, float],
    capacity: Capacity,
    budget: EvaluationBudget,
) -> Simulation:
    """Return what runs after `start` and up to `end`.

    An occurrence that comes due while the one before would still be at work is left out or waits, as its schedule has
    it; a rolling one counts from the end of the run before. What a minute cannot carry is carried over to the next.

    Args:
        series: The active schedules, each with its rule; one whose rule has spent its budget is looked at up to there.
        waiting: What waits beside them; outside the stretch it counts for nothing.
        start: Aware.
        end: Aware, after it.
        seconds: How long a handler takes, by action type; `USUAL_SECONDS` where nothing is known.
        capacity: What the ticks can carry.
        budget: Has a step for each occurrence.
    """
    found = Simulation(start.astimezone(UTC), end.astimezone(UTC), capacity)
    loads: defaultdict[datetime, float] = defaultdict(float)
    for schedule, rule in series:
        try:
            for run in _runs(schedule, rule, found, seconds.get(schedule.action_type, USUAL_SECONDS)):
                budget.spend()
                _remark(found, schedule, run)
                if not run.is_overlapping:
                    _load(found, loads, Load(run.at, schedule.action_type, 1), seconds)
            for at, text in islice(rule.left_out(found.start, found.end), REMARKS_MOST):
                found.remarks.append(Remark(at, _label(schedule), text))
        except BudgetExceeded:
            found.is_capped = True
    for load in waiting:
        if found.start < load.at + _MINUTE and load.at <= found.end:
            _load(found, loads, load._replace(at=max(load.at, found.start)), seconds)
    _carry(found, loads)
    found.remarks = heapq.nsmallest(REMARKS_MOST, found.remarks)
    return found


def _runs(schedule: Schedule, rule: Rule, found: Simulation, took: float) -> Iterator[_Run]:
    """Yield the occurrences of a schedule, with what becomes of each where the one before is still at work."""
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
        is_overlapping = occurrence.at < busy_until and schedule.overlap == "skip" and not is_rolling
        yield _Run(occurrence.at, occurrence.remarks, is_overlapping)
        if not is_overlapping:
            busy_until = max(busy_until, occurrence.at) + timedelta(seconds=took)
            left = None if left is None else left - 1
        moment = busy_until if is_rolling else occurrence.at


def _remark(found: Simulation, schedule: Schedule, run: _Run) -> None:
    texts = [*run.remarks]
    if run.is_overlapping:
        found.hour_of(run.at).overlapping += 1
        texts.append("is left out: the one before would still be at work")
    found.remarks += [Remark(run.at, _label(schedule), text) for text in texts]


def _label(schedule: Schedule) -> str:
    return schedule.name or schedule.action_type


def _load(found: Simulation, loads: defaultdict[datetime, float], load: Load, seconds: Mapping[str, float]) -> None:
    took = load.actions * seconds.get(load.action_type, USUAL_SECONDS)
    hour = found.hour_of(load.at)
    hour.runs[load.action_type] += load.actions
    hour.seconds += took
    loads[load.at.replace(second=0, microsecond=0)] += took


def _carry(found: Simulation, loads: Mapping[datetime, float]) -> None:
    """Give each minute what it can carry, and the rest to the next ones."""
    a_minute = found.capacity.a_minute
    backlog, before = 0.0, found.start
    for minute, load in sorted(loads.items()):
        idle_minutes = max(0.0, (minute - before) / _MINUTE - 1)
        backlog = max(0.0, backlog - idle_minutes * a_minute) + load
        backlog, before = max(0.0, backlog - a_minute), minute
        hour = found.hour_of(max(minute, found.start))
        hour.peak = max(hour.peak, load / a_minute)
        hour.behind_seconds = max(hour.behind_seconds, backlog / a_minute * 60)
