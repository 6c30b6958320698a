"""Bulk changes by `/api/v1/actions/retry`, `/api/v1/actions/cancel` and `/api/v1/actions/delete`."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from scheduled_actions.core.action import FINISHED
from tests.factories import database_now, insert, insert_many, statuses

IN_AN_HOUR = timedelta(hours=1)


def failed(connection, count=1, **columns):
    return insert_many(connection, count, status="failed", completed_at=database_now(connection), **columns)


def pending(connection, count=1, **columns):
    columns.setdefault("scheduled_at", database_now(connection) + IN_AN_HOUR)
    return insert_many(connection, count, **columns)


def test_a_dry_run_counts_and_changes_nothing(api, connection):
    failed(connection, 3)
    before = statuses(connection)

    response = api("POST", "/actions/retry", {"status": "failed", "dry_run": True, "limit": 1})

    assert response.status_code == 200
    assert response.json == {"matched": 3, "changed": 0, "more": False, "next_cursor": None, "dry_run": True}
    assert statuses(connection) == before


def test_only_matching_failed_actions_are_retried(api, connection):
    wanted = failed(connection, 3, action_type="test:welcome")
    others = [
        *failed(connection),
        insert(connection, action_type="test:welcome", status="cancelled", completed_at=database_now(connection)),
        insert(connection, action_type="test:welcome", status="completed", completed_at=database_now(connection)),
    ]

    response = api("POST", "/actions/retry", {"action_type": "test:welcome"})

    assert response.json == {"matched": 3, "changed": 3, "more": False, "next_cursor": None, "dry_run": False}
    assert {statuses(connection)[one] for one in wanted} == {"pending"}
    assert Counter(statuses(connection)[one] for one in others) == {"failed": 1, "cancelled": 1, "completed": 1}
    assert api("GET", f"/actions/{wanted[0]}").json["history"][-1]["by"] == "api:admin"


@pytest.mark.parametrize("status", ["cancelled", "skipped"])
def test_cancelled_or_skipped_actions_are_retried_if_the_status_is_given(api, connection, status):
    (action_id,) = insert_many(connection, 1, status=status, completed_at=database_now(connection))

    assert api("POST", "/actions/retry", {"status": status}).json["changed"] == 1
    assert statuses(connection)[action_id] == "pending"


def test_a_request_changes_at_most_its_limit_and_the_cursor_continues(api, connection):
    pending(connection, 250)

    first = api("POST", "/actions/cancel", {"all": True, "limit": 120}).json
    second = api("POST", "/actions/cancel", {"all": True, "limit": 120, "cursor": first["next_cursor"]}).json
    third = api("POST", "/actions/cancel", {"all": True, "limit": 120, "cursor": second["next_cursor"]}).json

    assert [(one["changed"], one["more"]) for one in (first, second, third)] == [(120, True), (120, True), (10, False)]
    assert set(statuses(connection).values()) == {"cancelled"}


def test_matching_pending_actions_are_cancelled_with_the_reason(api, connection):
    (wanted,), (other,) = pending(connection, lock_group="g"), pending(connection)
    unhandled = insert(connection, status="no_action", lock_group="g")

    response = api("POST", "/actions/cancel", {"lock_group": "g", "reason": "not needed"})

    assert response.json["changed"] == 2
    assert statuses(connection) == {wanted: "cancelled", other: "pending", unhandled: "cancelled"}
    assert api("GET", f"/actions/{wanted}").json["error_message"] == "not needed"


def test_only_actions_without_a_handler_are_cancelled_if_that_status_is_given(api, connection):
    (waits,) = pending(connection)
    unhandled = insert(connection, status="no_action")

    assert api("POST", "/actions/cancel", {"status": "no_action"}).json["changed"] == 1
    assert statuses(connection) == {waits: "pending", unhandled: "cancelled"}


def test_actions_in_their_edit_lock_are_left_out_unless_forced(api, connection):
    (later,) = pending(connection)
    soon = insert(connection)

    counted = api("POST", "/actions/cancel", {"all": True, "dry_run": True}).json
    changed = api("POST", "/actions/cancel", {"all": True}).json

    assert (counted["matched"], changed["matched"], changed["changed"]) == (1, 1, 1)
    assert statuses(connection) == {later: "cancelled", soon: "pending"}
    assert api("POST", "/actions/cancel", {"all": True, "force": True}).json["changed"] == 1
    assert statuses(connection)[soon] == "cancelled"


def test_only_matching_finished_actions_are_deleted(api, connection):
    ended = [insert(connection, status=status, completed_at=database_now(connection)) for status in FINISHED]
    old = database_now(connection) - timedelta(days=40)
    expired = insert(connection, status="completed", completed_at=old)
    unfinished = {*pending(connection), insert(connection, status="no_action")}
    before = (database_now(connection) - timedelta(days=30)).isoformat()

    counted = api("POST", "/actions/delete", {"status": "completed", "completed_to": before, "dry_run": True}).json
    untouched = statuses(connection)
    deleted = api("POST", "/actions/delete", {"status": "completed", "completed_to": before}).json
    kept = statuses(connection)
    rest = api("POST", "/actions/delete", {"all": True, "limit": 3}).json

    assert (counted["matched"], counted["changed"], expired in untouched) == (1, 0, True)
    assert deleted == {"matched": 1, "changed": 1, "more": False, "next_cursor": None, "dry_run": False}
    assert kept.keys() == unfinished | set(ended)
    assert (rest["changed"], rest["more"]) == (3, True)
    assert api("POST", "/actions/delete", {"all": True, "cursor": rest["next_cursor"]}).json["changed"] == 1
    assert statuses(connection).keys() == unfinished


@pytest.mark.parametrize(
    ("filters", "changed"),
    [
        ({"q": "welc"}, 1),
        ({"team_id": "red"}, 1),
        ({"team_id": "nobody"}, 0),
        ({"due_from": "2030-01-01T00:00:00Z"}, 1),
        ({"due_to": "2030-01-01T00:00:00Z"}, 3),
        ({"q": "test", "team_id": "red", "status": "failed"}, 1),
    ],
)
def test_a_bulk_change_has_the_filters_of_the_list(api, connection, filters, changed):
    failed(connection)
    failed(connection, action_type="test:welcome")
    failed(connection, team_id="red")
    failed(connection, scheduled_at=database_now(connection) + timedelta(days=36500))

    assert api("POST", "/actions/retry", filters).json["changed"] == changed


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("retry", {}, "body"),
        ("retry", {"dry_run": True}, "body"),
        ("retry", {"all": False}, "all"),
        ("retry", {"status": "pending"}, "status"),
        ("retry", {"status": "completed"}, "status"),
        ("retry", {"status": None}, "status"),
        ("retry", {"q": None}, "q"),
        ("retry", {"all": True, "limit": 0}, "limit"),
        ("retry", {"all": True, "limit": 10_001}, "limit"),
        ("retry", {"all": True, "cursor": "x"}, "cursor"),
        ("retry", {"all": True, "force": True}, "force"),
        ("cancel", {}, "body"),
        ("cancel", {"force": True}, "body"),
        ("cancel", {"status": "processing"}, "status"),
        ("cancel", {"due_from": "2030-01-01T00:00:00"}, "due_from"),
        ("cancel", {"statuses": ["pending"]}, "statuses"),
        ("delete", {}, "body"),
        ("delete", {"status": "pending"}, "status"),
        ("delete", {"all": True, "completed_to": "yesterday"}, "completed_to"),
    ],
    ids=str,
)
def test_an_invalid_or_unfiltered_bulk_change_is_rejected(api, connection, path, body, field):
    failed(connection)
    pending(connection)
    before = statuses(connection)

    response = api("POST", f"/actions/{path}", body)

    assert response.status_code == 400
    assert [one["field"] for one in response.json["errors"]][:1] == [field]
    assert statuses(connection) == before
