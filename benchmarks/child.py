"""Measurements that need a new process: `python -m benchmarks.child NAME` prints one line of JSON.

Only the standard library is imported before the measurement starts.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from flask import Flask

# ruff: noqa: PLC0415 - this file measures imports


def import_app() -> dict[str, Any]:
    """Import the WSGI application."""
    started = time.perf_counter()
    import scheduled_actions.wsgi

    assert scheduled_actions.wsgi.app
    return {"seconds": time.perf_counter() - started}


def import_libraries() -> dict[str, Any]:
    """Import the application's libraries and the names that it uses; some libraries load these on first access."""
    started = time.perf_counter()
    import flask
    import psycopg
    import pydantic

    used = (flask.Flask, psycopg.connect, pydantic.BaseModel, pydantic.ConfigDict, pydantic.Field, pydantic.TypeAdapter)
    return {"seconds": time.perf_counter() - started, "names": len(used)}


def import_names() -> dict[str, Any]:
    """Import the libraries without accessing any of their names."""
    started = time.perf_counter()
    import flask
    import psycopg
    import pydantic

    used = (flask, psycopg, pydantic)
    return {"seconds": time.perf_counter() - started, "names": len(used)}


def first_tick() -> dict[str, Any]:
    """Import the application and run a tick with due actions."""
    return _tick(_app())


def idle_tick() -> dict[str, Any]:
    """Import the application and run a tick with nothing due."""
    started = time.perf_counter()
    answer = _tick(_app())
    return {"seconds": time.perf_counter() - started, "succeeded": answer["succeeded"]}


def connect() -> dict[str, Any]:
    """Import the application's libraries and connect to the database."""
    started = time.perf_counter()
    import_libraries()
    import os

    import psycopg

    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute("select 1")
    return {"seconds": time.perf_counter() - started, "succeeded": 0}


def first_claim() -> dict[str, Any]:
    """Import the libraries, then claim and complete all due actions with plain SQL."""
    import_libraries()
    import os

    import psycopg

    from benchmarks import plain_sql

    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True, prepare_threshold=None) as connection:
        return {"succeeded": plain_sql.bare_drain(connection)}


def tick_memory() -> dict[str, Any]:
    """Measure the memory of a process's second tick; the first finds nothing due."""
    app = _app()
    _tick(app)
    idle = _resident_megabytes()
    _fill(int(sys.argv[2]))
    answer = _tick(app)
    return {"idle": idle, "peak": _peak_megabytes(), "succeeded": answer["succeeded"]}


def sql_memory() -> dict[str, Any]:
    """Measure the memory of the same SQL in a process with the same imports."""
    app = _app()
    _tick(app)
    from benchmarks import plain_sql

    _fill(int(sys.argv[2]))
    with app.extensions["scheduled_actions"].database.connection() as connection:
        succeeded = plain_sql.drain(connection)
    return {"peak": _peak_megabytes(), "succeeded": succeeded}


def _app() -> Flask:
    from scheduled_actions.wsgi import app

    return app


def _tick(app: Flask) -> dict[str, Any]:
    secret = app.extensions["scheduled_actions"].config.cron_secret.reveal()
    # Called as a WSGI server does: Flask's test client would import a debugger.
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": "/cron/process",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "wsgi.url_scheme": "http",
        "wsgi.errors": sys.stderr,
        "HTTP_X_CRON_SECRET": secret,
    }
    answer: dict[str, Any] = json.loads(b"".join(app(environ, lambda *_: lambda _: None)))
    return answer


def _fill(count: int) -> None:
    import os

    import psycopg

    from benchmarks import plain_sql

    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        plain_sql.fill_due(connection, count)
        plain_sql.settle_down(connection)


def _resident_megabytes() -> float:
    return _status("VmRSS") or _usage()


def _peak_megabytes() -> float:
    # On Linux, `getrusage` includes the peak of the parent process; /proc does not.
    return _status("VmHWM") or _usage()


def _status(name: str) -> float | None:
    path = Path("/proc/self/status")
    if not path.exists():
        return None
    fields = dict(line.split(":", 1) for line in path.read_text(encoding="ascii", errors="replace").splitlines())
    return int(fields[name].split()[0]) / 1024


def _usage() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024


MEASURES: dict[str, Callable[[], dict[str, Any]]] = {
    measure.__name__: measure
    for measure in (
        *(import_app, import_libraries, import_names),
        *(first_tick, first_claim, idle_tick, connect),
        *(tick_memory, sql_memory),
    )
}

if __name__ == "__main__":
    print(json.dumps(MEASURES[sys.argv[1]]()))
