"""The action types that tokens may schedule, in every field of every request body that can contain a type."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.fernet import Fernet

from handlers import deadline, email, for_each, maintenance, notification, webhook
from handlers.for_each import ForEachPayload
from scheduled_actions import Context, action
from scheduled_actions.actions.model import NewAction
from scheduled_actions.operations import tokens
from scheduled_actions.registry import Registry
from scheduled_actions.web.api.openapi.document import document
from tests.conftest import ROOT
from tests.factories import row
from tests.web.conftest import Api, application

if TYPE_CHECKING:
    from collections.abc import Iterator

OPEN, CLOSED, INTERNAL, ROWS = "shop:open", "shop:closed", "maintenance:prune", "for_each:run"


@action(OPEN, open_to_teams=True)
def do_open(payload: dict): ...


@action(CLOSED)
def do_closed(payload: dict): ...


@action(ROWS, transactional=True, open_to_teams=True)
def do_rows(payload: ForEachPayload, context: Context):
    return for_each.run(payload, context)


REGISTRY = (
    do_open, do_closed, do_rows, maintenance.prune, webhook.send, email.send_email, notification.send,
    deadline.send_reminder, deadline.send_escalation, deadline.mark_missed, deadline.create_next,
)  # fmt: skip
FAR_AWAY = datetime(2099, 1, 1, tzinfo=UTC)
DUE = {"target": {"type": "license", "id": "42"}, "due_at": FAR_AWAY.isoformat()}
NEW = {"action_type": OPEN, "payload": {}}
AUTO = {"auto_actions": [{"offset": "1 day before", **NEW}]}
#: A body that succeeds, by operation; `{id}` is the id that `made_by_code` returns.
BASES: dict[tuple[str, str], dict[str, Any]] = {
    ("POST", "/actions"): NEW,
    ("POST", "/actions/batch"): {"actions": [NEW]},
    ("PATCH", "/actions/{id}"): {"force": True},
    ("POST", "/schedules"): {**NEW, "recurrence": "daily"},
    ("PATCH", "/schedules/{id}"): {},
    ("POST", "/deadlines"): DUE | AUTO,
    ("POST", "/deadlines/preview"): DUE | AUTO,
    ("PATCH", "/deadlines/{id}"): AUTO,
    ("POST", "/deadlines/{id}/preview"): AUTO,
    ("POST", "/local-actions"): {**NEW, "local_time": "09:00", "users": [{"user_id": "ann"}]},
}
#: Fields with data, conditions of the stages of deadlines, and operations whose type is only a filter: they start no
#: action.
DATA = {"metadata", "recipients", "to", "assign", "deputy", "$and", "$or", "$not", "headers", "moves"}
FILTERS = {("POST", f"/actions/{change}") for change in ("retry", "cancel", "delete")}
FILTERS |= {("POST", "/calendar/feeds"), ("POST", "/pauses")}


def free_fields(
    schema: dict[str, Any], schemas: dict[str, Any], path: tuple = (), within: tuple = ()
) -> Iterator[tuple]:
    """Yield the path of each field of a body that is an action type or any JSON."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name == "JsonObject":
            yield path
        elif name not in within:
            yield from free_fields(schemas[name], schemas, path, (*within, name))
        return
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from free_fields(part, schemas, path, within)
    for name, part in schema.get("properties", {}).items():
        if name == "action_type":
            yield (*path, name)
        yield from free_fields(part, schemas, (*path, name), within)
    if "items" in schema:
        yield from free_fields(schema["items"], schemas, (*path, 0), within)
    if not schema or (schema.get("type") == "object" and not schema.get("properties")):
        yield path


def action_fields() -> list[tuple[str, str, tuple]]:
    """Return the method, path and field of each field in the OpenAPI document that can start an action."""
    described = document("https://example.com")
    found = []
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            where = (method.upper(), path.removeprefix("/api/v1"))
            if body is None or not path.startswith("/api/v1"):
                continue
            for field in sorted(set(free_fields(body, described["components"]["schemas"])), key=str):
                name = next(part for part in reversed(field) if part != 0)
                is_condition_of_stage = name == "condition" and path.startswith("/api/v1/deadlines")
                is_filter = name == "action_type" and where in FILTERS
                if name not in DATA and not is_condition_of_stage and not is_filter:
                    found.append((*where, field))
    return found


FIELDS = action_fields()


