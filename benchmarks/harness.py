"""What every benchmark is given: its scale, its databases, and rounds that take turns."""

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
    """What was measured did not do its work, so its time means nothing."""

    def __init__(self, what: str, *, found: object, expected: object) -> None:
        super().__init__(f"{what}: {found}, expected {expected}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much of everything."""

    rounds: int
    #: Due actions of one drain.
    drained: int
    #: Actions scheduled one by one, and in one call.
    singles: int
    bulk: int
    #: Finished actions beside those that wait.
    completed: int
    #: Waiting actions of the three tables that are claimed from, ascending.
    pending: tuple[int, int, int]
    #: Claims of one round, of each kind.
    claims: int
    #: Actions drained behind a snapshot held open.
    behind_snapshot: int
    #: Empty ticks of one round.
    pings: int
    #: Processes started, of each kind.
    starts: int
    #: Due actions that a tick finds while its memory is watched.
    backlog: tuple[int, int]
    backlog_rounds: int
    #: Batch sizes and numbers of gunicorn workers that a drain is repeated with.
    batches: tuple[int, ...]
    processes: tuple[int, ...]
    #: Instants that each kind of rule is asked about.
    instants: int
    #: Schedules that are due for one tick, and in one minute.
    recurring: tuple[int, int]
    #: Actions of one round whose lateness is measured, and the seconds that they are spread over.
    spread: tuple[int, float]
    spread_rounds: int
    #: Actions that wake a tick, one after the other.
    wakes: int
    #: Webhooks delivered in one round to a receiver that answers at once, and to one that takes 50 ms.
    deliveries: tuple[int, int]
    #: Webhooks for each of many endpoints, of which some hang.
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
    """What a benchmark works with.

    Args:
        databases: Gives it databases of its own.
        project: A project directory whose only handler does nothing.
        scale: How much of everything.
        say: Takes a line about how far things are.
    """

    def __init__(self, databases: Databases, project: Path, scale: Scale, say: Callable[[str], None]) -> None:
        self.databases = databases
        self.project = project
        self.scale = scale
        self.say = say
        #: What the plots of the report show.
        self.points: list[Point] = []
        #: Milliseconds by which actions started late, by who kept the watch.
        self.lateness: dict[str, list[float]] = {}

    def take_turns(
        self, measures: Mapping[str, Callable[[], float]], *, rounds: int | None = None
    ) -> dict[str, list[float]]:
        """Return the values of each measure, one a round; each round begins with another of them."""
        names = list(measures)

        def one_round(number: int) -> dict[str, float]:
            first = number % len(names)
            return {name: measures[name]() for name in names[first:] + names[:first]}

        return self.collect(one_round, rounds=rounds)

    def collect(
        self, one_round: Callable[[int], Mapping[str, float]], *, rounds: int | None = None
    ) -> dict[str, list[float]]:
        """Return the values that each round answers by name, as one list a name."""
        values: dict[str, list[float]] = {}
        wanted = self.scale.rounds if rounds is None else rounds
        for number in range(wanted):
            answered = one_round(number)
            for name, value in answered.items():
                values.setdefault(name, []).append(value)
            told = ", ".join(f"{name} {answered[name]:.4g}" for name in values)
            self.say(f"round {number + 1} of {wanted}: {told}")
        return values


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long a call takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
