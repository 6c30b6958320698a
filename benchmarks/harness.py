"""Shared by all benchmarks: scale, databases and interleaved rounds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from benchmarks.comparison import Point
    from benchmarks.databases import Databases


class WrongResultError(Exception):
    """The measured work was not done, so its time is meaningless."""

    def __init__(self, what: str, *, found: object, expected: object) -> None:
        super().__init__(f"{what}: {found}, expected {expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Sizes of all benchmarks."""

    rounds: int
    #: Due actions of one drain.
    drained: int
    #: Actions scheduled individually, and in one call.
    singles: int
    bulk: int
    #: Completed actions in the same table.
    completed: int
    #: Pending actions of the three tables that claims read, ascending.
    pending: tuple[int, int, int]
    #: Claims per round, of each kind.
    claims: int
    #: Actions drained while another transaction holds a snapshot.
    behind_snapshot: int
    #: Empty ticks per round.
    pings: int
    #: Processes started, of each kind.
    starts: int
    #: Due actions when the memory of a tick is measured.
    backlog: tuple[int, int]
    backlog_rounds: int
    #: Batch sizes and numbers of gunicorn workers of the sweep.
    batches: tuple[int, ...]
    processes: tuple[int, ...]
    #: Instants for which each kind of rule is evaluated.
    instants: int
    #: Schedules due in one tick, and in one minute.
    recurring: tuple[int, int]
    #: Actions per round whose lateness is measured, and the seconds over which they are spread.
    spread: tuple[int, float]
    spread_rounds: int
    #: Actions that wake a tick, one after another.
    wakes: int
    #: Webhooks per round to a receiver that responds immediately, and to one that takes 50 ms.
    deliveries: tuple[int, int]
    #: Webhooks per endpoint when some of many endpoints hang.
    each_endpoint: int


FULL = Scale(
    rounds=5,
    drained=10_000,
    singles=500,
    bulk=10_000,
    completed=1_000_000,
    pending=(10_000, 100_000, 1_000_000),
    claims=15,
    behind_snapshot=10_000,
    pings=40,
    starts=7,
    backlog=(1_000, 100_000),
    backlog_rounds=3,
    batches=(10, 50, 100, 250, 500, 1_000),
    processes=(1, 2, 3, 4),
    instants=1_000,
    recurring=(1_000, 100_000),
    spread=(334, 20.0),
    spread_rounds=3,
    wakes=40,
    deliveries=(3_000, 600),
    each_endpoint=25,
)
SMOKE = Scale(
    rounds=1,
    drained=2_000,
    singles=100,
    bulk=1_000,
    completed=50_000,
    pending=(1_000, 10_000, 50_000),
    claims=5,
    behind_snapshot=2_000,
    pings=10,
    starts=1,
    backlog=(500, 5_000),
    backlog_rounds=1,
    batches=(100, 500),
    processes=(1, 2),
    instants=300,
    recurring=(200, 2_000),
    spread=(60, 4.0),
    spread_rounds=1,
    wakes=10,
    deliveries=(300, 80),
    each_endpoint=5,
)


class Bench:
    """Context of a benchmark.

    Args:
        databases: Creates databases.
        project: A project directory whose only handler does nothing.
        scale: Sizes to measure.
        say: Prints a progress line.
    """

    def __init__(self, databases: Databases, project: Path, scale: Scale, say: Callable[[str], None]) -> None:
        self.databases = databases
        self.project = project
        self.scale = scale
        self.say = say
        #: Data points for the plots of the report.
        self.points: list[Point] = []
        #: Lateness of actions in milliseconds, by mechanism (`linger`, `listen`, `wake`).
        self.lateness: dict[str, list[float]] = {}

    def take_turns(
        self, measures: Mapping[str, Callable[[], float]], *, rounds: int | None = None
    ) -> dict[str, list[float]]:
        """Return the values of each measure, one per round; the first measure rotates from round to round."""
        names = list(measures)

        def one_round(number: int) -> dict[str, float]:
            first = number % len(names)
            return {name: measures[name]() for name in names[first:] + names[:first]}

        return self.collect(one_round, rounds=rounds)

    def collect(
        self, one_round: Callable[[int], Mapping[str, float]], *, rounds: int | None = None
    ) -> dict[str, list[float]]:
        """Run the rounds and return the list of values of each name."""
        values: dict[str, list[float]] = {}
        total = self.scale.rounds if rounds is None else rounds
        for number in range(total):
            results = one_round(number)
            for name, value in results.items():
                values.setdefault(name, []).append(value)
            summary = ", ".join(f"{name} {results[name]:.4g}" for name in values)
            self.say(f"round {number + 1} of {total}: {summary}")
        return values


def seconds_of(work: Callable[[], object]) -> float:
    """Return the duration of a call in seconds."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
