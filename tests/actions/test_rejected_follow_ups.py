"""Follow-ups that cannot be scheduled: the settlement is stored, and each one becomes a failed action."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from scheduled_actions import Fail, action
from scheduled_actions.actions.model import NewAction
from scheduled_actions.core.config import Limit
from scheduled_actions.core.errors import FollowUpInvalid
from scheduled_actions.web.api.problems import field_problems
from tests.factories import insert, projects, row

UNKNOWN = "0197a000-0000-7000-8000-00000000dead"


@pytest.fixture
def project(database_url):
    """Return a project whose `test:run` completes and whose `test:refuse` fails permanently."""

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

    with projects(database_url) as create_project:
        yield create_project(run, refuse, fan)


def insert_parent(connection, **columns):
    return insert(
        connection, **{name: Jsonb(value) if name.startswith("on_") else value for name, value in columns.items()}
    )


def store_as_crashed(connection, *action_ids):
    """Store these actions as claimed and started by a tick whose process died."""
    connection.execute(
        "with tick as (insert into scheduled_action_ticks (id, started_at, lease_expires_at, running)"
        "   values (%s, now() - interval '1 hour', now() - interval '1 minute', %s) returning lease_expires_at)"
        " update scheduled_actions a set status = 'processing', claim_token = gen_random_uuid(),"
        " lease_expires_at = t.lease_expires_at from tick t where a.id = any (%s)",
        [uuid4(), list(action_ids), list(action_ids)],
    )


def children(connection, parent):
    found = connection.execute("select id from scheduled_actions where scheduled_by = %s order by id", [parent])
    return [row(connection, action_id) for (action_id,) in found.fetchall()]


def last_entry(connection, action_id):
    return row(connection, action_id)["history"][-1]


@pytest.mark.parametrize(
    ("follow_up", "problem"),
    [
        ({"action_type": "test:run", "after": [UNKNOWN]}, f"after: no action has the id {UNKNOWN}"),
        ({"action_type": "no such type!"}, "action_type: 'no such type!' is not an action type"),
        ({"action_type": "test:run", "payload": [1]}, "payload: must be a JSON object, not a JSON array"),
        ({"action_type": "test:run", "max_attempts": "many"}, "invalid input syntax for type integer"),
        ({"action_type": "test:run", "scheduled_at": "soon"}, "invalid input syntax for type timestamp"),
        ({"action_type": "test:run", "priority": 99999}, "priority: 99999 is not between"),
        ({"action_type": "test:run", "target": "x"}, "target: must be an object such as"),
        ({"action_type": "test:run", "condition": 7}, "condition: must be a JSON object"),
        ({"action_type": "test:run", "colour": "red"}, "'colour' is not an argument"),
        ({"action_type": "test:run", "limits": ["api:a"]}, "'limits' is not an argument"),
        ({"action_type": "test:run", "limit": 7}, "limit: must be a key, or a list of one to three keys"),
        ({"action_type": "test:run", "limit": ["api:a", "api:a"]}, "limit: the keys must differ"),
        ({"action_type": "test:run", "limit": "x" * 3000}, "limit: each key must have 1 to 255 characters"),
        ({"action_type": "test:run", "expires_in": 0}, "expires_in: must be above 0"),
        ({"action_type": "test:run", "expires_in": 1e300}, "expires_in: must be above 0 and at most a hundred years"),
        ({"action_type": "test:run", "expires_in": "soon"}, "invalid input syntax for type double precision"),
        ({"action_type": "test:run", "on_expiry": "fail"}, "on_expiry: has no effect without"),
        (
            {"action_type": "test:run", "expires_at": "2020-01-01Z", "on_expiry": "fail"},
            "expires_at: 2020-01-01",
        ),
        (
            {"action_type": "test:run", "expires_at": "2020-01-01Z", "scheduled_at": "2030-01-01Z"},
            "must be after scheduled_at (2030-01-01",
        ),
    ],
)
def test_a_rejected_follow_up_becomes_a_failed_child_of_its_parent(project, connection, follow_up, problem):
    parent = insert_parent(connection, action_type="test:refuse", team_id="ours", on_failure=[follow_up])
    others = [insert_parent(connection) for _ in range(5)]

    report = project.processor.tick()

    (child,) = children(connection, parent)
    assert problem in child["error_message"]
    assert child["error_message"].startswith("it could not be scheduled: ")
    assert (child["status"], child["team_id"], child["attempts"]) == ("failed", "ours", 0)
    assert child["completed_at"] is not None
    assert row(connection, parent)["status"] == "failed"
    assert [row(connection, other)["status"] for other in others] == ["completed"] * 5
    assert report.succeeded == 5


def test_a_follow_up_that_cannot_be_inserted_is_recorded_in_the_history_of_its_parent(project, connection):
    parent = insert_parent(connection, on_success=[7, {"payload": {}}, {"action_type": "test:run"}])

    project.processor.tick()

    assert [child["status"] for child in children(connection, parent)] == ["completed"]
    entry = last_entry(connection, parent)
    assert entry["outcome"] == "follow_up_refused"
    assert "7: " in entry["error"]
    assert row(connection, parent)["status"] == "completed"


@pytest.mark.parametrize("stored", [7, "text", {"action_type": "test:run"}, [[]], None])
def test_the_settlement_is_stored_with_malformed_follow_ups(project, connection, stored):
    parent, other = insert_parent(connection, on_success=stored), insert_parent(connection)

    project.processor.tick()

    assert [row(connection, action_id)["status"] for action_id in (parent, other)] == ["completed", "completed"]


def test_rescue_continues_after_a_rejected_follow_up(project, connection):
    rejected = {"action_type": "test:run", "after": [UNKNOWN]}
    parent = insert_parent(connection, max_attempts=1, on_failure=[rejected])
    others = [insert_parent(connection) for _ in range(3)]
    store_as_crashed(connection, parent)

    report = project.processor.tick()

    assert (report.rescued, report.succeeded) == (1, 3)
    assert row(connection, parent)["status"] == "failed"
    assert [child["status"] for child in children(connection, parent)] == ["failed"]
    assert [row(connection, other)["status"] for other in others] == ["completed"] * 3


def test_a_retried_follow_up_keeps_its_predecessors(project, connection):
    rejected = {"action_type": "test:run", "payload": {"n": 1}, "after": [UNKNOWN], "metadata": {"a": 1}}
    parent = insert_parent(connection, on_success=[rejected])
    project.processor.tick()
    (child,) = children(connection, parent)

    project.scheduler.retry_action(child["id"])
    project.processor.tick()

    (retried,) = children(connection, parent)
    assert (retried["payload"], retried["metadata"]) == ({"n": 1}, {"a": 1})
    assert retried["status"] != "completed"
    assert UNKNOWN in (retried["error_message"] or retried["waiting"]["unmet"])


def test_the_valid_follow_ups_of_a_handler_are_scheduled_next_to_a_rejected_one(project, connection):
    parent = insert_parent(connection, action_type="test:fan")

    project.processor.tick()

    assert row(connection, parent)["status"] == "completed"
    assert sorted((child["payload"]["n"], child["status"]) for child in children(connection, parent)) == [
        (0, "completed"),
        (1, "failed"),
        (2, "completed"),
    ]


def test_on_failure_of_a_rejected_follow_up_is_scheduled(project, connection):
    alarm = {"action_type": "test:run", "payload": {"alarm": True}}
    parent = insert_parent(
        connection, on_success=[{"action_type": "test:run", "after": [UNKNOWN], "on_failure": [alarm]}]
    )

    project.processor.tick()

    (child,) = children(connection, parent)
    assert [(alarmed["payload"], alarmed["status"]) for alarmed in children(connection, child["id"])] == [
        ({"alarm": True}, "completed")
    ]


def test_a_follow_up_that_has_expired_is_skipped_and_needs_no_attention(project, connection):
    late = {"action_type": "test:run", "expires_at": "2020-01-01Z", "on_failure": {"action_type": "test:run"}}
    parent = insert_parent(connection, on_success=[late, {"action_type": "test:run", "expires_in": 3600}])

    project.processor.tick()

    skipped, in_time = children(connection, parent)
    if skipped["status"] != "skipped":
        skipped, in_time = in_time, skipped
    assert skipped["status"] == "skipped"
    assert skipped["error_message"].startswith("expired before it was scheduled: expires_at: 2020-01-01")
    assert skipped["history"][-1]["outcome"] == "expired"
    assert children(connection, skipped["id"]) == []
    assert in_time["status"] == "completed"


def test_a_retried_follow_up_with_an_invalid_limit_key_does_not_stop_the_claims(project, connection):
    """A key of this length does not fit into the index of the queues."""
    parent = insert_parent(connection, on_success=[{"action_type": "test:run", "limit": "x" * 3000}])
    project.processor.tick()
    (child,) = children(connection, parent)
    project.scheduler.retry_action(child["id"])
    other = insert_parent(connection)

    project.processor.tick()

    assert [row(connection, action_id)["status"] for action_id in (child["id"], other)] == ["completed"] * 2


def test_a_follow_up_is_stored_with_its_limit_and_its_expiry(project, connection):
    project.config.settings.limits["api:*"] = Limit(at_once=1)
    follow_up = {"action_type": "test:run", "limit": "api:acme", "expires_in": 90, "on_expiry": "fail", "delay": 60}
    new = NewAction(action_type="test:run", payload={}, on_success=follow_up)
    by_python = project.scheduler.schedule_action(new).id
    by_sql = insert_parent(connection, on_success=follow_up)

    project.processor.tick()

    for parent in (by_python, by_sql):
        (child,) = children(connection, parent)
        assert (child["limit_keys"], child["on_expiry"], child["parked_by"]) == (["api:acme"], "fail", None)
        apart = datetime.fromisoformat(child["expires_at"]) - datetime.fromisoformat(child["scheduled_at"])
        assert apart == timedelta(seconds=90)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"limit": "unknown"}, "on_success.0.limit"),
        ({"limit": []}, "on_success.0.limit"),
        ({"expires_in": -1}, "on_success.0.expires_in"),
        ({"expires_at": "2030-01-01Z", "scheduled_at": "2030-01-02T00:00:00Z"}, "on_success.0.expires_at"),
        ({"on_expiry": "fail"}, "on_success.0.on_expiry"),
    ],
)
def test_python_refuses_a_follow_up_with_an_invalid_limit_or_expiry(project, wrong, field):
    new = NewAction(action_type="test:run", payload={}, on_success={"action_type": "test:run", **wrong})

    with pytest.raises(FollowUpInvalid) as caught:
        project.scheduler.schedule_action(new)

    assert [one.where for one in field_problems(caught.value)] == [field]
