"""Drain over HTTP with different batch sizes, and with different numbers of workers and pingers."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import plain_sql
from benchmarks.comparison import Comparison, Point
from benchmarks.databases import connected
from benchmarks.drain import rate
from benchmarks.serving import gunicorn

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.harness import Bench

#: Batch size of the baseline, which has one worker.
_BATCH = plain_sql.BATCH
_COMPLETED = 100_000
_WARM_UP = 300


def run(bench: Bench) -> list[Comparison]:
    """Compare each batch size with the default one, and each number of workers with one worker."""
    batches, processes = bench.scale.batches, bench.scale.processes
    ways = [(size, 1) for size in batches] + [(_BATCH, count) for count in processes if count > 1]
    with bench.databases.fresh() as dsn, connected(dsn) as connection, ExitStack() as stack:
        plain_sql.fill_completed(connection, min(_COMPLETED, bench.scale.completed))
        plain_sql.settle_down(connection)
        measures: dict[str, Callable[[], float]] = {}
        for size, count in ways:
            app = stack.enter_context(gunicorn(bench.project, dsn, workers=count, settings={"batch_size": size}))
            drain = partial(app.drain, pingers=count)
            rate(connection, _WARM_UP, drain)
            measures[_name(size, count)] = partial(rate, connection, bench.scale.drained, drain)
        rates = bench.take_turns(measures)
    _draw(bench, rates, ways)
    usual = _name(_BATCH, 1)
    return [
        Comparison(name=f"drain, {name}", baseline_name=usual, unit="actions/s", measured=values, baseline=rates[usual])
        for name, values in rates.items()
        if name != usual
    ]


def _name(size: int, count: int) -> str:
    return f"batch {size}, {count} worker{'s' if count > 1 else ''}"


def _draw(bench: Bench, rates: dict[str, list[float]], ways: list[tuple[int, int]]) -> None:
    for size, count in ways:
        values = rates[_name(size, count)]
        if count == 1:
            bench.points.append(
                Point(
                    plot="Throughput against batch size",
                    x_name="batch_size",
                    y_name="actions/s",
                    line="1 worker",
                    x=size,
                    values=values,
                )
            )
        if size == _BATCH:
            bench.points.append(
                Point(
                    plot="Throughput against processes",
                    x_name="gunicorn workers, each with a pinger",
                    y_name="actions/s",
                    line=f"batch_size {size}",
                    x=count,
                    values=values,
                )
            )
