"""How gunicorn serves the project: `gunicorn scheduled_actions.wsgi:app` in this directory reads it by itself.

Every name here that gunicorn knows is a setting of gunicorn; it passes over the others.
"""

from __future__ import annotations

import math
import os
from typing import Any

from scheduled_actions.config import load
from scheduled_actions.runtime import current

_LONGEST_TICK_SECONDS = math.ceil(load().settings.max_duration_seconds)

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


def post_request(worker: Any, _request: Any, _environ: Any, _response: Any) -> None:  # noqa: ANN401 - gunicorn's own
    """Let a worker leave whose threads are all held by handlers that never returned; another takes its place."""
    runtime = current()
    has_ticked = "processor" in vars(runtime)
    if has_ticked and runtime.processor.is_exhausted and worker.alive:
        worker.log.warning("worker.exhausted pid=%s every handler thread is stuck", worker.pid)
        worker.alive = False
