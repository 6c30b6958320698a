"""The routes `/api/v1/notifications` and `/api/v1/local-actions`."""

from __future__ import annotations

import pytest

from handlers import notification
from scheduled_actions import action, resolve_recipients
from scheduled_actions.registry import Registry
from tests.factories import NOW, set_clock
from tests.web.conftest import ADMIN_TOKEN, Api, application


@resolve_recipients("role")
def people(name, team_id):
    return {"cfo": ["carl@example.org"], "odd": 7}[name]


@action("test:run", open_to_teams=True)
def run(payload: dict): ...


@pytest.fixture
def api(a_runtime, connection):
    set_clock(connection, NOW)
    runtime = a_runtime(registry=Registry.of(notification.send, people, run))
    return Api(application(runtime).test_client(), ADMIN_TOKEN)


def test_a_notification_schedules_an_action_per_person(api):
    body = {
        "recipients": ["ann@example.org", "role:cfo", {"email": "bob@example.org"}],
        "text": "Hello",
        "delay": "PT1H",
    }

    answer = api("POST", "/notifications", body)

    assert answer.status_code == 201
    actions = [api("GET", f"/actions/{one}").json for one in answer.json["action_ids"]]
    assert [one["payload"]["to"] for one in actions[:2]] == ["ann@example.org", "role:cfo"]
    assert {one["scheduled_at"] for one in actions} == {"2026-03-04T13:00:00Z"}


def test_a_repeated_request_with_a_key_notifies_people_once(api):
    body = {"recipients": ["ann@example.org"], "text": "Hello"}

    answers = [api("POST", "/notifications", body, headers={"Idempotency-Key": "k"}).json for _ in range(2)]

    assert answers[0] == answers[1]
    assert len(api("GET", "/actions").json["actions"]) == 1


@pytest.mark.parametrize(
    ("changes", "status", "text"),
    [
        ({"recipients": []}, 400, "recipients"),
        ({"recipients": ["ann"]}, 400, "recipients"),
        ({"recipients": [{"name": "Ann"}]}, 400, "recipients"),
        ({"recipients": ["slack://secret-token/x"]}, 400, "recipients"),
        ({"text": ""}, 400, "text"),
        ({"severity": "loud"}, 400, "severity"),
        ({"delay": 1, "scheduled_at": "2026-03-05T00:00:00Z"}, 400, "delay"),
        # An error of the application's resolver is reported without its message.
        ({"recipients": ["role:missing"]}, 503, "cannot be used: the resolver raised KeyError"),
        ({"recipients": ["role:odd"]}, 503, "cannot be used: the resolver raised TypeError"),
    ],
)
def test_an_invalid_notification_is_rejected(api, changes, status, text):
    answer = api("POST", "/notifications", {"recipients": ["ann@example.org"], "text": "Hello"} | changes)

    assert (answer.status_code, text in answer.text) == (status, True), answer.text
    assert "secret-token" not in answer.text
    assert api("GET", "/actions").json["actions"] == []


USERS = [{"user_id": "ann", "timezone": "Europe/Berlin"}, {"user_id": "kai", "timezone": "Asia/Tokyo"}]
LOCAL = {"action_type": "test:run", "payload": {}, "local_time": "09:00", "users": USERS}


def test_local_actions_are_due_in_the_time_zone_of_each_user(api):
    once = api("POST", "/local-actions", LOCAL | {"priority": 3})
    daily = api("POST", "/local-actions", LOCAL | {"recurrence": "daily", "name": "greeting"})

    assert (once.status_code, daily.status_code) == (201, 201), once.text + daily.text
    assert [(one["user_id"], one["at"]) for one in once.json["scheduled"]] == [
        ("ann", "2026-03-05T09:00:00+01:00"), ("kai", "2026-03-05T09:00:00+09:00"),
    ]  # fmt: skip
    shown = api("GET", f"/actions/{once.json['scheduled'][0]['action_id']}").json
    assert (shown["user_id"], shown["priority"], shown["scheduled_at"]) == ("ann", 3, "2026-03-05T08:00:00Z")
    assert api("GET", f"/schedules/{daily.json['scheduled'][1]['schedule_id']}").json["name"] == "greeting:kai"


def test_local_actions_take_a_limit_and_expire_after_their_due_time(api):
    options = {"limit": "api:mail", "expires_in": "PT30M", "on_expiry": "fail"}

    scheduled = api("POST", "/local-actions", LOCAL | options).json["scheduled"]

    for one, expires_at in zip(scheduled, ("2026-03-05T08:30:00Z", "2026-03-05T00:30:00Z"), strict=True):
        shown = api("GET", f"/actions/{one['action_id']}").json
        assert (shown["limit"], shown["expires_at"], shown["on_expiry"]) == (["api:mail"], expires_at, "fail")


@pytest.mark.parametrize(
    ("changes", "status", "text"),
    [
        ({"local_time": "nine"}, 400, "local_time"),
        ({"limit": "unknown"}, 400, "limit"),
        ({"expires_at": "2026-03-05T07:00:00Z"}, 400, "expires_at"),
        ({"expires_at": "2026-03-06T07:00:00Z", "recurrence": "daily"}, 400, "expires_at"),
        ({"users": [{"user_id": "ann", "timezone": "Mars"}]}, 400, "timezone"),
        ({"users": USERS + USERS[:1]}, 400, "users"),
        ({"recurrence": "0 10 * * *"}, 400, "recurrence"),
        ({"recurrence": "sometimes"}, 400, "sometimes"),
        ({"action_type": "test:nothing"}, 422, "test:nothing"),
    ],
)
def test_invalid_local_actions_are_rejected_for_all_users(api, changes, status, text):
    answer = api("POST", "/local-actions", LOCAL | changes)

    assert (answer.status_code, text in answer.text) == (status, True), answer.text
    assert api("GET", "/actions").json["actions"] == []


def test_a_token_of_a_team_notifies_and_schedules_only_in_the_team(api, a_caller):
    blue = Api(api.client, a_caller("operator", team_id="blue").token)

    own = blue("POST", "/notifications", {"recipients": ["ann@example.org"], "text": "Hello"})
    other = blue("POST", "/notifications", {"recipients": ["ann@example.org"], "text": "Hello", "team_id": "red"})
    local = blue("POST", "/local-actions", LOCAL)

    assert (own.status_code, local.status_code) == (201, 201)
    assert other.status_code in {403, 404, 400}
    assert {one["team_id"] for one in api("GET", "/actions").json["actions"]} == {"blue"}
