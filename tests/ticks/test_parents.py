"""What the handler of a follow-up reads of the action that scheduled it."""

from __future__ import annotations

import pytest
from psycopg.types.json import Jsonb

from scheduled_actions import Fail, ParentAction, action, schedule_action
from scheduled_actions.runtime import use
from tests.factories import insert, projects, row


@pytest.fixture
def seen():
    """Return a list of `(context.action.scheduled_by, context.parent)`, one for each call of `test:follow`."""
    return []


@pytest.fixture
def project(database_url, seen):
    """Return the project of the process; its `test:run` completes with a result and its `test:refuse` fails."""

    @action("test:run")
    def run(payload: dict):
        return {"total": 7}

    @action("test:refuse")
    def refuse(payload: dict):
        raise Fail("no license")

    @action("test:fan")
    def fan(payload: dict, context):
        context.schedule("test:follow", {})
        schedule_action("test:follow", {})

    @action("test:follow")
    def follow(payload: dict, context):
        seen.append((context.action.scheduled_by, context.parent))

    @action("test:write", transactional=True)
    def write(payload: dict, context):
        seen.append((context.action.scheduled_by, context.parent))

    with projects(database_url) as create_project:
        runtime = create_project(run, refuse, fan, follow, write)
        before = use(runtime)
        yield runtime
        use(before)


def run_all(project):
    while project.processor.tick(caller="test").processed:
        pass


def followed(action_type="test:follow"):
    return Jsonb([{"action_type": action_type, "payload": {}}])


@pytest.mark.parametrize("team", [None, "ours"])
@pytest.mark.parametrize("action_type", ["test:follow", "test:write"])
def test_a_follow_up_of_a_success_reads_the_result_of_its_parent(project, connection, seen, team, action_type):
    parent = insert(connection, on_success=followed(action_type), team_id=team)

    run_all(project)

    assert seen == [
        (
            parent,
            ParentAction(
                id=parent,
                action_type="test:run",
                status="completed",
                result={"total": 7},
                error_message=None,
                attempts=1,
            ),
        )
    ]


def test_a_follow_up_of_a_failure_reads_the_error_of_its_parent(project, connection, seen):
    parent = insert(connection, action_type="test:refuse", on_failure=followed(), lock_group="licenses")

    run_all(project)

    [(scheduled_by, read)] = seen
    assert (scheduled_by, read.id, read.action_type, read.status) == (parent, parent, "test:refuse", "failed")
    assert (read.error_message, read.result, read.attempts) == ("no license", None, 1)


def test_an_action_that_a_handler_scheduled_reads_it_as_its_parent(project, connection, seen):
    parent = insert(connection, action_type="test:fan")

    run_all(project)

    assert [(scheduled_by, read.action_type) for scheduled_by, read in seen] == [(parent, "test:fan")] * 2


def test_an_action_that_no_other_one_scheduled_has_no_parent(project, connection, seen):
    insert(connection, action_type="test:follow")

    run_all(project)

    assert seen == [(None, None)]


def test_a_pruned_parent_is_none(project, connection, seen):
    pruned = insert(connection, status="completed", completed_at="2026-01-01")
    insert(connection, action_type="test:follow", scheduled_by=pruned)
    connection.execute("delete from scheduled_actions where id = %s", [pruned])

    run_all(project)

    assert seen == [(pruned, None)]


@pytest.mark.parametrize(("parents", "own"), [("theirs", "ours"), ("theirs", None), (None, "ours")])
def test_a_parent_of_another_team_is_not_read(project, connection, seen, parents, own):
    parent = insert(connection, team_id=parents, status="cancelled")
    insert(connection, action_type="test:follow", team_id=own, scheduled_by=parent)

    run_all(project)

    assert seen == [(parent, None)]


def test_a_parent_with_an_unreadable_result_can_be_read(project, connection, seen):
    parent = insert(connection, status="completed", completed_at="2026-01-01")
    connection.execute(
        "update scheduled_actions set result = ('1' || repeat('0', 5000))::jsonb where id = %s", [parent]
    )
    follow_up = insert(connection, action_type="test:follow", scheduled_by=parent)

    run_all(project)

    assert row(connection, follow_up)["status"] == "completed"
    assert list(seen[0][1].result) == ["unreadable"]