def filled(base: dict[str, Any], field: tuple, action_type: str) -> dict[str, Any]:
    """Return a body in which the field starts an action of the type."""
    body = deepcopy(base)
    *outer, last = field
    parent: Any = body
    for part in outer:
        if part == 0 and not parent:
            parent.append(None)
        elif part != 0:
            parent.setdefault(part, [])
        parent = parent[part]
    follow_up = {"action_type": action_type, "payload": {}}
    match next(part for part in reversed(field) if part != 0):
        case "action_type":
            parent[last] = action_type
        case "payload":
            if "action_type" in parent:
                parent["action_type"] = ROWS
            parent[last] = {"query": "carts", "action_type": action_type, "key": "id"}
        case "condition":
            elapsed = {"kind": "time_elapsed", "seconds": 9}
            parent[last] = {"wait": elapsed, "timeout": 1000, "on_timeout": {**NEW, "on_failure": [follow_up]}}
        case "on_success" | "on_failure":
            if last == 0:
                parent.append({**NEW, "on_success": follow_up})
            else:
                parent[last] = follow_up
        case name:
            pytest.fail(f"{name} may contain actions: add it to DATA, or a case for it here")
    return body


@pytest.fixture
def runtime(a_runtime):
    """Return a project with open, closed and internal action types."""
    key = Fernet.generate_key().decode()
    return a_runtime(registry=Registry.of(*REGISTRY), SCHEDULED_ACTIONS_ENCRYPTION_KEY=key)


@pytest.fixture
def team(runtime, connection):
    """Return the API with the token of an operator of team red."""
    _, secret = tokens.create(connection, name="red", role="operator", team_id="red")
    return Api(application(runtime).test_client(), secret)


@pytest.fixture
def operator(runtime, connection):
    """Return the API with the token of an operator of all teams."""
    _, secret = tokens.create(connection, name="all", role="operator")
    return Api(application(runtime).test_client(), secret)


def made_by_code(runtime, path: str, action_type: str) -> str:
    """Create a resource of team red with application code, for the routes of a path; return its id."""
    if path.startswith("/schedules"):
        return str(runtime.schedules.schedule_recurring(action_type, {}, "daily", team_id="red").id)
    if path.startswith("/deadlines"):
        auto = {"offset": "2 days before", "action_type": action_type, "payload": {}}
        made, _ = runtime.deadlines.set({**DUE, "due_at": FAR_AWAY, "team_id": "red", "auto_actions": [auto]})
        return str(made.id)
    new = NewAction(action_type=action_type, payload={}, team_id="red", scheduled_at=FAR_AWAY)
    return str(runtime.scheduler.schedule_action(new).id)


def stored(connection) -> list[Any]:
    tables = ("scheduled_actions", "scheduled_action_schedules", "scheduled_action_deadlines")
    return [connection.execute(f"select to_jsonb(t) from {table} t order by id").fetchall() for table in tables]


@pytest.mark.parametrize("place", FIELDS, ids=lambda place: " ".join(map(str, place)))
def test_every_field_with_an_action_type_accepts_only_types_that_are_open_to_the_token(
    team, operator, runtime, connection, place
):
    method, path, field = place
    base = BASES[method, path]
    keeps_its_type = field == ("payload",) and method == "PATCH"
    for caller, action_type in ((team, CLOSED), (team, INTERNAL), (operator, INTERNAL)):
        wanted = made_by_code(runtime, path, action_type if keeps_its_type else OPEN)
        before = stored(connection)
        body = {**base, "payload": {}} if keeps_its_type else filled(base, field, action_type)

        answer = caller(method, path.replace("{id}", wanted), body)

        assert (answer.status_code, answer.json["code"]) == (403, "action_type_forbidden"), answer.text
        assert action_type in answer.json["detail"]
        assert answer.json["errors"][0]["field"].endswith("payload" if keeps_its_type else "action_type")
        assert stored(connection) == before

    for caller, action_type in ((team, OPEN), (operator, CLOSED)):
        wanted = made_by_code(runtime, path, OPEN)

        answer = caller(method, path.replace("{id}", wanted), filled(base, field, action_type))

        assert answer.status_code in {200, 201}, answer.text


