"""From measured costs and a rate of actions to what the rate needs, and what reaches its limit first. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: The steps of an action, in order. `CLAIM` contains the search for due actions, and the rest of a tick.
SCHEDULE, CLAIM, SEND, RECEIVE, TAKE_OVER, RUN, SETTLE, PRUNE = STEPS = (
    *("schedule", "claim", "send", "receive", "take over", "run", "settle", "prune"),
)
_MICRO, _MEGA = 1e-6, 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a step costs per action."""

    #: CPU microseconds of the process that does the step, of Postgres, and of the broker.
    process: float = 0.0
    postgres: float = 0.0
    broker: float = 0.0
    wal_bytes: float = 0.0
    #: Statements with those of transaction control.
    statements: float = 0.0
    #: Commands that the broker has executed.
    commands: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        """Return the sum of both."""
        return Cost(
            process=self.process + other.process,
            postgres=self.postgres + other.postgres,
            broker=self.broker + other.broker,
            wal_bytes=self.wal_bytes + other.wal_bytes,
            statements=self.statements + other.statements,
            commands=self.commands + other.commands,
        )

    def divided(self, number: int) -> Cost:
        """Return the cost per action of a step that several actions share."""
        return Cost(**{one.name: getattr(self, one.name) / number for one in fields(self)})


class Share(NamedTuple):
    """CPU seconds per second."""

    ticks: float
    workers: float
    postgres: float
    broker: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """How actions are run: by ticks, or by workers."""

    name: str
    #: The measured steps.
    costs: Mapping[str, Cost]
    #: The steps that worker processes do; the others except `SCHEDULE` belong to the processes that tick.
    worker_steps: frozenset[str] = frozenset()
    #: Handlers that one worker process runs at once; without workers, a process that ticks.
    handlers: int
    #: Database connections of one worker process, and of one that ticks.
    worker_connections: int = 1
    tick_connections: int = 3
    #: Whether tickets go through a broker.
    has_broker: bool = False

    def total(self, steps: Iterable[str] = STEPS) -> Cost:
        """Return the sum of steps."""
        return sum((self.costs[step] for step in steps if step in self.costs), Cost())

    @property
    def tick_steps(self) -> Sequence[str]:
        """The steps of the processes that tick."""
        return [step for step in STEPS if step not in self.worker_steps and step != SCHEDULE]

    def cpu(self, rate: float, *, steps: Iterable[str] = STEPS) -> Share:
        """Return the predicted CPU time at a rate per second, of some of the steps."""
        wanted = set(steps)
        ticks = self.total(step for step in self.tick_steps if step in wanted)
        workers = self.total(step for step in self.worker_steps if step in wanted)
        both = self.total(wanted)
        return Share(*(rate * one * _MICRO for one in (ticks.process, workers.process, both.postgres, both.broker)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What one server carries. None of it is measured."""

    #: Seconds that a handler takes; it waits, and uses no CPU time.
    handler_seconds: float = 0.1
    #: Part of a core, of all cores of a database, and of the slots for handlers that is used.
    busy: float = 0.6
    database_cores: int = 16
    wal_megabytes: float = 100.0
    #: Connections of one Postgres without a pooler.
    connections: int = 500
    #: Untaken tickets of an executor, and the pause of a sender while there are so many.
    outstanding: int = 1_000
    full_pause_seconds: float = 0.2
    #: Finished actions that one tick prunes at most, and the seconds from one tick to the next.
    pruned: int = 1_500
    tick_seconds: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a rate needs."""

    #: Processes that schedule, that tick, and of workers.
    schedulers: int
    ticks: int
    workers: int
    connections: int
    broker_commands: float
    brokers: int
    postgres_cores: float
    wal_megabytes: float
    databases: int
    #: By resource: the rate per second at which one server, or the default setting, is exhausted.
    limits: Mapping[str, float] = field(default_factory=dict)

    @property
    def first_limit(self) -> str:
        """The resource that is exhausted first."""
        return min(self.limits, key=lambda name: self.limits[name])


def needs(path: Path, rate: float, assumptions: Assumptions) -> Needs:
    """Return what a rate needs.

    Costs per action are constant in this model: batches are as full as in the measurement. Load is even.

    Args:
        path: How the actions are run.
        rate: Actions per second, at least as many as are due.
        assumptions: What one server carries.
    """
    everything = path.total()
    limits = _limits(path, assumptions)
    cpu = path.cpu(rate)
    slots = _slots(path, rate, assumptions)
    ticks = ceil(cpu.ticks / assumptions.busy)
    workers = 0
    if path.worker_steps:
        workers = max(ceil(slots / path.handlers), ceil(cpu.workers / assumptions.busy))
    else:
        ticks = max(ticks, ceil(slots / path.handlers))
    schedulers = ceil(rate * path.total([SCHEDULE]).process * _MICRO / assumptions.busy)
    return Needs(
        schedulers=schedulers,
        ticks=max(1, ticks),
        workers=workers,
        connections=schedulers + max(1, ticks) * path.tick_connections + workers * path.worker_connections,
        broker_commands=rate * everything.commands,
        brokers=ceil(cpu.broker / assumptions.busy) if path.has_broker else 0,
        postgres_cores=cpu.postgres,
        wal_megabytes=rate * everything.wal_bytes / _MEGA,
        databases=max(1, ceil(rate / min(limits[_POSTGRES], limits[_WAL]))),
        limits=limits,
    )


_POSTGRES, _WAL = "CPU of Postgres", "WAL of Postgres"
_TICK, _CONNECTIONS = "one core of one process that ticks", "connections of Postgres"
_BROKER, _OUTSTANDING = "one core of the broker", "`outstanding` of one executor"
_PRUNE = "prune by one tick a minute"


def _slots(path: Path, rate: float, assumptions: Assumptions) -> float:
    """Return how many handlers have to run at once, by Little's law; the steps of the worker occupy a slot, too."""
    steps = path.worker_steps or path.tick_steps
    own = path.total(steps)
    seconds = assumptions.handler_seconds + (own.process + own.postgres) * _MICRO
    return rate * seconds / assumptions.busy


def _limits(path: Path, assumptions: Assumptions) -> dict[str, float]:
    """Return the rate at which each resource is exhausted."""
    everything, ticks = path.total(), path.total(path.tick_steps)
    slots_per_action = _slots(path, 1.0, assumptions)
    per_process = path.worker_connections if path.worker_steps else path.tick_connections
    limits = {
        _PRUNE: assumptions.pruned / assumptions.tick_seconds,
        _TICK: assumptions.busy * _MEGA / ticks.process if ticks.process else float("inf"),
        _POSTGRES: assumptions.busy * assumptions.database_cores * _MEGA / everything.postgres,
        _WAL: assumptions.wal_megabytes * _MEGA / everything.wal_bytes,
        _CONNECTIONS: assumptions.connections / per_process * path.handlers / slots_per_action,
    }
    if path.has_broker:
        limits[_BROKER] = assumptions.busy * _MEGA / everything.broker
        limits[_OUTSTANDING] = assumptions.outstanding / assumptions.full_pause_seconds
    return limits
