"""Run real processes at a rate, and measure their CPU time: ticks, workers and Celery workers."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import plain_sql
from benchmarks.celery_workers import (
    EMPTY_TASK,
    EXECUTOR,
    PROCESSES,
    broker_environ,
    celery_worker,
    plain_producer,
    running,
    send_plain,
)
from benchmarks.databases import connected
from benchmarks.harness import WrongResultError
from benchmarks.noop import ACTION_TYPE
from benchmarks.redis_stats import redis_work
from benchmarks.serving import environment
from proofs.scale.cpu import cpu_seconds
from proofs.scale.model import Cost, Share

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from benchmarks.databases import Databases
    from scheduled_actions.database.connection import Connection

#: Time before the first action is due.
_LEAD_SECONDS = 1.0
_WARM_UP = 50
_PATIENCE_SECONDS = 60.0
_POLL_SECONDS, _LEFT_SECONDS = 0.02, 0.25
#: How long idle processes are measured.
_IDLE_SECONDS = 3.0

#: The actions of each second are due at its beginning.
_SCHEDULE = """
insert into scheduled_actions (action_type, payload, scheduled_at)
select %(action_type)s, '{}', now() + make_interval(secs => %(lead)s + (n - 1) / %(rate)s::integer)
from generate_series(1, %(count)s) n
"""
_LEFT = "select count(*) from scheduled_actions where status in ('pending', 'processing')"


class Run(NamedTuple):
    """What real processes have used at a rate."""

    rate: float
    #: Completed actions per second, until the last one.
    throughput: float
    cpu: Share
    #: What the same processes use per second while nothing is due.
    idle: Share
    #: Connections to the database at the end, without those of the measurement.
    connections: int


class Processes(NamedTuple):
    """The processes of a path: a project with the right settings, and what runs in it."""

    project: Path
    #: "ticks", "postgres" or "celery".
    kind: str


def carry(server: Databases, project: Path, url: str, count: int) -> Cost:
    """Return what Celery itself costs per message: sent before, received, and run by a task that does nothing.

    Args:
        server: A database that the app does not use.
        project: Has the plain app.
        url: The Redis.
        count: Number of messages.
    """
    with (
        server.fresh() as dsn,
        plain_producer(url) as producer,
        celery_worker(project, dsn, url, queue="carry") as worker,
    ):
        send_plain(producer, "carry", _WARM_UP, EMPTY_TASK)
        _wait(lambda: not _queued(url, "carry"), "Celery's warm-up")
        time.sleep(_LEAD_SECONDS)
        send_plain(producer, "elsewhere", count, EMPTY_TASK)
        before, work = cpu_seconds([worker.pid]), redis_work(url)
        _rename(url, "elsewhere", "carry")
        _wait(lambda: not _queued(url, "carry"), "a queue of Celery")
        # Messages that the worker has fetched and not yet run.
        time.sleep(_LEAD_SECONDS)
        work = redis_work(url).since(work)
        seconds = cpu_seconds([worker.pid]) - before
    return Cost(process=seconds * 1e6 / count, broker=work.seconds * 1e6 / count, commands=work.commands / count)


def at_rate(server: Databases, processes: Processes, url: str, rate: float, seconds: float) -> Run:
    """Run actions that are due at a rate, and measure the CPU time of all processes until the last one has ended."""
    project, kind = processes
    with ExitStack() as stack:
        dsn = stack.enter_context(server.fresh())
        connection = stack.enter_context(connected(dsn))
        environ = environment(project, dsn) | broker_environ(url)
        command = [sys.executable, "-m", "scheduled_actions.cli"]
        ticks = [stack.enter_context(running(project, [*command, "listen"], environ)).pid]
        workers: list[int] = []
        if kind == "postgres":
            work = [*command, "executors", "work", EXECUTOR]
            workers = [stack.enter_context(running(project, work, environ)).pid for _ in range(PROCESSES)]
        elif kind == "celery":
            workers = [stack.enter_context(celery_worker(project, dsn, url, queue=EXECUTOR)).pid]
        roots = (ticks, workers, [_postmaster(connection)])
        plain_sql.fill_due(connection, _WARM_UP)
        _wait(lambda: not _left(connection), "the warm-up")
        # The first seconds after an action are busier.
        time.sleep(_LEAD_SECONDS)
        before = _read(roots, url)
        time.sleep(_IDLE_SECONDS)
        idle = _used(roots, url, before, _IDLE_SECONDS)
        count = round(rate * seconds)
        values = {"action_type": ACTION_TYPE, "lead": _LEAD_SECONDS, "rate": round(rate), "count": count}
        connection.execute(_SCHEDULE, values)
        connection.execute("vacuum (analyze) scheduled_actions")
        began, before = time.monotonic(), _read(roots, url)
        _wait(lambda: not _left(connection), f"{rate:g} actions per second", pause=_LEFT_SECONDS)
        took = time.monotonic() - began
        cpu = _used(roots, url, before, seconds)
        return Run(rate, count / max(seconds, took - _LEAD_SECONDS), cpu, idle, _clients(connection))


def _read(roots: Sequence[Sequence[int]], url: str) -> list[float]:
    return [*map(cpu_seconds, roots), redis_work(url).seconds if url else 0.0]


def _used(roots: Sequence[Sequence[int]], url: str, before: Sequence[float], seconds: float) -> Share:
    return Share(*((now - was) / seconds for now, was in zip(_read(roots, url), before, strict=True)))


def _left(connection: Connection) -> int:
    return int(_value(connection, _LEFT))


def _clients(connection: Connection) -> int:
    query = "select count(*) - 1 from pg_stat_activity where datname = current_database()"
    return int(_value(connection, query))


def _postmaster(connection: Connection) -> int:
    return int(_value(connection, r"select split_part(pg_read_file('postmaster.pid'), E'\n', 1)"))


def _value(connection: Connection, query: str) -> str:
    row = connection.execute(query.encode()).fetchone()
    return str(row[0]) if row else ""


def _queued(url: str, queue: str) -> int:
    import redis  # noqa: PLC0415 - only if redis-server is installed

    with redis.Redis.from_url(url) as client:
        return int(client.llen(queue))


def _rename(url: str, queue: str, new: str) -> None:
    import redis  # noqa: PLC0415 - only if redis-server is installed

    with redis.Redis.from_url(url) as client:
        client.rename(queue, new)


def _wait(is_so: Callable[[], object], what: str, pause: float = _POLL_SECONDS) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > until:
            raise WrongResultError(f"seconds of {what}", found=f"over {_PATIENCE_SECONDS:g}", expected="fewer")
        time.sleep(pause)
