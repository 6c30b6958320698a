"""Follow-ups that cannot be scheduled: the settlement stands, and they are kept where somebody finds them."""

from __future__ import annotations

from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from scheduled_actions import Fail, action
from tests.factories import insert, projects, row

UNKNOWN = "0197a000-0000-7000-8000-00000000dead"


@pytest.fixture
def project(database_url):
    """Return a project whose `test:run` completes and whose `test:refuse` fails for good."""

    @action("test:run")
    def run(payload: dict):
        pass

    @action("test:refuse")
    def refuse(payload: dict):
        raise Fail("refused")

    @action("test:fan")
    def fan(payload: dict, context):
        for number in range(3):
            context.schedule("test:run", {"n": number}, after=[UNKNOWN] if number == 1 else None)

    with projects(database_url) as a_project:
        yield a_project(run, refuse, fan)


def put(connection, **columns):
    return insert(connection, **{name: Jsonb(one) if name.startswith("on_") else one for name, one in columns.items()})


def crash(connection, *action_ids):
    """Have a dead process hold these actions, their handlers announced as started."""
    connection.execute(
        "with tick as (insert into scheduled_action_ticks (id, started_at, lease_expires_at, running)"
        "   values (%s, now() - interval '1 hour', now() - interval '1 minute', %s) returning lease_expires_at)"
        " update scheduled_actions a set status = 'processing', claim_token = gen_random_uuid(),"
        " lease_expires_at = t.lease_expires_at from tick t where a.id = any (%s)",
        [uuid4(), list(action_ids), list(action_ids)],
    )


def children(connection, parent):
    found = connection.execute("select id from scheduled_actions where scheduled_by = %s order by id", [parent])
    return [row(connection, one) for (one,) in found.fetchall()]


def last_entry(connection, action_id):
    return row(connection, action_id)["history"][-1]


@pytest.mark.parametrize(
    ("follow_up", "problem"),
    [
        ({"action_type": "test:run", "after": [UNKNOWN]}, f"after: no action has the id {UNKNOWN}"),
        ({"action_type": "no such type!"}, "action_type: 'no such type!' is not letters"),
        ({"action_type": "test:run", "payload": [1]}, "payload: a JSON array is not a JSON object"),
        ({"action_type": "test:run", "max_attempts": "many"}, "invalid input syntax for type integer"),
        ({"action_type": "test:run", "scheduled_at": "soon"}, "invalid input syntax for type timestamp"),
        ({"action_type": "test:run", "priority": 99999}, "priority: 99999 is not between"),
        ({"action_type": "test:run", "condition": 7}, "condition: is not a JSON object"),
        ({"action_type": "test:run", "colour": "red"}, "'colour' is no argument"),
    ],
)
def test_a_follow_up_that_cannot_be_scheduled_is_a_failed_action_under_its_parent(
    project, connection, follow_up, problem
):
    parent = put(connection, action_type="test:refuse", team_id="ours", on_failure=[follow_up])
    others = [put(connection) for _ in range(5)]

    report = project.processor.tick()

    (child,) = children(connection, parent)
    assert problem in child["error_message"]
    assert child["error_message"].startswith("it could not be scheduled: ")
    assert (child["status"], child["team_id"], child["attempts"]) == ("failed", "ours", 0)
    assert child["completed_at"] is not None
    assert row(connection, parent)["status"] == "failed"
    assert [row(connection, one)["status"] for one in others] == ["completed"] * 5
    assert report.succeeded == 5


def test_a_follow_up_that_cannot_even_be_a_row_is_told_in_the_history_of_its_parent(project, connection):
    parent = put(connection, on_success=[7, {"payload": {}}, {"action_type": "test:run"}])

    project.processor.tick()

    assert [one["status"] for one in children(connection, parent)] == ["completed"]
    entry = last_entry(connection, parent)
    assert entry["outcome"] == "follow_up_refused"
    assert "7: " in entry["error"]
    assert row(connection, parent)["status"] == "completed"


@pytest.mark.parametrize("stored", [7, "text", {"action_type": "test:run"}, [[]], None])
def test_whatever_is_stored_as_follow_ups_the_settlement_stands(project, connection, stored):
    parent, other = put(connection, on_success=stored), put(connection)

    project.processor.tick()

    assert [row(connection, one)["status"] for one in (parent, other)] == ["completed", "completed"]


def test_rescue_goes_on_where_a_follow_up_cannot_be_scheduled(project, connection):
    refused = {"action_type": "test:run", "after": [UNKNOWN]}
    parent = put(connection, max_attempts=1, on_failure=[refused])
    others = [put(connection) for _ in range(3)]
    crash(connection, parent)

    report = project.processor.tick()

    assert (report.rescued, report.succeeded) == (1, 3)
    assert row(connection, parent)["status"] == "failed"
    assert [one["status"] for one in children(connection, parent)] == ["failed"]
    assert [row(connection, one)["status"] for one in others] == ["completed"] * 3


def test_a_refused_follow_up_can_be_retried_and_still_waits_for_what_it_was_to_wait_for(project, connection):
    refused = {"action_type": "test:run", "payload": {"n": 1}, "after": [UNKNOWN], "metadata": {"a": 1}}
    parent = put(connection, on_success=[refused])
    project.processor.tick()
    (child,) = children(connection, parent)

    project.scheduler.retry_action(child["id"])
    project.processor.tick()

    (retried,) = children(connection, parent)
    assert (retried["payload"], retried["metadata"]) == ({"n": 1}, {"a": 1})
    assert retried["status"] != "completed"
    assert UNKNOWN in (retried["error_message"] or retried["waiting"]["unmet"])


def test_the_other_follow_ups_of_a_handler_are_scheduled_where_one_is_refused(project, connection):
    parent = put(connection, action_type="test:fan")

    project.processor.tick()

    assert row(connection, parent)["status"] == "completed"
    assert sorted((one["payload"]["n"], one["status"]) for one in children(connection, parent)) == [
        (0, "completed"),
        (1, "failed"),
        (2, "completed"),
    ]


def test_what_follows_the_failure_of_a_refused_follow_up_is_scheduled(project, connection):
    alarm = {"action_type": "test:run", "payload": {"alarm": True}}
    parent = put(connection, on_success=[{"action_type": "test:run", "after": [UNKNOWN], "on_failure": [alarm]}])

    project.processor.tick()

    (child,) = children(connection, parent)
    assert [(one["payload"], one["status"]) for one in children(connection, child["id"])] == [
        ({"alarm": True}, "completed")
    ]
