"""One drain of one contender: filled, swept, timed, and seen to have been done once each."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict

from benchmarks import plain_sql
from benchmarks.databases import connected
from benchmarks.harness import WrongResultError, seconds_of
from benchmarks.peers.line import Worker, workers
from benchmarks.peers.serve import MARK_EVERY
from benchmarks.serving import checked_tick, gunicorn, runtime_on

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack
    from pathlib import Path

    from benchmarks.harness import Bench
    from benchmarks.peers.contenders import Ours, Peer
    from scheduled_actions.database.connection import Connection

#: How often the database is asked whether all is done.
_WATCH_SECONDS = 0.005
#: Longest wait for a drain: the slowest peer does some hundreds a second.
_PATIENCE_SECONDS = 300
#: Of what is drained, a share goes before the clock starts.
_WARM_UP_SHARE = 0.2
#: Ours are drained so many times twice before all rounds.
_OUR_WARM_UP = 300


class PeerDrain:
    """A peer with its processes, on a database of its own."""

    def __init__(self, peer: Peer, processes: list[Worker], connection: psycopg.Connection[tuple[bool]]) -> None:
        self._peer = peer
        self._workers = processes
        self._connection = connection
        processes[0].ask("prepare")

    def rate(self, count: int) -> float:
        """Return how many jobs a second it does, in the middle of its work.

        A fifth more is put into the queue, and the clock starts when so many handlers have run: that neither the
        start of a worker nor its first fetch counts. It stops when the database has no unfinished job left.
        """
        warm_up = int(count * _WARM_UP_SHARE)
        self._workers[0].ask("fill", count=warm_up + count)
        sweep(self._connection)
        for worker in self._workers:
            worker.tell("start")
        for worker in self._workers:
            worker.answer("start")
        ended = self._wait_until_done()
        counted = [worker.ask("stop") for worker in self._workers]
        handled = sum(one["count"] for one in counted)
        if handled != warm_up + count:
            raise WrongResultError(f"handlers that {self._peer.name} ran", found=handled, expected=warm_up + count)
        marks = sorted(moment for one in counted for moment in one["times"])
        return count / (ended - float(marks[warm_up // MARK_EVERY - 1]))

    def _wait_until_done(self) -> float:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            row = self._connection.execute(self._peer.is_unfinished).fetchone()
            if row is not None and not row[0]:
                return time.time()
            time.sleep(_WATCH_SECONDS)
        raise WrongResultError(f"seconds that {self._peer.name} took", found="more", expected=_PATIENCE_SECONDS)


def drain_by_peer(stack: ExitStack, bench: Bench, peer: Peer, command: list[str | Path]) -> Callable[[int], float]:
    """Return the function that drains so many jobs and says how many it did a second."""
    dsn = stack.enter_context(bench.databases.fresh())
    url = _url(dsn)
    log = bench.project / f"{peer.name}.log"
    started = stack.enter_context(workers(command, peer.processes, url=url, log=log))
    connection = stack.enter_context(psycopg.connect(dsn, autocommit=True))
    return PeerDrain(peer, started, connection).rate


def drain_over_http(stack: ExitStack, bench: Bench, ours: Ours) -> Callable[[int], float]:
    """Return the same for ours: ticks over HTTP, from the first ping to the answer that nothing remains."""
    dsn = stack.enter_context(bench.databases.fresh())
    connection = stack.enter_context(connected(dsn))
    app = stack.enter_context(gunicorn(bench.project, dsn, workers=ours.processes, settings=ours.settings))
    return _warmed(connection, partial(app.drain, pingers=ours.processes))


def drain_in_process(stack: ExitStack, bench: Bench, ours: Ours) -> Callable[[int], float]:
    """Return the same for ours without HTTP: ticks in this process, until nothing remains."""
    dsn = stack.enter_context(bench.databases.fresh())
    connection = stack.enter_context(connected(dsn))
    runtime = stack.enter_context(runtime_on(bench.project, dsn, settings=ours.settings))

    def tick_until_done() -> None:
        while checked_tick(runtime)["remaining"]:
            pass

    return _warmed(connection, partial(seconds_of, tick_until_done))


def _warmed(connection: Connection, drain: Callable[[], float]) -> Callable[[int], float]:
    """Return the function that drains so many; each process has imported the handler by then, and measured it."""
    rate = partial(_our_rate, connection, drain)
    for _ in range(2):
        rate(_OUR_WARM_UP)
    return rate


def _our_rate(connection: Connection, drain: Callable[[], float], count: int) -> float:
    before = plain_sql.count_completed(connection)
    plain_sql.fill_due(connection, count)
    sweep(connection)
    seconds = drain()
    completed = plain_sql.count_completed(connection) - before
    if completed != count:
        raise WrongResultError("actions completed by a drain", found=completed, expected=count)
    return count / seconds


def sweep(connection: psycopg.Connection[tuple[bool]] | Connection) -> None:
    """Leave nothing of the last round or of the filling to be done by the database while the clock runs."""
    connection.execute("vacuum (analyze)")
    connection.execute("checkpoint")


def _url(dsn: str) -> str:
    parts = conninfo_to_dict(dsn)
    return "postgresql://{user}:{password}@{host}:{port}/{dbname}".format_map(parts)
