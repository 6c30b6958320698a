"""The routes of `/api/v1/webhooks`: endpoints, deliveries and event types, and their isolation by team."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography.fernet import Fernet

from scheduled_actions.registry import Registry
from tests.web.conftest import ADMIN_TOKEN, Api, application

KEY = Fernet.generate_key().decode()
URL = "https://receiver.example/hook"


@pytest.fixture
def runtime(a_runtime):
    return a_runtime(registry=Registry.of(), SCHEDULED_ACTIONS_ENCRYPTION_KEY=KEY)


@pytest.fixture
def api(runtime):
    return Api(application(runtime).test_client(), ADMIN_TOKEN)


@pytest.fixture
def of(runtime, api):
    """Return a function that creates a token of a role and a team, and returns the API with that token."""

    def make(role="operator", team_id=None):
        answered = api("POST", "/tokens", {"name": f"{role} of {team_id}", "role": role, "team_id": team_id or None}
                       if team_id else {"name": role, "role": role})  # fmt: skip
        return Api(api.client, answered.json["token"])

    return make


def made(api, **settings):
    answered = api("POST", "/webhooks/endpoints", {"url": URL} | settings)
    assert answered.status_code == 201, answered.text
    return answered.json


def lose(connection, count, *, endpoint, team_id=None):
    connection.execute(
        "insert into scheduled_actions (action_type, payload, status, scheduled_at, completed_at, attempts, team_id)"
        " select 'webhook:send', jsonb_build_object('event', 'task:made', 'entity_type', 'task', 'entity_id', n::text,"
        "  'data', '{}'::jsonb, 'endpoint', %s::text), 'failed', now(), now(), 10, %s from generate_series(1, %s) n",
        [endpoint, team_id, count],
    )


def test_an_endpoint_is_created_read_updated_rotated_and_deleted(api):
    answered = api(
        "POST", "/webhooks/endpoints",
        {
            "url": URL, "team_id": "blue", "patterns": ["task:*"], "filter": {"data.n": {"$gt": 1}},
            "headers": {"X-Tenant": "blue"}, "rate_limit": 5, "ordering": "fifo", "retry": [5, 60],
            "description": "CRM",
        },
    )  # fmt: skip

    assert answered.status_code == 201
    endpoint = answered.json
    secret = endpoint.pop("secret")
    assert secret.startswith("whsec_")
    assert answered.headers["Location"] == f"/api/v1/webhooks/endpoints/{endpoint['id']}"
    assert endpoint["created_by"] == "api:admin"
    assert endpoint["header_names"] == ["x-tenant"]
    path = f"/webhooks/endpoints/{endpoint['id']}"
    assert api("GET", path).json == endpoint
    changed = api("PATCH", path, {"filter": None, "rate_limit": None, "enabled": False, "headers": {}}).json
    assert (changed["filter"], changed["rate_limit"], changed["enabled"], changed["header_names"]) == (
        None,
        None,
        False,
        [],
    )
    assert (changed["patterns"], changed["description"]) == (["task:*"], "CRM")
    rotated = api("POST", f"{path}/rotate").json
    assert rotated["secret"] not in {secret, None}
    assert rotated["previous_secret_until"] is not None
    assert api("POST", f"{path}/rotate", {"grace_seconds": 0}).json["previous_secret_until"] is None
    assert api("DELETE", path).json["id"] == endpoint["id"]
    assert api("GET", path).status_code == 404


def test_an_endpoint_cannot_be_created_without_an_encryption_key(a_runtime):
    api = Api(application(a_runtime()).test_client(), ADMIN_TOKEN)

    answered = api("POST", "/webhooks/endpoints", {"url": URL})

    assert (answered.status_code, answered.json.get("code")) == (503, "not_configured")
    assert "SCHEDULED_ACTIONS_ENCRYPTION_KEY is not configured" in answered.json["detail"]


@pytest.mark.parametrize(
    ("settings", "field", "message"),
    [
        ({"url": "http://receiver.example/"}, "url", "does not use https"),
        ({"url": "https://10.0.0.1/s3cret"}, "url", "points to a private or reserved address"),
        ({"url": 5}, "url", "is not a string"),
        ({"patterns": ["task"]}, "patterns", "a pattern such as task:created"),
        ({"filter": {"a.b": {"$regex": "x"}}}, "filter.a.b", "is not one of $eq"),
        ({"headers": {"Host": "s3cret"}}, "headers", "the header is reserved"),
        ({"rate_limit": 0}, "rate_limit", "a number of deliveries per second"),
        ({"ordering": "lifo"}, "ordering", "'none' or 'fifo'"),
        ({"secret": "whsec_s3cret"}, "secret", "whsec_ followed by"),
        ({"colour": "red"}, "colour", "is an unknown field"),
        ({"enabled": None}, "enabled", "boolean"),
    ],
)
def test_the_error_of_an_invalid_setting_names_the_field_and_repeats_no_secret(api, settings, field, message):
    answered = api("POST", "/webhooks/endpoints", {"url": URL} | settings)

    assert answered.status_code == 400, answered.text
    (error,) = answered.json["errors"]
    assert error["field"] == field
    assert message in error["message"]
    assert not error["message"].startswith(field)
    assert "s3cret" not in answered.text


def test_endpoints_are_listed_in_pages(api):
    ids = [made(api)["id"] for _ in range(3)]

    first = api("GET", "/webhooks/endpoints?limit=2").json
    second = api("GET", f"/webhooks/endpoints?limit=2&cursor={first['next_cursor']}").json

    assert [one["id"] for one in first["endpoints"]] == ids[:2]
    assert [one["id"] for one in second["endpoints"]] == ids[2:]
    assert second["next_cursor"] is None


def test_a_team_can_read_and_change_only_its_own_endpoints_and_deliveries(api, of, connection):
    blue, red = of("operator", "blue"), of("operator", "red")
    own = made(blue)
    of_all = made(api)
    lose(connection, 2, endpoint=own["id"], team_id="blue")
    (delivery, _) = blue("GET", "/webhooks/deliveries").json["deliveries"]

    assert own["team_id"] == "blue"
    assert [one["id"] for one in blue("GET", "/webhooks/endpoints").json["endpoints"]] == [own["id"]]
    assert red("GET", "/webhooks/endpoints").json["endpoints"] == []
    assert red("GET", "/webhooks/endpoints?team_id=blue").json["endpoints"] == []
    assert red("GET", "/webhooks/deliveries").json["deliveries"] == []
    assert red("GET", "/webhooks/deliveries?team_id=blue").json["deliveries"] == []
    since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    unknown = "0197a000-0000-7000-8000-000000000001"
    for endpoint in (own["id"], of_all["id"], unknown):
        path = f"/webhooks/endpoints/{endpoint}"
        for answered in (
            red("GET", path), red("PATCH", path, {"description": "mine"}), red("PATCH", path, {"enabled": True}),
            red("DELETE", path), red("POST", f"{path}/rotate"), red("POST", f"{path}/test"),
            red("POST", f"{path}/replay-missed", {"from": since}),
        ):  # fmt: skip
            assert (answered.status_code, answered.json.get("code")) == (404, "unknown_endpoint")
            assert answered.json["detail"] == f"no webhook endpoint has the id or name {endpoint}"
    for one in (delivery["id"], unknown):
        for answered in (red("GET", f"/webhooks/deliveries/{one}"), red("POST", f"/webhooks/deliveries/{one}/replay")):
            assert (answered.status_code, answered.json.get("code")) == (404, "unknown_delivery")
    assert red("POST", "/webhooks/deliveries/recover", {"from": since}).json["count"] == 0
    assert red("POST", "/webhooks/endpoints", {"url": URL, "team_id": "blue"}).status_code == 403
    assert blue("POST", f"/webhooks/deliveries/{delivery['id']}/replay").status_code == 202


def test_a_viewer_cannot_change_endpoints(api, of):
    endpoint = made(api)
    viewer = of("viewer")
    path = f"/webhooks/endpoints/{endpoint['id']}"

    assert viewer("GET", path).status_code == 200
    assert viewer("GET", "/webhooks/deliveries").status_code == 200
    for method, where, body in (
        ("POST", "/webhooks/endpoints", {"url": URL}), ("PATCH", path, {}), ("DELETE", path, None),
        ("POST", f"{path}/rotate", None), ("POST", f"{path}/test", None),
    ):  # fmt: skip
        assert viewer(method, where, body).status_code == 403


def test_a_test_event_creates_a_delivery(api):
    endpoint = made(api)

    answered = api("POST", f"/webhooks/endpoints/{endpoint['id']}/test")

    assert answered.status_code == 202
    shown = api("GET", f"/webhooks/deliveries/{answered.json['id']}").json
    assert (shown["event"], shown["endpoint"], shown["status"]) == ("webhook:test", endpoint["id"], "pending")
    found = api("GET", f"/webhooks/deliveries?endpoint={endpoint['id']}&status=pending&event=webhook:test").json
    assert [one["id"] for one in found["deliveries"]] == [shown["id"]]
    assert api("POST", f"/webhooks/deliveries/{shown['id']}/replay").status_code == 409


def test_a_delivery_inserted_with_sql_is_listed(api, connection):
    connection.execute(
        "insert into scheduled_actions (action_type, payload, status, scheduled_at, result, history) values"
        " ('webhook:send', '{\"endpoint\": \"crm\"}', 'completed', 'infinity', '{\"status\": \"fine\"}',"
        ' \'[{"outcome": "failed"}]\')'
    )

    answered = api("GET", "/webhooks/deliveries")

    assert answered.status_code == 200
    assert len(answered.json["deliveries"][0]["attempt_log"]) == 2


def test_failed_deliveries_are_recovered_in_batches(api, connection):
    endpoint = made(api)
    lose(connection, 5, endpoint=endpoint["id"])
    since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    body, counts = {"from": since, "limit": 2}, []

    while True:
        progress = api("POST", "/webhooks/deliveries/recover", body).json
        counts.append(progress["count"])
        if not progress["more"]:
            break
        body["cursor"] = progress["next_cursor"]

    assert sum(counts) == 5
    assert progress["next_cursor"] is None
    assert connection.execute("select distinct status from webhook_deliveries").fetchall() == [("pending",)]


def test_missed_events_are_replayed_in_batches(api, connection):
    endpoint = made(api, patterns=["task:*"])
    connection.execute(
        "insert into scheduled_actions (action_type, payload, status, scheduled_at, completed_at, result)"
        " select 'webhook:send', jsonb_build_object('event', 'task:made', 'entity_type', 'task', 'entity_id', n::text,"
        "  'data', '{}'::jsonb), 'completed', now(), now(), '{\"endpoints\": []}' from generate_series(1, 5) n"
    )
    since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    body, counts = {"from": since, "limit": 2}, []

    while True:
        progress = api("POST", f"/webhooks/endpoints/{endpoint['id']}/replay-missed", body).json
        counts.append(progress["count"])
        if not progress["more"]:
            break
        body["cursor"] = progress["next_cursor"]

    assert counts == [2, 2, 1, 0, 0]


@pytest.mark.parametrize(
    "body",
    [{}, {"from": "yesterday"}, {"from": "2026-01-01T00:00:00"}, {"from": "2026-01-01T00:00:00Z", "limit": 0},
     {"from": "2026-01-01T00:00:00Z", "cursor": "pending_5"}],
)  # fmt: skip
def test_an_invalid_recovery_is_rejected(api, body):
    assert api("POST", "/webhooks/deliveries/recover", body).status_code == 400


def test_event_types_are_listed_by_team(api, of, connection):
    connection.execute("insert into webhook_event_types (team_id, event) values ('blue', 'task:made'), ('red', 'x:y')")

    assert [one["event"] for one in api("GET", "/webhooks/events").json["events"]] == ["task:made", "x:y"]
    assert [one["event"] for one in of("viewer", "blue")("GET", "/webhooks/events").json["events"]] == ["task:made"]
