"""Executors: drain through Celery and Redis compared with plain Celery, and time from due to start by carrier."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import plain_sql
from benchmarks.celery_workers import (
    EXECUTOR,
    PLAIN_TABLE,
    PROCESSES,
    REDIS,
    broker_environ,
    celery_worker,
    executor_project,
    plain_producer,
    plain_project,
    running,
    send_plain,
    write_transactions,
)
from benchmarks.comparison import Comparison, Target
from benchmarks.databases import connected
from benchmarks.harness import Bench, WrongResultError
from benchmarks.lateness import late, percentiles
from benchmarks.peers.brokers import redis_server
from benchmarks.redis_stats import redis_work
from benchmarks.serving import environment, gunicorn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from benchmarks.lateness import Runner
    from benchmarks.serving import App
    from scheduled_actions.database.connection import Connection

#: A drain has this part of the actions of other drains: a message costs more than an action.
_PART = 4
#: The projects of the executors. The first has the default settings; the how-to page recommends the last for handlers
#: that take milliseconds.
_PROJECTS: dict[str, Callable[[Path], Path]] = {
    "Celery executor": executor_project,
    "Celery executor, database_direct": partial(executor_project, is_direct=True),
    "Celery executor, 10 tickets per message": partial(executor_project, tickets_per_message=10),
}
_BARE = "plain Celery, one row per task"
_PATIENCE_SECONDS = 120.0
_POLL_SECONDS = 0.02
_PING_SECONDS = 0.1
_WANTED = 0.6


def run(bench: Bench) -> list[Comparison]:
    """Compare drains and the time until actions start; without redis-server, only workers that use no broker."""
    with tempfile.TemporaryDirectory(prefix="scheduled-actions-bench-") as directory, ExitStack() as stack:
        own = executor_project(Path(directory) / "postgres", carrier="postgres")
        starts: dict[str, Runner] = {"worker without a broker": partial(_worker, own)}
        drained: list[Comparison] = []
        if REDIS is None:
            bench.say("redis-server is not installed: Celery is left out")
        else:
            url = stack.enter_context(redis_server(Path(REDIS)))
            projects = {
                name: create(Path(directory) / f"celery-{number}")
                for number, (name, create) in enumerate(_PROJECTS.items())
            }
            plain = plain_project(Path(directory) / "plain")
            drained = _drains(bench, own, projects, plain, url)
            starts["Celery worker"] = partial(_celery, projects["Celery executor"], url)
        return drained + _starts(bench, starts)


# -- drain -------------------------------------------------------------------------------------------------------------


def _drains(bench: Bench, own: Path, projects: Mapping[str, Path], plain: Path, url: str) -> list[Comparison]:
    """Compare the rates, the transactions and the commands of Redis per action of all lines."""
    count = max(1, bench.scale.drained // _PART)
    with ExitStack() as stack:
        drains: dict[str, Callable[[int], dict[str, float]]] = {}
        for name, project in projects.items():
            drains[name] = stack.enter_context(_ours(bench, project, url))
        drains["no broker"] = stack.enter_context(_ours(bench, own, url))
        drains[_BARE] = stack.enter_context(_plain(bench, plain, url))
        for drain in drains.values():
            drain(max(1, count // 10))

        def one_round(turn: int) -> dict[str, float]:
            names = list(drains)
            first = turn % len(names)
            figures: dict[str, float] = {}
            for name in names[first:] + names[:first]:
                figures |= {f"{name} {what}": value for what, value in drains[name](count).items()}
            return figures

        took = bench.collect(one_round)
    comparisons = [
        _against_plain(f"drain, {name}", "actions/s", took, name, Target("ratio", "at least", _WANTED))
        for name in projects
    ]
    comparisons.append(_against_plain("drain, workers without a broker", "actions/s", took, "no broker"))
    for unit in ("writing transactions", "Redis commands"):
        comparisons += [_against_plain(f"{unit}, {name}", unit, took, name) for name in projects]
    comparisons.append(
        _against_plain("writing transactions, workers without a broker", "writing transactions", took, "no broker")
    )
    return comparisons


def _against_plain(
    name: str, unit: str, took: dict[str, list[float]], line: str, target: Target | None = None
) -> Comparison:
    what = unit if unit == "actions/s" else f"{unit} per action"
    return Comparison(
        name=name,
        baseline_name=_BARE,
        unit=what,
        measured=took[f"{line} {unit}"],
        baseline=took[f"{_BARE} {unit}"],
        target=target,
    )


@contextmanager
def _ours(bench: Bench, project: Path, url: str) -> Iterator[Callable[[int], dict[str, float]]]:
    """Run gunicorn, which is pinged, and workers of the project's executor; yield the drain."""
    name = project.parent.name
    environ = broker_environ(url)
    with ExitStack() as stack:
        dsn = stack.enter_context(bench.databases.fresh())
        connection = stack.enter_context(connected(dsn))
        app = stack.enter_context(gunicorn(project, dsn, environ=environ))
        if name == "postgres":
            for _ in range(PROCESSES):
                stack.enter_context(_worker_process(project, dsn))
        else:
            settings = project / "scheduled_actions.toml"
            # Otherwise, the lines would receive each other's messages.
            settings.write_text(settings.read_text(encoding="utf-8") + f'queue = "{name}"\n', encoding="utf-8")
            stack.enter_context(celery_worker(project, dsn, url, queue=name))

        def drain(count: int) -> dict[str, float]:
            before = plain_sql.count_completed(connection) + count
            with _measured(dsn, url, count) as figures, _pinged(app):
                # Workers that use no broker are notified, and begin at once.
                plain_sql.fill_due(connection, count)
                _wait(
                    connection, "not exists (select from scheduled_actions where status in ('pending', 'processing'))"
                )
            completed = plain_sql.count_completed(connection)
            if completed != before:
                raise WrongResultError("actions completed by a drain", found=completed, expected=before)
            return figures

        yield drain


