"""The routes of `/api/v1/actions`: requests, responses and errors."""

from __future__ import annotations

import threading
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from scheduled_actions.core.action import Action, Status
from scheduled_actions.web.api.actions import models as action_models
from tests.factories import (
    database_now,
    due_for,
    insert,
    insert_many,
    is_waiting,
    move_clock,
    row,
    wait_until,
)

UNKNOWN = "0197a000-0000-7000-8000-00000000ffff"
IN_AN_HOUR = timedelta(hours=1)
#: The fields that every action in a response must have.
COLUMNS = {
    "id",
    "action_type",
    "status",
    "payload",
    "team_id",
    "priority",
    "scheduled_at",
    "occurrence_at",
    "started_at",
    "completed_at",
    "error_message",
    "attempts",
    "max_attempts",
    "result",
    "state",
    "metadata",
    "history",
    "target_type",
    "target_id",
    "user_id",
    "created_by",
    "schedule_id",
    "deadline_id",
    "dedup_key",
    "lock_group",
    "condition",
    "lease_expires_at",
    "created_at",
    "updated_at",
}


def errors(response):
    return {one["field"]: one["message"] for one in response.json["errors"]}


def ids(response):
    return [UUID(one["id"]) for one in response.json["actions"]]


@pytest.fixture
def later(connection):
    """Return the id of a pending action that is due in an hour."""
    return insert(connection, scheduled_at=database_now(connection) + IN_AN_HOUR, priority=1)


# -- schedule ----------------------------------------------------------------------------------------------------------


def test_the_response_to_a_new_action_has_all_its_fields(api, connection):
    response = api(
        "POST",
        "/actions",
        {
            "action_type": "test:welcome",
            "payload": {"name": "Ada"},
            "scheduled_at": "2027-01-02T03:04:05+02:00",
            "team_id": "red",
            "priority": -7,
            "max_attempts": 9,
            "retry": [60, 120],
            "lock_group": "g",
            "lock_group_blocks": True,
            "dedup_key": "k",
            "dedup_window": 60.5,
            "dedup_mode": "first",
            "target": {"type": "invoice", "id": "42"},
            "user_id": "u",
            "metadata": {"note": "é"},
            "created_by": "the shop",
            "limit": ["api:acme", "reports"],
            "expires_in": "PT90M",
            "on_expiry": "fail",
        },
    )

    assert response.status_code == 201
    assert response.headers["Location"] == f"/api/v1/actions/{response.json['id']}"
    assert response.json["deduplicated"] is False
    assert set(response.json) >= COLUMNS
    stored = row(connection, UUID(response.json["id"]))
    expected = {
        "action_type": "test:welcome", "payload": {"name": "Ada"}, "team_id": "red", "priority": -7, "max_attempts": 9,
        "lock_group": "g", "lock_group_blocks": True, "dedup_key": "k", "target_type": "invoice", "target_id": "42",
        "user_id": "u", "metadata": {"note": "é"}, "created_by": "the shop", "status": "pending",
    }  # fmt: skip
    assert expected.items() <= stored.items()
    assert expected.items() <= response.json.items()
    assert stored["retry"]["seconds"] == [60, 120]
    assert response.json["scheduled_at"] == "2027-01-02T01:04:05Z"
    assert stored["limit_keys"] == response.json["limit"] == ["api:acme", "reports"]
    assert (response.json["expires_at"], response.json["on_expiry"]) == ("2027-01-02T02:34:05Z", "fail")
    assert response.json["parked_by"] is None


def test_an_action_in_a_response_has_every_field_of_the_python_class_except_the_claim_token():
    expected = {"limit" if field.name == "limit_keys" else field.name for field in fields(Action)} - {"claim_token"}

    assert set(action_models.ActionDocument.model_fields) == expected


def test_an_action_is_due_now_and_created_by_the_token_by_default(api, connection):
    scheduled = api.schedule()

    assert datetime.fromisoformat(scheduled["scheduled_at"]) <= database_now(connection)
    assert scheduled["created_by"] == "api:admin"


def test_a_null_field_is_equivalent_to_an_omitted_field(api):
    nothing = dict.fromkeys(set(action_models.CreateActionRequest.model_fields) - {"action_type", "payload"})
    del nothing["delay"]

    assert api("POST", "/actions", {"action_type": "test:run", "payload": {}} | nothing).status_code == 201


