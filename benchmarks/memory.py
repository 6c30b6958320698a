"""Memory of a tick with a backlog of 100,000 actions, compared with a backlog of 1,000 and with the same SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.children import answer_of
from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError
from benchmarks.serving import environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.database.connection import Connection

_TARGET = Target("measured", "at most", 60)


def run(bench: Bench) -> list[Comparison]:
    """Compare the memory of a tick above the idle process, and the peak of the whole process."""
    small, large = bench.scale.backlog
    with bench.databases.fresh() as dsn, connected(dsn) as connection:
        environ = environment(bench.project, dsn)

        def one_round(_: int) -> dict[str, float]:
            at_large = _watched(connection, environ, "tick_memory", large)
            at_small = _watched(connection, environ, "tick_memory", small)
            same_sql = _watched(connection, environ, "sql_memory", large)
            return {
                "completed": at_large["succeeded"],
                "large above idle": at_large["peak"] - at_large["idle"],
                "small above idle": at_small["peak"] - at_small["idle"],
                "large": at_large["peak"],
                "small": at_small["peak"],
                "same SQL": same_sql["peak"],
            }

        megabytes = bench.collect(one_round, rounds=bench.scale.backlog_rounds)
    lines = (
        (f"tick above idle, backlog {large:,}", "large above idle", f"backlog {small:,}", "small above idle", _TARGET),
        (f"peak of the process, backlog {large:,}", "large", f"backlog {small:,}", "small", None),
        (f"peak of the process, backlog {large:,}", "large", "same SQL", "same SQL", None),
    )
    return [
        Comparison(
            name=name,
            baseline_name=baseline_name,
            unit="MB",
            measured=megabytes[one],
            baseline=megabytes[other],
            target=target,
        )
        for name, one, baseline_name, other, target in lines
    ]


def _watched(connection: Connection, environ: Mapping[str, str], way: str, backlog: int) -> dict[str, Any]:
    """Return the values of the child process; the tick may end before its backlog, so the table is truncated."""
    answer = answer_of(environ, way, str(backlog))
    if not answer["succeeded"]:
        raise WrongResultError("actions completed by a tick", found=0, expected=f"up to {backlog}")
    connection.execute("truncate scheduled_actions")
    return answer
