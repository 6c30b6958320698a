"""Configuration of gunicorn; read automatically by `gunicorn scheduled_actions.wsgi:app` in this directory.

Variables and functions with the names of gunicorn's settings and hooks take effect; gunicorn ignores all other names.
"""

from __future__ import annotations

import math
import os
from typing import Any

from scheduled_actions.core.config import load
from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.runtime import current

_CONFIG = load(None, os.environ)
_LONGEST_TICK_SECONDS = math.ceil(_CONFIG.settings.max_duration_seconds)
# The master's reference to the embedded Postgres; empty if DATABASE_URL is set.
_HELD: list[Any] = []

# A sync worker would be killed in the middle of a tick; threaded workers send heartbeats during requests.
worker_class = "gthread"
# Two, so that one serves requests while the other restarts.
workers = int(os.environ.get("WEB_CONCURRENCY", "2"))
# Concurrent requests per worker. Handlers have separate threads (`concurrency` in scheduled_actions.toml).
threads = 8
# Longer than the longest tick, so that neither the timeout nor a shutdown kills a worker before its tick is settled.
timeout = _LONGEST_TICK_SECONDS + 30
graceful_timeout = _LONGEST_TICK_SECONDS + 15
# Restarts limit memory leaks in handlers' libraries; the jitter prevents simultaneous restarts.
max_requests = 10_000
max_requests_jitter = 1_000
# The control socket is not used. (gunicorn before 25 has neither the socket nor this setting.)
control_socket_disable = True
# Logs go to standard output, one line per record. Requests are not logged: paths and addresses may be sensitive.
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
    """Attach the master to the embedded Postgres, if it is used, so that no exiting worker stops it."""
    if _CONFIG.database_url.reveal() or _CONFIG.is_production:
        return
    from scheduled_actions.database import embedded as local_postgres  # noqa: PLC0415 - only where there is no DATABASE_URL

    directory = _CONFIG.project / ".scheduled_actions"
    try:
        _HELD.append(local_postgres.attach(directory, may_create=_CONFIG.may_create_database))
    except ScheduledActionsError as error:
        raise SystemExit(f"error: {error}") from error


def post_fork(_server: Any, _worker: Any) -> None:  # noqa: ANN401 - gunicorn's own
    """Close the worker's inherited reference; each worker attaches itself."""
    _release()


def on_exit(_server: Any) -> None:  # noqa: ANN401 - gunicorn's own
    """Detach from the embedded Postgres; the last process to detach stops it."""
    _release()


def _release() -> None:
    while _HELD:
        _HELD.pop().close()


def post_request(worker: Any, _request: Any, _environ: Any, _response: Any) -> None:  # noqa: ANN401 - gunicorn's own
    """Replace a worker whose handler threads are all blocked by handlers that have not returned."""
    state = current().worker_state
    if state is not None and state.is_exhausted and worker.alive:
        worker.log.warning("worker.exhausted pid=%s all handler threads are blocked", worker.pid)
        worker.alive = False
