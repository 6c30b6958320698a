"""What is measured in a process of its own: `python -m benchmarks.child NAME`, which answers one line of JSON.

Nothing but the standard library is imported before the measuring starts.
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

# ruff: noqa: PLC0415 - when something is imported is what this file is about


def import_app() -> dict[str, Any]:
    """Import the ready-made application."""
    started = time.perf_counter()
    import scheduled_actions.wsgi

    assert scheduled_actions.wsgi.app
    return {"seconds": time.perf_counter() - started}


def import_libraries() -> dict[str, Any]:
    """Import what the application stands on, and what it needs of it: some of them load their parts when asked."""
    started = time.perf_counter()
    import flask
    import psycopg
    import pydantic

    used = (flask.Flask, psycopg.connect, pydantic.BaseModel, pydantic.ConfigDict, pydantic.Field, pydantic.TypeAdapter)
    return {"seconds": time.perf_counter() - started, "names": len(used)}


def import_names() -> dict[str, Any]:
    """Import the libraries as their names alone."""
    started = time.perf_counter()
    import flask
    import psycopg
    import pydantic

    used = (flask, psycopg, pydantic)
    return {"seconds": time.perf_counter() - started, "names": len(used)}


def first_tick() -> dict[str, Any]:
    """Import the application and have it process what is due."""
    return _tick(_app())


def idle_tick() -> dict[str, Any]:
    """Import the application and have it find nothing due."""
    started = time.perf_counter()
    answer = _tick(_app())
    return {"seconds": time.perf_counter() - started, "succeeded": answer["succeeded"]}


def connect() -> dict[str, Any]:
    """Import the libraries as an application would, and connect to the database."""
    started = time.perf_counter()
    import_libraries()
    import os

    import psycopg

    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute("select 1")
    return {"seconds": time.perf_counter() - started, "succeeded": 0}


def first_claim() -> dict[str, Any]:
    """Import the libraries, claim what is due and complete it."""
    import_libraries()
    import os

    import psycopg

    from benchmarks import plain_sql

    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True, prepare_threshold=None) as connection:
        return {"succeeded": plain_sql.bare_drain(connection)}


def tick_memory() -> dict[str, Any]:
    """Watch the memory of one tick, the second of its process: the first finds nothing."""
    app = _app()
    _tick(app)
    idle = _resident_megabytes()
    _fill(int(sys.argv[2]))
    answer = _tick(app)
    return {"idle": idle, "peak": _peak_megabytes(), "succeeded": answer["succeeded"]}


def sql_memory() -> dict[str, Any]:
    """Watch the memory of the same SQL in a process that has imported the same."""
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
    # As a server calls it: Flask's own test client brings a debugger along, which no deployment loads.
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
    # Linux hands a parent's peak on to its child in `getrusage`, but not here.
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
