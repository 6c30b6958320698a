"""The routes of `/api/v1/facts`, and conditions of actions."""

from __future__ import annotations

import pytest

from scheduled_actions.operations import tokens
from tests.factories import row
from tests.web.conftest import Api

ORDER = "/facts/purchase_order/42"
APPROVED = {"kind": "document_state", "target": {"type": "purchase_order", "id": "42"}, "state": "approved"}


@pytest.fixture
def red(a_caller):
    return a_caller("operator", "red")


@pytest.fixture
def blue(a_caller):
    return a_caller("operator", "blue")


def test_a_fact_is_reported_read_listed_and_deleted(red):
    reported = red("PUT", f"{ORDER}/state", {"value": "approved"})

    assert reported.status_code == 200
    assert (reported.json["value"], reported.json["changed"], reported.json["has_waiters"]) == ("approved", True, False)
    assert reported.json["team_id"] == "red"
    assert red("PUT", f"{ORDER}/state", {"value": "approved"}).json["changed"] is False
    assert red("GET", f"{ORDER}/state").json["value"] == "approved"
    assert [one["name"] for one in red("GET", "/facts?target_type=purchase_order").json["facts"]] == ["state"]
    assert red("DELETE", f"{ORDER}/state").status_code == 200
    assert red("GET", f"{ORDER}/state").json["code"] == "unknown_fact"
    changes = red("GET", f"{ORDER}/state/history").json["changes"]
    assert [(one["value"], one["is_removal"]) for one in changes] == [(None, True), ("approved", False)]


def test_facts_are_listed_in_pages(red):
    for number in range(3):
        red("PUT", f"{ORDER}/n{number}", {"value": number})

    first = red("GET", "/facts?limit=2").json
    rest = red("GET", f"/facts?limit=2&cursor={first['next_cursor']}").json

    assert [one["value"] for one in first["facts"] + rest["facts"]] == [2, 1, 0]
    assert rest["next_cursor"] is None


def test_a_fact_of_another_team_is_indistinguishable_from_an_unknown_one(red, blue):
    blue("PUT", f"{ORDER}/state", {"value": "approved"})

    assert red("GET", "/facts").json == red("GET", "/facts?team_id=blue").json == {"facts": [], "next_cursor": None}
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/history")):
        for query in ("", "?team_id=blue"):
            theirs = red(method, f"{ORDER}/state{path}{query}")
            unknown = red(method, f"{ORDER}/other{path}{query}")
            assert theirs.status_code == unknown.status_code == 404
            assert theirs.text.replace("state", "other") == unknown.text
    assert red("PUT", f"{ORDER}/state", {"value": 1, "team_id": "blue"}).status_code == 403
    assert blue("GET", f"{ORDER}/state").json["value"] == "approved"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (f"{ORDER}/a*", {"value": 1}, "name"),
        (f"{ORDER}/{'x' * 256}", {"value": 1}, "name"),
        (f"{ORDER}/state", {}, "value"),
        (f"{ORDER}/state", {"value": "\0"}, "value"),
        (f"{ORDER}/state", {"value": 1, "vaule": 1}, "vaule"),
    ],
)
def test_an_invalid_report_is_rejected_with_the_name_of_the_field(red, path, body, field):
    response = red("PUT", path, body)

    assert response.status_code in {400, 422}
    assert field in response.text


def test_a_value_over_the_size_limit_is_rejected(red):
    assert red("PUT", f"{ORDER}/state", {"value": "x" * 20_000}).json["code"] == "too_large"


@pytest.fixture
def schedule(red):
    def make(**arguments):
        return red("POST", "/actions", {"action_type": "test:welcome", "payload": ANN, **arguments})

    return make


ANN = {"name": "Ann"}