@pytest.mark.parametrize(
    ("when", "at"),
    [
        ({"scheduled_at": "2027-06-01T12:00:00Z"}, "2027-06-01T12:00:00Z"),
        ({"scheduled_at": "2027-06-01t12:00:00z"}, "2027-06-01T12:00:00Z"),
        ({"scheduled_at": "2027-06-01T12:00:00.5+05:30"}, "2027-06-01T06:30:00.500000Z"),
        ({"scheduled_at": "2027-06-01T12:00:00", "timezone": "Europe/Berlin"}, "2027-06-01T10:00:00Z"),
        ({"scheduled_at": "2027-03-28T02:30:00", "timezone": "Europe/Berlin"}, "2027-03-28T01:30:00Z"),
        ({"scheduled_at": "2027-06-01T12:00:00Z", "timezone": "Europe/Berlin"}, "2027-06-01T12:00:00Z"),
    ],
)
def test_a_due_time_is_read_with_its_offset_or_in_the_given_time_zone(api, when, at):
    assert api.schedule(**when)["scheduled_at"] == at


@pytest.mark.parametrize(
    ("delay", "seconds"), [(0, 0), (90, 90), (1.5, 1.5), ("PT5M", 300), ("P1DT2H", 93600), ("90s", 90)]
)
def test_a_delay_counts_from_the_time_of_the_database(api, connection, delay, seconds):
    move_clock(connection, timedelta(days=3))

    scheduled = api.schedule(delay=delay)

    apart = datetime.fromisoformat(scheduled["scheduled_at"]) - datetime.fromisoformat(scheduled["created_at"])
    assert apart == timedelta(seconds=seconds)


def test_one_limit_key_and_a_number_of_seconds_are_accepted_and_the_place_in_the_queue_is_shown(api, connection):
    scheduled = api.schedule(limit="api:acme", expires_in=60.5)

    assert (scheduled["limit"], scheduled["parked_by"], scheduled["on_expiry"]) == (["api:acme"], "limit", "skip")
    apart = datetime.fromisoformat(scheduled["expires_at"]) - datetime.fromisoformat(scheduled["scheduled_at"])
    assert apart == timedelta(seconds=60.5)
    cancelled = api("POST", f"/actions/{scheduled['id']}/cancel", {"force": True}).json
    assert (cancelled["limit"], cancelled["parked_by"]) == (["api:acme"], None)


def test_an_expiry_is_read_in_the_given_time_zone_and_a_day_means_its_last_second(api):
    local = api.schedule(expires_at="2027-06-01T12:00", timezone="Europe/Berlin", scheduled_at="2027-06-01T11:00")
    day = api.schedule(expires_at="2027-06-01", timezone="Europe/Berlin", scheduled_at="2027-06-01")

    assert local["expires_at"] == "2027-06-01T10:00:00Z"
    assert day["expires_at"] == "2027-06-01T21:59:59Z"


def test_an_update_changes_and_removes_the_limit_and_the_expiry(api, later):
    expires_at = "2040-01-01T00:00:00Z"

    changed = api("PATCH", f"/actions/{later}", {"limit": "reports", "expires_at": expires_at}).json
    kept = api("PATCH", f"/actions/{later}", {"priority": 3}).json
    removed = api("PATCH", f"/actions/{later}", {"limit": None, "expires_at": None}).json

    for one in (changed, kept):
        assert (one["limit"], one["expires_at"], one["on_expiry"]) == (["reports"], expires_at, "skip")
    assert (removed["limit"], removed["expires_at"], removed["on_expiry"]) == (None, None, None)


