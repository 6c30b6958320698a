"""A project with deadlines for tests: its handlers, an auto-action, and the payloads that they received."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from handlers import deadline as own
from scheduled_actions import action, runtime
from tests.factories import projects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from uuid import UUID

    import psycopg

    from scheduled_actions.runtime import Runtime

OWN = (own.send_reminder, own.send_escalation, own.mark_missed, own.create_next)
#: The payloads of `notification:send`, oldest first.
SENT: list[dict[str, Any]] = []
#: The payloads of `approval:start`, oldest first.
STARTED: list[dict[str, Any]] = []


@action("notification:send")
def send(payload: dict):
    """Record the notification instead of sending it."""
    SENT.append(payload)


@action("approval:start")
def start(payload: dict):
    """Record the payload of the auto-action."""
    STARTED.append(payload)


@contextmanager
def deadline_project(database_url: str, *handlers: Callable[..., Any], **settings: Any) -> Iterator[Runtime]:
    """Yield the runtime of a project with deadlines, and make it the runtime of this process."""
    SENT.clear()
    STARTED.clear()
    with projects(database_url) as make:
        made = make(*OWN, *(handlers or (send, start)), notifications_digest_seconds=0, **settings)
        before = runtime.use(made)
        try:
            yield made
        finally:
            runtime.use(before)


def planned(connection: psycopg.Connection[Any], deadline_id: UUID) -> dict[str, datetime]:
    """Return the instant of each pending stage occurrence."""
    rows = connection.execute(
        "select deadline_stage, scheduled_at from scheduled_actions"
        " where deadline_id = %s and status = 'pending' order by scheduled_at, id",
        [deadline_id],
    )
    return dict(rows.fetchall())


def ended(connection: psycopg.Connection[Any], deadline_id: UUID) -> dict[str, str]:
    """Return the status of each stage occurrence that is not pending."""
    rows = connection.execute(
        "select deadline_stage, status from scheduled_actions"
        " where deadline_id = %s and status <> 'pending' order by id",
        [deadline_id],
    )
    return dict(rows.fetchall())
