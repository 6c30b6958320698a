"""List the modules that `schedule_action()` runs through until its row is inserted, and a ping until its response."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flask import Flask

from proofs.paths.tracing import module_trace
from scheduled_actions import ScheduledActions, action, runtime, schedule_action
from scheduled_actions.core import config
from scheduled_actions.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scheduled_actions.runtime import Runtime

#: Maximum number of modules of `schedule_action()`.
PAYLOAD_MOST = 15
#: Maximum number of modules of a ping.
PING_MOST = 25

_SECRET = "the secret of the traced pings"  # noqa: S105 - of a temporary database
_ACTION_TYPE = "paths:run"


def payload_path(dsn: str, directory: Path) -> list[str]:
    """Return the modules of the second `schedule_action()` of a process until its row is inserted.

    Args:
        dsn: DSN of a migrated database.
        directory: Project directory; may be empty.
    """
    with module_trace() as trace, _project(dsn, directory):
        schedule_action(_ACTION_TYPE, {"n": 1})
        trace.start(last_statement="schedule_action(")
        schedule_action(_ACTION_TYPE, {"n": 2})
        return trace.stop()


def ping_path(dsn: str, directory: Path) -> list[str]:
    """Return the modules of the second ping of a process, which completes one due action, until its response.

    Args:
        dsn: DSN of a migrated database with nothing due.
        directory: Project directory; may be empty.
    """
    # The first ping starts the handler threads, which are then part of the trace.
    with module_trace() as trace, _project(dsn, directory) as project:
        app = Flask(__name__)
        ScheduledActions(app, runtime=project)
        client = app.test_client()
        path: list[str] = []
        for number in range(2):
            schedule_action(_ACTION_TYPE, {"n": number})
            trace.start()
            answer = client.post("/cron/process", headers={"x-cron-secret": _SECRET})
            path = trace.stop()
            if answer.status_code != 200 or (answer.json or {}).get("succeeded") != 1:  # noqa: PLR2004 - OK
                raise RuntimeError(f"the ping did not complete the action: {answer.status_code} {answer.text}")
        return path


@contextmanager
def _project(dsn: str, directory: Path) -> Iterator[Runtime]:
    settings = config.load(directory, {"DATABASE_URL": dsn, "CRON_SECRET": _SECRET})
    project = runtime.Runtime(settings, registry=Registry.of(_run))
    before = runtime.use(project)
    try:
        yield project
    finally:
        runtime.use(before)
        project.close()


@action(_ACTION_TYPE)
def _run(payload: dict[str, Any]) -> dict[str, Any]:
    return payload
