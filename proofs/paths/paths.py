"""The path of a payload to its row, and of a ping to its answer: the modules of the package that each passes."""

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

#: The maximum number of modules of a payload.
PAYLOAD_MOST = 14
#: The same of a ping.
PING_MOST = 25

_SECRET = "the secret of the traced pings"  # noqa: S105 - of a database that lives as long as the trace
_ACTION_TYPE = "paths:run"


def payload_path(dsn: str, directory: Path) -> list[str]:
    """Return the modules that the second `schedule_action()` of a process passes until its row is inserted.

    Args:
        dsn: A migrated database.
        directory: The project, which may be empty.
    """
    with module_trace() as trace, _project(dsn, directory):
        schedule_action(_ACTION_TYPE, {"n": 1})
        trace.start(last_statement="schedule_action(")
        schedule_action(_ACTION_TYPE, {"n": 2})
        return trace.stop()


def ping_path(dsn: str, directory: Path) -> list[str]:
    """Return the modules that a ping passes until its answer; it completes one due action, as did the one before.

    Args:
        dsn: A migrated database in which nothing is due.
        directory: The project, which may be empty.
    """
    # The threads of handlers start with the first ping, within the trace.
    with module_trace() as trace, _project(dsn, directory) as project:
        app = Flask(__name__)
        ScheduledActions(app, runtime=project)
        client = app.test_client()
        for number in range(2):
            schedule_action(_ACTION_TYPE, {"n": number})
            trace.start()
            answer = client.post("/cron/process", headers={"x-cron-secret": _SECRET})
            path = trace.stop()
            if answer.status_code != 200 or answer.json["succeeded"] != 1:  # noqa: PLR2004 - OK
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
