"""Cloning an action copies every argument that the form does not change."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import BaseModel

from scheduled_actions import action
from scheduled_actions.registry import Registry
from scheduled_actions.web.api.actions.models import CreateActionRequest
from tests.factories import database_now, insert, row, statuses
from tests.web.conftest import ADMIN_TOKEN, Api, application
from tests.web.dashboard.conftest import Person
from tests.web.dashboard.filled_form import submitted


class Payout(BaseModel):
    amount: int
    note: str = "none"
    at: datetime | None = None


@action("payout:send")
def send_payout(payload: Payout): ...


@action("any:thing")
def anything(payload: dict): ...


FOLLOW_UPS = [
    {
        "action_type": "any:thing",
        "payload": {"x": [1, None]},
        "delay": "PT5M",
        "target": {"type": "a", "id": "b/c"},
        "retry": [1, 2],
        "on_failure": {"action_type": "payout:send", "payload": {"amount": 1}, "priority": 3},
    }
]
CONDITION = {
    "wait": {"kind": "document_state", "target": {"type": "payout", "id": "17"}, "state": "approved"},
    "check_interval": 60,
    "timeout": "P30D",
    "on_timeout": [{"action_type": "any:thing", "payload": {"late": True}}],
}


@pytest.fixture
def app(a_runtime):
    return application(a_runtime(registry=Registry.of(send_payout, anything)))


@pytest.fixture
def person(app):
    person = Person(app.test_client())
    person.signs_in(ADMIN_TOKEN)
    return person


@pytest.fixture
def api(app):
    return Api(app.test_client(), ADMIN_TOKEN)


@pytest.fixture
def all_arguments(api):
    """Return every argument of an action."""
    first = api.schedule(action_type="any:thing")["id"]
    return {
        "action_type": "payout:send",
        "payload": {"amount": 17, "at": "2030-03-05T08:30:00.123456Z"},
        "scheduled_at": "2031-01-01T00:00:00Z",
        "team_id": "red",
        "priority": 7,
        "max_attempts": 2,
        "retry": {"kind": "linear", "base_seconds": 5.0, "cap_seconds": 50.0, "jitter": "full"},
        "lock_group": "bank",
        "lock_group_blocks": True,
        "dedup_key": "key-17",
        "dedup_window": 3600,
        "dedup_mode": "first",
        "target": {"type": "invoice", "id": "2026/17"},
        "user_id": "ann",
        "metadata": {"note": "line one\nline two", "n": 1.5},
        "created_by": "the shop",
        "condition": CONDITION,
        "after": [first],
        "on_success": FOLLOW_UPS,
        "on_failure": FOLLOW_UPS,
        "limit": ["api:acme", "reports"],
        "expires_at": "2031-01-01T12:00:00Z",
        "on_expiry": "fail",
    }


def stored_arguments(connection, action_id):
    """Return the stored arguments of an action, without the dedup key and creator, which a clone does not copy."""
    values = row(connection, action_id)
    for name in ("id", "created_at", "updated_at", "dedup_key", "dedup_open", "created_by"):
        del values[name]
    return values


def test_an_untouched_clone_keeps_every_argument(person, api, connection, all_arguments):
    assert all_arguments.keys() | {"delay", "timezone", "expires_in"} == CreateActionRequest.model_fields.keys()
    all_arguments["team_id"] = None
    made = api.schedule(**{name: value for name, value in all_arguments.items() if value is not None})
    page = person.opens(f"/action-types/payout:send?from={made['id']}").text

    done = person.sends("/action-types/payout:send", **submitted(page, "/action-types/payout:send"))

    assert done.status_code == 303, done.text
    clone = done.location.rpartition("/")[2]
    assert clone != made["id"]
    assert stored_arguments(connection, clone) == stored_arguments(connection, made["id"])
    assert row(connection, clone)["dedup_key"] is None


def test_a_clone_keeps_the_condition_of_the_original(person, api, connection):
    made = api.schedule(action_type="any:thing", condition=CONDITION)
    page = person.opens(f"/action-types/any:thing?from={made['id']}").text

    done = person.sends("/action-types/any:thing", **submitted(page, "/action-types/any:thing"))
    person.sends("/ticks/run")

    clone = row(connection, done.location.rpartition("/")[2])
    assert (clone["status"], clone["waiting"]["checks"]) == ("pending", 1)


def test_a_clone_keeps_arguments_that_the_form_does_not_show(person, api, connection, all_arguments):
    all_arguments["team_id"] = None
    made = api.schedule(**{name: value for name, value in all_arguments.items() if value is not None})

    done = person.sends("/action-types/payout:send", **{"from": made["id"], "payload.amount": "17", "priority": "8"})

    kept, clone = (
        stored_arguments(connection, made["id"]),
        stored_arguments(connection, done.location.rpartition("/")[2]),
    )
    assert {**clone, "scheduled_at": None} == {
        **kept,
        "payload": {"amount": 17},
        "priority": 8,
        "scheduled_at": None,
        "parked_by": "limit",
    }


def test_a_clone_takes_emptied_and_changed_fields_from_the_form(person, api, connection, all_arguments):
    all_arguments["team_id"] = None
    made = api.schedule(**{name: value for name, value in all_arguments.items() if value is not None})
    form = submitted(person.opens(f"/action-types/payout:send?from={made['id']}").text, "/action-types/payout:send")
    emptied = dict.fromkeys(
        (
            "condition",
            "after",
            "on_success",
            "on_failure",
            "retry",
            "lock_group",
            "lock_group_blocks",
            "metadata",
            "limit",
            "expires_at",
            "on_expiry",
        ),
        "",
    )

    done = person.sends(
        "/action-types/payout:send", **form | emptied | {"target_type": "", "target_id": "", "payload.amount": "18"}
    )

    clone = stored_arguments(connection, done.location.rpartition("/")[2])
    columns = {*emptied, "target_id", "limit_keys"} - {"after", "lock_group_blocks", "limit"}
    assert {name: clone[name] for name in columns} == dict.fromkeys(columns)
    assert clone["lock_group_blocks"] is False
    assert clone["payload"] == {"amount": 18, "at": "2030-03-05T08:30:00.123456Z"}


def test_a_clone_stays_a_clone_when_its_payload_is_edited_as_json(person, api):
    made = api.schedule(action_type="payout:send", payload={"amount": 1})

    assert f"as=json&amp;from={made['id']}" in person.opens(f"/action-types/payout:send?from={made['id']}").text
    as_json = person.opens(f"/action-types/payout:send?as=json&from={made['id']}").text
    assert "&#34;amount&#34;: 1" in as_json
    assert submitted(as_json, "/action-types/payout:send")["from"] == made["id"]


def test_cloning_a_deleted_action_is_refused_and_keeps_the_input(person, api, connection):
    made = api.schedule(action_type="payout:send", payload={"amount": 1}, condition=CONDITION)
    form = submitted(person.opens(f"/action-types/payout:send?from={made['id']}").text, "/action-types/payout:send")
    connection.execute("delete from scheduled_actions")

    refused = person.sends("/action-types/payout:send", **form | {"payload.note": "typed"})

    assert refused.status_code == 404
    assert 'value="typed"' in refused.text
    assert statuses(connection) == {}


def test_a_clone_of_a_due_action_is_due_at_once(person, connection):
    model = insert(
        connection, action_type="any:thing", payload={}, scheduled_at=database_now(connection) - timedelta(1)
    )

    assert 'name="when" value="now" checked' in person.opens(f"/action-types/any:thing?from={model}").text


def test_a_clone_whose_expiry_has_passed_is_refused_next_to_the_field(person, connection):
    model = insert(
        connection, action_type="any:thing", payload={}, status="skipped", expires_at="2020-01-01Z", on_expiry="skip"
    )
    form = submitted(person.opens(f"/action-types/any:thing?from={model}").text, "/action-types/any:thing")
    assert form["expires_at"] == "2020-01-01T00:00:00"

    refused = person.sends("/action-types/any:thing", **form)

    assert refused.status_code == 400
    assert "must be after scheduled_at" in refused.text.partition('id="f-expires_at-wrong"')[2][:200]
    assert list(statuses(connection)) == [model]


def test_the_form_takes_limit_keys_one_per_line_and_a_local_time_of_the_expiry(person, connection):
    done = person.sends(
        "/action-types/any:thing", payload="{}", **{"as": "json"}, limit=" api:acme \r\n\r\nreports", on_expiry="fail",
        expires_at="2040-06-01T12:00:00",
    )  # fmt: skip

    action_id = done.location.rpartition("/")[2]
    made = row(connection, action_id)
    assert (made["limit_keys"], made["on_expiry"]) == (["api:acme", "reports"], "fail")
    assert datetime.fromisoformat(made["expires_at"]) == datetime(2040, 6, 1, 12, tzinfo=UTC)
    page = person.opens(f"/actions/{action_id}").text
    assert re.findall(r"/limits\?prefix=[^\"]+\">([^<]+)<", page) == ["api:acme", "reports"]
    assert "then failed" in page


@pytest.mark.parametrize(
    ("given", "field"),
    [({"limit": "unknown"}, "limit"), ({"on_expiry": "fail"}, "on_expiry"), ({"expires_at": "soon"}, "expires_at")],
)
def test_the_form_shows_an_invalid_limit_or_expiry_next_to_its_field(person, connection, given, field):
    refused = person.sends("/action-types/any:thing", payload="{}", **{"as": "json"}, **given)

    assert refused.status_code == 400
    assert f'id="f-{field}-wrong"' in refused.text
    assert statuses(connection) == {}
