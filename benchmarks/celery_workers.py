"""Run Celery workers on a Redis: those of an executor, and those of a plain app that writes a row per task."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from benchmarks.harness import WrongResultError
from benchmarks.serving import environment, make_project, stop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from celery import Celery

#: The program of Redis; None if it is not installed.
REDIS = shutil.which("redis-server")
#: The executor of all actions, and the environment variable with the URL of its broker.
EXECUTOR, URL_ENV_VAR = "bench", "BENCH_BROKER_URL"
#: Processes of each Celery worker.
PROCESSES = 2
#: A task of the plain app that does nothing, the one that writes a row, and its table.
EMPTY_TASK = "bench.nothing"
PLAIN_TASK, PLAIN_TABLE = "bench.row", "create table bench_results (n integer not null)"
#: Celery's optimizing guide recommends a prefetch multiplier of 64 or 128 for many short tasks.
_CONF = """
import os

from celery import Celery

app = Celery("bench", broker=os.environ["BENCH_BROKER_URL"])
app.conf.update(
    worker_prefetch_multiplier=128,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)
"""
_EXECUTOR_APP = f"""{_CONF}
from scheduled_actions.integrations.celery import connect

connect(app)
"""
_PLAIN_APP = f"""{_CONF}
import psycopg

connection = None


@app.task(name="{PLAIN_TASK}", ignore_result=True)
def row(n):
    global connection
    if connection is None:
        connection = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True, prepare_threshold=None)
    connection.execute("insert into bench_results (n) values (%s)", [n])


@app.task(name="{EMPTY_TASK}", ignore_result=True)
def nothing(n):
    del n
"""


def executor_project(directory: Path, carrier: str = "celery", *, is_direct: bool = False, **settings: int) -> Path:
    """Create a project in a new directory whose executor runs all actions, with a Celery app.

    Args:
        directory: Its parent.
        carrier: The carrier of the executor.
        is_direct: The setting `database_direct`.
        settings: Settings of the executor other than the defaults.
    """
    directory.mkdir()
    project = make_project(directory)
    lines = [
        f"database_direct = {str(is_direct).lower()}",
        f"[executors.{EXECUTOR}]",
        'types = ["noop:*"]',
        f'carrier = "{carrier}"',
    ]
    if carrier == "celery":
        lines.append(f'url_env_var = "{URL_ENV_VAR}"')
    lines += [f"{name} = {value}" for name, value in settings.items()]
    (project / "scheduled_actions.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (project / "executor_app.py").write_text(_EXECUTOR_APP, encoding="utf-8")
    return project


def plain_project(directory: Path) -> Path:
    """Create a project in a new directory with a Celery app: a task that writes a row, and one that does nothing."""
    directory.mkdir()
    project = make_project(directory)
    (project / "plain_app.py").write_text(_PLAIN_APP, encoding="utf-8")
    return project


def plain_producer(url: str) -> Celery:
    """Return a Celery app that sends tasks to the workers of the plain app."""
    from celery import Celery  # noqa: PLC0415 - only two of the benchmarks need it

    return Celery("bench", broker=url, set_as_current=False)


def send_plain(producer: Celery, queue: str, count: int, task: str = PLAIN_TASK) -> None:
    """Send tasks to the workers of the plain app one by one over one connection; Celery has no bulk function."""
    with producer.producer_pool.acquire() as one:
        for number in range(count):
            producer.send_task(task, (number,), queue=queue, producer=one, ignore_result=True)


@contextmanager
def celery_worker(project: Path, dsn: str, url: str, *, queue: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the worker of the project's Celery app with the pool `prefork`; it may not be ready yet.

    Args:
        project: Has one of the two apps.
        dsn: DSN of the database.
        url: URL of the broker.
        queue: The queue that the worker receives.
    """
    app = "plain_app" if (project / "plain_app.py").exists() else "executor_app"
    command = [sys.executable, "-m", "celery", "-A", app, "worker", "--pool", "prefork", "-Q", queue]
    command += ["--concurrency", str(PROCESSES), "--loglevel", "WARNING", "--hostname", f"{queue}@%h"]
    with running(project, command, environment(project, dsn) | broker_environ(url)) as process:
        yield process


@contextmanager
def running(project: Path, command: list[str], environ: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process in the project's directory, and terminate it afterwards.

    Raises:
        WrongResultError: It has ended before.
    """
    with (project / "processes.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=project, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
        if (code := process.poll()) is not None:
            last = " ".join((project / "processes.log").read_text(encoding="utf-8").splitlines()[-1:])
            raise WrongResultError(f"exit code of {' '.join(command[:4])} ({last})", found=code, expected="running")
    finally:
        stop(process)


def broker_environ(url: str) -> dict[str, str]:
    """Return what the processes of an executor with a broker need in their environment."""
    return {URL_ENV_VAR: url, "C_FORCE_ROOT": "1"}


def write_transactions(dsn: str) -> int:
    """Return the number of transactions of the server that have written, from its transaction ids."""
    query = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0
