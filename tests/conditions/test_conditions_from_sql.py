"""Invalid conditions and follow-ups stored by SQL callers fail only their own action, with a reason."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from scheduled_actions import action
from scheduled_actions.operations.explain import service as explaining
from tests.factories import move_clock, projects, row, statuses


@pytest.fixture
def ran():
    return []


@pytest.fixture
def project(database_url, ran):
    @action("order:submit")
    def submit(payload: dict):
        ran.append(payload)

    with projects(database_url) as create_project:
        yield create_project(submit)


def schedule(connection, **arguments):
    """Schedule by the SQL function, like an application in another language."""
    named = ", ".join(f"{name} => %({name})s::jsonb" for name in arguments)
    parameters = {name: json.dumps(value) for name, value in arguments.items()}
    found = connection.execute(f"select id from schedule_action('order:submit', '{{}}', {named})", parameters)
    return found.fetchone()[0]


def status_after_tick(project, connection, action_id):
    """Run a tick together with a valid action; return the status of the action and its explanation."""
    other = connection.execute("select id from schedule_action('order:submit', '{\"other\": true}')").fetchone()[0]
    project.processor.tick()
    assert statuses(connection)[other] == "completed"
    found = row(connection, action_id)
    return found["status"], explaining.explain(project, str(action_id), team_id=None)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"kind": "magic"}, "the condition cannot be read: condition.kind: 'magic' is not one of"),
        ({}, "the condition cannot be read: condition"),
        ({"all": [{"kind": "time_elapsed"}]}, "the condition cannot be read: condition.all.0 has neither"),
        ({"kind": "action_status", "action_id": "no id", "status": "completed"}, "the condition cannot be read"),
        ({"wait": {"kind": "magic"}}, "the condition cannot be read: condition.wait.kind"),
        (
            {"wait": {"kind": "custom", "name": "x"}, "timeout": "soon"},
            "the condition cannot be read: condition.timeout",
        ),
        (
            {"wait": {"kind": "custom", "name": "x"}, "max_checks": 0},
            "the condition cannot be read: condition.max_checks",
        ),
        (
            {"wait": {"kind": "custom", "name": "x"}, "on_timeout": 5},
            "the condition cannot be read: condition.on_timeout",
        ),
        ({"timeout": 60}, "the condition cannot be read: condition limits a wait"),
        ({"after": "not a list"}, "the condition cannot be read: condition.after"),
        ({"after": ["not an id"]}, "the condition cannot be read: condition.after"),
        ({"after": ["0197a000-0000-7000-8000-000000000001"]}, "0197a000-0000-7000-8000-000000000001"),
    ],
    ids=str,
)
def test_an_unreadable_condition_fails_its_action_finally_with_the_reason(
    project, connection, ran, condition, expected
):
    status, explanation = status_after_tick(project, connection, schedule(connection, condition=condition))

    assert (status, explanation.code) == ("failed", "failed")
    assert expected in explanation.sentence
    assert ran == [{"other": True}]


def test_the_wait_for_a_predecessor_has_a_timeout(project, connection):
    (second,) = connection.execute(
        "select second.id from schedule_action('order:submit', '{}', now() + interval '1 hour') first,"
        " schedule_action('order:submit', '{}', after => array[first.id], condition => %s::jsonb) second",
        ['{"timeout": "PT1M"}'],
    ).fetchone()
    project.processor.tick()

    move_clock(connection, timedelta(seconds=61))
    project.processor.tick()

    found = row(connection, second)
    assert found["status"] == "skipped"
    assert found["error_message"].startswith("condition_timeout: not met within 60 s: after.0:")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"kind": "query", "name": "gone"}, 'query "gone" is no longer in [queries]'),
        ({"kind": "custom", "name": "gone"}, 'function "gone" is not in this build'),
        ({"kind": "http", "url": "http://127.0.0.1:1/"}, "the condition cannot be evaluated"),
    ],
    ids=str,
)
def test_a_condition_with_an_unknown_check_counts_as_a_failed_attempt(project, connection, ran, condition, expected):
    action_id = schedule(connection, condition=condition)

    status, _ = status_after_tick(project, connection, action_id)
    for hours in (2, 4):
        move_clock(connection, timedelta(hours=hours))
        project.processor.tick()

    found = row(connection, action_id)
    assert (status, found["status"]) == ("pending", "failed")
    assert expected in found["error_message"]
    assert ran == [{"other": True}]


@pytest.mark.parametrize(
    ("follow_up", "expected"),
    [
        ({"action_type": "not a type!"}, "action_type: 'not a type!' is not an action type"),
        ({"action_type": "a:b", "priority": "high"}, 'invalid input syntax for type integer: "high"'),
    ],
    ids=str,
)
@pytest.mark.parametrize("ends", ["timeout", "completed"])
def test_a_follow_up_from_sql_that_cannot_be_scheduled_fails_alone(project, connection, follow_up, expected, ends):
    wait = {"wait": {"kind": "document_state", "target": {"type": "o", "id": "1"}, "state": "x"}, "max_checks": 1}
    given = {"condition": wait | {"on_timeout": [follow_up]}} if ends == "timeout" else {"on_success": [follow_up]}
    action_id = schedule(connection, **given)

    status, _ = status_after_tick(project, connection, action_id)

    child = connection.execute(
        "select status, error_message from scheduled_actions where scheduled_by = %s", [action_id]
    ).fetchone()
    assert child is not None
    assert child[0] == "failed"
    assert expected in child[1]
    assert status == ("skipped" if ends == "timeout" else "completed")
