"""Waiting conditions: ticks that evaluate 10,000 of them, and the time from a fact to the handler waiting for it."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from benchmarks import plain_sql
from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError, seconds_of
from benchmarks.noop import ACTION_TYPE
from benchmarks.serving import runtime_on
from scheduled_actions.actions.model import NewAction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.runtime import Runtime

#: Percentage of waiting actions whose fact has been reported.
_MET_OF_HUNDRED = 1
_WARM_UP = 200
_PAUSE_SECONDS = 0.02
_PATIENCE_SECONDS = 20.0
#: Longer than any round; the tick is stopped at the end of the benchmark.
_LINGER_SECONDS = 600

_FILL_WAITING = """
insert into scheduled_actions (action_type, payload, scheduled_at, condition)
select
  %(action_type)s, jsonb_build_object('n', n), now() - interval '1 minute' + n * interval '1 microsecond',
  jsonb_build_object('check_interval', 3600, 'wait', jsonb_build_object(
    'kind', 'document_state', 'state', 'approved', 'target', jsonb_build_object('type', 'order', 'id', n::text)))
from generate_series(1, %(count)s) n
"""

_REPORT = """
select count(*)
from generate_series(1, %s) n
cross join lateral report_fact(jsonb_build_object('type', 'order', 'id', n::text), 'state', '"approved"')
"""


def run(bench: Bench) -> list[Comparison]:
    """Compare ticks over waiting actions with ticks over plain ones, and measure the time from fact to handler."""
    with bench.databases.fresh() as dsn, connected(dsn) as connection, runtime_on(bench.project, dsn) as ticking:
        plain_sql.fill_completed(connection, min(100_000, bench.scale.completed))
        plain_sql.settle_down(connection)
        for measure in (_waiting, _repeated, _plain):
            measure(connection, ticking, _WARM_UP)
        count = bench.scale.drained
        looked = bench.take_turns(
            {
                "waiting": partial(_waiting, connection, ticking, count),
                "repeated": partial(_repeated, connection, ticking, count),
                "plain": partial(_plain, connection, ticking, count),
            }
        )
    settings = {"linger_seconds": _LINGER_SECONDS, "max_duration_seconds": 2 * _LINGER_SECONDS}
    with (
        bench.databases.fresh() as dsn,
        connected(dsn) as connection,
        runtime_on(bench.project, dsn, settings=settings) as lingering,
        _running_tick(lingering),
    ):
        reached = bench.take_turns(
            {
                "fact": partial(_from_a_fact, bench, connection, lingering),
                "plain": partial(_from_scheduling, bench, connection, lingering),
            }
        )
    baseline = "as many plain actions"
    return [
        Comparison(
            name="first evaluation of waiting conditions, 1 % met", baseline_name=baseline, unit="s",
            measured=looked["waiting"], baseline=looked["plain"], target=Target("ratio", "at most", 1.5),
        ),
        Comparison(
            name="repeated evaluation, 0 % met", baseline_name=baseline, unit="s",
            measured=looked["repeated"], baseline=looked["plain"], target=Target("ratio", "at most", 1.5),
        ),
        Comparison(
            name="fact to handler, lingering tick", baseline_name="schedule_action() to handler", unit="ms",
            measured=reached["fact"], baseline=reached["plain"], target=Target("measured", "at most", 50),
        ),
    ]  # fmt: skip


def _waiting(connection: Connection, ticking: Runtime, count: int) -> float:
    """Return the seconds of ticks that evaluate waiting actions for the first time."""
    connection.execute("delete from scheduled_actions where status = 'pending'")
    for table in ("scheduled_action_waits", "scheduled_action_facts", "scheduled_action_wakes"):
        connection.execute(f"truncate {table}")
    connection.execute(_FILL_WAITING, {"action_type": ACTION_TYPE, "count": count})
    met = count * _MET_OF_HUNDRED // 100
    connection.execute(_REPORT, [met])
    connection.execute("vacuum (analyze) scheduled_actions, scheduled_action_facts")
    before = plain_sql.count_completed(connection)
    seconds = seconds_of(partial(_tick, ticking, count))
    completed = plain_sql.count_completed(connection) - before
    if completed != met:
        raise WrongResultError("actions whose condition was met", found=completed, expected=met)
    return seconds


def _repeated(connection: Connection, ticking: Runtime, count: int) -> float:
    """Return the seconds of ticks that evaluate the remaining waiting actions a second time."""
    _waiting(connection, ticking, count)
    connection.execute(
        "update scheduled_actions set scheduled_at = now() - interval '1 minute' where status = 'pending'"
    )
    connection.execute("vacuum (analyze) scheduled_actions, scheduled_action_waits")
    return seconds_of(partial(_tick, ticking, count - count * _MET_OF_HUNDRED // 100))


def _plain(connection: Connection, ticking: Runtime, count: int) -> float:
    """Return the seconds of ticks over plain actions."""
    connection.execute("delete from scheduled_actions where status = 'pending'")
    plain_sql.fill_due(connection, count)
    connection.execute("vacuum (analyze) scheduled_actions")
    return seconds_of(partial(_tick, ticking, count))


def _tick(ticking: Runtime, count: int) -> int:
    """Tick until nothing is due; return the number of settled actions."""
    settled = 0
    while (report := ticking.processor.tick()).remaining:
        settled += report.processed
    settled += report.processed
    if settled != count:
        raise WrongResultError("actions settled by the ticks", found=settled, expected=count)
    return settled


@contextmanager
def _running_tick(lingering: Runtime) -> Iterator[None]:
    thread = threading.Thread(target=lingering.processor.tick)
    thread.start()
    try:
        yield
    finally:
        lingering.processor.stop()
        thread.join(_PATIENCE_SECONDS)


def _from_a_fact(bench: Bench, connection: Connection, lingering: Runtime) -> float:
    """Return the median time from the report of a fact to the handler, in milliseconds."""
    return median(_one_fact(connection, lingering) for _ in range(bench.scale.wakes))


def _one_fact(connection: Connection, lingering: Runtime) -> float:
    target = {"type": "order", "id": str(time.monotonic_ns())}
    condition = {"kind": "document_state", "target": target, "state": "approved"}
    new = NewAction(action_type=ACTION_TYPE, payload={}, condition={"wait": condition, "check_interval": 3600})
    action_id = lingering.scheduler.schedule_action(new).id
    _until(
        connection, "select waiting is not null and status = 'pending' from scheduled_actions where id = %s", action_id
    )
    time.sleep(_PAUSE_SECONDS)
    lingering.facts.report(target, "state", "approved")
    done = "select status = 'completed' from scheduled_actions where id = %s"
    _until(connection, done, action_id)
    row = connection.execute(
        "select extract(epoch from a.started_at - f.changed_at)::float8 * 1000"
        " from scheduled_actions a, scheduled_action_facts f where a.id = %s and f.target_id = %s",
        [action_id, target["id"]],
    ).fetchone()
    return float(row[0]) if row else 0.0


def _from_scheduling(bench: Bench, connection: Connection, lingering: Runtime) -> float:
    """Return the median time from the scheduling of a plain action to its handler, in milliseconds."""
    took = []
    for _ in range(bench.scale.wakes):
        time.sleep(_PAUSE_SECONDS)
        action_id = lingering.scheduler.schedule_action(NewAction(action_type=ACTION_TYPE, payload={})).id
        _until(connection, "select status = 'completed' from scheduled_actions where id = %s", action_id)
        row = connection.execute(
            "select extract(epoch from started_at - created_at)::float8 * 1000 from scheduled_actions where id = %s",
            [action_id],
        ).fetchone()
        took.append(float(row[0]) if row else 0.0)
    return median(took)


def _until(connection: Connection, query: str, action_id: object) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        row = connection.execute(query, [action_id]).fetchone()
        if row is not None and row[0]:
            return
        if time.monotonic() > until:
            raise WrongResultError("actions in the awaited state", found=0, expected=1)
        time.sleep(0.002)
