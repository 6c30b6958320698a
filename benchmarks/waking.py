"""Wake a tick when a due action is committed: time until the handler starts, and the cost for the caller."""

from __future__ import annotations

import time
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError, seconds_of
from benchmarks.noop import ACTION_TYPE
from benchmarks.serving import App, gunicorn, runtime_on
from scheduled_actions import runtime, schedule_action

if TYPE_CHECKING:
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.runtime import Runtime

#: Pause between two calls, as between two requests of an application; the ping of the first has ended by then.
_PAUSE_SECONDS = 0.05
_POLL_SECONDS = 0.005
_PATIENCE_SECONDS = 20.0
_WARM_UP = 20


def run(bench: Bench) -> list[Comparison]:
    """Measure the time from commit to handler, and compare calls with and without wake."""
    with (
        bench.databases.fresh() as dsn,
        connected(dsn) as connection,
        gunicorn(bench.project, dsn) as app,
        runtime_on(bench.project, dsn) as silent,
        runtime_on(bench.project, dsn, settings={"url": app.url}) as waking,
    ):
        for one in (silent, waking):
            _calls(one, _WARM_UP)
        app.drain()
        started = bench.take_turns(
            {"handler": partial(_to_the_handler, bench, connection, waking), "ping": partial(_ping, bench, app)}
        )
        called = bench.collect(lambda _: _called(bench, app, {"wake": waking, "silent": silent}))
    return [
        Comparison(
            name="wake: commit to handler",
            baseline_name="an empty tick over HTTP",
            unit="ms",
            measured=started["handler"],
            baseline=started["ping"],
            target=Target("measured", "at most", 30),
        ),
        Comparison(
            name="schedule_action(), wake on",
            baseline_name="the same, wake off",
            unit="ms",
            measured=called["wake"],
            baseline=called["silent"],
            target=Target("ratio", "at most", 1.2),
        ),
    ]


def _to_the_handler(bench: Bench, connection: Connection, waking: Runtime) -> float:
    """Return the median time from the scheduling statement to the handler, in milliseconds."""
    took = [_one_woken(connection, waking) for _ in range(bench.scale.wakes)]
    bench.lateness.setdefault("wake", []).extend(took)
    return median(took)


def _one_woken(connection: Connection, waking: Runtime) -> float:
    time.sleep(_PAUSE_SECONDS)
    [action_id] = _calls(waking, 1)
    until = time.monotonic() + _PATIENCE_SECONDS
    query = (
        "select extract(epoch from started_at - scheduled_at)::float8 * 1000"
        " from scheduled_actions where id = %s and status = 'completed'"
    )
    while (row := connection.execute(query, [action_id]).fetchone()) is None:
        if time.monotonic() > until:
            raise WrongResultError("actions that ran after waking a tick", found=0, expected=1)
        time.sleep(_POLL_SECONDS)
    return float(row[0])


def _ping(bench: Bench, app: App) -> float:
    """Return the median time of pings with nothing due, in milliseconds."""
    took = []
    for _ in range(bench.scale.wakes):
        time.sleep(_PAUSE_SECONDS)
        took.append(seconds_of(app.ping) * 1000)
    return median(took)


def _called(bench: Bench, app: App, ways: dict[str, Runtime]) -> dict[str, float]:
    """Return the median time of a call with each runtime, in milliseconds; the runtimes alternate call by call."""
    took: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(bench.scale.wakes):
        for way, own in ways.items():
            time.sleep(_PAUSE_SECONDS)
            took[way].append(seconds_of(partial(_calls, own, 1)) * 1000)
    app.drain()
    return {way: median(values) for way, values in took.items()}


def _calls(own: Runtime, count: int) -> list[object]:
    before = runtime.use(own)
    try:
        return [schedule_action(ACTION_TYPE, {}).id for _ in range(count)]
    finally:
        runtime.use(before)
