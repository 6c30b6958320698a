"""Cold start: a new process until the end of its first tick, compared with a minimal process."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import plain_sql
from benchmarks.children import answer_of
from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError
from benchmarks.serving import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduled_actions.database.connection import Connection

_WITH_AN_ACTION = ("first_tick", "first_claim")
_IDLE = ("idle_tick", "connect")


def run(bench: Bench) -> list[Comparison]:
    """Compare an idle first tick, and a whole process that completes one action, with their minimal equivalents."""
    with bench.databases.fresh() as dsn, connected(dsn) as connection:
        environ = environment(bench.project, dsn)
        measures: dict[str, Callable[[], float]] = {
            **{way: partial(_milliseconds, connection, environ, way) for way in _WITH_AN_ACTION},
            **{way: partial(_reported_milliseconds, environ, way) for way in _IDLE},
        }
        for measure in measures.values():
            measure()  # Writes byte code and fills the file cache.
        took = bench.take_turns(measures, rounds=bench.scale.starts)
    return [
        Comparison(
            name="first tick of a cold process, idle",
            baseline_name="flask, psycopg, pydantic, connect",
            unit="ms",
            measured=took["idle_tick"],
            baseline=took["connect"],
            target=Target("ratio", "at most", 1.3),
        ),
        Comparison(
            name="cold start to first tick",
            baseline_name="libraries and bare SQL",
            unit="ms",
            measured=took["first_tick"],
            baseline=took["first_claim"],
        ),
    ]


def _reported_milliseconds(environ: Mapping[str, str], way: str) -> float:
    answer = answer_of(environ, way)
    if answer["succeeded"]:
        raise WrongResultError("actions processed by an idle tick", found=answer["succeeded"], expected=0)
    return float(answer["seconds"]) * 1000


def _milliseconds(connection: Connection, environ: Mapping[str, str], way: str) -> float:
    plain_sql.fill_due(connection, 1)
    started = time.perf_counter()
    answer = answer_of(environ, way)
    took = (time.perf_counter() - started) * 1000
    if answer.get("succeeded") != 1:
        raise WrongResultError("actions completed by a new process", found=answer.get("succeeded"), expected=1)
    return took
