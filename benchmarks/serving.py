"""The package as it is deployed: a project directory, gunicorn on it, and a cron that pings."""

from __future__ import annotations

import http.client
import inspect
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import noop
from benchmarks.harness import WrongResultError
from scheduled_actions.core import config
from scheduled_actions.operations import registry_build
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The module of the application that has one route more.
SELECT_ONE = "select_one"
#: The longest that any answer is waited for: a tick has 55.
_PATIENCE_SECONDS = 120
#: How soon a pinger comes back whose ping met another tick in the same process.
_BUSY_SECONDS = 0.01
_CRON_SECRET = secrets.token_urlsafe(24)
#: A deployment has its byte code; without it a cold start would compile, and nothing else be measured.
_NO_BYTE_CODE = "PYTHONDONTWRITEBYTECODE"
#: Of the environment around, all but what would be settings of the benchmarks' own project.
_NOT_INHERITED = ("DATABASE_URL", "CRON_SECRET", "ADMIN_TOKEN", "VERCEL", "GUNICORN_CMD_ARGS", _NO_BYTE_CODE)


def make_project(directory: Path) -> Path:
    """Return a new project in `directory`: a handler that does nothing, the registry, an app to compare with."""
    project = directory / "project"
    (project / "handlers").mkdir(parents=True)
    (project / "handlers" / "__init__.py").touch()
    (project / "handlers" / "noop.py").write_text(inspect.getsource(noop), encoding="utf-8")
    registry_build.write(project)
    shutil.copy(Path(__file__).with_name(f"{SELECT_ONE}.py"), project)
    return project


def environment(project: Path, dsn: str, settings: Mapping[str, object] | None = None) -> dict[str, str]:
    """Return the environment of a process that works on the project and the database.

    Args:
        project: Where it runs.
        dsn: Its database.
        settings: What is not at its default, by the names of scheduled_actions.toml.
    """
    changed = {f"{config.PREFIX}{name.upper()}": str(value).lower() for name, value in (settings or {}).items()}
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in _NOT_INHERITED and not name.startswith(config.PREFIX)
    }
    own = {"DATABASE_URL": dsn, "CRON_SECRET": _CRON_SECRET, f"{config.PREFIX}PROJECT": str(project)}
    return inherited | own | changed


@contextmanager
def runtime_on(
    project: Path,
    dsn: str,
    *,
    settings: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Iterator[Runtime]:
    """Give the package put together in this process, on the project's settings and the database."""
    values = environment(project, dsn, settings) | dict(environ or {})
    runtime = Runtime(config.load(project, values), registry=Registry.of(noop.run))
    try:
        yield runtime
    finally:
        runtime.close()


@contextmanager
def gunicorn(
    project: Path,
    dsn: str,
    *,
    workers: int = 1,
    settings: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    module: str = "scheduled_actions.wsgi",
) -> Iterator[App]:
    """Give an application, the ready-made one if nothing else is said, under gunicorn, and stop it afterwards."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    port = listener.getsockname()[1]
    command = [sys.executable, "-m", "gunicorn", "--bind", f"fd://{listener.fileno()}"]
    command += ["--worker-class", "gthread", "--workers", str(workers), "--threads", "4"]
    command += ["--timeout", str(_PATIENCE_SECONDS), f"{module}:app"]
    with (project / "gunicorn.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=project,
            env=environment(project, dsn, settings) | dict(environ or {}),
            pass_fds=[listener.fileno()],
            stdout=log,
            stderr=log,
        )
    listener.close()  # The child's copy is the one that answers, and goes away with it.
    try:
        yield App(port)
    finally:
        stop(process)


class App:
    """The application behind a port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.url = f"http://127.0.0.1:{port}"

    def drain(self, *, pingers: int = 1) -> float:
        """Ping until nothing is due, from so many sides at once; return how long it took, in seconds."""
        started = time.perf_counter()
        with ThreadPoolExecutor(pingers) as pool:
            for pinger in [pool.submit(self._ping_until_done) for _ in range(pingers)]:
                pinger.result()
        return time.perf_counter() - started

    def ping(self) -> dict[str, Any]:
        """Return what one tick answers.

        Raises:
            WrongResultError: It was refused, or an action did not succeed.
        """
        return checked(self._answer("POST", "/cron/process"))

    def get(self, path: str) -> dict[str, Any]:
        """Return the JSON at a path.

        Raises:
            WrongResultError: It was refused.
        """
        return self._answer("GET", path)

    def _answer(self, method: str, path: str) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_PATIENCE_SECONDS)
        try:
            connection.request(method, path, headers={"x-cron-secret": _CRON_SECRET})
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        if response.status != http.HTTPStatus.OK:
            raise WrongResultError(f"status of {path}", found=response.status, expected=200)
        answer: dict[str, Any] = json.loads(body)
        return answer

    def _ping_until_done(self) -> None:
        while (answer := self.ping())["busy"] or answer["remaining"]:
            if answer["busy"]:
                time.sleep(_BUSY_SECONDS)


def checked(answer: dict[str, Any]) -> dict[str, Any]:
    """Return a tick's answer in which nothing but success is counted.

    Raises:
        WrongResultError: Something was.
    """
    if answer["errors"] or answer["processed"] != answer["succeeded"]:
        raise WrongResultError("succeeded of processed", found=answer["succeeded"], expected=answer["processed"])
    return answer


def checked_tick(runtime: Runtime) -> dict[str, Any]:
    """Return the answer of a tick in this process, in which nothing but success is counted.

    Raises:
        WrongResultError: Something was.
    """
    return checked(json.loads(runtime.processor.tick().as_text()))


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, and wait until it has."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
