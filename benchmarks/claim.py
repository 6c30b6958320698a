"""Claim 100 actions out of 10k, 100k and 1M pending ones in a table with 1M completed ones."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

import psycopg

from benchmarks import plain_sql
from benchmarks.comparison import Comparison, Point, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError
from scheduled_actions.actions import claims

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduled_actions.database.connection import Connection


@dataclass(slots=True)
class Table:
    """A database with a constant number of pending actions: claimed ones are completed and replaced."""

    dsn: str
    connection: Connection
    tick: claims.TickRow = field(init=False)

    def __post_init__(self) -> None:
        self.tick = plain_sql.begin(self.connection)

    def claim(
        self, after: claims.ScanPosition = claims.START, *, refill: bool = True
    ) -> tuple[float, claims.ScanPosition]:
        """Return the milliseconds of one claim, and the scan position for the next one."""
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
    """Compare claims at each size with the smallest size and with a bare claim, with and without a held snapshot."""
    with _tables(bench) as tables:
        small, middle, large = tables
        bench.say("claims from the start, ms each")
        usual = bench.collect(lambda _: _round(bench, tables))
        bench.say("claims with a held snapshot, ms each")
        held = bench.collect(lambda _: _round_behind_snapshot(bench, tables[small], tables[large]))
    _draw(bench, usual, held)
    at_small, at_middle, at_large = (f"claim at {_short(size)}" for size in (small, middle, large))
    bare = f"bare claim at {_short(large)}"
    return [
        _comparison(at_large, usual[at_large], at_small, usual[at_small], 1.5),
        _comparison(at_middle, usual[at_middle], at_small, usual[at_small]),
        _comparison(at_large, usual[at_large], bare, usual[bare]),
        _comparison(f"{at_large}, snapshot held", held["continued"], at_small, held["small"], 2),
        _comparison("the same, from the start (once a second)", held["from the start"], at_small, held["small"]),
    ]


def _draw(bench: Bench, usual: dict[str, list[float]], held: dict[str, list[float]]) -> None:
    large = bench.scale.pending[-1]
    drawn = [("the package's claim", size, usual[f"claim at {_short(size)}"]) for size in bench.scale.pending]
    drawn.append(("bare claim", large, usual[f"bare claim at {_short(large)}"]))
    drawn.append(("continued, snapshot held", large, held["continued"]))
    drawn.append(("from the start, snapshot held", large, held["from the start"]))
    bench.points += [
        Point(
            plot="Claim of a hundred against backlog",
            x_name=f"pending actions, {bench.scale.completed:,} completed",
            y_name="ms",
            line=line,
            x=size,
            values=values,
        )
        for line, size, values in drawn
    ]


@contextmanager
def _tables(bench: Bench) -> Iterator[dict[int, Table]]:
    """Yield a table of each size, all with the same completed actions."""
    with ExitStack() as stack:
        original = stack.enter_context(bench.databases.fresh())
        with connected(original) as connection:
            bench.say(f"inserting {bench.scale.completed:,} completed actions")
            plain_sql.fill_completed(connection, bench.scale.completed)
            plain_sql.settle_down(connection)
        tables: dict[int, Table] = {}
        for size in bench.scale.pending:
            bench.say(f"inserting {size:,} pending actions")
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
    """Drain like a tick while another transaction keeps all dead rows; return the medians of the last claims.

    Each claim continues at the position of the previous one; the last claim scans from the start, as ticks do once a
    second.
    """
    total, timed = bench.scale.behind_snapshot // plain_sql.BATCH, bench.scale.claims
    continued: list[float] = []
    baseline: list[float] = []
    with _snapshot(large.dsn):
        position = claims.START
        for number in range(total):
            took, position = large.claim(position, refill=False)
            if number >= total - timed:
                continued.append(took)
                baseline.append(small.claim()[0])
        from_the_start, _ = large.claim()
    plain_sql.fill_due(large.connection, total * plain_sql.BATCH)
    return {"continued": median(continued), "small": median(baseline), "from the start": from_the_start}


@contextmanager
def _snapshot(dsn: str) -> Iterator[None]:
    """Hold a snapshot open, as a long-running report does."""
    with connected(dsn) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with other.transaction():
            other.execute("select from scheduled_actions limit 1")
            yield


def _short(size: int) -> str:
    return f"{size // 1_000_000}M" if size >= 1_000_000 else f"{size // 1000}k"


def _comparison(
    name: str, measured: list[float], baseline_name: str, baseline: list[float], at_most: float | None = None
) -> Comparison:
    target = None if at_most is None else Target("ratio", "at most", at_most)
    return Comparison(
        name=name, baseline_name=baseline_name, unit="ms", measured=measured, baseline=baseline, target=target
    )