@pytest.mark.parametrize(
    "given", [{"limit": "unknown"}, {"limit": []}, {"expires_at": "2020-01-01"}, {"expires_at": 1}]
)
def test_an_invalid_limit_or_expiry_of_an_update_is_named_and_changes_nothing(api, connection, later, given):
    before = row(connection, later)

    response = api("PATCH", f"/actions/{later}", given | {"priority": 9})

    assert (response.status_code, list(errors(response))) == (400, list(given))
    assert row(connection, later) == before


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"scheduled_at": "2027-06-01T12:00:00"}, "scheduled_at"),
        ({"scheduled_at": "tomorrow"}, "scheduled_at"),
        ({"scheduled_at": 1767225600}, "scheduled_at"),
        ({"scheduled_at": "0001-01-01T00:00:00+14:00"}, "scheduled_at"),
        ({"scheduled_at": "2027-06-01T12:00:00Z", "delay": 5}, "delay"),
        ({"delay": -1}, "delay"),
        ({"delay": "P1M"}, "delay"),
        ({"delay": 1e300}, "delay"),
        ({"delay": True}, "delay"),
        ({"delay": "P101000D"}, "delay"),
        ({"timezone": "Europe/Nowhere"}, "timezone"),
        ({"timezone": "../../etc/passwd"}, "timezone"),
        ({"priority": 32768}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": 1001}, "max_attempts"),
        ({"retry": []}, "retry.seconds"),
        ({"retry": {"kind": []}}, "retry.kind"),
        ({"retry": {"kind": "linear", "base_seconds": "60"}}, "retry.base_seconds"),
        ({"retry": 60}, "retry"),
        ({"lock_group": "x" * 256}, "lock_group"),
        ({"lock_group_blocks": "yes"}, "lock_group_blocks"),
        ({"dedup_key": ""}, "dedup_key"),
        ({"dedup_window": -1}, "dedup_window"),
        ({"dedup_mode": "newest"}, "dedup_mode"),
        ({"dedup_mode": "append"}, "dedup_mode"),
        ({"target": "invoice"}, "target"),
        ({"metadata": []}, "metadata"),
        ({"payload": None}, "payload"),
        ({"limit": 7}, "limit"),
        ({"limit": []}, "limit"),
        ({"limit": ["a", "b", "c", "d"]}, "limit"),
        ({"limit": "unknown"}, "limit"),
        ({"expires_at": "soon"}, "expires_at"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"scheduled_at": "2027-06-01T12:00:00Z", "expires_at": "2027-06-01T12:00:00Z"}, "expires_at"),
        ({"expires_at": "2027-06-01T12:00:00Z", "expires_in": 60}, "expires_in"),
        ({"expires_in": 0}, "expires_in"),
        ({"expires_in": "P0D"}, "expires_in"),
        ({"expires_in": 1e300}, "expires_in"),
        ({"expires_in": True}, "expires_in"),
        ({"on_expiry": "fail"}, "on_expiry"),
        ({"on_expiry": "retry", "expires_in": 60}, "on_expiry"),
        ({"condition": {}}, "condition"),
        ({"status": "completed"}, "status"),
        ({"id": UNKNOWN}, "id"),
    ],
    ids=str,
)
def test_an_invalid_field_of_a_new_action_is_named_and_nothing_is_scheduled(
    shared_api, shared_connection, given, field
):
    response = shared_api("POST", "/actions", {"action_type": "test:run", "payload": {}} | given)

    assert response.status_code == 400
    assert list(errors(response)) == [field]
    assert shared_connection.execute("select count(*) from scheduled_actions").fetchone() == (0,)


def test_the_error_of_an_invalid_payload_names_each_field_and_repeats_no_value(shared_api, shared_connection):
    response = shared_api("POST", "/actions", {"action_type": "test:welcome", "payload": {"times": "a secret"}})

    assert (response.status_code, response.json["code"]) == (400, "payload_invalid")
    assert set(errors(response)) == {"payload.name", "payload.times"}
    assert "a secret" not in response.text
    assert shared_connection.execute("select count(*) from scheduled_actions").fetchone() == (0,)


def test_the_error_of_an_unknown_action_type_suggests_a_similar_type(shared_api):
    response = shared_api("POST", "/actions", {"action_type": "test:welcme", "payload": {}})

    assert (response.status_code, response.json["code"]) == (422, "unknown_action_type")
    assert 'did you mean "test:welcome"?' in response.json["detail"]
    assert list(errors(response)) == ["action_type"]


def test_a_payload_over_the_size_limit_is_rejected(shared_api):
    response = shared_api("POST", "/actions", {"action_type": "test:run", "payload": {"text": "x" * 262144}})

    assert (response.status_code, response.json["code"]) == (413, "too_large")
    assert list(errors(response)) == ["payload"]


def test_a_merged_action_returns_200_and_the_pending_action(api, connection):
    first = api.schedule(payload={"n": 1}, dedup_key="k", delay=3600)

    response = api("POST", "/actions", {"action_type": "test:run", "payload": {"n": 2}, "dedup_key": "k"})

    assert response.status_code == 200
    assert (response.json["id"], response.json["deduplicated"]) == (first["id"], True)
    assert response.json["payload"] == {"n": 2}
    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (1,)


# -- schedule a batch --------------------------------------------------------------------------------------------------


def test_a_batch_returns_ids_in_the_order_of_the_request(api, connection):
    new = [{"action_type": "test:run", "payload": {"n": n}, "delay": 60, "dedup_key": f"k{n % 2}"} for n in range(3)]

    response = api("POST", "/actions/batch", {"actions": new})

    assert response.status_code == 201
    answered = response.json["actions"]
    assert [one["deduplicated"] for one in answered] == [False, False, True]
    assert answered[2]["id"] == answered[0]["id"]
    assert row(connection, UUID(answered[0]["id"]))["payload"] == {"n": 2}
    assert api("POST", "/actions/batch", {"actions": new[:1]}).status_code == 200


