"""Drain one contender: fill the queue, vacuum, measure, and check that every job ran once."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict

from benchmarks import plain_sql
from benchmarks.databases import connected
from benchmarks.harness import WrongResultError, seconds_of
from benchmarks.peers.serve import MARK_EVERY
from benchmarks.peers.worker import Worker, workers
from benchmarks.serving import checked_tick, gunicorn, runtime_on

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import ExitStack
    from pathlib import Path

    from benchmarks.harness import Bench
    from benchmarks.peers.contenders import Ours, Peer
    from scheduled_actions.database.connection import Connection

#: Interval of the query for unfinished jobs.
_WATCH_SECONDS = 0.005
#: Timeout of a drain; the slowest peer runs some hundred jobs per second.
_PATIENCE_SECONDS = 300
#: Additional jobs, as a share of those counted, that run before the clock starts.
_WARM_UP_SHARE = 0.2
#: Actions of each of the two warm-up drains of this package.
_OUR_WARM_UP = 300


class PeerDrain:
    """A peer's worker processes on a separate database."""

    def __init__(self, peer: Peer, processes: Sequence[Worker], connection: psycopg.Connection[tuple[bool]]) -> None:
        self._peer = peer
        self._workers = processes
        self._connection = connection
        processes[0].call("prepare")

    def rate(self, count: int) -> float:
        """Return the jobs per second of a drain of `count` jobs.

        A fifth more jobs are put into the queue, and the clock starts when that many handlers have run, so that neither
        the start of a worker nor its first fetch counts. The clock stops when no unfinished job is left.
        """
        warm_up = int(count * _WARM_UP_SHARE)
        self._workers[0].call("fill", count=warm_up + count)
        vacuum(self._connection)
        for worker in self._workers:
            worker.send("start")
        for worker in self._workers:
            worker.receive("start")
        ended = self._wait_until_done()
        counted = [worker.call("stop") for worker in self._workers]
        handled = sum(one["count"] for one in counted)
        if handled != warm_up + count:
            raise WrongResultError(f"handlers run by {self._peer.name}", found=handled, expected=warm_up + count)
        marks = sorted(moment for one in counted for moment in one["times"])
        return count / (ended - float(marks[warm_up // MARK_EVERY - 1]))

    def _wait_until_done(self) -> float:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            row = self._connection.execute(self._peer.is_unfinished).fetchone()
            if row is not None and not row[0]:
                return time.time()
            time.sleep(_WATCH_SECONDS)
        raise WrongResultError(f"seconds of {self._peer.name}", found=f"over {_PATIENCE_SECONDS}", expected="fewer")


def drain_by_peer(
    stack: ExitStack,
    bench: Bench,
    peer: Peer,
    command: Sequence[str | Path],
    *,
    processes: int,
    environ: Mapping[str, str],
) -> Callable[[int], float]:
    """Return a function that drains a number of jobs through a peer and returns the jobs per second."""
    dsn = stack.enter_context(bench.databases.fresh())
    environ = {**environ, "PEER_DATABASE_URL": _url(dsn), "PEER_PROCESSES": str(processes)}
    log = bench.project / f"{peer.name}.log"
    count = 1 if peer.has_pool else processes
    started = stack.enter_context(workers(command, count, environ=environ, log=log))
    connection = stack.enter_context(psycopg.connect(dsn, autocommit=True))
    return PeerDrain(peer, started, connection).rate


def drain_over_http(stack: ExitStack, bench: Bench, ours: Ours) -> Callable[[int], float]:
    """Return such a function for this package over HTTP, timed from the first ping until nothing remains."""
    dsn = stack.enter_context(bench.databases.fresh())
    connection = stack.enter_context(connected(dsn))
    app = stack.enter_context(gunicorn(bench.project, dsn, workers=ours.processes, settings=ours.settings))
    return _warmed(connection, partial(app.drain, pingers=ours.processes))


def drain_in_process(stack: ExitStack, bench: Bench, ours: Ours) -> Callable[[int], float]:
    """Return such a function for this package with ticks in this process until nothing remains."""
    dsn = stack.enter_context(bench.databases.fresh())
    connection = stack.enter_context(connected(dsn))
    runtime = stack.enter_context(runtime_on(bench.project, dsn, settings=ours.settings))

    def tick_until_done() -> None:
        while checked_tick(runtime)["remaining"]:
            pass

    return _warmed(connection, partial(seconds_of, tick_until_done))


def _warmed(connection: Connection, drain: Callable[[], float]) -> Callable[[int], float]:
    """Return the drain function after two warm-up drains, in which processes import and time the handler."""
    rate = partial(_our_rate, connection, drain)
    for _ in range(2):
        rate(_OUR_WARM_UP)
    return rate


def _our_rate(connection: Connection, drain: Callable[[], float], count: int) -> float:
    before = plain_sql.count_completed(connection)
    plain_sql.fill_due(connection, count)
    vacuum(connection)
    seconds = drain()
    completed = plain_sql.count_completed(connection) - before
    if completed != count:
        raise WrongResultError("actions completed by a drain", found=completed, expected=count)
    return count / seconds


def vacuum(connection: psycopg.Connection[tuple[bool]] | Connection) -> None:
    """Vacuum and checkpoint, so that earlier work causes no background work while the clock runs."""
    connection.execute("vacuum (analyze)")
    connection.execute("checkpoint")


def _url(dsn: str) -> str:
    parts = conninfo_to_dict(dsn)
    return "postgresql://{user}:{password}@{host}:{port}/{dbname}".format_map(parts)