@contextmanager
def _plain(bench: Bench, project: Path, url: str) -> Iterator[Callable[[int], dict[str, float]]]:
    """Run workers of the plain app; yield the drain, in which tasks are sent while the workers run."""
    with bench.databases.fresh() as dsn, connected(dsn) as connection:
        connection.execute(PLAIN_TABLE)
        with celery_worker(project, dsn, url, queue="plain"), plain_producer(url) as producer:

            def drain(count: int) -> dict[str, float]:
                connection.execute("truncate bench_results")
                with _measured(dsn, url, count) as figures:
                    send_plain(producer, "plain", count)
                    _wait(connection, f"(select count(*) from bench_results) >= {count:d}")
                return figures

            yield drain


@contextmanager
def _measured(dsn: str, url: str, count: int) -> Iterator[dict[str, float]]:
    """Measure the block; the yielded figures per action are complete afterwards."""
    figures: dict[str, float] = {}
    commits, work = write_transactions(dsn), redis_work(url)
    started = time.perf_counter()
    yield figures
    figures["actions/s"] = count / (time.perf_counter() - started)
    figures["Redis commands"] = redis_work(url).since(work).commands / count
    figures["writing transactions"] = (write_transactions(dsn) - commits) / count


@contextmanager
def _pinged(app: App) -> Iterator[None]:
    """Ping until the end of the block, with a short pause after each tick."""
    is_over = threading.Event()

    def go() -> None:
        while not is_over.is_set():
            app.ping()
            is_over.wait(_PING_SECONDS)

    pinger = threading.Thread(target=go)
    pinger.start()
    try:
        yield
    finally:
        is_over.set()
        pinger.join()


def _wait(connection: Connection, condition: str) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    query = f"select {condition}".encode()
    while not ((row := connection.execute(query).fetchone()) and row[0]):
        if time.monotonic() > until:
            raise WrongResultError("seconds of a drain", found=f"over {_PATIENCE_SECONDS:g}", expected="fewer")
        time.sleep(_POLL_SECONDS)


# -- due to start ------------------------------------------------------------------------------------------------------


def _starts(bench: Bench, ways: Mapping[str, Runner]) -> list[Comparison]:
    """Compare the time from due to start with a bare loop that runs at the same time."""

    def one_round(number: int) -> dict[str, float]:
        figures: dict[str, float] = {}
        for way in sorted(ways, reverse=bool(number % 2)):
            values, bare = late(bench, ways[way], seed=number)
            figures |= {f"{way} {name}": value for name, value in percentiles(values).items()}
            figures |= {f"bare loop during {way} {name}": value for name, value in percentiles(bare).items()}
        return figures

    took = bench.collect(one_round, rounds=bench.scale.spread_rounds)
    return [
        Comparison(
            name=f"due to start, {way}, {name}",
            baseline_name="sleep and select 1",
            unit="ms",
            measured=took[f"{way} {name}"],
            baseline=took[f"bare loop during {way} {name}"],
        )
        for way in ways
        for name in ("p50", "p99")
    ]


@contextmanager
def _worker(project: Path, bench: Bench, dsn: str, connection: Connection) -> Iterator[None]:
    """Run a worker that uses no broker."""
    del bench, connection
    with _worker_process(project, dsn):
        yield


@contextmanager
def _celery(project: Path, url: str, bench: Bench, dsn: str, connection: Connection) -> Iterator[None]:
    """Run `scheduled-actions listen`, which sends the tickets, and a Celery worker."""
    del bench, connection
    environ = environment(project, dsn) | broker_environ(url)
    listen = [sys.executable, "-m", "scheduled_actions.cli", "listen"]
    queue = project.parent.name
    with celery_worker(project, dsn, url, queue=queue), running(project, listen, environ):
        yield


@contextmanager
def _worker_process(project: Path, dsn: str) -> Iterator[None]:
    command = [sys.executable, "-m", "scheduled_actions.cli", "executors", "work", EXECUTOR]
    with running(project, command, environment(project, dsn)):
        yield