def test_a_batch_has_at_most_a_thousand_actions(api, connection):
    new = {"action_type": "test:run", "payload": {}}

    assert api("POST", "/actions/batch", {"actions": [new] * 1000}).status_code == 201
    response = api("POST", "/actions/batch", {"actions": [new] * 1001})

    assert response.status_code == 400
    assert list(errors(response)) == ["actions"]
    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (1000,)


@pytest.mark.parametrize(
    ("others", "status", "fields_named"),
    [
        (
            [{"action_type": "test:welcome", "payload": {"times": 1}}, {"action_type": "test:welcome", "payload": {}}],
            400,
            ["actions.1.payload.name", "actions.2.payload.name"],
        ),
        (
            [{"action_type": "test:wrong", "payload": {}}, {"action_type": "test:welcome", "payload": {}}],
            422,
            ["actions.1.action_type", "actions.2.payload.name"],
        ),
        ([{"action_type": "test:run", "payload": {}, "dedup_mode": "append"}], 400, ["actions.1.dedup_mode"]),
        ([{"action_type": "test:run", "payload": {"x": "y" * 262144}}], 400, ["actions.1.payload"]),
        ([{"action_type": "test:run"}, {"payload": {}}, 5], 400, [
            "actions.1.payload", "actions.2.action_type", "actions.3"]),
        ([{"action_type": "test:run", "payload": {}, "priority": "1", "retry": {"kind": "x"}}], 400, [
            "actions.1.priority", "actions.1.retry.kind"]),
        ([{"action_type": "test:run", "payload": {}, "scheduled_at": "2027-01-01T00:00:00"}], 400, [
            "actions.1.scheduled_at"]),
    ],
)  # fmt: skip
def test_all_errors_of_a_batch_are_listed_by_position_and_nothing_is_scheduled(
    shared_api, shared_connection, others, status, fields_named
):
    response = shared_api("POST", "/actions/batch", {"actions": [{"action_type": "test:run", "payload": {}}, *others]})

    assert response.status_code == status
    assert list(errors(response)) == fields_named
    assert shared_connection.execute("select count(*) from scheduled_actions").fetchone() == (0,)


@pytest.mark.parametrize("body", [{}, {"actions": []}, {"actions": {}}, {"actions": None}, []])
def test_an_empty_or_malformed_batch_is_rejected(shared_api, body):
    assert shared_api("POST", "/actions/batch", body).status_code == 400


# -- list --------------------------------------------------------------------------------------------------------------


def test_actions_are_listed_newest_first_and_the_cursor_continues_the_list(api, connection):
    inserted = insert_many(connection, 5)

    first = api("GET", "/actions?limit=2")
    second = api("GET", f"/actions?limit=2&cursor={first.json['next_cursor']}")
    third = api("GET", f"/actions?limit=2&cursor={second.json['next_cursor']}")

    assert ids(first) + ids(second) + ids(third) == inserted[::-1]
    assert third.json["next_cursor"] is None
    assert set(first.json["actions"][0]) >= COLUMNS


def test_a_full_last_page_has_no_next_cursor(api, connection):
    insert_many(connection, 2)

    assert api("GET", "/actions?limit=2").json["next_cursor"] is None


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("status=failed", [1]),
        ("action_type=test:welcome", [2]),
        ("team_id=red", [3]),
        ("team_id=unknown", []),
        ("lock_group=g", [4]),
        ("due_from=2030-01-01T00:00:00Z", [5, 6]),
        ("due_to=2020-01-01T00:00:00%2B00:00", [7]),
        ("due_from=2030-01-01T00:00:00Z&due_to=2031-01-01T00:00:00Z", [5]),
        ("user_id=ann", [3, 9]),
        ("user_id=ann&team_id=red", [3]),
        ("target_type=invoice&target_id=7", [9]),
        (f"schedule_id={UNKNOWN}", [9]),
        (f"deadline_id={UNKNOWN}", [9]),
        (f"scheduled_by={UNKNOWN}", [9]),
        ("q=elcom", [2]),
        ("q=key-of", [8]),
        ("q=needle", []),
        ("status=pending&q=test&lock_group=g", [4]),
        ("status=failed&lock_group=g", []),
    ],
)
def test_an_action_is_listed_if_all_given_filters_match(api, connection, query, found):
    inserted = [
        insert(connection, **columns)
        for columns in (
            {"payload": {"needle": "needle"}},
            {"status": "failed", "completed_at": database_now(connection)},
            {"action_type": "test:welcome"},
            {"team_id": "red", "user_id": "ann"},
            {"lock_group": "g"},
            {"scheduled_at": datetime(2030, 6, 1, tzinfo=UTC)},
            {"scheduled_at": datetime(2031, 6, 1, tzinfo=UTC)},
            {"scheduled_at": datetime(2019, 6, 1, tzinfo=UTC)},
            {"dedup_key": "key-of"},
            {
                "user_id": "ann", "target_type": "invoice", "target_id": "7", "schedule_id": UNKNOWN,
                "deadline_id": UNKNOWN, "scheduled_by": UNKNOWN,
            },
        )
    ]  # fmt: skip

    response = api("GET", f"/actions?{query}")

    assert ids(response) == [inserted[one] for one in reversed(found)]
    assert response.json["next_cursor"] is None


