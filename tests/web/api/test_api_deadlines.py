"""The routes of `/api/v1/deadlines`: the life cycle of a deadline, and errors."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from handlers import deadline as own
from scheduled_actions import action
from scheduled_actions.registry import Registry
from tests.factories import NOW, set_clock
from tests.web.conftest import ADMIN_TOKEN, Api, application

DAY = timedelta(days=1)
DUE = NOW + 90 * DAY
BODY = {
    "target": {"type": "license", "id": "42"},
    "due_at": DUE.isoformat(),
    "recipients": "ann@example.org",
    "reminders": ["60 days before", {"offset": "7 days before at 09:00", "repeat": "daily"}],
}


@action("approval:start")
def start(payload: dict):
    """Do nothing."""


@pytest.fixture
def runtime(a_runtime, connection):
    set_clock(connection, NOW)
    return a_runtime(
        registry=Registry.of(start, own.send_reminder, own.send_escalation, own.mark_missed, own.create_next)
    )


def made(api, **changes):
    response = api("POST", "/deadlines", BODY | changes)
    assert response.status_code in {200, 201}, response.text
    return response.json


def test_a_deadline_is_created_moved_paused_acknowledged_reassigned_and_completed(api, connection):
    first = made(
        api,
        name="renewal",
        escalation=[{"offset": "2 days after", "to": ["cfo@example.org"], "stop_when": "acknowledged"}],
        auto_actions=[{"offset": "30 days before", "action_type": "approval:start", "payload": {"n": 1}}],
    )
    path = f"/deadlines/{first['id']}"

    shown = api("GET", "/deadlines/renewal").json
    moved = api("POST", f"{path}/move", {"due_at": (DUE + DAY).isoformat(), "reason": "agreed"}).json
    paused = api("POST", f"{path}/pause").json
    resumed = api("POST", f"{path}/resume").json
    known = api("POST", f"{path}/acknowledge", {"until": (NOW + DAY).isoformat()}).json
    other = api("POST", f"{path}/reassign", {"recipients": ["bob@example.org"]}).json
    done = api("POST", f"{path}/complete", {"reason": "signed"}).json
    again = api("POST", f"{path}/complete")

    assert (first["status"], first["due_at"]) == ("open", "2026-06-02T12:00:00Z")
    assert [(step["stage"], step["state"]) for step in shown["timeline"]] == [
        ("reminder:60 days before", "planned"),
        ("action:approval:start 30 days before", "planned"),
        ("reminder:7 days before at 09:00", "planned"),
        ("due", "planned"),
        ("escalation:1", "planned"),
    ]
    assert moved["due_at"] == "2026-06-03T12:00:00Z"
    assert paused["paused_at"] == "2026-03-04T12:00:00Z"
    assert resumed["paused_at"] is None
    assert known["acknowledged_by"] == "api:admin"
    assert other["recipients"] == ["bob@example.org"]
    assert (done["status"], done["days_late"], done["closed_reason"]) == ("completed", 0, "signed")
    assert again.json == done
    assert connection.execute("select count(*) from scheduled_actions where status = 'pending'").fetchone() == (0,)


def test_a_change_with_the_etag_of_an_earlier_version_is_rejected(api):
    first = made(api, name="renewal")
    seen = api("GET", "/deadlines/renewal")

    changed = api(
        "PATCH", "/deadlines/renewal", {"reminders": ["10 days before"], "metadata": None, "reason": "fewer"},
        headers={"If-Match": seen.headers["ETag"]},
    )  # fmt: skip
    stale = [
        api(method, path, body, headers={"If-Match": seen.headers["ETag"]})
        for method, path, body in [
            ("PATCH", f"/deadlines/{first['id']}", {"reminders": []}),
            ("POST", "/deadlines/renewal/complete", {}),
            ("POST", "/deadlines/renewal/move", {"delay": "P30D"}),
        ]
    ]
    completed = api("POST", "/deadlines/renewal/complete", {}, headers={"If-Match": changed.headers["ETag"]})

    assert changed.status_code == 200
    assert [one["key"] for one in changed.json["stages"]] == ["reminder:10 days before", "due"]
    assert {one.status_code for one in stale} == {412}
    assert {one.headers["ETag"] for one in stale} == {changed.headers["ETag"]}
    assert stale[0].json["code"] == "precondition_failed"
    assert completed.json["status"] == "completed"


@pytest.mark.parametrize("stages", [5, [5], [{}], [{"key": 1}], {"a": 1}])
def test_an_update_of_an_unreadable_definition_must_replace_all_stages(api, connection, stages):
    path = f"/deadlines/{made(api)['id']}"
    connection.execute("update scheduled_action_deadlines set definition = %s", [Jsonb({"stages": stages})])

    refused = [
        api("PATCH", path, {"timezone": "Europe/Berlin"}),
        api("POST", f"{path}/preview", {"reminders": ["1 day before"]}),
    ]
    whole = {"reminders": ["1 day before"], "escalation": None, "auto_actions": None}

    assert [(one.status_code, one.json["code"]) for one in refused] == [(400, "invalid_argument")] * 2
    assert all("reminders, escalation and auto_actions" in one.json["detail"] for one in refused)
    changed = api("PATCH", path, whole)
    assert changed.status_code == 200, changed.text
    assert [one["offset"] for one in changed.json["stages"] if one["kind"] == "reminder"] == ["1 day before"]


def test_an_identical_request_by_name_returns_200_and_the_same_deadline(api):
    body = BODY | {"name": "renewal"}

    first, again = api("POST", "/deadlines", body), api("POST", "/deadlines", body)

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json == again.json
    assert first.headers["Location"] == f"/api/v1/deadlines/{first.json['id']}"


def test_several_deadlines_are_moved_in_one_request_and_a_series_is_cancelled(api):
    ids = [made(api)["id"] for _ in range(2)]
    series = made(api, recurrence="yearly")["id"]

    moved = api("POST", "/deadlines/move", {"moves": dict.fromkeys(ids, (DUE + DAY).isoformat())})
    cancelled = api("POST", f"/deadlines/{series}/cancel", {"series": True}).json

    assert moved.json == {"moved": 2}
    assert {api("GET", f"/deadlines/{one}").json["due_at"] for one in ids} == {"2026-06-03T12:00:00Z"}
    assert (cancelled["status"], cancelled["next_id"]) == ("cancelled", series)


def test_deadlines_are_listed_in_pages_newest_first(api, connection):
    ids = [made(api, target={"type": "license", "id": str(n)})["id"] for n in range(3)]

    first = api("GET", "/deadlines?limit=2").json
    rest = api("GET", f"/deadlines?limit=2&cursor={first['next_cursor']}").json
    one = api("GET", "/deadlines?target_type=license&target_id=1").json
    set_clock(connection, DUE + DAY)

    assert [each["id"] for each in first["deadlines"] + rest["deadlines"]] == ids[::-1]
    assert rest["next_cursor"] is None
    assert [each["id"] for each in one["deadlines"]] == [ids[1]]
    assert len(api("GET", "/deadlines?overdue=true").json["deadlines"]) == 3
    assert api("GET", "/deadlines?status=completed").json["deadlines"] == []


def test_an_integer_offset_is_a_number_of_days(api):
    first = made(
        api,
        reminders=[60, {"offset": 7}],
        escalation=[{"offset": 1, "to": ["cfo@example.org"]}],
        auto_actions=[{"offset": -30, "action_type": "approval:start"}],
    )

    assert [one["offset"] for one in first["stages"]] == [
        "60 days before", "7 days before", "1 day after", "30 days before", "when due",
    ]  # fmt: skip


@pytest.mark.parametrize("is_closed", [False, True])
def test_deadlines_are_listed_by_user(api, is_closed):
    plain = made(api, recipients=["ann@example.org"], target={"type": "license", "id": "1"})["id"]
    person = {"id": "ann@example.org", "email": "ann@example.net"}
    named = made(api, recipients=[person], target={"type": "license", "id": "2"})["id"]
    made(api, recipients=["bob@example.org"], target={"type": "license", "id": "3"})
    if is_closed:
        api("POST", f"/deadlines/{plain}/complete")

    found = api("GET", "/deadlines?user_id=ann@example.org").json["deadlines"]

    assert [one["id"] for one in found] == [named, plain]


def test_conditions_of_stages_are_returned_and_reach_only_public_addresses(api):
    document = {"kind": "document_state", "target": {"type": "license", "id": "42"}, "state": "approved"}
    request = {"kind": "http", "url": "https://orders.example/42"}

    first = made(
        api,
        escalation=[{"offset": 1, "to": ["cfo@example.org"], "condition": {"not": document}}],
        auto_actions=[{"offset": -1, "action_type": "approval:start", "condition": {"any": [document, request]}}],
    )

    assert {one["kind"]: one["condition"] for one in first["stages"]} == {
        "reminder": None,
        "escalation": {"not": document},
        "action": {"any": [document, {**request, "reach": "public"}]},
        "due": None,
    }


@pytest.mark.parametrize(
    ("body", "status", "code", "text"),
    [
        ({"target": {"type": "license"}}, 400, "fields_invalid", "target.id"),
        ({"due_at": None}, 400, "invalid_argument", "due_at"),
        ({"due_at": "soon"}, 400, "fields_invalid", "due_at"),
        ({"delay": "P1D"}, 400, "fields_invalid", "delay"),
        ({"reminders": ["60 days befor"]}, 400, "invalid_argument", "reminders[0].offset"),
        ({"reminders": [-60]}, 400, "invalid_argument", "reminders[0].offset: -60 is not"),
        ({"reminders": [True]}, 400, "fields_invalid", "reminders.0"),
        ({"reminders": [1.5]}, 400, "fields_invalid", "reminders.0"),
        ({"reminders": [{"repeat": "daily"}]}, 400, "fields_invalid", "offset"),
        (
            {"escalation": [{"offset": "1 day after"}]},
            400,
            "invalid_argument",
            "required for a level without `assign`",
        ),
        (
            {"auto_actions": [{"offset": "when due", "action_type": "approval:begin"}]},
            422,
            "unknown_action_type",
            "start",
        ),
        (
            {"escalation": [{"offset": 1, "to": "cfo@example.org", "condition": {"kind": "approved"}}]},
            400,
            "invalid_argument",
            "escalation[0].condition.kind",
        ),
        (
            {"auto_actions": [{"offset": 1, "action_type": "approval:start", "condition": "approved"}]},
            400,
            "fields_invalid",
            "auto_actions.0.condition",
        ),
        ({"recipients": []}, 400, "invalid_argument", "recipients"),
        ({"recurrence": "dayly"}, 400, "recurrence_invalid", "daily"),
        ({"colour": "red"}, 400, "fields_invalid", "colour"),
    ],
)
def test_an_invalid_deadline_is_rejected_with_a_specific_error(api, body, status, code, text):
    response = api("POST", "/deadlines", BODY | body)

    assert (response.status_code, response.json["code"]) == (status, code)
    assert text in response.text


def test_a_change_of_a_cancelled_or_unknown_deadline_is_rejected(api):
    closed = made(api)["id"]
    api("POST", f"/deadlines/{closed}/cancel")

    assert api("POST", f"/deadlines/{closed}/complete").json["code"] == "wrong_deadline_status"
    assert api("POST", f"/deadlines/{closed}/move", {"delay": "P1D"}).status_code == 409
    assert api("GET", f"/deadlines/{uuid4()}").json["code"] == "unknown_deadline"
    assert api("POST", "/deadlines/move", {"moves": {"x": DUE.isoformat()}}).json["code"] == "fields_invalid"


def test_a_deadline_of_another_team_is_indistinguishable_from_an_unknown_one(api, a_caller, connection):
    blue = made(api, team_id="blue", name="renewal")
    red, viewer = a_caller("operator", "red"), a_caller("viewer", "blue")
    before = connection.execute("select to_jsonb(d) from scheduled_action_deadlines d").fetchall()

    for action_name, body in (
        ("complete", {}), ("cancel", {"series": True}), ("move", {"delay": 5}), ("pause", {}), ("resume", {}),
        ("acknowledge", {}), ("reassign", {"recipients": "x@example.org"}),
    ):  # fmt: skip
        for reference in (blue["id"], "renewal"):
            theirs = red("POST", f"/deadlines/{reference}/{action_name}", body)
            unknown = red("POST", f"/deadlines/{uuid4()}/{action_name}", body)
            assert (theirs.status_code, theirs.json["code"]) == (unknown.status_code, unknown.json["code"])
            assert theirs.status_code == 404
        assert viewer("POST", f"/deadlines/{blue['id']}/{action_name}", body).status_code == 403
    assert red("POST", "/deadlines/move", {"moves": {blue["id"]: DUE.isoformat()}}).status_code == 404
    assert red("GET", "/deadlines?team_id=blue").json["deadlines"] == red("GET", "/deadlines").json["deadlines"] == []
    assert red("POST", "/deadlines", BODY | {"team_id": "blue"}).status_code == 403
    assert connection.execute("select to_jsonb(d) from scheduled_action_deadlines d").fetchall() == before


@pytest.mark.parametrize(
    ("change", "body"),
    [
        ("pause", {}), ("resume", {}), ("acknowledge", {}), ("reassign", {"recipients": "bob@example.org"}),
        ("move", {"delay": "P91D"}), ("preview", {"reminders": ["1 day before"]}),
    ],
)  # fmt: skip
def test_a_change_of_an_unusable_deadline_returns_the_documented_conflict(api, connection, change, body):
    deadline_id = made(api)["id"]
    connection.execute("update scheduled_action_deadlines set timezone = 'Mars'")

    response = api("POST", f"/deadlines/{deadline_id}/{change}", body)

    operation = api.client.get("/openapi.json").json["paths"][f"/api/v1/deadlines/{{id}}/{change}"]["post"]
    assert (response.status_code, response.json["code"]) == (409, "deadline_unusable")
    assert "`deadline_unusable`" in operation["responses"]["409"]["description"]


def test_the_error_names_a_missing_handler_of_deadlines(a_runtime):
    api = Api(application(a_runtime(registry=Registry.of(start))).test_client(), ADMIN_TOKEN)

    response = api("POST", "/deadlines", BODY)

    assert (response.status_code, response.json["code"]) == (422, "unknown_action_type")
    assert "reminder:send" in response.text


# -- previews ----------------------------------------------------------------------------------------------------------


def test_a_preview_of_a_deadline_returns_its_stages_and_stores_nothing(api):
    asked = BODY | {"due_at": (NOW + 30 * DAY).isoformat(), "escalation": [{"offset": "2 days after", "to": "c@e.org"}]}

    seen = api("POST", "/deadlines/preview", asked).json

    states = {one["key"]: one["state"] for one in seen["stages"]}
    # The reminder of 60 days before has passed, but is still sent, because it is the most urgent one that has passed.
    assert states == dict.fromkeys(
        ("reminder:60 days before", "reminder:7 days before at 09:00", "escalation:1"), "planned"
    )
    assert seen["due_at"] == (NOW + 30 * DAY).isoformat().replace("+00:00", "Z")
    assert api("POST", "/deadlines/preview", asked | {"reminders": ["soon"]}).status_code == 400
    assert api("GET", "/deadlines").json["deadlines"] == []


def test_a_preview_of_an_update_equals_the_result_of_the_update(api):
    first = made(api, name="renewal", escalation=[{"offset": "2 days after", "to": ["cfo@example.org"]}])
    path = f"/deadlines/{first['id']}"
    changes = {"reminders": ["1 day before"], "timezone": "Europe/Berlin"}

    seen = api("POST", f"{path}/preview", changes | {"reason": "to see"}).json
    assert api("GET", path).json["stages"] == first["stages"]
    changed = api("PATCH", path, changes).json

    assert [one["key"] for one in seen["stages"]] == ["reminder:1 day before", "escalation:1"]
    assert seen["stages"] == [one for one in changed["stages"] if one["kind"] != "due"]
    assert api("POST", f"{path}/preview", {"reminders": ["soon"]}).status_code == 400
    api("POST", f"{path}/complete")
    assert api("POST", f"{path}/preview", changes).status_code == 409
