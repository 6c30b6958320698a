"""Redis and Celery workers as real processes in a temporary project."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from scheduled_actions.database.embedded.cluster import free_port
from scheduled_actions.operations import registry_build

if TYPE_CHECKING:
    from pathlib import Path

_SETTINGS = """
[executors.media]
types = ["video:*"]
carrier = "celery"
url_env_var = "MEDIA_BROKER_URL"
ticket_seconds = 10
"""
_APP = """
import os
from celery import Celery
from scheduled_actions.integrations.celery import connect
app = Celery("demo", broker=os.environ["MEDIA_BROKER_URL"])
connect(app)
"""
_HANDLERS = '''
import os, threading, time
import psycopg
from scheduled_actions import Context, action

_own = threading.local()

def _run(context: Context) -> None:
    """Record the start and the end of a run, over a connection of the thread's own."""
    if not hasattr(_own, "connection"):
        _own.connection = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
    [number] = _own.connection.execute(
        "insert into demo_runs (action_id, pid) values (%s, %s) returning number", [context.id, os.getpid()]
    ).fetchone()
    time.sleep(0.01)
    _own.connection.execute("update demo_runs set ended_at = clock_timestamp() where number = %s", [number])

@action("video:cut", timeout_seconds=1)
def cut(payload: dict, context: Context) -> None:
    _run(context)

@action("video:mix", timeout_seconds=1)
def mix(payload: dict, context: Context) -> None:
    _run(context)
'''
_START_SECONDS = 30.0


def write_project(directory: Path) -> None:
    """Write the project: settings, handlers, registry, and a Celery app."""
    (directory / "handlers").mkdir()
    (directory / "handlers" / "__init__.py").touch()
    (directory / "handlers" / "video.py").write_text(_HANDLERS, encoding="utf-8")
    (directory / "scheduled_actions.toml").write_text(_SETTINGS, encoding="utf-8")
    (directory / "demo.py").write_text(_APP, encoding="utf-8")
    registry_build.write(directory)


class Processes:
    """The processes of the demo; all end with the block.

    Args:
        directory: The project.
        dsn: Its database.
    """

    def __init__(self, directory: Path, dsn: str) -> None:
        self._directory = directory
        self._port = free_port()
        self._redis: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self._number = 0
        #: The ids of the processes that were killed.
        self.killed: list[int] = []
        self.environ = {
            **os.environ,
            "DATABASE_URL": dsn,
            "MEDIA_BROKER_URL": f"redis://127.0.0.1:{self._port}/0",
            "SCHEDULED_ACTIONS_PROJECT": str(directory),
        }

    def __enter__(self) -> Self:
        self._start_redis()
        return self

    def __exit__(self, *_: object) -> None:
        for process in [*self._workers, *([self._redis] if self._redis else [])]:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def start_worker(self) -> None:
        """Start a Celery worker with two processes."""
        self._number += 1
        command = [sys.executable, "-m", "celery", "-A", "demo", "worker", "-Q", "media", "-c", "2", "-l", "warning"]
        command += ["--without-gossip", "--without-mingle", "-n", f"worker{self._number}@demo"]
        self._workers.append(self._start(command, f"worker-{self._number}.log"))

    def kill_worker(self) -> None:
        """Kill the oldest worker with its processes."""
        worker = self._workers.pop(0)
        listed = subprocess.run(["ps", "-A", "-o", "pid=,pgid="], check=True, capture_output=True, text=True)
        pairs = [line.split() for line in listed.stdout.splitlines()]
        self.killed += [int(pid) for pid, group in pairs if int(group) == worker.pid]
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def restart_redis(self) -> None:
        """Kill Redis, whose messages are lost, and start it again."""
        assert self._redis is not None
        self._redis.kill()
        self._redis.wait()
        self._start_redis()

    def _start_redis(self) -> None:
        command = ["redis-server", "--bind", "127.0.0.1", "--port", str(self._port), "--save", ""]
        self._redis = self._start(command, "redis.log")
        until = time.monotonic() + _START_SECONDS
        while not self._redis_answers():
            if self._redis.poll() is not None or time.monotonic() > until:
                message = f"Redis has not started:\n{(self._directory / 'redis.log').read_text(encoding='utf-8')}"
                raise RuntimeError(message)
            time.sleep(0.05)

    def _redis_answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(5) == b"+PONG"
        return False

    def _start(self, command: list[str], log: str) -> subprocess.Popen[bytes]:
        with (self._directory / log).open("ab") as output:
            return subprocess.Popen(
                command,
                cwd=self._directory,
                env=self.environ,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