def test_an_action_is_scheduled_with_conditions_and_follow_ups(red, schedule, connection):
    first = schedule().json["id"]

    made = schedule(
        condition={"wait": APPROVED, "timeout": "P30D", "on_timeout": {"action_type": "test:welcome", "payload": ANN}},
        after=[first],
        on_success=[{"action_type": "test:welcome", "payload": ANN, "delay": 60}],
    )

    assert made.status_code == 201, made.text
    assert made.json["condition"]["after"] == [first]
    assert made.json["on_success"][0]["action_type"] == "test:welcome"
    assert row(connection, made.json["id"])["condition"]["condition"]["wait"] == APPROVED


def test_the_wait_for_another_action_is_limited(schedule):
    first = schedule().json["id"]

    made = schedule(condition={"timeout": "PT1H"}, after=[first])

    assert made.status_code == 201, made.text
    assert made.json["condition"] == {"after": [first], "condition": {"timeout": "PT1H"}}


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"condition": {"kind": "magic"}}, "condition.kind"),
        ({"condition": {"wait": {"all": [APPROVED, {"kind": "field_value"}]}}}, "condition.wait.all.1.target"),
        ({"condition": {"wait": APPROVED, "timeout": "soon"}}, "condition.timeout"),
        ({"condition": {"timeout": "PT1H"}}, "condition"),
        ({"after": ["7"]}, "after.0"),
        ({"on_success": {"action_type": "test:welcome", "payload": {"name": 1}}}, "on_success.0.payload"),
        ({"on_failure": [{"action_type": "tets:run"}]}, "on_failure.0.action_type"),
        ({"on_failure": {"action_type": "test:welcome", "payload": ANN, "team_id": "blue"}}, "on_failure.0.team_id"),
    ],
)
def test_the_error_of_an_invalid_condition_or_follow_up_names_its_path(schedule, arguments, field):
    response = schedule(**arguments)

    assert response.status_code in {400, 422}, response.text
    assert any(one["field"].startswith(field) for one in response.json["errors"]), response.json


def test_an_action_of_another_team_cannot_be_waited_for(schedule, blue):
    theirs = blue("POST", "/actions", {"action_type": "test:welcome", "payload": ANN}).json["id"]
    unknown = theirs[:-4] + "0000"

    answers = [schedule(after=[wanted]) for wanted in (theirs, unknown)]

    assert {answer.status_code for answer in answers} == {400}
    assert answers[0].text.replace(theirs, unknown) == answers[1].text


def test_only_an_admin_can_report_the_approval_of_another_token(client, connection, api):
    def caller(name, role, team_id=None):
        return Api(client, tokens.create(connection, name=name, role=role, team_id=team_id)[1])

    def approve(who, name):
        return who("PUT", f"/facts/order/42/approval:{name}", {"value": True}).status_code

    ann, chief = caller("ann", "operator", "red"), caller("chief", "admin", "red")

    assert (approve(ann, "ann"), approve(chief, "cfo"), approve(api, "cfo")) == (200, 200, 200)
    refused = ann("PUT", "/facts/order/42/approval:cfo", {"value": True})
    assert (refused.status_code, refused.json["code"]) == (403, "forbidden")
    assert '"approval:ann"' in refused.json["detail"]
    assert {approve(ann, one) for one in ("Ann", "ann:", "token:ann")} == {403}
    assert ann("DELETE", "/facts/order/42/approval:cfo").status_code == 403
    assert ann("GET", "/facts/order/42/approval:cfo").json["reported_by"] == "token:chief"
    assert ann("DELETE", "/facts/order/42/approval:ann").status_code == 200
    assert ann("PUT", "/facts/order/42/approval", {"value": True}).status_code == 200


def test_code_and_sql_can_report_any_approval(runtime, connection):
    runtime.facts.report({"type": "order", "id": "42"}, "approval:cfo", value=True, by="ann")
    connection.execute("""select report_fact('{"type": "order", "id": "42"}', 'approval:ceo', 'true')""")

    assert {one.name for one in runtime.facts.find()} == {"approval:cfo", "approval:ceo"}