@pytest.mark.parametrize(
    ("query", "field"),
    [("target_type=invoice", "target_id"), ("target_id=7", "target_id"), ("schedule_id=nightly", "schedule_id")],
)
def test_an_invalid_filter_of_a_list_is_named(api, query, field):
    response = api("GET", f"/actions?{query}")

    assert response.status_code == 400
    assert [one["field"] for one in response.json["errors"]] == [field]


def test_an_action_is_found_by_its_id(api, connection):
    inserted = insert_many(connection, 3)

    assert ids(api("GET", f"/actions?q={inserted[1]}")) == [inserted[1]]


# -- get ---------------------------------------------------------------------------------------------------------------


def test_an_action_is_returned_with_its_history_and_an_etag(api, connection):
    history = [{"attempt": 1, "outcome": "failed", "error": "no"}, {"outcome": "retried", "by": "ann"}]
    action_id = insert(connection, history=history, attempts=1)

    response = api("GET", f"/actions/{action_id}")

    assert response.status_code == 200
    assert response.json["history"] == history
    assert response.headers["ETag"].strip('"').isalnum()
    assert response.headers["ETag"] == api("GET", f"/actions/{action_id}").headers["ETag"]


@pytest.mark.parametrize("action_id", [UNKNOWN, "42", "x" * 300, "%00", "%F0%9F%98%80"])
@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_an_unknown_or_malformed_action_id_is_not_found(shared_api, action_id, method):
    response = shared_api(method, f"/actions/{action_id}", {"priority": 1})

    assert response.status_code == 404
    assert response.json["code"] in {"unknown_action", "unknown_route"}


# -- update ------------------------------------------------------------------------------------------------------------


def test_an_update_changes_only_the_given_fields(api, connection, later):
    before = row(connection, later)

    response = api("PATCH", f"/actions/{later}", {"payload": {"n": 2}, "max_attempts": 5})

    assert response.status_code == 200
    after = row(connection, later)
    assert (after["payload"], after["max_attempts"]) == ({"n": 2}, 5)
    assert {name for name in after if after[name] != before[name]} == {
        "payload", "max_attempts", "history", "updated_at"
    }  # fmt: skip
    (entry,) = response.json["history"]
    assert (entry["by"], entry["changes"]) == ("api:admin", ["max_attempts", "payload"])


@pytest.mark.parametrize(
    ("change", "column", "value"),
    [
        ({"scheduled_at": "2030-01-01T00:00:00Z"}, "scheduled_at", "2030-01-01T00:00:00Z"),
        ({"scheduled_at": "2030-01-01T00:00:00", "timezone": "Asia/Tokyo"}, "scheduled_at", "2029-12-31T15:00:00Z"),
        ({"priority": -3}, "priority", -3),
        ({"metadata": {"a": 1}}, "metadata", {"a": 1}),
    ],
)
def test_each_field_can_be_changed(api, later, change, column, value):
    assert api("PATCH", f"/actions/{later}", change).json[column] == value


def test_a_delay_and_a_retry_policy_can_be_changed(api, connection, later):
    api("PATCH", f"/actions/{later}", {"delay": "P2D", "retry": {"kind": "linear"}})

    stored = row(connection, later)
    assert stored["retry"]["kind"] == "linear"
    assert datetime.fromisoformat(stored["scheduled_at"]) > database_now(connection) + timedelta(days=1)


def test_an_update_replaces_conditions_and_follow_ups_and_null_removes_them(api, later):
    condition = {"kind": "document_state", "target": {"type": "books", "id": "2026"}, "state": "closed"}
    follow_up = {"action_type": "test:run", "payload": {}}
    before = api("POST", "/actions", {"action_type": "test:run", "payload": {}, "delay": 3600}).json["id"]

    given = api("PATCH", f"/actions/{later}", {"condition": condition, "after": [before], "on_success": follow_up}).json
    gone = api("PATCH", f"/actions/{later}", {"condition": None, "on_success": None}).json
    refused = api("PATCH", f"/actions/{later}", {"after": [later]})

    assert given["condition"] == {"after": [before], "condition": condition}
    assert given["on_success"] == [follow_up]
    assert (gone["condition"], gone["on_success"]) == ({"after": [before]}, None)
    assert (refused.status_code, list(errors(refused))) == (400, ["after"])


