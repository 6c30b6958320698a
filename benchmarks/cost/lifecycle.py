"""The life of a feature's actions in a database of its own, measured from schedule to prune."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from benchmarks.cost import features
from benchmarks.cost.features import Advance
from benchmarks.cost.meter import CLAIM, OTHER, RUN, SETTLE, Cost, Meter, check_steps
from benchmarks.databases import connected
from benchmarks.harness import WrongResultError
from benchmarks.serving import runtime_on
from scheduled_actions import runtime as runtimes
from scheduled_actions.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from benchmarks.cost.features import Feature
    from benchmarks.databases import Databases

#: Steps other than the parts of a tick. `TICKS` is the sum of its steps, `LIFE` of everything from schedule to prune.
ONE, MANY, TICKS, PRUNE, LIFE = "schedule, one by one", "schedule, 100 a call", "ticks", "prune", "life"
#: The steps of which `TICKS` is the sum.
PARTS = (CLAIM, RUN, SETTLE, OTHER)
_PER_CALL = 100
#: Longer than the clock is moved: nothing is pruned but by the step that measures it.
_RETENTION_DAYS = 365

_CLOCK = """
create or replace function scheduled_actions_now() returns timestamptz language sql stable parallel safe
as 'select statement_timestamp() + interval ''{seconds:d} seconds'''
"""
_AGE = f"""
update scheduled_actions
set completed_at = completed_at - interval '{2 * _RETENTION_DAYS} days'
where status = 'completed'
"""
_OUTCOMES = """
select count(*) filter (where status = 'completed'), count(*) filter (where status = 'failed') from scheduled_actions
"""
_TABLES = "select relid::regclass::text from pg_stat_user_tables"
#: What a warm-up leaves planned.
_CLEAR = """
delete from scheduled_actions;
delete from scheduled_action_schedules;
delete from scheduled_action_deadlines
"""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    #: Units scheduled one by one, and in calls of a hundred.
    singles: int
    bulk: int
    #: Units that live before the measurement: connections are open then, and the process knows how fast handlers are.
    warm_up: int
    #: Rounds that measure CPU time and statements, and rounds that attribute WAL bytes to the steps of ticks.
    rounds: int
    wal_rounds: int


FULL = Size(singles=200, bulk=800, warm_up=60, rounds=3, wal_rounds=1)
SMOKE = Size(singles=4, bulk=8, warm_up=0, rounds=1, wal_rounds=0)


@dataclass(frozen=True, slots=True)
class Setup:
    """What the lives of all features share."""

    databases: Databases
    #: A database with the tables; each life has a copy.
    template: str
    project: Path
    environ: dict[str, str]


def measure(setup: Setup, feature: Feature, size: Size, *, attributes_wal: bool) -> dict[str, dict[str, float]]:
    """Return what one unit costs, by step and metric, measured in a new database after a warm-up."""
    settings = {"retention_days": _RETENTION_DAYS}
    with ExitStack() as stack:
        dsn = stack.enter_context(setup.databases.fresh(like=setup.template))
        base = stack.enter_context(runtime_on(setup.project, dsn, settings=settings, environ=setup.environ))
        runtime = runtimes.Runtime(base.config, registry=Registry.of(*features.HANDLERS))
        stack.callback(runtime.close)
        stack.callback(runtimes.use, runtimes.use(runtime))
        meter = stack.enter_context(Meter(dsn, attributes_wal=attributes_wal))
        life = Life(feature, dsn, meter, stack)
        if size.warm_up:
            life.live(size.warm_up // 2, size.warm_up // 2)
            life.clear()
        costs = life.live(*(max(1, round(number * feature.share)) for number in (size.singles, size.bulk)))
    values = {step: _per_unit(cost, units, meter) for step, (cost, units) in costs.items()}
    return values | {LIFE: _sum_of(values)}


class Life:
    """Units of one feature in one database.

    Args:
        feature: Which.
        dsn: Its database; the current runtime works on it.
        meter: Entered.
        stack: Closes the connection that is opened here.
    """

    def __init__(self, feature: Feature, dsn: str, meter: Meter, stack: ExitStack) -> None:
        self._feature = feature
        self._meter = meter
        self._connection = stack.enter_context(connected(dsn))
        #: How far the database's clock has been moved.
        self._ahead = timedelta(0)
        self._next_number = 0

    def live(self, singles: int, bulk: int) -> dict[str, tuple[Cost, int]]:
        """Take units from schedule to prune; return the cost of each step, and of how many units it is.

        Raises:
            WrongResultError: Not all of them completed, or were pruned.
        """
        units = singles + bulk
        numbers = range(self._next_number, self._next_number + units)
        self._next_number += units
        costs = self._schedule(numbers, singles)
        costs |= self._run(numbers)
        self._check(units * self._feature.actions)
        costs[PRUNE] = (self._prune(units * self._feature.actions), units)
        return costs

    def clear(self) -> None:
        """Remove what is still planned, with its schedules."""
        self._connection.execute(_CLEAR)

    def _schedule(self, numbers: Sequence[int], singles: int) -> dict[str, tuple[Cost, int]]:
        feature = self._feature
        if feature.prepare is not None:
            for number in numbers:
                feature.prepare(number)
        self._vacuum()
        alone, together = (numbers, ()) if feature.many is None else (numbers[:singles], numbers[singles:])
        with self._meter.step() as cost:
            for number in alone:
                feature.one(number)
        costs = {ONE: (cost, len(alone))}
        if feature.many is not None:
            with self._meter.step() as cost:
                for first in range(0, len(together), _PER_CALL):
                    feature.many(together[first : first + _PER_CALL])
            costs[MANY] = (cost, len(together))
        return costs

    def _run(self, numbers: Sequence[int]) -> dict[str, tuple[Cost, int]]:
        """Let them run until all are complete."""
        costs: dict[str, tuple[Cost, int]] = {}
        ticks = {step: Cost() for step in (*PARTS, TICKS)}
        if self._feature.is_due:
            self._tick(ticks)
        for event in self._feature.course:
            if isinstance(event, Advance):
                self._advance(event.by)
            else:
                with self._meter.step() as cost:
                    for number in numbers:
                        event.do(number)
                costs[event.name] = (cost, len(numbers))
            self._tick(ticks)
        check_steps(ticks)
        return costs | {step: (cost, len(numbers)) for step, cost in ticks.items()}

    def _tick(self, ticks: dict[str, Cost]) -> None:
        """Tick until nothing is due; add what that took."""
        self._vacuum()
        processor = runtimes.current().processor
        with self._meter.ticks() as (steps, total):
            while json.loads(processor.tick().as_text())["remaining"]:
                pass
        for step, cost in {**steps, TICKS: total}.items():
            ticks[step].add(cost)

    def _prune(self, actions: int) -> Cost:
        self._connection.execute(_AGE)
        self._vacuum()
        processor = runtimes.current().processor
        pruned, found = 0, 1
        with self._meter.step() as cost:
            while pruned < actions and found:
                found = json.loads(processor.tick().as_text())["pruned"]
                pruned += found
        if pruned != actions:
            raise WrongResultError(f"{self._feature.name}: pruned", found=pruned, expected=actions)
        return cost

    def _check(self, completed: int) -> None:
        row = self._connection.execute(_OUTCOMES).fetchone()
        if row != (completed, 0):
            raise WrongResultError(f"{self._feature.name}: completed, failed", found=row, expected=(completed, 0))

    def _advance(self, by: timedelta) -> None:
        self._ahead += by
        self._connection.execute(_CLOCK.format(seconds=int(self._ahead.total_seconds())))

    def _vacuum(self) -> None:
        """Leave nothing of what was done before to be done later: statistics, dead rows."""
        for (table,) in self._connection.execute(_TABLES).fetchall():
            self._connection.execute(f"vacuum (analyze) {table}")


def _per_unit(cost: Cost, units: int, meter: Meter) -> dict[str, float]:
    values: dict[str, Any] = {
        "process": cost.process * 1e6,
        "postgres": cost.postgres * 1e6,
        "wal": cost.wal,
        "statements": cost.statements,
        "control": cost.control,
        "round_trips": cost.round_trips,
    }
    if not meter.sees_backends:
        values["postgres"] = None
    return {name: value / units for name, value in values.items() if value is not None}


def _sum_of(values: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return what a unit costs from schedule to prune, scheduled in bulk if that was measured."""
    left_out = {*PARTS, *([ONE] if MANY in values else [])}
    steps = [metrics for step, metrics in values.items() if step not in left_out]
    return {metric: sum(metrics[metric] for metrics in steps) for metric in steps[0]}
