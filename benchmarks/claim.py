"""A claim of a hundred where ten thousand, a hundred thousand and a million wait beside a million finished ones."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

import psycopg

from benchmarks import plain_sql
from benchmarks.comparison import Comparison, Point, Wanted
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError
from scheduled_actions.actions import claims

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduled_actions.database.connection import Connection


@dataclass(slots=True)
class Table:
    """A database whose table keeps its size: what is claimed is completed, and as much is put behind the others."""

    dsn: str
    connection: Connection
    tick: claims.TickRow = field(init=False)

    def __post_init__(self) -> None:
        self.tick = plain_sql.begin(self.connection)

    def claim(self, after: claims.Position = claims.START, *, refill: bool = True) -> tuple[float, claims.Position]:
        """Return the milliseconds of one claim, and where the next may go on."""
        started = time.perf_counter()
        claimed, position = claims.claim_free(
            self.connection, self.tick, wanted=plain_sql.BATCH, after=after, excluded=()
        )
        took = (time.perf_counter() - started) * 1000
        self._after(plain_sql.complete(self.connection, self.tick, claimed), refill=refill)
        return took, position

    def bare_claim(self) -> float:
        """Return the milliseconds of one bare claim."""
        started = time.perf_counter()
        ids = plain_sql.bare_claim(self.connection)
        took = (time.perf_counter() - started) * 1000
        self._after(plain_sql.bare_complete(self.connection, ids), refill=True)
        return took

    def _after(self, completed: int, *, refill: bool) -> None:
        if completed != plain_sql.BATCH:
            raise WrongResultError("actions of one claim", found=completed, expected=plain_sql.BATCH)
        if refill:
            plain_sql.fill_due(self.connection, plain_sql.BATCH)


def run(bench: Bench) -> list[Comparison]:
    """Return the claim at each size beside the smallest and beside a bare one, then behind a snapshot held open."""
    with _tables(bench) as tables:
        small, middle, large = tables
        bench.say("claims from the front, milliseconds each")
        usual = bench.collect(lambda _: _round(bench, tables))
        bench.say("claims behind a snapshot held open, milliseconds each")
        held = bench.collect(lambda _: _round_behind_snapshot(bench, tables[small], tables[large]))
    _draw(bench, usual, held)
    at_small, at_middle, at_large = (f"claim at {_short(size)}" for size in (small, middle, large))
    bare = f"bare claim at {_short(large)}"
    return [
        _comparison(at_large, usual[at_large], at_small, usual[at_small], 1.5),
        _comparison(at_middle, usual[at_middle], at_small, usual[at_small]),
        _comparison(at_large, usual[at_large], bare, usual[bare]),
        _comparison(f"{at_large}, snapshot held", held["going on"], at_small, held["small"], 2),
        _comparison("the same, from the front once a second", held["from the front"], at_small, held["small"]),
    ]


def _draw(bench: Bench, usual: dict[str, list[float]], held: dict[str, list[float]]) -> None:
    large = bench.scale.pending[-1]
    drawn = [("the package's claim", size, usual[f"claim at {_short(size)}"]) for size in bench.scale.pending]
    drawn.append(("bare claim", large, usual[f"bare claim at {_short(large)}"]))
    drawn.append(("going on behind a snapshot held open", large, held["going on"]))
    drawn.append(("from the front behind it", large, held["from the front"]))
    bench.points += [
        Point(
            plot="Claim of a hundred against backlog",
            x_name=f"waiting actions, beside {bench.scale.completed:,} finished ones",
            y_name="ms",
            line=line,
            x=size,
            values=values,
        )
        for line, size, values in drawn
    ]


@contextmanager
def _tables(bench: Bench) -> Iterator[dict[int, Table]]:
    """Give a table of each size, all with the same finished actions beside."""
    with ExitStack() as stack:
        original = stack.enter_context(bench.databases.fresh())
        with connected(original) as connection:
            bench.say(f"filling {bench.scale.completed:,} finished actions")
            plain_sql.fill_completed(connection, bench.scale.completed)
            plain_sql.settle_down(connection)
        tables: dict[int, Table] = {}
        for size in bench.scale.pending:
            bench.say(f"filling {size:,} waiting ones beside them")
            dsn = stack.enter_context(bench.databases.fresh(like=original))
            connection = stack.enter_context(connected(dsn))
            plain_sql.fill_due(connection, size)
            plain_sql.settle_down(connection)
            tables[size] = Table(dsn, connection)
        yield tables


def _round(bench: Bench, tables: dict[int, Table]) -> dict[str, float]:
    """Return the median of each kind of claim; the kinds alternate claim by claim."""
    largest = bench.scale.pending[-1]
    taken: dict[str, list[float]] = {}
    for _ in range(bench.scale.claims):
        for size, table in tables.items():
            taken.setdefault(f"claim at {_short(size)}", []).append(table.claim()[0])
        taken.setdefault(f"bare claim at {_short(largest)}", []).append(tables[largest].bare_claim())
    return {name: median(values) for name, values in taken.items()}


def _round_behind_snapshot(bench: Bench, small: Table, large: Table) -> dict[str, float]:
    """Drain as a tick does while another transaction keeps every dead row; return the medians of its last claims.

    Each claim goes on where the one before ended; one from the front, as a tick makes once a second, comes last.
    """
    in_all, timed = bench.scale.behind_snapshot // plain_sql.BATCH, bench.scale.claims
    going_on: list[float] = []
    beside: list[float] = []
    with _snapshot(large.dsn):
        position = claims.START
        for number in range(in_all):
            took, position = large.claim(position, refill=False)
            if number >= in_all - timed:
                going_on.append(took)
                beside.append(small.claim()[0])
        from_the_front, _ = large.claim()
    plain_sql.fill_due(large.connection, in_all * plain_sql.BATCH)
    return {"going on": median(going_on), "small": median(beside), "from the front": from_the_front}


@contextmanager
def _snapshot(dsn: str) -> Iterator[None]:
    """Hold a snapshot open that was taken now, as a long report does."""
    with connected(dsn) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with other.transaction():
            other.execute("select from scheduled_actions limit 1")
            yield


def _short(size: int) -> str:
    return f"{size // 1_000_000}M" if size >= 1_000_000 else f"{size // 1000}k"


def _comparison(
    name: str, measured: list[float], beside_name: str, beside: list[float], at_most: float | None = None
) -> Comparison:
    wanted = None if at_most is None else Wanted("ratio", "at most", at_most)
    return Comparison(name=name, beside_name=beside_name, unit="ms", measured=measured, beside=beside, wanted=wanted)
