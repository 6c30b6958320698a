"""Serve the application on a local port."""

from __future__ import annotations

import base64
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server

from scheduled_actions import ScheduledActions
from scheduled_actions.core import config
from scheduled_actions.runtime import Runtime
from tests.factories import CRON_SECRET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scheduled_actions.registry import Registry

ADMIN_TOKEN = "an-admin-token-of-tests"
ENCRYPTION_KEY = base64.b64encode(b"of tests, 32 bytes and no secret").decode()


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *args: object) -> None:
        """Do not log requests."""


@contextmanager
def served(database_url: str, registry: Registry, **environ: str) -> Iterator[tuple[str, Runtime]]:
    """Yield the address of a served project, and its runtime."""
    values = {
        "DATABASE_URL": database_url,
        "CRON_SECRET": CRON_SECRET,
        "ADMIN_TOKEN": ADMIN_TOKEN,
        "SCHEDULED_ACTIONS_ENCRYPTION_KEY": ENCRYPTION_KEY,
    }
    values |= environ
    runtime = Runtime(config.load(Path(__file__).parent, values), registry=registry)
    app = Flask("scheduled_actions", static_folder=None)
    app.url_map.merge_slashes = False
    ScheduledActions(app, runtime=runtime)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", runtime
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        runtime.close()
