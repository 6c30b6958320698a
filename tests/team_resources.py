"""Create one of each resource that a team can own, over HTTP with the team's token."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from scheduled_actions.core.action import Status
from tests.factories import NOW, database_now, insert, set_clock

if TYPE_CHECKING:
    import psycopg

    from tests.web.conftest import Api

#: Identifiers that every team uses: equal values of different teams must not collide.
TARGET = {"type": "license", "id": "42"}
FACT = "/facts/license/42/state"
GROUP, KEY, USER = "the-group", "the-key", "ann"
URL = "https://receiver.example/hook"
SECOND = timedelta(seconds=1)
NEW = {"action_type": "test:run", "payload": {"entity_id": "42"}}
RESOURCES: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("fact", "PUT", FACT, {"value": "in force"}),
    (
        "waiting",
        "POST",
        "/actions",
        {**NEW, "condition": {"wait": {"kind": "document_state", "target": TARGET, "state": "expired"}}},
    ),
    ("later", "POST", "/actions", {**NEW, "delay": "P1D", "dedup_key": KEY, "dedup_window": 3600, "user_id": USER}),
    ("merged", "POST", "/actions", {**NEW, "delay": "P1D", "dedup_key": KEY, "dedup_window": 3600, "user_id": USER}),
    ("first of the group", "POST", "/actions", {**NEW, "lock_group": GROUP, "dedup_window": 0}),
    ("next of the group", "POST", "/actions", {**NEW, "lock_group": GROUP, "dedup_window": 0, "target": TARGET}),
    ("schedule", "POST", "/schedules", {**NEW, "recurrence": "daily", "name": "report", "user_id": USER}),
    ("same schedule", "POST", "/schedules", {**NEW, "recurrence": "daily", "name": "report", "user_id": USER}),
    (
        "deadline",
        "POST",
        "/deadlines",
        {
            "target": TARGET,
            "name": "renewal",
            "due_at": (NOW + timedelta(days=90)).isoformat(),
            "recipients": ["ann@example.org"],
            "reminders": ["60 days before"],
            "escalation": [{"offset": "2 days after", "to": ["cfo@example.org"]}],
        },
    ),
    ("endpoint", "POST", "/webhooks/endpoints", {"url": URL, "patterns": ["license:*"]}),
    ("feed", "POST", "/calendar/feeds", {"name": "Work", "user_id": USER}),
    ("pause", "POST", "/pauses", {"lock_group": "another group"}),
    ("token", "POST", "/tokens", {"name": "of the team", "role": "viewer"}),
    ("notices", "POST", "/notifications", {"recipients": ["ann@example.org"], "text": "expired", "digest": True}),
    (
        "local actions",
        "POST",
        "/local-actions",
        {**NEW, "local_time": "09:00", "users": [{"user_id": USER}], "recurrence": "daily", "name": "morning"},
    ),
)


def create_resources(
    api: Api, connection: psycopg.Connection[Any], *, team_id: str
) -> tuple[dict[str, str], list[Any]]:
    """Create one of each resource, one second apart, with an `api` client that has the team's admin role.

    Returns:
        The ids by resource name, and the responses as status, headers and body.
    """
    ids, answers = {}, []
    for name, method, path, body in RESOURCES:
        set_clock(connection, database_now(connection) + SECOND)
        response = api(method, path, body, headers={"Idempotency-Key": f"key of {name}"})
        assert response.status_code in {200, 201}, (path, response.text)
        answers.append((response.status_code, dict(response.headers), response.json))
        ids[name] = response.json.get("id")
    ids["delivery"] = api("POST", f"/webhooks/endpoints/{ids['endpoint']}/test").json["id"]
    ids["occurrence"] = api("GET", "/schedules/report").json["next_action_id"]
    timeline = api("GET", "/deadlines/renewal").json["timeline"]
    ids["reminder"] = next(step["action_id"] for step in timeline if step["stage"].startswith("reminder"))
    for status in (Status.PROCESSING, Status.FAILED, Status.COMPLETED):
        ids[status] = str(_in_status(connection, status, team_id=team_id))
    return {name: found for name, found in ids.items() if found}, answers


def _in_status(connection: psycopg.Connection[Any], status: Status, *, team_id: str) -> Any:
    now = database_now(connection) + SECOND
    set_clock(connection, now)
    is_claimed, is_open = status is Status.PROCESSING, status in {Status.PENDING, Status.PROCESSING, Status.NO_ACTION}
    return insert(
        connection,
        team_id=team_id,
        status=status,
        lock_group=GROUP,
        dedup_key=f"key of {status}",
        completed_at=None if is_open else now,
        claim_token=uuid4() if is_claimed else None,
        lease_expires_at=now + timedelta(minutes=1) if is_claimed else None,
    )