@pytest.mark.parametrize("change", [{}, {"timezone": "Europe/Berlin"}, {"force": True}])
def test_an_update_without_changes_returns_the_unchanged_action(api, connection, later, change):
    before = row(connection, later)

    assert api("PATCH", f"/actions/{later}", change).status_code == 200
    assert row(connection, later) == before


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"priority": None}, "priority"),
        ({"payload": None}, "payload"),
        ({"status": "completed"}, "status"),
        ({"team_id": "blue"}, "team_id"),
        ({"action_type": "test:run"}, "action_type"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"scheduled_at": "2030-01-01T00:00:00"}, "scheduled_at"),
        ({"force": "yes"}, "force"),
    ],
    ids=str,
)
def test_an_invalid_field_of_an_update_is_named_and_nothing_is_changed(api, connection, later, change, field):
    before = row(connection, later)

    response = api("PATCH", f"/actions/{later}", change)

    assert response.status_code == 400
    assert list(errors(response)) == [field]
    assert row(connection, later) == before


def test_the_payload_of_an_update_is_validated(api, connection):
    action_id = insert(
        connection,
        action_type="test:welcome",
        scheduled_at=database_now(connection) + IN_AN_HOUR,
        payload={"name": "A"},
    )

    response = api("PATCH", f"/actions/{action_id}", {"payload": {"name": 5}})

    assert (response.status_code, response.json["code"]) == (400, "payload_invalid")
    assert row(connection, action_id)["payload"] == {"name": "A"}


@pytest.mark.parametrize(("method", "path"), [("PATCH", ""), ("POST", "/cancel")])
def test_an_action_is_locked_from_two_minutes_before_its_due_time_unless_forced(api, connection, method, path):
    action_id = insert(connection, scheduled_at=database_now(connection) + timedelta(seconds=100))
    before = row(connection, action_id)

    change = {"priority": 5} if method == "PATCH" else {}
    refused = api(method, f"/actions/{action_id}{path}", change)

    assert (refused.status_code, refused.json["code"]) == (409, "action_locked")
    assert refused.json["detail"].endswith("before its due time: set force=true to override the lock")
    assert row(connection, action_id) == before
    assert api(method, f"/actions/{action_id}{path}", change | {"force": True}).status_code == 200


def test_an_update_can_be_forced_in_its_body(api, connection):
    action_id = insert(connection)

    assert api("PATCH", f"/actions/{action_id}", {"priority": 5, "force": True}).json["priority"] == 5


def test_the_setting_determines_the_length_of_the_edit_lock(a_runtime, connection):
    from tests.web.conftest import ADMIN_TOKEN, Api, application

    api = Api(application(a_runtime(SCHEDULED_ACTIONS_EDIT_LOCK_SECONDS="7200")).test_client(), ADMIN_TOKEN)
    action_id = insert(connection, scheduled_at=database_now(connection) + IN_AN_HOUR)

    assert api("PATCH", f"/actions/{action_id}", {"priority": 5}).json["code"] == "action_locked"


def claimed(connection, **columns):
    return insert(
        connection,
        status="processing",
        claim_token=UNKNOWN,
        lease_expires_at=database_now(connection) + IN_AN_HOUR,
        **columns,
    )


def test_no_response_contains_a_claim_token(api, connection):
    """A caller with the claim token could settle the action."""
    action_id = claimed(connection)

    answers = [api("GET", path) for path in (f"/actions/{action_id}", "/actions", f"/actions/{action_id}/explain")]

    assert [one.status_code for one in answers] == [200] * 3
    assert not any(UNKNOWN in one.text for one in answers)


@pytest.mark.parametrize(
    ("method", "path"),
    [("PATCH", "?force=true"), ("POST", "/cancel"), ("DELETE", ""), ("POST", "/retry"), ("POST", "/run")],
)  # fmt: skip
def test_a_change_of_a_claimed_action_is_rejected_with_its_status(api, connection, method, path):
    action_id = claimed(connection)
    before = row(connection, action_id)

    response = api(method, f"/actions/{action_id}{path}", {"force": True} if path == "/cancel" else {"priority": 1})

    assert (response.status_code, response.json["code"]) == (409, "wrong_status")
    assert response.json["action_status"] == "processing"
    assert "processing" in response.json["detail"]
    assert row(connection, action_id) == before