def test_application_code_can_schedule_closed_types_for_a_team(team, runtime, connection):
    after = [{"action_type": CLOSED, "payload": {}}]
    new = NewAction(action_type=CLOSED, payload={}, team_id="red", on_success=after)
    action_id = runtime.scheduler.schedule_action(new).id
    through_sql = "select id from schedule_action(%s, '{}', team_id => 'red')"
    (of_sql,) = connection.execute(through_sql, [CLOSED]).fetchone()

    runtime.processor.tick()
    runtime.processor.tick()

    assert [one["status"] for one in team("GET", f"/actions?action_type={CLOSED}").json["actions"]] == ["completed"] * 3
    assert row(connection, action_id)["status"] == row(connection, of_sql)["status"] == "completed"


def test_a_team_can_change_its_resources_of_closed_types_except_their_types_and_payloads(team, runtime):
    one = made_by_code(runtime, "/actions", CLOSED)
    series = made_by_code(runtime, "/schedules", CLOSED)
    license_deadline = made_by_code(runtime, "/deadlines", CLOSED)

    answers = [
        team("PATCH", f"/actions/{one}", {"priority": 5, "force": True}),
        team("POST", f"/actions/{one}/run"),
        team("POST", f"/actions/{one}/cancel", {"force": True}),
        team("POST", f"/actions/{one}/retry"),
        team("POST", f"/schedules/{series}/pause", {}),
        team("PATCH", f"/schedules/{series}", {"priority": 5}),
        team("PATCH", f"/deadlines/{license_deadline}", {"timezone": "Europe/Berlin"}),
    ]

    assert [one.status_code for one in answers] == [200] * len(answers), [one.text for one in answers]


def test_a_team_can_emit_events_only_to_its_own_endpoints(team, operator, runtime, connection):
    _, secret = tokens.create(connection, name="blue", role="operator", team_id="blue")
    blue = Api(team.client, secret)
    own, theirs, of_all = (
        one("POST", "/webhooks/endpoints", {"url": "https://hooks.example.com/a", "patterns": ["*:*"]}).json["id"]
        for one in (team, blue, operator)
    )
    event = {"event": "task:created", "entity_type": "task", "entity_id": "1"}

    def emitted(caller, **payload):
        return caller("POST", "/actions", {"action_type": "webhook:send", "payload": event | payload})

    assert emitted(team).status_code == emitted(team, endpoint=own).status_code == 201
    refused = [emitted(team, endpoint=one) for one in (theirs, of_all, "0197a000-0000-7000-8000-000000000000", "crm")]
    assert [(one.status_code, one.json["code"]) for one in refused] == [(403, "action_type_forbidden")] * 4
    assert len({one.text for one in refused}) == 1
    mine = str(runtime.scheduler.schedule_action(
        NewAction(action_type="webhook:send", payload=event, team_id="red", scheduled_at=FAR_AWAY)
    ).id)  # fmt: skip
    assert team("PATCH", f"/actions/{mine}", {"payload": event | {"endpoint": theirs}}).status_code == 403
    assert emitted(operator, endpoint=of_all).status_code == 201
    # Only the package may emit this event: it notifies the operator by mail.
    of_ours = {emitted(caller, event="webhook:endpoint-disabled").status_code for caller in (team, operator)}
    assert of_ours == {403}


@pytest.mark.parametrize("action_type", ["webhook:send", "email:send", "billing:check-renewals", "for_each:run"])
def test_only_webhook_events_of_the_included_handlers_are_open_to_teams(action_type):
    shipped = Registry.load(ROOT)

    assert shipped.options(action_type).open_to_teams is (action_type == "webhook:send")


def test_the_list_of_action_types_marks_those_that_the_token_may_schedule(team, operator):
    def schedulable(caller):
        return {one["action_type"] for one in caller("GET", "/action-types").json["action_types"] if one["schedulable"]}

    assert schedulable(team) == {OPEN, ROWS, "webhook:send"}
    assert schedulable(operator) == {OPEN, ROWS, "webhook:send", CLOSED, "email:send"}


def test_options_of_for_each_cannot_set_a_type_payload_or_team(operator, team):
    for options in ({"action_type": INTERNAL}, {"payload": {}}, {"team_id": "blue"}, {"requester": None}):
        payload = {"query": "carts", "action_type": OPEN, "key": "id", "options": options}

        answer = team("POST", "/actions", {"action_type": ROWS, "payload": payload})

        assert (answer.status_code, answer.json["errors"][0]["field"]) == (400, "payload.options")
