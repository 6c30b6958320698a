"""Run a feature's actions in a separate database and measure each step from schedule to prune."""

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

#: Steps other than the parts of a tick. `TICKS` is the sum of `PARTS`, `LIFE` of all steps from schedule to prune.
ONE, MANY, TICKS, PRUNE, LIFE = "schedule, one by one", "schedule, 100 a call", "ticks", "prune", "life"
#: The parts of a tick.
PARTS = (CLAIM, RUN, SETTLE, OTHER)
_PER_CALL = 100
#: Longer than the clock advances, so that only the prune step prunes actions.
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
#: Removes what is still planned after a warm-up.
_CLEAR = """
delete from scheduled_actions;
delete from scheduled_action_schedules;
delete from scheduled_action_deadlines
"""


@dataclass(frozen=True, slots=True)
class Size:
    """Numbers of units and rounds."""

    #: Units scheduled individually, and in calls of a hundred.
    singles: int
    bulk: int
    #: Units run before the measurement, so that connections are open and the handlers' duration is known.
    warm_up: int
    #: Rounds that measure CPU time and statements, and rounds that attribute WAL bytes to the steps of ticks.
    rounds: int
    wal_rounds: int


FULL = Size(singles=200, bulk=800, warm_up=60, rounds=3, wal_rounds=1)
SMOKE = Size(singles=4, bulk=8, warm_up=0, rounds=1, wal_rounds=0)


@dataclass(frozen=True, slots=True)
class Setup:
    """Setup shared by all features."""

    databases: Databases
    #: DSN of a migrated database; each measurement uses a copy.
    template: str
    project: Path
    environ: dict[str, str]


def measure(setup: Setup, feature: Feature, size: Size, *, attributes_wal: bool) -> dict[str, dict[str, float]]:
    """Return the cost of one unit by step and metric, measured in a new database after a warm-up."""
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
        feature: The feature to run.
        dsn: DSN of the database, which the current runtime also uses.
        meter: An entered meter.
        stack: Closes the connection of this object.
    """

    def __init__(self, feature: Feature, dsn: str, meter: Meter, stack: ExitStack) -> None:
        self._feature = feature
        self._meter = meter
        self._connection = stack.enter_context(connected(dsn))
        #: Offset of the database's clock.
        self._ahead = timedelta(0)
        self._next_number = 0

    def live(self, singles: int, bulk: int) -> dict[str, tuple[Cost, int]]:
        """Run units from schedule to prune; return the cost of each step and its number of units.

        Raises:
            WrongResultError: Not all actions completed or were pruned.
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
        """Delete all actions, schedules and deadlines."""
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
        """Run the units until all actions are completed; return the cost of each step."""
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
        """Tick until nothing is due; add the cost to `ticks`."""
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
        """Update statistics and remove dead rows, so that earlier work does not affect the next step."""
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
    """Return the cost of a unit from schedule to prune, with bulk scheduling if that was measured."""
    left_out = {*PARTS, *([ONE] if MANY in values else [])}
    steps = [metrics for step, metrics in values.items() if step not in left_out]
    return {metric: sum(metrics[metric] for metrics in steps) for metric in steps[0]}
