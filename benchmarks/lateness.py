"""Lateness of actions at random instants, compared with a loop that sleeps until such instants."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from statistics import median, quantiles
from typing import TYPE_CHECKING, LiteralString

from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError
from benchmarks.noop import ACTION_TYPE
from benchmarks.serving import environment, gunicorn, stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from scheduled_actions.database.connection import Connection

    Runner = Callable[[Bench, str, Connection], AbstractContextManager[None]]

#: Time before the first instant, in which all actions are inserted.
_LEAD_SECONDS = 1.0
#: How long ticks continue after the last instant; also the timeout of waits.
_MARGIN_SECONDS = 30.0
#: Actions run before a round, so that handlers are imported and their duration is known.
_WARM_UP = 20
_POLL_SECONDS = 0.05
_WANTED_MS = {"p50": 15.0, "p99": 100.0, "max": None}

_SCHEDULE = """
insert into scheduled_actions (action_type, payload, scheduled_at)
select %(action_type)s, '{}', now() + make_interval(secs => s) from unnest(%(seconds)s::float8[]) s
returning id
"""
_LATENESS = """
select extract(epoch from started_at - scheduled_at)::float8 * 1000
from scheduled_actions
where id = any (%(ids)s) and status = 'completed' and attempts = 1
order by scheduled_at
"""


def run(bench: Bench) -> list[Comparison]:
    """Compare the lateness of a lingering tick and of `listen` with a bare loop that runs at the same time."""
    ways = {"linger": _lingering, "listen": _listening}

    def one_round(number: int) -> dict[str, float]:
        figures: dict[str, float] = {}
        for way in sorted(ways, reverse=bool(number % 2)):
            values, bare = late(bench, ways[way], seed=number)
            bench.lateness.setdefault(way, []).extend(values)
            bench.lateness.setdefault("bare loop", []).extend(bare)
            figures |= {f"{way} {name}": value for name, value in percentiles(values).items()}
            figures |= {f"bare loop during {way} {name}": value for name, value in percentiles(bare).items()}
        return figures

    took = bench.collect(one_round, rounds=bench.scale.spread_rounds)
    return [
        Comparison(
            name=f"lateness by {way}, {name}",
            baseline_name="sleep and select 1",
            unit="ms",
            measured=took[f"{way} {name}"],
            baseline=took[f"bare loop during {way} {name}"],
            target=None if bound is None else Target("measured", "at most", bound),
        )
        for way in ways
        for name, bound in _WANTED_MS.items()
    ]


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return the median, the 99th percentile and the maximum."""
    return {"p50": median(values), "p99": quantiles(values, n=100, method="inclusive")[98], "max": max(values)}


def late(bench: Bench, runner: Runner, *, seed: int) -> tuple[list[float], list[float]]:
    """Return the lateness of each action, and of each iteration of the bare loop, in milliseconds."""
    count, seconds = bench.scale.spread
    draw = random.Random(seed)
    ours, others = ([_LEAD_SECONDS + draw.uniform(0, seconds) for _ in range(count)] for _ in range(2))
    bare: list[float] = []
    with bench.databases.fresh() as dsn, connected(dsn) as connection:
        with runner(bench, dsn, connection):
            _wait_for(connection, _scheduled(connection, [0.0] * _WARM_UP))
            loop = threading.Thread(target=_bare_loop, args=[dsn, sorted(others), bare])
            ids = _scheduled(connection, ours)
            loop.start()
            loop.join()
            _wait_for(connection, ids)
        late = [row[0] for row in connection.execute(_LATENESS, {"ids": ids})]
    if len(late) != count:
        raise WrongResultError("actions completed at their first attempt", found=len(late), expected=count)
    return late, bare


def _scheduled(connection: Connection, seconds: list[float]) -> list[object]:
    return [row[0] for row in connection.execute(_SCHEDULE, {"action_type": ACTION_TYPE, "seconds": seconds})]


def _wait_for(connection: Connection, ids: list[object]) -> None:
    """Wait until all of these actions are settled."""
    waiting = "select count(*) from scheduled_actions where id = any (%s) and status in ('pending', 'processing')"
    _wait_until(lambda: not _number(connection, waiting, [ids]))


def _number(connection: Connection, query: LiteralString, values: Sequence[object] = ()) -> int:
    row = connection.execute(query, values).fetchone()
    return int(row[0]) if row else 0


def _wait_until(is_so: Callable[[], object]) -> None:
    until = time.monotonic() + _MARGIN_SECONDS
    while not is_so():
        if time.monotonic() > until:
            raise WrongResultError("seconds waited for a tick", found=f"over {_MARGIN_SECONDS:g}", expected="fewer")
        time.sleep(_POLL_SECONDS)


def _bare_loop(dsn: str, instants: list[float], late: list[float]) -> None:
    """Sleep until each instant (seconds from now), run `select 1`, and append how late its result was."""
    with connected(dsn) as connection:
        began = time.monotonic()
        for instant in instants:
            time.sleep(max(0.0, began + instant - time.monotonic()))
            connection.execute("select 1").fetchone()
            late.append((time.monotonic() - began - instant) * 1000)


@contextmanager
def _lingering(bench: Bench, dsn: str, connection: Connection) -> Iterator[None]:
    """Keep a tick lingering in gunicorn; it ends with gunicorn."""
    _, seconds = bench.scale.spread
    linger = seconds + _MARGIN_SECONDS
    settings = {"linger_seconds": linger, "max_duration_seconds": linger + 2 * _MARGIN_SECONDS}
    with ExitStack() as stack:
        ping = stack.enter_context(_joined())
        app = stack.enter_context(gunicorn(bench.project, dsn, settings=settings))
        ping.append(threading.Thread(target=app.ping))
        ping[0].start()
        _wait_until(
            lambda: _number(connection, "select count(*) from scheduled_action_ticks where finished_at is null")
        )
        yield


@contextmanager
def _joined() -> Iterator[list[threading.Thread]]:
    """Yield a list of threads and join them at the end."""
    threads: list[threading.Thread] = []
    try:
        yield threads
    finally:
        for thread in threads:
            thread.join()


@contextmanager
def _listening(bench: Bench, dsn: str, _: Connection) -> Iterator[None]:
    """Run `scheduled-actions listen` in another process."""
    command = [sys.executable, "-m", "scheduled_actions.cli", "listen"]
    with (bench.project / "listen.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=bench.project, env=environment(bench.project, dsn), stdout=log, stderr=log
        )
    try:
        yield
    finally:
        stop(process)
