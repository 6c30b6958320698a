"""A project with one row of every kind, all of them due, and every page and list that shows them."""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import psycopg
from cryptography.fernet import Fernet

from handlers import billing, deadline, for_each, maintenance, notification, webhook
from scheduled_actions.core import config
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import Runtime, use
from scheduled_actions.testing import clock
from scheduled_actions.web.api.dispatch import ROUTES
from scheduled_actions.web.dashboard.site_map import PAGES
from tests.factories import CRON_SECRET, NOW, insert, set_clock
from tests.malice.measuring import Requests, work
from tests.team_resources import create_resources
from tests.web.conftest import ADMIN_TOKEN, Api, application, gather, run, welcome
from tests.web.dashboard.conftest import Person

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flask import Flask

#: Handlers of the package's own action types.
OWN = (
    notification.send,
    webhook.send,
    deadline.send_reminder,
    deadline.send_escalation,
    deadline.mark_missed,
    deadline.create_next,
    for_each.run,
    maintenance.prune,
    billing.check_renewals,
)
_KEY = Fernet.generate_key().decode()
_AUTHORIZATION = {"Authorization": f"Bearer {ADMIN_TOKEN}"}


class SampleProject(NamedTuple):
    """A project with its own database."""

    runtime: Runtime
    app: Flask
    connection: psycopg.Connection[Any]
    requests: Requests


@contextmanager
def sample_project(database_url: str, *handlers: Any, **environ: str) -> Iterator[SampleProject]:
    """Yield a project with the good handler and the given handlers."""
    values = {
        "DATABASE_URL": database_url,
        "CRON_SECRET": CRON_SECRET,
        "ADMIN_TOKEN": ADMIN_TOKEN,
        "SCHEDULED_ACTIONS_ENCRYPTION_KEY": _KEY,
        "SCHEDULED_ACTIONS_CONCURRENCY": "4",
        **environ,
    }
    registry = Registry.of(work, run, welcome, gather, *OWN, *handlers)
    runtime = Runtime(config.load(Path(__file__).parent, values), registry=registry)
    before = use(runtime)
    try:
        app = application(runtime)
        with psycopg.connect(database_url, autocommit=True) as connection:
            yield SampleProject(runtime, app, connection, Requests(app.test_client()))
    finally:
        use(before)
        runtime.close()


def seed(sample_project: SampleProject, *, team_id: str = "blue") -> None:
    """Store one row of every kind, in every state that a tick reads; then reset the clock."""
    connection = sample_project.connection
    api = Api(sample_project.app.test_client(), ADMIN_TOKEN)
    token = api("POST", "/tokens", {"name": "of the team", "role": "admin", "team_id": team_id}).json["token"]
    set_clock(connection, NOW)
    create_resources(Api(sample_project.app.test_client(), token), connection, team_id=team_id)
    clock.shift(connection, timedelta(0))
    target = {"type": "license", "id": "42"}
    for recurrence, more in (
        ("every 1 hour", {"misfire": "catch_up"}),
        ("0 9 * * 1-5", {"recurrence_type": "rolling"}),
        (
            "RRULE:FREQ=DAILY;BYHOUR=9",
            {
                "jitter_seconds": 5,
                "condition": {"wait": {"kind": "document_state", "target": target, "state": "in force"}},
            },
        ),
        ("last business day of month", {"skip": {"weekends": True}}),
    ):
        body = {"action_type": "test:run", "payload": {}, "recurrence": recurrence, **more}
        answer = api("POST", "/schedules", body)
        assert answer.status_code in {200, 201}, answer.text
    connection.execute("update scheduled_action_schedules set next_occurrence_at = now() - interval '1 hour'")
    connection.execute("update scheduled_actions set scheduled_at = now() - interval '1 hour' where status = 'pending'")
    leased = {"claim_token": uuid4(), "lease_expires_at": "2026-01-01T00:00:00Z"}
    follow_ups = [{"action_type": "test:run", "payload": {}}]
    for columns in (
        {"status": "processing", "attempts": 1, "max_attempts": 1, **leased},
        {"status": "processing", "cancel_requested_at": "2026-01-01T00:00:00Z", **leased},
        {"attempts": 2, "retry": {"kind": "exponential"}, "history": [{"attempt": 1, "outcome": "failed"}]},
        {"action_type": "test:gone", "status": "no_action"},
        {"status": "completed", "completed_at": "2026-01-01T00:00:00Z"},
        {"metadata": {"a": 1}, "state": {"b": 2}},
        {"action_type": "test:welcome", "payload": {"name": 7}, "max_attempts": 1},
    ):
        insert(connection, team_id=team_id, **columns)
    condition = {
        "all": [
            {"kind": "document_state", "target": target, "state": "in force"},
            {"kind": "field_value", "target": target, "field": "state", "op": "ne", "value": 5},
        ]
    }
    for more in ({"on_success": follow_ups}, {"on_failure": follow_ups}, {"condition": {"wait": condition}}):
        api.schedule(dedup_window=0, **more)


class Reader:
    """Opens every page and list of a project, as its admin and as a reader of its calendar feed."""

    def __init__(self, sample_project: SampleProject) -> None:
        self._connection = sample_project.connection
        self._requests = sample_project.requests
        person = Person(sample_project.app.test_client())
        assert person.signs_in(ADMIN_TOKEN).status_code == 303
        self._pages = Requests(person.client)

    def open_all(self, *families: str) -> None:
        """Open every list and page, and the pages of the first few objects of each kind.

        Args:
            families: Only paths that begin with one of these names; empty: all paths.

        Raises:
            BadRequestAnswer: A request was answered with 5xx or took too long.
        """
        for route in ROUTES:
            if route.method == "GET":
                for path in self._paths(route.path, families):
                    self._requests("GET", f"/api/v1{path}", headers=_AUTHORIZATION)
        for page in PAGES:
            if page.method == "GET":
                for path in self._paths(page.path, families):
                    self._pages("GET", f"/dashboard{path}")

    def _paths(self, template: str, families: tuple[str, ...]) -> list[str]:
        if families and template.split("/")[1] not in families:
            return []
        if "{" not in template:
            return [template]
        paths = [template.replace("{id}", one) for one in self._ids(template.split("/")[1])]
        return [re.sub(r"\{[a-z_]+\}", "42", path) for path in paths]

    def _ids(self, family: str) -> list[str]:
        table = {
            "actions": "scheduled_actions",
            "schedules": "scheduled_action_schedules",
            "tokens": "scheduled_action_tokens",
            "deadlines": "scheduled_action_deadlines",
            "webhooks": "webhook_endpoints",
            "calendar": "scheduled_action_feeds",
            "pauses": "scheduled_action_pauses",
        }.get(family)
        if table is None:
            return ["x"]
        rows = self._connection.execute(
            f"select id::text from {table} t where to_jsonb(t)->>'action_type' is distinct from 'good:work'"
            " order by updated_at desc limit 12"
            if table not in {"scheduled_action_feeds", "scheduled_action_pauses", "scheduled_action_tokens"}
            else f"select id::text from {table}"
        ).fetchall()
        return [one for (one,) in rows]
