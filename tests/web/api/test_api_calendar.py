"""The route `/api/v1/calendar`: order, pages, teams and errors."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.factories import NOW, insert, set_clock


@pytest.fixture(autouse=True)
def stopped_clock(connection):
    set_clock(connection, NOW)


def test_the_calendar_is_returned_in_pages(api, connection):
    first = insert(connection, scheduled_at=NOW + timedelta(hours=1), user_id="ann", target_type="t", target_id="1")
    api("POST", "/schedules", {"action_type": "test:run", "payload": {}, "recurrence": "daily", "name": "backup"})

    page = api("GET", "/calendar?limit=2").json
    following = api("GET", f"/calendar?limit=2&cursor={page['next_cursor']}").json

    assert page["entries"][0] == {
        "kind": "action", "at": "2026-03-04T13:00:00Z", "id": str(first), "title": "test:run", "forecast": False,
        "action_type": "test:run", "status": "pending", "team_id": None, "user_id": "ann", "target_type": "t",
        "target_id": "1", "action_id": str(first), "deadline_id": None, "schedule_id": None,
    }  # fmt: skip
    assert [(one["at"], one["title"], one["forecast"]) for one in page["entries"][1:] + following["entries"]] == [
        ("2026-03-05T12:00:00Z", "backup", False),
        ("2026-03-06T12:00:00Z", "backup", True),
        ("2026-03-07T12:00:00Z", "backup", True),
    ]
    assert (page["from"], page["to"]) == ("2026-03-04T12:00:00Z", "2026-04-04T12:00:00Z")


def test_the_calendar_is_limited_by_range_and_user(api, connection):
    for hours, user in ((1, "ann"), (2, "bob"), (3, "ann")):
        insert(connection, scheduled_at=NOW + timedelta(hours=hours), user_id=user)

    page = api("GET", "/calendar?from=2026-03-04T14:00:00Z&to=2026-03-04T16:00:00%2B00:00&user_id=ann").json

    assert [one["at"] for one in page["entries"]] == ["2026-03-04T15:00:00Z"]


def test_a_token_of_a_team_gets_only_the_entries_of_the_team(api, a_caller, connection):
    for team_id in ("blue", "red", None):
        insert(connection, scheduled_at=NOW + timedelta(hours=1), team_id=team_id)
    blue = a_caller("viewer", team_id="blue")

    assert [one["team_id"] for one in blue("GET", "/calendar").json["entries"]] == ["blue"]
    assert blue("GET", "/calendar?team_id=red").json["entries"] == []
    assert len(api("GET", "/calendar").json["entries"]) == 3
    assert [one["team_id"] for one in api("GET", "/calendar?team_id=red").json["entries"]] == ["red"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=yesterday", "from"), ("from=2026-03-04T12:00:00", "from"), ("to=2026-03-04T11:00:00Z", "to"),
        ("to=2028-03-04T12:00:00Z", "to"), ("cursor=x", "cursor"), ("limit=0", "limit"), ("user=", "user"),
        ("x=1", "x"),
    ],
)  # fmt: skip
def test_the_error_of_an_invalid_query_names_the_parameter(api, query, field):
    answer = api("GET", f"/calendar?{query}")

    assert answer.status_code in {400, 422}, answer.text
    assert field in answer.text
