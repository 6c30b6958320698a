"""Gunicorn as real processes, and clients that ping them."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg

from scheduled_actions.database.embedded import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CRON_SECRET = "a cron secret of the fault tests"
#: How long a client waits after a ping that found no work or no server.
_PAUSE_SECONDS = 0.05


def wait_until(condition: Callable[[], Any], *, within: float, what: str) -> Any:
    """Return the first true result of `condition`; fail after `within` seconds with the description `what`."""
    deadline = time.monotonic() + within
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not true within {within:g} seconds: {what}"
        time.sleep(0.02)


def a_port() -> int:
    """Return a free port that the system assigns to no client, so that it stays free while its server is down."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a ping."""

    status: int
    report: dict[str, Any]
    seconds: float
    retry_after: str | None


def ping(port: int, *, timeout: float = 60) -> Answer:
    """Ping once; return the answer of the tick.

    Raises:
        OSError, http.client.HTTPException: The ping was not answered.
    """
    started = time.monotonic()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)) as connection:
        connection.request("POST", "/cron/process", headers={"x-cron-secret": CRON_SECRET, "Connection": "close"})
        response = connection.getresponse()
        text = response.read()
    took = time.monotonic() - started
    return Answer(response.status, json.loads(text), took, response.getheader("Retry-After"))


class Service:
    """One gunicorn: a master and its workers, in a separate process group.

    Args:
        directory: The project.
        environ: The complete environment of the processes.
        workers: Number of worker processes.
        log: The file to which the processes write.
    """

    def __init__(self, directory: Path, environ: Mapping[str, str], *, workers: int, log: Path) -> None:
        self.port = a_port()
        self.log = log
        self._directory = directory
        self._environ = dict(environ)
        self._workers = workers
        self._master: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start gunicorn, and wait until it answers."""
        command = [sys.executable, "-m", "gunicorn", "-k", "gthread", "-w", str(self._workers)]
        command += ["--threads", "8", "--bind", f"127.0.0.1:{self.port}"]
        # A test may freeze a worker: the master must not end it.
        command += ["--timeout", "300", "scheduled_actions.wsgi:app"]
        with self.log.open("ab") as log:
            self._master = subprocess.Popen(
                command,
                cwd=self._directory,
                env=self._environ,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._is_up, within=30, what=f"gunicorn answers on port {self.port}")
        return self

    def _is_up(self) -> bool:
        assert self._master is not None
        assert self._master.poll() is None, "gunicorn ended"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        with suppress(OSError, http.client.HTTPException), closing(connection):
            connection.request("GET", "/healthz")
            return connection.getresponse().status == http.HTTPStatus.OK
        return False

    def ping(self, *, timeout: float = 60) -> Answer:
        """Ping once; return the answer of the tick."""
        return ping(self.port, timeout=timeout)

    @property
    def master(self) -> int:
        """The id of the process that starts the workers."""
        assert self._master is not None
        return self._master.pid

    def workers(self) -> list[int]:
        """Return the ids of the worker processes."""
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True, text=True)
        pairs = [line.split() for line in listed.stdout.splitlines()]
        return [int(pid) for pid, parent in pairs if int(parent) == self.master]

    def kill(self) -> None:
        """Kill the master and its workers, all at once."""
        if self._master is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._master.pid, signal.SIGKILL)
        self._master.wait(timeout=10)
        self._master = None

    def logged(self) -> str:
        """Return the log of the processes."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""


def has_ended(pid: int) -> bool:
    """Return whether a process has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def stop_postgres(directory: Path, dsn: str, number: int) -> None:
    """Stop the embedded Postgres of a directory in the mode of this signal; return when it no longer answers."""
    pid_file = cluster.load(directory).data / "postmaster.pid"
    os.kill(int(pid_file.read_text().split()[0]), number)
    wait_until(lambda: not _answers(dsn), within=60, what="the server has stopped")


def _answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn, connect_timeout=5).close()
    except psycopg.OperationalError as error:
        return "refused" not in str(error)
    return True


def processes_of(project: Path) -> dict[int, str]:
    """Return the arguments of the processes that work in the project or name it, by process id."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            arguments = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            # The working directory of another user's process may be hidden.
            if f"{project}/" in arguments or (process / "cwd").readlink() == project:
                found[int(process.name)] = arguments
    return found


@dataclass(eq=False)
class Pings:
    """Clients that ping each of the ports in turn until the block ends, and the answers they got."""

    ports: Sequence[int]
    clients: int = 16
    #: Number of answers by status, or by the name of the exception if there was no answer.
    statuses: Counter[int | str] = field(default_factory=Counter)
    answers: list[Answer] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        for number in range(self.clients):
            thread = threading.Thread(target=self._go, args=[number], daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=90)

    def _go(self, turn: int) -> None:
        while not self._stop.is_set():
            turn += 1
            try:
                answer = ping(self.ports[turn % len(self.ports)])
            except (OSError, http.client.HTTPException) as error:
                self.statuses[type(error).__name__] += 1
            else:
                self.statuses[answer.status] += 1
                self.answers.append(answer)
                if answer.report.get("processed"):
                    continue
            self._stop.wait(_PAUSE_SECONDS)
