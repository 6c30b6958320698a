"""Endpoint rows that SQL has made unreadable do not affect the deliveries to other endpoints."""

from __future__ import annotations

import pytest
from psycopg import sql

from scheduled_actions import emit_event
from tests.webhooks.webhook_project import bodies, webhook_project
from tests.webhooks.wire import a_wire

BROKEN = "https://broken.example/hook"
OTHER = "https://other.example/hook"


@pytest.fixture
def project(tmp_path, database_url):
    """Return a project that delivers webhooks."""
    with webhook_project(tmp_path, database_url) as made:
        yield made


@pytest.fixture(autouse=True)
def older_than_the_checks(connection):
    """Drop the constraint of the table, as in a database that was created before the constraint existed."""
    connection.execute("alter table webhook_endpoints drop constraint if exists webhook_endpoints_are_usable")


@pytest.fixture
def wire(monkeypatch, tmp_path):
    """Return the receivers, which accept every delivery."""
    with a_wire(monkeypatch, tmp_path) as wire:
        wire.post(BROKEN, body="thanks")
        wire.post(OTHER, body="thanks")
        yield wire


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("patterns", ["no pattern"]),
        ("patterns", ["*" * 300 + ":x"]),
        ("patterns", [None]),
        ("filter", "7"),
        ("filter", "[]"),
        ("filter", "9" * 5000),
        ("filter", '{"data.n": {"$nope": 1}}'),
        ("filter", '{"$and": 7}'),
        ("retry", "7"),
        ("retry", '{"kind": "nonsense"}'),
        ("retry", "[1e300]"),
        ("retry", "9" * 5000),
        ("rate_limit", "NaN"),
        ("rate_limit", "infinity"),
        ("url", "no url"),
        ("header_names", [None]),
        ("headers", "no secret"),
        ("secret", "no secret"),
        ("created_at", "-infinity"),
        ("updated_at", "infinity"),
    ],
)
def test_an_unreadable_endpoint_does_not_stop_deliveries_to_others(project, wire, connection, column, value):
    broken, _ = project.endpoints.create(url=BROKEN, patterns=["task:*"])
    project.endpoints.create(url=OTHER, patterns=["task:*"])
    connection.execute(
        sql.SQL("update webhook_endpoints set {} = %s where id = %s").format(sql.Identifier(column)), [value, broken.id]
    )
    project.endpoint_directory.forget()

    emit_event("task:created", entity_id="t1", data={"n": 1})
    project.processor.tick()

    assert len(bodies(wire, OTHER)) == 1


def test_events_for_an_unreadable_endpoint_are_kept_with_the_reason(project, wire, connection):
    broken, _ = project.endpoints.create(url=BROKEN, patterns=["task:*"])
    connection.execute("update webhook_endpoints set filter = '7' where id = %s", [broken.id])

    emit_event("task:created", entity_id="t1", data={})
    project.processor.tick()

    (found,) = connection.execute(
        "select status, error_message from scheduled_actions where payload ->> 'endpoint' = %s", [broken.id]
    ).fetchall()
    assert found[0] == "skipped"
    assert "its filter cannot be read" in found[1]
    assert bodies(wire, BROKEN) == []
