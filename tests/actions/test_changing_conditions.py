"""Changes of the condition, predecessors and follow-ups of an existing action: no wake is lost; changes are atomic."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from scheduled_actions import action
from scheduled_actions.actions.model import NewAction
from scheduled_actions.core.errors import ActionLocked, InvalidArgument, RequestError, UnknownActionType, WrongStatus
from tests.factories import PATIENCE, insert, projects, row, statuses

ORDER = {"type": "purchase_order", "id": "42"}
HOUR = timedelta(hours=1)


def condition_on(name):
    return {"kind": "field_value", "target": ORDER, "field": name, "value": True}


def wait_for(name):
    return {"wait": condition_on(name), "check_interval": 3600}


@pytest.fixture
def handled():
    return []


@pytest.fixture
def project(database_url, handled):
    @action("order:submit")
    def submit(payload: dict):
        handled.append(payload)

    with projects(database_url) as made:
        yield made(submit)


def schedule(project, **arguments):
    return project.scheduler.schedule_action(NewAction(action_type="order:submit", payload={}, **arguments)).id


def test_an_action_whose_condition_is_removed_runs_on_the_next_tick(project, connection, handled):
    action_id = schedule(project, condition=wait_for("approved"))
    project.processor.tick()

    changed = project.scheduler.update_action(action_id, condition=None, by="zoe")
    project.processor.tick()

    assert (changed.condition, changed.waiting, changed.history[-1]["changes"]) == (None, None, ["condition"])
    assert statuses(connection) == {action_id: "completed"}


def test_a_new_condition_is_evaluated_on_the_next_tick_and_only_its_facts_wake_the_action(project, connection, handled):
    action_id = schedule(project, condition=wait_for("approved"))
    project.processor.tick()

    project.scheduler.update_action(action_id, condition=wait_for("paid"))
    project.processor.tick()
    assert row(connection, action_id)["waiting"]["unmet"].startswith("condition.wait: paid of purchase_order 42")
    project.facts.report(ORDER, "approved", value=True)
    project.processor.tick()
    assert handled == []
    project.facts.report(ORDER, "paid", value=True)
    project.processor.tick()

    assert statuses(connection) == {action_id: "completed"}


def test_a_wait_for_a_predecessor_gets_a_timeout_and_loses_it_with_the_predecessor(project, connection):
    first = schedule(project, scheduled_at=HOUR)
    second = schedule(project, after=first)

    limited = project.scheduler.update_action(second, condition={"timeout": 60})
    assert limited.condition == {"after": [str(first)], "condition": {"timeout": 60}}
    freed = project.scheduler.update_action(second, after=None)

    assert freed.condition is None
    with pytest.raises(InvalidArgument, match="there is nothing to wait for"):
        project.scheduler.update_action(second, condition={"timeout": 60})


def test_a_fact_reported_before_the_change_is_found_on_the_next_tick(project, connection):
    action_id = schedule(project, condition=wait_for("approved"))
    project.processor.tick()
    project.facts.report(ORDER, "paid", value=True)
    project.processor.tick()

    project.scheduler.update_action(action_id, condition=wait_for("paid"))
    project.processor.tick()

    assert statuses(connection) == {action_id: "completed"}


def test_no_wake_is_lost_between_changes_facts_and_ticks(project, connection, handled):
    rounds = 40
    ids = [schedule(project, condition=wait_for(f"old{number}")) for number in range(rounds)]
    project.processor.tick()
    begins = threading.Barrier(3)
    unsettled = list(ids)

    def change():
        begins.wait(PATIENCE)
        for number, action_id in enumerate(ids):
            while True:
                try:
                    project.scheduler.update_action(action_id, condition=wait_for(f"new{number}"))
                except WrongStatus:
                    # A tick is evaluating the condition.
                    continue
                break

    def report():
        begins.wait(PATIENCE)
        for number in range(rounds):
            project.facts.report(ORDER, f"new{number}", value=True)

    threads = [threading.Thread(target=change), threading.Thread(target=report)]
    for thread in threads:
        thread.start()
    begins.wait(PATIENCE)
    while any(thread.is_alive() for thread in threads):
        project.processor.tick()
    project.processor.tick()

    assert statuses(connection) == dict.fromkeys(unsettled, "completed")
    assert len(handled) == rounds


def test_changing_the_condition_of_an_action_that_is_not_due_keeps_its_time(project, connection):
    action_id = schedule(project, condition=wait_for("approved"), scheduled_at=HOUR)
    before = row(connection, action_id)["scheduled_at"]

    project.scheduler.update_action(action_id, condition=condition_on("paid"))

    assert row(connection, action_id)["scheduled_at"] == before
    assert row(connection, action_id)["condition"] == condition_on("paid")


def test_setting_the_same_condition_again_keeps_the_wait(project, connection):
    action_id = schedule(project, condition=wait_for("approved"))
    project.processor.tick()
    before = row(connection, action_id)

    project.scheduler.update_action(action_id, condition=wait_for("approved"))

    after = row(connection, action_id)
    assert [after[name] for name in ("waiting", "scheduled_at")] == [
        before[name] for name in ("waiting", "scheduled_at")
    ]


def test_predecessors_and_the_condition_are_changed_independently(project, connection):
    first, second = schedule(project, scheduled_at=HOUR), schedule(project, scheduled_at=HOUR)
    action_id = schedule(project, condition=condition_on("paid"), after=[first])

    project.scheduler.update_action(action_id, after=[second])
    assert row(connection, action_id)["condition"] == {"after": [str(second)], "condition": condition_on("paid")}
    project.scheduler.update_action(action_id, condition=None)
    assert row(connection, action_id)["condition"] == {"after": [str(second)]}
    project.scheduler.update_action(action_id, after=None)

    assert row(connection, action_id)["condition"] is None


def test_follow_ups_are_changed_and_removed(project, connection, handled):
    follow_up = {"action_type": "order:submit", "payload": {"n": 2}}
    action_id = schedule(project, on_success=follow_up, on_failure=follow_up, scheduled_at=HOUR)

    project.scheduler.update_action(
        action_id, on_success=follow_up | {"payload": {"n": 3}}, on_failure=None, scheduled_at=timedelta(0)
    )
    project.processor.tick()
    project.processor.tick()

    assert row(connection, action_id)["on_failure"] is None
    assert handled == [{}, {"n": 3}]


@pytest.mark.parametrize(
    ("changes", "error", "expected"),
    [
        ({"condition": {"kind": "magic"}}, InvalidArgument, "condition.kind: 'magic'"),
        ({"condition": {"kind": "query", "name": "gone"}}, InvalidArgument, "condition.name: 'gone'"),
        ({"on_failure": {"action_type": "order:gone"}}, UnknownActionType, "on_failure.0.action_type: "),
        ({"after": ["0197a000-0000-7000-8000-000000000001"]}, RequestError, "after: no action has the id 0197a000"),
        ({"after": 5}, InvalidArgument, "after"),
    ],
)
def test_an_invalid_change_is_rejected_and_changes_nothing(project, connection, changes, error, expected):
    action_id = schedule(project, condition=wait_for("approved"))
    before = row(connection, action_id)

    with pytest.raises(error) as refusal:
        project.scheduler.update_action(action_id, priority=3, **changes)

    assert expected in str(refusal.value)
    assert row(connection, action_id) == before


def test_a_change_of_predecessors_that_creates_a_cycle_is_rejected(project):
    first = schedule(project, scheduled_at=HOUR)
    second = schedule(project, after=[first])
    third = schedule(project, after=[second])

    for chain in ([first], [third]):
        with pytest.raises(InvalidArgument, match="contains an action that waits for this one"):
            project.scheduler.update_action(first, after=chain)


def test_an_action_of_another_team_cannot_be_a_predecessor(project):
    other = schedule(project, team_id="north", scheduled_at=HOUR)
    own = schedule(project, team_id="south", scheduled_at=HOUR)

    with pytest.raises(RequestError, match=f"after: no action has the id {other}"):
        project.scheduler.update_action(own, after=[other])


def test_the_edit_lock_and_the_status_also_apply_to_conditions(project, connection):
    waits = schedule(project, condition=wait_for("approved"), scheduled_at=timedelta(seconds=60))
    ended = insert(connection, action_type="order:submit", status="completed")

    with pytest.raises(ActionLocked):
        project.scheduler.update_action(waits, condition=None, edit_lock_seconds=120)
    with pytest.raises(WrongStatus, match="is completed, not pending"):
        project.scheduler.update_action(ended, condition=None)


def test_a_change_in_a_rolled_back_transaction_has_no_effect(project, connection):
    action_id = schedule(project, condition=wait_for("approved"))

    with connection.transaction(force_rollback=True):
        project.scheduler.update_action(action_id, condition=None, connection=connection)

    assert row(connection, action_id)["condition"] == wait_for("approved")