# -- If-Match ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [("PATCH", "", {"priority": 5}), ("POST", "/cancel", {})])
def test_a_change_with_the_etag_of_an_earlier_version_is_rejected(api, connection, later, change):
    method, path, body = change
    seen = api("GET", f"/actions/{later}").headers["ETag"]
    now = api("PATCH", f"/actions/{later}", {"priority": 9}).headers["ETag"]

    refused = api(method, f"/actions/{later}{path}", body, headers={"If-Match": seen})

    assert (refused.status_code, refused.json["code"]) == (412, "precondition_failed")
    assert refused.headers["ETag"] == now != seen
    assert row(connection, later)["priority"] == 9
    assert api(method, f"/actions/{later}{path}", body, headers={"If-Match": now}).status_code == 200


@pytest.mark.parametrize(
    ("if_match", "status"), [("*", 200), ('"x", {etag}', 200), ("W/{etag}", 412), ("nonsense", 412), ("", 412)]
)
def test_if_match_is_parsed_as_http_requires(api, later, if_match, status):
    etag = api("GET", f"/actions/{later}").headers["ETag"]

    response = api("PATCH", f"/actions/{later}", {"priority": 2}, headers={"If-Match": if_match.format(etag=etag)})

    assert response.status_code == status


def test_a_conditional_update_of_an_unknown_action_is_not_found(shared_api):
    assert shared_api("PATCH", f"/actions/{UNKNOWN}", {"priority": 1}, headers={"If-Match": '"x"'}).status_code == 404


@pytest.mark.usefixtures("patient_runtime")
def test_only_one_of_several_concurrent_updates_with_the_same_etag_succeeds(api, later, connection, database_url):
    etag = api("GET", f"/actions/{later}").headers["ETag"]
    answers = []

    def change():
        answers.append(
            api("PATCH", f"/actions/{later}", {"metadata": {"by": 1}}, headers={"If-Match": etag}).status_code
        )

    with psycopg.connect(database_url) as holder:
        holder.execute("select from scheduled_actions for update")
        threads = [threading.Thread(target=change) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: is_waiting(connection, 4))
        holder.rollback()
        for thread in threads:
            thread.join()

    assert sorted(answers) == [200, 412, 412, 412]


# -- cancel, delete, retry, run ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["pending", "no_action"])
def test_a_cancelled_action_is_kept_with_the_reason(api, connection, status):
    action_id = insert(connection, status=status, scheduled_at=database_now(connection) + IN_AN_HOUR)

    response = api("POST", f"/actions/{action_id}/cancel", {"reason": "not needed"})

    assert response.status_code == 200
    assert (response.json["status"], response.json["error_message"]) == ("cancelled", "not needed")
    assert (response.json["history"][-1]["by"], response.json["history"][-1]["reason"]) == ("api:admin", "not needed")
    assert api("GET", f"/actions/{action_id}").json["status"] == "cancelled"


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "skipped"])
def test_a_finished_action_is_deleted_and_cannot_be_cancelled(api, connection, status):
    action_id = insert(connection, status=status, completed_at=database_now(connection))
    refused = api("POST", f"/actions/{action_id}/cancel", {"force": True})

    removed = api("DELETE", f"/actions/{action_id}")

    assert (refused.status_code, refused.json["action_status"]) == (409, status)
    assert (removed.status_code, removed.json["status"]) == (200, status)
    assert api("GET", f"/actions/{action_id}").status_code == 404
    assert api("DELETE", f"/actions/{action_id}").status_code == 404


@pytest.mark.parametrize("status", ["pending", "no_action"])
def test_an_unfinished_action_cannot_be_deleted(api, connection, status):
    action_id = insert(connection, status=status)

    response = api("DELETE", f"/actions/{action_id}")

    assert (response.status_code, response.json["action_status"]) == (409, status)
    assert row(connection, action_id)["status"] == status


@pytest.mark.parametrize("status", ["failed", "cancelled", "skipped"])
def test_a_retried_action_is_pending_with_no_attempts_used(api, connection, status):
    action_id = insert(connection, status=status, completed_at=database_now(connection), attempts=3)

    response = api("POST", f"/actions/{action_id}/retry")

    assert response.status_code == 200
    assert (response.json["status"], response.json["attempts"]) == ("pending", 0)
    assert response.json["history"][-1]["by"] == "api:admin"


@pytest.mark.parametrize("status", ["pending", "completed", "no_action"])
def test_an_action_with_another_status_cannot_be_retried(api, connection, status):
    action_id = insert(connection, status=status)

    response = api("POST", f"/actions/{action_id}/retry")

    assert (response.status_code, response.json["action_status"]) == (409, status)


