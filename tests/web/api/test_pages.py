"""The pages of every list: `next_cursor` is null on the last page, even if that page is full."""

from __future__ import annotations

import base64

import pytest

from handlers import deadline, webhook
from scheduled_actions.registry import Registry
from scheduled_actions.web.api.openapi import document as openapi
from tests.factories import insert
from tests.web.conftest import ADMIN_TOKEN, Api, application, run

LISTS = {
    path.removeprefix("/api/v1")
    for path, methods in openapi.document("")["paths"].items()
    if "get" in methods and {"limit", "cursor"} <= {one["name"] for one in methods["get"].get("parameters", ())}
}
#: The request that creates a row of each list, by the number of the row.
MAKING = {
    "/actions": ("/actions", lambda n: {"action_type": "test:run", "payload": {"n": n}}),
    "/schedules": (
        "/schedules",
        lambda n: {"action_type": "test:run", "payload": {}, "recurrence": f"every {n + 1} days"},
    ),
    "/deadlines": (
        "/deadlines",
        lambda n: {
            "target": {"type": "a", "id": str(n)},
            "delay": "P90D",
            "reminders": ["1 day before"],
            "recipients": ["a@b.example"],
        },
    ),
    "/webhooks/endpoints": ("/webhooks/endpoints", lambda n: {"url": f"https://hooks.example.com/{n}"}),
    "/tokens": ("/tokens", lambda n: {"name": f"t{n}", "role": "viewer"}),
    "/calendar/feeds": ("/calendar/feeds", lambda n: {"name": f"f{n}"}),
    "/webhooks/deliveries": (
        "/actions",
        lambda n: {
            "action_type": "webhook:send",
            "payload": {"event": "a:b", "entity_type": "a", "entity_id": str(n), "endpoint": "x"},
        },
    ),
}


@pytest.fixture
def api(a_runtime):
    registry = Registry.of(
        run, webhook.send, deadline.send_reminder, deadline.send_escalation, deadline.mark_missed, deadline.create_next
    )
    key = base64.b64encode(bytes(range(32))).decode()
    return Api(
        application(a_runtime(registry=registry, SCHEDULED_ACTIONS_ENCRYPTION_KEY=key)).test_client(), ADMIN_TOKEN
    )


def fill(api, connection, path):  # noqa: C901, PLR0912 - a case a list
    """Create three rows of a list; return its path."""
    match path:
        case "/facts":
            for n in range(3):
                assert api("PUT", f"/facts/a/{n}/x", {"value": n}).status_code == 200
        case "/limits":
            for n in range(3):
                insert(connection, limit_keys=[f"api:{n}"], parked_by="limit")
        case "/ticks":
            for _ in range(3):
                connection.execute(
                    "insert into scheduled_action_ticks (id, started_at, lease_expires_at, finished_at)"
                    " values (gen_random_uuid(), clock_timestamp(), now(), now())"
                )
        case "/actions/{id}/scheduled":
            parent = insert(connection)
            for _ in range(3):
                insert(connection, scheduled_by=parent)
            return f"/actions/{parent}/scheduled"
        case "/deadlines/{id}/notices":
            where, body = MAKING["/deadlines"]
            deadline_id = api("POST", where, body(1)).json["id"]
            for _ in range(3):
                connection.execute(
                    "insert into scheduled_action_deadline_notices (deadline_id, stage, action_id, subject,"
                    " person_key, channel, address)"
                    " values (%s, 'due', gen_random_uuid(), 'x', 'a', 'email', 'a@b.example')",
                    [deadline_id],
                )
            return f"/deadlines/{deadline_id}/notices"
        case "/calendar":
            for _ in range(3):
                insert(connection, scheduled_at="2030-01-01T00:00:00Z")
            return "/calendar?from=2030-01-01T00:00:00Z&to=2030-01-02T00:00:00Z"
        case _:
            where, body = MAKING[path]
            for n in range(3):
                assert api("POST", where, body(n)).status_code == 201
    return path


def rows_of(document):
    (rows,) = [value for name, value in document.items() if isinstance(value, list) and name != "truncated_schedules"]
    return rows


@pytest.mark.parametrize("path", sorted(LISTS))
def test_next_cursor_is_null_on_a_full_last_page(api, connection, path):
    address = fill(api, connection, path)
    begin = f"{address}{'&' if '?' in address else '?'}"

    whole = api("GET", f"{begin}limit=3").json
    first = api("GET", f"{begin}limit=2").json
    second = api("GET", f"{begin}limit=2&cursor={first['next_cursor']}").json

    assert (len(rows_of(whole)), whole["next_cursor"]) == (3, None)
    assert rows_of(first) + rows_of(second) == rows_of(whole)
    assert second["next_cursor"] is None


def test_a_page_can_have_a_hundred_rows(api):
    for path in sorted(one for one in LISTS - {"/calendar"} if "{" not in one):
        assert api("GET", f"{path}?limit=100").status_code == 200, path
        assert api("GET", f"{path}?limit=101").status_code == 400, path
