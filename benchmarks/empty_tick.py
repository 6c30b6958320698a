"""A tick with nothing due, compared with `select 1` in the same application, its own statement and a bare claim."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING
from uuid import uuid4

from benchmarks import plain_sql
from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError, seconds_of
from benchmarks.serving import SELECT_ONE, App, gunicorn, runtime_on
from scheduled_actions.ticks import store as tick_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.runtime import Runtime

_EXISTING = 100_000


def run(bench: Bench) -> list[Comparison]:
    """Measure the empty tick in a table with many future and many completed actions."""
    with (
        bench.databases.fresh() as dsn,
        connected(dsn) as connection,
        runtime_on(bench.project, dsn) as runtime,
        gunicorn(bench.project, dsn, module=SELECT_ONE) as app,
    ):
        plain_sql.fill_completed(connection, min(_EXISTING, bench.scale.completed))
        plain_sql.fill_due(connection, min(_EXISTING, bench.scale.completed))
        connection.execute(
            "update scheduled_actions set scheduled_at = now() + interval '1 day' where status = 'pending'"
        )
        plain_sql.settle_down(connection)
        _ping(app)
        measures: dict[str, Callable[[], object]] = {
            "over HTTP": partial(_ping, app),
            "select 1": partial(app.get, "/select-1"),
            "in process": runtime.processor.tick,
            "same SQL": partial(_statements, runtime, connection),
            "bare claim": partial(plain_sql.bare_claim, connection),
        }
        took = bench.take_turns(
            {name: partial(_milliseconds, bench.scale.pings, work) for name, work in measures.items()}
        )
    return [
        Comparison(
            name=name, baseline_name=baseline_name, unit="ms", measured=took[one], baseline=took[other], target=target
        )
        for name, one, baseline_name, other, target in (
            ("empty tick over HTTP", "over HTTP", "select 1, same app", "select 1", Target("ratio", "at most", 3)),
            ("empty tick over HTTP", "over HTTP", "same SQL", "same SQL", None),
            ("empty tick in process", "in process", "same SQL", "same SQL", None),
            ("empty tick over HTTP", "over HTTP", "one bare empty claim", "bare claim", None),
        )
    ]


def _ping(app: App) -> None:
    answer = app.ping()
    if answer["processed"] or answer["remaining"]:
        raise WrongResultError("actions processed by an empty tick", found=answer["processed"], expected=0)


def _statements(runtime: Runtime, connection: Connection) -> None:
    """Run the statement of an empty tick on one connection."""
    found = tick_store.find_work(
        connection,
        runtime.config.settings,
        tick_id=uuid4(),
        may_be_idle=True,
        caller="",
        budget={},
        counts={},
        action_types=list(runtime.registry.types),
    )
    if not found.is_recorded:
        raise WrongResultError("result of an empty tick", found=found, expected="idle")


def _milliseconds(times: int, work: Callable[[], object]) -> float:
    """Return the median duration of `times` calls in milliseconds."""
    return median(seconds_of(work) for _ in range(times)) * 1000
