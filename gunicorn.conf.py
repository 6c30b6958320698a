"""How gunicorn serves the project: `gunicorn scheduled_actions.wsgi:app` in this directory reads it by itself.

Every name here that gunicorn knows is a setting of gunicorn; it passes over the others.
"""

from __future__ import annotations

import math
import os
from typing import Any

from scheduled_actions.core.config import load
from scheduled_actions.runtime import current

_CONFIG = load(None, os.environ)
_LONGEST_TICK_SECONDS = math.ceil(_CONFIG.settings.max_duration_seconds)
# Whoever holds the embedded Postgres in the master; empty where DATABASE_URL names a database.
_HELD: list[Any] = []

# A sync worker would be killed in the middle of a tick; one of threads says that it lives while a request goes on.
worker_class = "gthread"
# Two, so that one answers while the other is replaced.
workers = int(os.environ.get("WEB_CONCURRENCY", "2"))
# Requests at once in one worker. Handlers have threads of their own (`concurrency` in scheduled_actions.toml).
threads = 8
# Neither silence nor a stop ends a worker before the longest tick has answered and settled.
timeout = _LONGEST_TICK_SECONDS + 30
graceful_timeout = _LONGEST_TICK_SECONDS + 15
# A leak in a handler's library stays small; the jitter keeps the workers from leaving together.
max_requests = 10_000
max_requests_jitter = 1_000
# Nobody steers gunicorn through a socket file here. (Before gunicorn 25 there is no such setting, and no such socket.)
control_socket_disable = True
# All that is logged goes to standard output, one line each. Requests are not: their paths and addresses concern nobody.
logconfig_dict = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(process)d %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stdout": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout", "formatter": "line"}},
    "root": {"level": "INFO", "handlers": ["stdout"]},
    "loggers": {
        "gunicorn.error": {"level": "INFO", "handlers": [], "propagate": True},
        "gunicorn.access": {"level": "WARNING", "handlers": [], "propagate": True},
    },
}


def on_starting(_server: Any) -> None:  # noqa: ANN401 - gunicorn's own
    """Hold the embedded Postgres, where it is used, for as long as the master lives: no leaving worker stops it."""
    if _CONFIG.database_url.reveal() or _CONFIG.is_production:
        return
    from scheduled_actions.database import embedded as local_postgres  # noqa: PLC0415 - only where there is no DATABASE_URL

    _HELD.append(local_postgres.attach(_CONFIG.project / ".scheduled_actions"))


def post_fork(_server: Any, _worker: Any) -> None:  # noqa: ANN401 - gunicorn's own
    """Give up the worker's copy of what the master holds: each worker holds for itself what it uses."""
    _let_go()


def on_exit(_server: Any) -> None:  # noqa: ANN401 - gunicorn's own
    """Give the embedded Postgres up; the last to do so stops it."""
    _let_go()


def _let_go() -> None:
    while _HELD:
        _HELD.pop().close()


def post_request(worker: Any, _request: Any, _environ: Any, _response: Any) -> None:  # noqa: ANN401 - gunicorn's own
    """Let a worker leave whose threads are all held by handlers that never returned; another takes its place."""
    runtime = current()
    has_ticked = "processor" in vars(runtime)
    if has_ticked and runtime.processor.is_exhausted and worker.alive:
        worker.log.warning("worker.exhausted pid=%s every handler thread is stuck", worker.pid)
        worker.alive = False