def test_a_pending_action_can_be_made_due_despite_its_edit_lock(api, connection):
    action_id = insert(connection, scheduled_at=database_now(connection) + timedelta(seconds=60))

    response = api("POST", f"/actions/{action_id}/run")

    assert response.status_code == 200
    assert datetime.fromisoformat(response.json["scheduled_at"]) <= database_now(connection)
    assert response.json["history"][-1]["changes"] == ["scheduled_at"]
    assert response.json["history"][-1]["by"] == "api:admin"


def test_an_action_that_is_already_due_is_not_changed_by_run(api, connection):
    action_id = insert(connection)
    before = row(connection, action_id)

    assert api("POST", f"/actions/{action_id}/run").status_code == 200
    assert row(connection, action_id) == before


# -- count -------------------------------------------------------------------------------------------------------------


def test_actions_are_counted_by_status_type_and_due_time(api, connection):
    now = database_now(connection)
    insert_many(connection, 2, scheduled_at=now - timedelta(seconds=100))
    insert(connection, lock_group="g", action_type="test:welcome", priority=9, **due_for(connection, seconds=1000))
    insert(connection, scheduled_at=now + IN_AN_HOUR)
    insert(connection, status="failed", completed_at=now)
    insert(connection, status="no_action", action_type="gone:type")
    claimed(connection)

    counts = api("GET", "/actions/counts").json

    assert {status.value: counts[status] for status in Status} == {
        "pending": 4, "processing": 1, "completed": 0, "failed": 1, "cancelled": 0, "skipped": 0, "no_action": 1
    }  # fmt: skip
    assert (counts["due"], counts["overdue"], counts["capped"]) == (3, 1, [])
    assert 1000 <= counts["oldest_due_seconds"] < 1100
    assert counts["lateness"] == {}
    assert counts["by_type"]["test:welcome"]["pending"] == 1
    assert counts["by_type"]["gone:type"]["no_action"] == 1
    assert counts["by_type"]["test:run"]["failed"] == 1


def test_counts_include_the_lateness_of_starts(api, connection):
    now = database_now(connection)
    due = dict.fromkeys(("created_at", "scheduled_at"), now - timedelta(seconds=8))
    insert(connection, status="failed", **due, started_at=now, completed_at=now)

    counts = api("GET", "/actions/counts").json

    measured = {"sample_count": 1, "p50_seconds": 8.0, "p95_seconds": 8.0, "max_seconds": 8.0}
    assert counts["lateness"] == {"test:run": measured}
    assert api("GET", "/actions/counts?team_id=another").json["lateness"] == {}


def test_the_threshold_of_overdue_actions_can_be_given(api, connection):
    insert(connection, **due_for(connection, seconds=50))

    assert api("GET", "/actions/counts").json["overdue"] == 0
    assert api("GET", "/actions/counts?overdue_seconds=49.5").json["overdue"] == 1
    assert api("GET", "/actions/counts?overdue_seconds=-1").status_code == 400


def test_all_counts_are_zero_without_actions(shared_api):
    counts = shared_api("GET", "/actions/counts").json

    assert (counts["pending"], counts["due"], counts["oldest_due_seconds"], counts["by_type"]) == (0, 0, None, {})


def test_the_counts_of_a_team_exclude_other_teams(api, connection):
    now = database_now(connection)
    insert(connection, team_id="red", **due_for(connection, seconds=400))
    insert(connection, team_id="red", scheduled_at=now + IN_AN_HOUR)
    insert(connection, team_id="red", status="failed", completed_at=now)
    insert(connection, team_id="blue", **due_for(connection, seconds=900))
    insert(connection)

    counts = api("GET", "/actions/counts?team_id=red").json

    assert (counts["pending"], counts["failed"], counts["due"], counts["overdue"]) == (2, 1, 1, 1)
    assert 400 <= counts["oldest_due_seconds"] < 500


def test_the_actions_that_an_action_scheduled_are_listed_in_pages(api, connection):
    parent = insert(connection)
    children = [insert(connection, scheduled_by=parent) for _ in range(3)]
    insert(connection)

    first = api("GET", f"/actions/{parent}/scheduled?limit=2").json
    last = api("GET", f"/actions/{parent}/scheduled?limit=2&cursor={first['next_cursor']}").json

    assert [one["id"] for one in first["actions"] + last["actions"]] == [str(one) for one in reversed(children)]
    assert last["next_cursor"] is None
    assert {one["scheduled_by"] for one in first["actions"]} == {str(parent)}
    assert api("GET", f"/actions/{parent}").json["scheduled_by"] is None
