"""Idempotency-Key and If-Match: their effects, and the operations that accept them by the OpenAPI document."""

from __future__ import annotations

import base64

import pytest

from scheduled_actions.web.api.openapi import document as openapi
from tests.factories import insert
from tests.web.conftest import ADMIN_TOKEN, Api, application

DOCUMENT = openapi.document("")["paths"]
OPERATIONS = {
    f"{method.upper()} {path.removeprefix('/api/v1')}": operation
    for path, methods in DOCUMENT.items()
    for method, operation in methods.items()
    if path.startswith("/api/v1/") and "cron" not in path
}
#: Changes that do not accept If-Match, with the reason.
WITHOUT_IF_MATCH = {
    "POST /tokens/{id}/revoke": "revoking must always succeed",
    "POST /calendar/feeds/{id}/revoke": "revoking must always succeed",
    "DELETE /pauses/{id}": "resuming must always succeed",
}
#: POST operations that do not accept an Idempotency-Key, with the reason.
WITHOUT_KEY = {
    "POST /actions/cancel": "changes, in batches",
    "POST /actions/delete": "in batches: deleted actions no longer match",
    "POST /actions/retry": "in batches: retried actions no longer match",
    "POST /webhooks/deliveries/recover": "in batches: recovered deliveries no longer match",
    "POST /webhooks/endpoints/{id}/replay-missed": "in batches: no event is delivered twice",
    "POST /deadlines/move": "changes many",
    "POST /deadlines/preview": "reads",
    "POST /deadlines/{id}/preview": "reads",
    "POST /schedules/preview": "reads",
    "POST /pauses": "a second pause of the same subject changes the first",
}
#: Changes of one resource, which need no key: If-Match, or the id of the skipped occurrence, prevents a repetition.
CHANGES = {
    f"POST /deadlines/{{id}}/{what}"
    for what in ("complete", "cancel", "move", "pause", "resume", "acknowledge", "reassign")
} | {f"POST /schedules/{{id}}/{what}" for what in ("pause", "resume", "skip")}
RUNS = {
    "POST /schedules/{id}/run",
    "POST /schedules/{id}/backfill",
    "POST /webhooks/endpoints/{id}/test",
    "POST /webhooks/deliveries/{id}/replay",
}
MAKING = {
    "/tokens": ({"name": "ci", "role": "viewer"}, "token"),
    "/calendar/feeds": ({"name": "Work"}, "path"),
    "/webhooks/endpoints": ({"url": "https://hooks.example.com/", "patterns": ["a:*"]}, "secret"),
}


def takes(operation, header):
    return header in {one["name"] for one in operation["parameters"] if one["in"] == "header"}


@pytest.fixture
def api(a_runtime):
    key = base64.b64encode(bytes(range(32))).decode()
    return Api(application(a_runtime(SCHEDULED_ACTIONS_ENCRYPTION_KEY=key)).test_client(), ADMIN_TOKEN)


def test_every_change_of_a_resource_accepts_if_match():
    missing = {
        name
        for name, operation in OPERATIONS.items()
        if "{" in name
        and not name.startswith("GET ")
        and name not in {*WITHOUT_IF_MATCH, *WITHOUT_KEY, *RUNS}
        and not takes(operation, "If-Match")
    }

    assert missing == set()


def test_every_post_that_creates_or_runs_accepts_an_idempotency_key():
    missing = {
        name
        for name, operation in OPERATIONS.items()
        if name.startswith("POST ") and name not in {*WITHOUT_KEY, *CHANGES} and not takes(operation, "Idempotency-Key")
    }

    assert missing == set()
    assert {*WITHOUT_KEY, *CHANGES, *RUNS, *WITHOUT_IF_MATCH} <= OPERATIONS.keys()


@pytest.mark.parametrize("path", MAKING)
def test_a_replayed_response_does_not_contain_the_secret(api, connection, path):
    body, secret = MAKING[path]

    first = api("POST", path, body, headers={"Idempotency-Key": "k-1"})
    second = api("POST", path, body, headers={"Idempotency-Key": "k-1"})

    assert (first.status_code, second.status_code) == (201, 201)
    assert second.headers["Idempotent-Replayed"] == "true"
    assert second.json == first.json | {secret: None}
    kept = connection.execute("select answer::text from scheduled_action_idempotency_keys").fetchone()[0]
    assert first.json[secret] not in kept


def test_a_schedule_is_run_and_backfilled_once_per_key(api, connection):
    schedule = api("POST", "/schedules", {"action_type": "test:run", "payload": {}, "recurrence": "daily"}).json["id"]
    past = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-03T00:00:00Z"}

    for what, body in (("run", None), ("backfill", past)):
        answers = [
            api("POST", f"/schedules/{schedule}/{what}", body, headers={"Idempotency-Key": what}) for _ in range(2)
        ]
        assert answers[0].json == answers[1].json
        assert len(answers[0].json["ids"]) >= 1
    ran = connection.execute("select count(*) from scheduled_actions where occurrence_at is null").fetchone()[0]
    assert ran == 1


@pytest.mark.parametrize(("what", "status"), [("retry", "failed"), ("run", "pending")])
def test_retry_and_run_check_if_match_and_are_executed_once_per_key(api, connection, what, status):
    ended = {} if status == "pending" else {"completed_at": "2026-01-01T00:00:00Z"}
    action_id = insert(connection, status=status, scheduled_at="2090-01-01T00:00:00Z", **ended)
    etag = api("GET", f"/actions/{action_id}").headers["ETag"]

    stale = api("POST", f"/actions/{action_id}/{what}", headers={"If-Match": '"x"'})
    both = [
        api("POST", f"/actions/{action_id}/{what}", headers={"If-Match": etag, "Idempotency-Key": "k"})
        for _ in range(2)
    ]

    assert stale.status_code == 412
    assert [one.status_code for one in both] == [200, 200]
    assert both[0].json == both[1].json


def test_a_change_of_a_fact_with_an_outdated_etag_is_rejected(api):
    path = "/facts/invoice/17/state"
    etag = api("PUT", path, {"value": "open"}).headers["ETag"]
    assert api("PUT", path, {"value": "open"}).headers["ETag"] == etag
    assert api("GET", path).headers["ETag"] == etag

    changed = api("PUT", path, {"value": "paid"}, headers={"If-Match": etag})
    stale = [
        api(method, path, body, headers={"If-Match": etag})
        for method, body in (("PUT", {"value": "x"}), ("DELETE", None))
    ]

    assert changed.status_code == 200
    assert [one.status_code for one in stale] == [412, 412]
    assert api("GET", path).json["value"] == "paid"
    assert api("DELETE", path, headers={"If-Match": changed.headers["ETag"]}).status_code == 200


def test_a_change_of_an_endpoint_with_an_outdated_etag_is_rejected(api, connection):
    body, _ = MAKING["/webhooks/endpoints"]
    path = f"/webhooks/endpoints/{api('POST', '/webhooks/endpoints', body).json['id']}"
    etag = api("GET", path).headers["ETag"]
    changed = api("PATCH", path, {"description": "x"}, headers={"If-Match": etag})

    stale = [
        api(method, f"{path}{more}", sent, headers={"If-Match": etag})
        for method, more, sent in (("PATCH", "", {"description": "y"}), ("POST", "/rotate", {}), ("DELETE", "", None))
    ]

    assert changed.status_code == 200
    assert [one.status_code for one in stale] == [412, 412, 412]
    assert api("DELETE", path, headers={"If-Match": changed.headers["ETag"]}).status_code == 200
