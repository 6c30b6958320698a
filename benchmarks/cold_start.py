"""A new process up to the end of its first tick, beside one that does the least about the same action."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import plain_sql
from benchmarks.children import answer_of
from benchmarks.comparison import Comparison
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError
from benchmarks.serving import environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.store.connection import Connection

_WAYS = ("first_tick", "first_claim")


def run(bench: Bench) -> list[Comparison]:
    """Return the time from starting the interpreter to its end, one due action completed on the way."""
    with bench.databases.fresh() as dsn, connected(dsn) as connection:
        environ = environment(bench.project, dsn)
        for way in _WAYS:
            _milliseconds(connection, environ, way)  # Byte code is written now, and files are in memory.
        took = bench.take_turns(
            {way: partial(_milliseconds, connection, environ, way) for way in _WAYS}, rounds=bench.scale.starts
        )
    return [
        Comparison(
            name="cold start to first tick",
            beside_name="libraries and bare SQL",
            unit="ms",
            measured=took["first_tick"],
            beside=took["first_claim"],
        )
    ]


def _milliseconds(connection: Connection, environ: Mapping[str, str], way: str) -> float:
    plain_sql.fill_due(connection, 1)
    started = time.perf_counter()
    answer = answer_of(environ, way)
    took = (time.perf_counter() - started) * 1000
    if answer.get("succeeded") != 1:
        raise WrongResultError("actions that a new process completed", found=answer.get("succeeded"), expected=1)
    return took
