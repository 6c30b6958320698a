"""The routes of `/api/v1/schedules`: the life cycle of a schedule, previews and errors."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import get_args

import pytest

from scheduled_actions import next_occurrence
from scheduled_actions.core.config import Limit
from scheduled_actions.recurrence.model import Kind
from scheduled_actions.registry import Registry
from tests.factories import NOW, set_clock
from tests.web.conftest import ADMIN_TOKEN, Api, application, run

DAY = timedelta(days=1)
REFERENCE = Path(__file__).parents[3] / "docs/reference/recurrence.md"


@pytest.fixture(autouse=True)
def stopped_clock(connection):
    set_clock(connection, NOW)


def made(api, **changes):
    response = api("POST", "/schedules", {"action_type": "test:run", "payload": {}, "recurrence": "daily"} | changes)
    assert response.status_code in {200, 201}, response.text
    return response.json


def test_a_schedule_is_created_read_updated_and_deleted(api):
    first = made(api, name="report", timezone="Europe/Berlin", recurrence="0 9 * * 1-5", overlap="queue")

    shown = api("GET", "/schedules/report").json
    changed = api("PATCH", f"/schedules/{first['id']}", {"recurrence": "hourly", "overlap": None}).json
    removed = api("DELETE", "/schedules/report")

    assert first["upcoming"][0] == first["next_occurrence_at"] == "2026-03-05T08:00:00Z"
    assert "09:00" in first["description"]
    assert shown | {"warnings": []} == first
    assert (changed["recurrence"], changed["overlap"]) == ("hourly", "skip")
    assert changed["next_occurrence_at"] == "2026-03-04T13:00:00Z"
    assert removed.status_code == 200
    assert api("GET", "/schedules/report").status_code == 404


def test_the_limit_keys_and_the_expiry_of_a_schedule_are_shown_and_changed(api, runtime):
    runtime.config.settings.limits.update({"api:*": Limit(), "total": Limit()})
    shown = ("limit", "expires_in", "on_expiry")

    first = made(api, name="report", limit=["api:acme", "total"], expires_in="PT1H", on_expiry="fail")
    listed = api("GET", "/schedules").json["schedules"][0]
    changed = api("PATCH", "/schedules/report", {"limit": "api:acme", "expires_in": 90, "on_expiry": None}).json
    removed = api("PATCH", "/schedules/report", {"limit": None, "expires_in": None}).json

    assert [[one[name] for name in shown] for one in (first, listed, changed, removed)] == [
        [["api:acme", "total"], 3600.0, "fail"],
        [["api:acme", "total"], 3600.0, "fail"],
        [["api:acme"], 90.0, "skip"],
        [None, None, None],
    ]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"limit": "unknown"}, "limit"),
        ({"limit": []}, "limit"),
        ({"expires_in": 0}, "expires_in"),
        ({"expires_in": "soon"}, "expires_in"),
        ({"expires_in": 60, "on_expiry": "cancel"}, "on_expiry"),
        ({"on_expiry": "fail"}, "on_expiry"),
    ],
)
def test_an_invalid_limit_key_or_expiry_is_refused(api, given, field):
    schedule = {"action_type": "test:run", "payload": {}, "recurrence": "daily", "name": "report"}
    created = api("POST", "/schedules", schedule | given)
    made(api, name="report")
    changed = api("PATCH", "/schedules/report", given)

    for refused in (created, changed):
        assert refused.status_code == 400, refused.text
        assert refused.json["errors"][0]["field"] == field


def test_the_condition_and_follow_ups_of_a_schedule_apply_to_its_occurrences(api):
    condition = {"kind": "document_state", "target": {"type": "books", "id": "2026"}, "state": "closed"}
    given = {"condition": {"wait": condition}, "on_failure": {"action_type": "test:run", "payload": {}}}

    first = made(api, name="report", **given)
    occurrence = api("GET", f"/actions/{first['next_action_id']}").json
    changed = api("PATCH", "/schedules/report", {"condition": None}).json
    refused = api("PATCH", "/schedules/report", {"on_success": {"action_type": "test:gone"}})

    follow_ups = [{"action_type": "test:run", "payload": {}}]
    assert (first["condition"], first["on_failure"]) == ({"wait": condition}, follow_ups)
    assert (occurrence["condition"], occurrence["on_failure"]) == ({"wait": condition}, follow_ups)
    assert (changed["condition"], changed["on_failure"]) == (None, follow_ups)
    assert (refused.status_code, refused.json["code"]) == (422, "unknown_action_type")


def test_a_change_with_the_etag_of_an_earlier_version_is_rejected(api):
    first = made(api, name="report", remaining=5)
    seen = {"If-Match": api("GET", "/schedules/report").headers["ETag"]}
    requests = [
        ("DELETE", f"/schedules/{first['id']}", None),
        ("POST", "/schedules/report/resume", None),
        ("POST", "/schedules/report/pause", {"reason": "too many"}),
        ("PATCH", "/schedules/report", {"remaining": 3}),
    ]

    assert api("PATCH", "/schedules/report", {"remaining": 4}).status_code == 200
    stale = [api(method, path, body, headers=seen) for method, path, body in requests]
    unchanged = api("GET", "/schedules/report")
    fresh = [api(*requests.pop(), headers={"If-Match": stale[0].headers["ETag"]})]
    while requests:
        fresh.append(api(*requests.pop(), headers={"If-Match": fresh[-1].headers["ETag"]}))

    assert [(one.status_code, one.json["code"]) for one in stale] == [(412, "precondition_failed")] * 4
    assert {one.headers["ETag"] for one in stale} == {unchanged.headers["ETag"]}
    assert (unchanged.json["remaining"], unchanged.json["status"]) == (4, "active")
    assert [one.status_code for one in fresh] == [200] * 4
    assert [one.json["status"] for one in fresh] == ["active", "paused", "active", "active"]
    assert api("PATCH", "/schedules/report", {"remaining": 2}, headers=seen).status_code == 404


def test_a_run_does_not_change_the_etag_of_a_schedule(api, runtime, connection):
    made(api, name="report", remaining=5)
    seen = api("GET", "/schedules/report")

    set_clock(connection, NOW + DAY)
    assert runtime.processor.tick(caller="a cron").succeeded == 1
    changed = api("PATCH", "/schedules/report", {"overlap": "queue"}, headers={"If-Match": seen.headers["ETag"]})

    assert changed.status_code == 200
    assert (changed.json["executions"], changed.json["remaining"]) == (1, 4)
    assert changed.json["next_occurrence_at"] != seen.json["next_occurrence_at"]


def test_an_identical_request_by_name_returns_200_and_the_same_schedule(api):
    body = {"action_type": "test:run", "payload": {}, "recurrence": "daily", "name": "report"}

    first, again = api("POST", "/schedules", body), api("POST", "/schedules", body)

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json == again.json
    assert first.headers["Location"] == f"/api/v1/schedules/{first.json['id']}"


def test_a_repeated_request_with_a_key_creates_one_schedule(api):
    body = {"action_type": "test:run", "payload": {}, "recurrence": "daily"}

    answers = [api("POST", "/schedules", body, headers={"Idempotency-Key": "k"}).json["id"] for _ in range(2)]

    assert len(set(answers)) == 1


def test_a_schedule_is_paused_resumed_skipped_run_and_backfilled(api, connection):
    schedule = made(api, recurrence="0 12 * * *")
    path = f"/schedules/{schedule['id']}"

    paused = api("POST", f"{path}/pause", {"reason": "the printer is broken"}).json
    resumed = api("POST", f"{path}/resume").json
    skipped = api("POST", f"{path}/skip").json
    extra = api("POST", f"{path}/run")
    past = {"from": (NOW - 3 * DAY).isoformat(), "to": NOW.isoformat()}
    backfilled = api("POST", f"{path}/backfill", past).json

    assert (paused["status"], paused["status_reason"], paused["upcoming"]) == ("paused", "the printer is broken", [])
    assert resumed["next_occurrence_at"] == "2026-03-05T12:00:00Z"
    assert (skipped["next_occurrence_at"], skipped["skipped"]) == ("2026-03-06T12:00:00Z", 1)
    assert (extra.status_code, len(extra.json["ids"])) == (201, 1)
    assert len(backfilled["ids"]) == 4
    assert api("GET", f"/actions/{backfilled['ids'][0]}").json["schedule_id"] == schedule["id"]


def test_schedules_are_listed_in_pages_newest_first(api):
    ids = [made(api)["id"] for _ in range(3)]

    first = api("GET", "/schedules?limit=2").json
    rest = api("GET", f"/schedules?limit=2&cursor={first['next_cursor']}").json

    assert [one["id"] for one in first["schedules"] + rest["schedules"]] == ids[::-1]
    assert rest["next_cursor"] is None
    assert api("GET", "/schedules?status=paused").json["schedules"] == []


def test_a_preview_remarks_on_the_effect_of_a_dst_change(api):
    body = {"rule": "30 1 * * *", "timezone": "America/New_York", "from": "2026-10-31T12:00:00", "count": 2}

    shown = api("POST", "/schedules/preview", body).json

    assert [one["at"] for one in shown["occurrences"]] == ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"]
    assert "twice" in shown["occurrences"][0]["remarks"][0]
    assert (shown["rule"], shown["kind"]) == ("30 1 * * *", "cron")


@pytest.mark.parametrize("kind", get_args(Kind))
def test_the_documented_examples_of_each_kind_can_be_previewed_and_scheduled(a_runtime, kind):
    @next_occurrence("payday")
    def payday(moment):
        return moment + DAY

    api = Api(application(a_runtime(registry=Registry.of(run, payday))).test_client(), ADMIN_TOKEN)
    row = re.search(rf"^\| `{kind}` \| (.*) \|$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
    assert row, f"docs/reference/recurrence.md has no examples of the kind {kind}"

    for rule in re.findall(r"`([^`]+)`", row[1]):
        preview = api("POST", "/schedules/preview", {"rule": rule, "timezone": "America/New_York", "count": 3})
        assert (preview.status_code, preview.json.get("kind"), len(preview.json["occurrences"])) == (200, kind, 3)
        assert made(api, recurrence=rule)["next_occurrence_at"]


@pytest.mark.parametrize(
    ("body", "status", "code", "text"),
    [
        ({"recurrence": "0 25 * * *"}, 400, "recurrence_invalid", "field 2, hour: 25 is not in 0"),
        ({"recurrence": "0 0 30 2 *"}, 400, "never_occurs", "30"),
        ({"recurrence": 10}, 400, "fields_invalid", 'has no unit: write, for example, \\"every 10 minutes\\"'),
        ({"recurrence": "10"}, 400, "recurrence_invalid", "has no unit: write, for example"),
        ({"recurrence": "x" * 3000}, 400, "fields_invalid", "recurrence"),
        ({"action_type": "test:rum"}, 422, "unknown_action_type", "test:run"),
        ({"overlap": "never"}, 400, "fields_invalid", "overlap"),
        ({"timezone": "Mars"}, 400, "fields_invalid", "timezone"),
        ({"remaining": 0}, 400, "fields_invalid", "remaining"),
        ({"skip": {"weekdays": True}}, 400, "invalid_argument", "weekends"),
        ({"colour": "red"}, 400, "fields_invalid", "colour"),
        (
            {"reminders": [30]},
            400,
            "fields_invalid",
            "is an unknown field; reminders belongs to deadlines, which can recur",
        ),
        ({"delay": 5, "scheduled_at": "2026-03-05T00:00:00Z"}, 400, "fields_invalid", "delay"),
    ],
)
def test_an_invalid_schedule_is_rejected_with_a_specific_error(api, body, status, code, text):
    given = {"action_type": "test:run", "payload": {}, "recurrence": "daily"} | body

    response = api("POST", "/schedules", given)

    assert (response.status_code, response.json["code"]) == (status, code)
    assert text in response.text
    assert api("GET", "/schedules").json["schedules"] == []


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/schedules/unknown", None, "unknown_schedule"),
        ("PATCH", "/schedules/unknown", {"priority": 1}, "unknown_schedule"),
        ("DELETE", "/schedules/unknown", None, "unknown_schedule"),
        ("POST", "/schedules/unknown/pause", None, "unknown_schedule"),
        ("POST", "/schedules/unknown/run", None, "unknown_schedule"),
    ],
)
def test_an_unknown_schedule_is_not_found(api, method, path, body, code):
    response = api(method, path, body)

    assert (response.status_code, response.json["code"]) == (404, code)


def test_a_backfill_in_an_unknown_time_zone_is_rejected(api, connection):
    schedule = made(api, recurrence="every 2 days")
    connection.execute("update scheduled_action_schedules set timezone = 'Europe/Nowhere'")

    answer = api("POST", f"/schedules/{schedule['id']}/backfill", {
        "from": (NOW - 9 * DAY).isoformat(), "to": (NOW - 8 * DAY).isoformat()
    })  # fmt: skip

    assert (answer.status_code, answer.json["code"]) == (400, "invalid_argument"), answer.text
    assert "Europe/Nowhere" in answer.json["detail"]


def test_a_skip_of_an_occurrence_that_is_no_longer_planned_is_rejected(api):
    schedule = made(api, recurrence="0 12 * * *")
    path, seen = f"/schedules/{schedule['id']}", {"next_action_id": schedule["next_action_id"]}

    first = api("POST", f"{path}/skip", seen)
    second = api("POST", f"{path}/skip", seen)

    assert (first.status_code, first.json["skipped"]) == (200, 1)
    assert (second.status_code, second.json["code"]) == (409, "nothing_planned")
    assert seen["next_action_id"] in second.json["detail"]
    now = api("GET", path).json
    assert (now["skipped"], now["next_action_id"]) == (1, first.json["next_action_id"])


def test_a_paused_schedule_has_no_occurrence_to_skip(api):
    schedule = made(api)
    api("POST", f"/schedules/{schedule['id']}/pause")

    response = api("POST", f"/schedules/{schedule['id']}/skip")

    assert (response.status_code, response.json["code"]) == (409, "nothing_planned")
