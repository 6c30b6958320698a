"""Drain 10,000 due actions through `/cron/process` under gunicorn, compared with the same SQL without handlers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks import plain_sql
from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError, seconds_of
from benchmarks.serving import gunicorn

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.database.connection import Connection

#: Completed actions in the table: enough that the planner does not treat it as small.
_COMPLETED = 100_000
#: Drained once before the rounds, so that the process has measured the handler's duration.
_WARM_UP = 300


def run(bench: Bench) -> list[Comparison]:
    """Compare the drain with the same SQL, and with a bare claim and completion."""
    with (
        bench.databases.fresh() as dsn,
        connected(dsn) as connection,
        gunicorn(bench.project, dsn) as one_worker,
        gunicorn(bench.project, dsn, workers=2) as two_workers,
    ):
        plain_sql.fill_completed(connection, min(_COMPLETED, bench.scale.completed))
        plain_sql.settle_down(connection)
        drains: dict[str, Callable[[], float]] = {
            "1 worker": one_worker.drain,
            "2 workers": partial(two_workers.drain, pingers=2),
            "same SQL": partial(seconds_of, partial(plain_sql.drain, connection)),
            "bare SQL": partial(seconds_of, partial(plain_sql.bare_drain, connection)),
        }
        for drain in drains.values():
            rate(connection, _WARM_UP, drain)
        rates = bench.take_turns(
            {name: partial(rate, connection, bench.scale.drained, drain) for name, drain in drains.items()}
        )
    return [
        _comparison("drain, 1 worker", rates["1 worker"], "same SQL", rates["same SQL"], 0.6),
        _comparison("drain, 1 worker", rates["1 worker"], "bare claim and complete", rates["bare SQL"]),
        _comparison("drain, 2 workers, 2 pingers", rates["2 workers"], "same SQL, 1 connection", rates["same SQL"]),
        _comparison("same SQL", rates["same SQL"], "bare claim and complete", rates["bare SQL"]),
    ]


def rate(connection: Connection, count: int, drain: Callable[[], float]) -> float:
    """Return the actions per second of a drain, after checking that it completed all of them."""
    before = plain_sql.count_completed(connection)
    plain_sql.fill_due(connection, count)
    seconds = drain()
    completed = plain_sql.count_completed(connection) - before
    if completed != count:
        raise WrongResultError("actions completed by a drain", found=completed, expected=count)
    return count / seconds


def _comparison(
    name: str, measured: list[float], baseline_name: str, baseline: list[float], at_least: float | None = None
) -> Comparison:
    target = None if at_least is None else Target("ratio", "at least", at_least)
    return Comparison(
        name=name, baseline_name=baseline_name, unit="actions/s", measured=measured, baseline=baseline, target=target
    )
