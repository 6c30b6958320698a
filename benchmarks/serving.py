"""Run the package as it is deployed: a project directory, gunicorn, and pings over HTTP."""

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

#: Module of the application with the additional route `/select-1`.
SELECT_ONE = "select_one"
#: Timeout of a response; a tick takes at most 55 seconds.
_PATIENCE_SECONDS = 120
#: Pause of a pinger after the response `busy`.
_BUSY_SECONDS = 0.01
_CRON_SECRET = secrets.token_urlsafe(24)
#: Deployments have byte code; without it, a cold start would mostly measure compilation.
_NO_BYTE_CODE = "PYTHONDONTWRITEBYTECODE"
#: Variables that would change the settings of the benchmark's project.
_NOT_INHERITED = ("DATABASE_URL", "CRON_SECRET", "ADMIN_TOKEN", "VERCEL", "GUNICORN_CMD_ARGS", _NO_BYTE_CODE)


def make_project(directory: Path) -> Path:
    """Create a project in `directory` with a handler that does nothing, its registry and the `select_one` module."""
    project = directory / "project"
    (project / "handlers").mkdir(parents=True)
    (project / "handlers" / "__init__.py").touch()
    (project / "handlers" / "noop.py").write_text(inspect.getsource(noop), encoding="utf-8")
    registry_build.write(project)
    shutil.copy(Path(__file__).with_name(f"{SELECT_ONE}.py"), project)
    return project


def environment(project: Path, dsn: str, settings: Mapping[str, object] | None = None) -> dict[str, str]:
    """Return the environment of a process that runs the project on the database.

    Args:
        project: Project directory.
        dsn: DSN of the database.
        settings: Settings other than the defaults, named as in scheduled_actions.toml.
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
    """Yield a `Runtime` in this process with the project's settings and the database."""
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
    """Serve an application (by default the package's WSGI module) with gunicorn, and stop it afterwards."""
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
    listener.close()  # gunicorn has its own copy of the socket.
    try:
        yield App(port)
    finally:
        stop(process)


class App:
    """HTTP client of an application on a local port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.url = f"http://127.0.0.1:{port}"

    def drain(self, *, pingers: int = 1) -> float:
        """Ping with `pingers` threads until nothing is due; return the seconds."""
        started = time.perf_counter()
        with ThreadPoolExecutor(pingers) as pool:
            for pinger in [pool.submit(self._ping_until_done) for _ in range(pingers)]:
                pinger.result()
        return time.perf_counter() - started

    def ping(self) -> dict[str, Any]:
        """Ping and return the tick's report.

        Raises:
            WrongResultError: The ping was refused, or an action did not succeed.
        """
        return checked(self._answer("POST", "/cron/process"))

    def get(self, path: str) -> dict[str, Any]:
        """Return the JSON response of a path.

        Raises:
            WrongResultError: The status was not 200.
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
    """Return a tick's report after checking that every action succeeded.

    Raises:
        WrongResultError: An action did not succeed, or the tick had an error.
    """
    if answer["errors"] or answer["processed"] != answer["succeeded"]:
        raise WrongResultError("succeeded of processed", found=answer["succeeded"], expected=answer["processed"])
    return answer


def checked_tick(runtime: Runtime) -> dict[str, Any]:
    """Run a tick in this process and return its report.

    Raises:
        WrongResultError: An action did not succeed, or the tick had an error.
    """
    return checked(json.loads(runtime.processor.tick().as_text()))


def stop(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process and wait for its exit; kill it after 15 seconds."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
