"""Waits for stored data: no check because time passes, and a sweep that finds changes without a wake-up."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from scheduled_actions import action
from scheduled_actions.actions import evaluation, waits
from scheduled_actions.actions.model import NewAction
from scheduled_actions.conditions.model import FactKey
from scheduled_actions.deadlines import store as deadlines
from scheduled_actions.operations.explain import service as explaining
from scheduled_actions.schedules import operations
from tests.factories import insert, move_clock, projects, row, statuses

NEVER = "9999-01-01T00:00:00+00:00"
APPROVERS = {"kind": "approval_complete", "target": {"type": "order", "id": "1"}, "approvers": ["ann"]}


def approved(number=1):
    return {"kind": "document_state", "target": {"type": "order", "id": str(number)}, "state": "approved"}


@pytest.fixture
def project(database_url):
    """Return a project with one handler that does nothing."""

    @action("test:run")
    def run(payload: dict): ...

    with projects(database_url) as create:
        yield create(run)


def instant(text):
    return datetime.fromisoformat(text)


def schedule(project, **arguments):
    return project.scheduler.schedule_action(NewAction(action_type="test:run", payload={}, **arguments)).id


def version(connection, action_id):
    """Return the id of the transaction that wrote the row of an action."""
    return connection.execute("select xmin::text from scheduled_actions where id = %s", [action_id]).fetchone()[0]


# -- no checks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "condition",
    [
        {"wait": approved()},
        {"wait": APPROVERS, "check_interval": 1},
        {"wait": {"any": [approved(), {"not": {"not": approved(2)}}]}, "check_interval": 60},
    ],
)
def test_a_wait_for_facts_is_not_checked_because_time_passes(project, connection, condition):
    action_id = schedule(project, condition=condition)
    project.processor.tick()
    first, found = version(connection, action_id), row(connection, action_id)
    assert (found["status"], found["scheduled_at"], found["waiting"]["checks"]) == ("pending", NEVER, 1)

    for days in (1, 30, 400):
        move_clock(connection, timedelta(days=days))
        assert project.processor.tick().processed == 0
        assert evaluation.sweep(connection) == 0

    assert version(connection, action_id) == first
    project.facts.report({"type": "order", "id": "1"}, "state", "approved")
    project.facts.report({"type": "order", "id": "1"}, "approval:ann", value=True)
    assert project.processor.tick().succeeded == 1


def test_a_wait_for_another_action_is_not_checked_because_time_passes(project, connection):
    awaited = insert(connection, action_type="test:run", scheduled_at="2099-01-01")
    action_id = schedule(project, after=[awaited])
    # At its first check, the end of the other action is not watched yet.
    for seconds in (0, 2, 4):
        move_clock(connection, timedelta(seconds=seconds))
        project.processor.tick()
    settled = version(connection, action_id)

    move_clock(connection, timedelta(days=1))
    assert project.processor.tick().processed == 0

    assert version(connection, action_id) == settled
    project.action_operations.run_now(awaited, by="ann", team_id=None)
    for _ in range(2):
        project.processor.tick()
    assert row(connection, action_id)["status"] == "completed"


def test_time_in_a_condition_causes_a_check_at_its_instant(project, connection):
    elapsed = {"kind": "time_elapsed", "duration": "PT1H"}
    action_id = schedule(project, condition={"wait": {"any": [approved(), elapsed]}, "check_interval": 60})
    project.processor.tick()
    found = row(connection, action_id)
    assert instant(found["scheduled_at"]) - instant(found["created_at"]) == timedelta(hours=1)

    move_clock(connection, timedelta(hours=1, seconds=1))
    project.processor.tick()

    assert row(connection, action_id)["status"] == "completed"


@pytest.mark.parametrize(
    "condition",
    [
        {"wait": approved(), "max_checks": 9},
        {"wait": {"kind": "deadline_open", "deadline_id": "01900000-0000-7000-8000-000000000001"}},
        {"wait": {"all": [approved(), {"kind": "custom", "name": "unknown"}]}},
    ],
    ids=["limited checks", "an unknown deadline", "a function"],
)
def test_a_wait_that_no_change_may_end_is_checked_at_each_interval(project, connection, condition):
    action_id = insert(connection, action_type="test:run", condition=Jsonb(condition))
    for number in range(3):
        move_clock(connection, timedelta(minutes=number))
        project.processor.tick()

    assert row(connection, action_id)["waiting"]["checks"] == 3


def test_time_under_two_negations_causes_a_check_at_its_instant(project, connection):
    elapsed = {"kind": "time_elapsed", "duration": "PT1H"}
    action_id = schedule(project, condition={"wait": {"not": {"any": [approved(), {"not": elapsed}]}}})
    project.processor.tick()
    found = row(connection, action_id)
    assert instant(found["scheduled_at"]) - instant(found["created_at"]) == timedelta(hours=1)

    move_clock(connection, timedelta(hours=1, seconds=1))
    project.processor.tick()

    assert row(connection, action_id)["status"] == "completed"


def test_explain_says_that_only_a_change_causes_another_check(project, connection):
    action_id = schedule(project, condition={"wait": approved()})
    project.processor.tick()

    found = explaining.explain(project, str(action_id), team_id=None)

    assert found.sentence.endswith("it is evaluated again when data that it depends on changes")


def test_deleting_what_an_action_waits_for_wakes_it(project, connection):
    awaited = insert(connection, action_type="test:run", status="failed", completed_at="2026-01-01")
    (deadline_id,) = connection.execute(
        "insert into scheduled_action_deadlines (target_type, target_id, due_at)"
        " values ('license', '7', now() + interval '1 day') returning id"
    ).fetchone()
    after = schedule(project, after=[awaited])
    until = schedule(project, condition={"wait": {"not": {"kind": "deadline_open", "deadline_id": str(deadline_id)}}})
    for seconds in (0, 2):
        move_clock(connection, timedelta(seconds=seconds))
        project.processor.tick()
    assert {row(connection, one)["scheduled_at"] for one in (after, until)} == {NEVER}

    project.action_operations.purge(awaited, team_id=None)
    deadlines.delete(connection, deadline_id)
    project.processor.tick()

    assert "no action has the id" in row(connection, after)["error_message"]
    assert "no deadline has the id" in row(connection, until)["waiting"]["unmet"]
    assert row(connection, until)["scheduled_at"] < NEVER


def many_that_wait(connection, count, number=1):
    """Insert actions that wait for the approval of one order, as if each had been checked."""
    connection.execute(
        "with made as ("
        "  insert into scheduled_actions (action_type, scheduled_at, condition, waiting)"
        "  select 'test:run', scheduled_actions_never(), %s,"
        "    jsonb_build_object('checks', 1, 'next_check_at', scheduled_actions_never())"
        "  from generate_series(1, %s) returning id"
        ") insert into scheduled_action_waits (topic, action_id) select %s, id from made",
        [
            Jsonb({"wait": approved(number)}),
            count,
            UUID(bytes=waits.topic_of("", FactKey("order", str(number), "state"))),
        ],
    )


def due(connection):
    return connection.execute(
        "select count(*) from scheduled_actions where scheduled_at < scheduled_actions_never()"
    ).fetchone()[0]


def test_a_change_that_many_actions_wait_for_wakes_a_thousand_at_a_time_after_other_changes(project, connection):
    for number, count in ((1, 2_500), (2, 3), (3, 1_000)):
        many_that_wait(connection, count, number)
        project.facts.report({"type": "order", "id": str(number)}, "state", "approved")

    found = []
    while waits.wake(connection, most=100) == 100:
        found.append(due(connection))

    woken = [after - before for before, after in itertools.pairwise([0, *found])]
    # The last call for the third order finds none left.
    assert (woken[0], sorted(woken)) == (3, [0, 3, 500, 1_000, 1_000, 1_000])
    assert connection.execute("select count(*) from scheduled_action_wakes").fetchone() == (0,)
    marked = connection.execute("select count(*) from scheduled_action_waits where is_woken").fetchone()
    assert marked == (3_503,)


def test_one_tick_wakes_and_runs_all_actions_that_wait_for_a_change(project, connection):
    many_that_wait(connection, 1_200)
    project.facts.report({"type": "order", "id": "1"}, "state", "approved")

    assert project.processor.tick().succeeded == 1_200


def test_a_closed_deadline_is_kept_while_an_action_waits_for_its_status(project, connection):
    awaited, _ = (
        connection.execute(
            "insert into scheduled_action_deadlines (target_type, target_id, due_at, status, closed_at)"
            " values ('license', '7', '2026-01-01', 'completed', '2026-01-02') returning id"
        ).fetchone()[0]
        for _ in range(2)
    )
    waiting = schedule(project, condition={"wait": {"kind": "deadline_open", "deadline_id": str(awaited)}})
    project.processor.tick()

    assert deadlines.prune(connection, retention_days=30, limit=10) == 1
    assert connection.execute("select id from scheduled_action_deadlines").fetchall() == [(awaited,)]

    project.scheduler.cancel_action(waiting)
    move_clock(connection, timedelta(hours=2))
    waits.prune(connection, limit=10)
    assert deadlines.prune(connection, retention_days=30, limit=10) == 1


def test_retrying_an_action_wakes_those_that_wait_while_it_has_failed(project, connection):
    awaited = insert(connection, action_type="test:run", status="failed", completed_at="2026-01-01")
    failed = {"kind": "action_status", "action_id": str(awaited), "status": "failed"}
    waiting = schedule(project, condition={"wait": {"not": failed}})
    for seconds in (0, 2):
        move_clock(connection, timedelta(seconds=seconds))
        project.processor.tick()
    assert row(connection, waiting)["scheduled_at"] == NEVER

    project.scheduler.retry_action(awaited)
    project.processor.tick()

    assert row(connection, waiting)["status"] == "completed"


def test_deleting_a_planned_occurrence_wakes_the_action_that_waits_for_it(project, connection):
    series = project.schedules.schedule_recurring("test:run", {}, "daily", scheduled_at="2099-01-01T09:00:00Z")
    waiting = schedule(project, after=[series.next_action_id])
    for seconds in (0, 2):
        move_clock(connection, timedelta(seconds=seconds))
        project.processor.tick()
    assert row(connection, waiting)["scheduled_at"] == NEVER

    operations.pause(project.schedules, series.id)
    project.processor.tick()

    assert statuses(connection) == {waiting: "failed"}
    assert "no action has the id" in row(connection, waiting)["error_message"]


def test_deleting_the_action_of_a_stage_wakes_the_action_that_waits_for_it(project, connection):
    (deadline_id,) = connection.execute(
        "insert into scheduled_action_deadlines (target_type, target_id, due_at)"
        " values ('license', '7', '2099-01-01') returning id"
    ).fetchone()
    stage = insert(connection, deadline_id=deadline_id, deadline_stage="due#1", scheduled_at="2099-01-01")
    waiting = schedule(project, after=[stage])
    for seconds in (0, 2):
        move_clock(connection, timedelta(seconds=seconds))
        project.processor.tick()
    assert row(connection, waiting)["scheduled_at"] == NEVER

    deadlines.drop(connection, [(deadline_id, "due", 1)])
    project.processor.tick()

    assert statuses(connection) == {waiting: "failed"}


# -- the sweep ---------------------------------------------------------------------------------------------------------


def lose_wake(project, connection, number):
    """Report a fact, and delete the record that it has changed."""
    project.facts.report({"type": "order", "id": str(number)}, "state", "approved")
    connection.execute("delete from scheduled_action_wakes")


def test_the_sweep_makes_an_action_due_whose_wake_was_lost(project, connection, caplog):
    lost, other = (schedule(project, condition={"wait": approved(number)}) for number in (1, 2))
    project.processor.tick()
    before = version(connection, other)
    lose_wake(project, connection, 1)
    assert project.processor.tick().processed == 0

    move_clock(connection, timedelta(minutes=6))
    assert evaluation.sweep(connection) == 1
    project.processor.tick()

    assert statuses(connection) == {lost: "completed", other: "pending"}
    assert version(connection, other) == before
    assert "waits.missed actions=1" in caplog.text


def test_a_tick_of_a_new_process_sweeps(project, connection, database_url):
    action_id = schedule(project, condition={"wait": approved()})
    project.processor.tick()
    lose_wake(project, connection, 1)
    connection.execute("delete from scheduled_action_waits")
    move_clock(connection, timedelta(minutes=6))
    project.processor.state.next_sweep = 0.0

    project.processor.tick()

    assert row(connection, action_id)["status"] == "completed"


def test_one_sweep_continues_where_the_last_one_ended(project, connection, monkeypatch):
    monkeypatch.setattr(evaluation, "_SWEEP_BATCH", 2)
    monkeypatch.setattr(evaluation, "_SWEEP_MOST_SECONDS", 0.0)
    ids = [
        schedule(project, condition={"wait": approved(number)}, priority=number % 2, lock_group=group)
        for number, group in enumerate((None, "a", "b", None, None))
    ]
    project.processor.tick()
    for number in range(len(ids)):
        lose_wake(project, connection, number)

    found = []
    for number in range(1, 5):
        move_clock(connection, timedelta(minutes=6 * number))
        found.append(evaluation.sweep(connection))
        assert evaluation.sweep(connection) == 0, "the last sweep has just ended"

    assert found == [2, 2, 1, 0]


def test_a_sweep_starts_again_when_no_action_follows_the_last_one(project, connection, monkeypatch):
    monkeypatch.setattr(evaluation, "_SWEEP_BATCH", 1)
    monkeypatch.setattr(evaluation, "_SWEEP_MOST_SECONDS", 0.0)
    first = schedule(project, condition={"wait": approved(1)})
    project.processor.tick()
    assert evaluation.sweep(connection) == 0
    lose_wake(project, connection, 1)

    found = []
    for number in range(1, 4):
        move_clock(connection, timedelta(minutes=6 * number))
        found.append(evaluation.sweep(connection))

    assert sum(found) == 1
    assert row(connection, first)["scheduled_at"] < NEVER


def test_a_sweep_whose_last_batch_is_full_has_ended(project, connection, monkeypatch):
    monkeypatch.setattr(evaluation, "_SWEEP_BATCH", 2)
    for number in range(4):
        schedule(project, condition={"wait": approved(number)})
    project.processor.tick()
    evaluation.sweep(connection)
    for number in range(4):
        lose_wake(project, connection, number)

    assert evaluation.sweep(connection) == 0, "the last sweep has just ended"
    move_clock(connection, timedelta(minutes=6))
    assert evaluation.sweep(connection) == 4


def test_a_condition_that_cannot_be_read_does_not_stop_the_sweep(project, connection):
    broken, lost = (schedule(project, condition={"wait": approved(number)}) for number in (1, 2))
    project.processor.tick()
    connection.execute("update scheduled_actions set condition = '{\"wait\": 7}' where id = %s", [broken])
    lose_wake(project, connection, 2)

    assert evaluation.sweep(connection) == 2
    project.processor.tick()

    assert statuses(connection) == {broken: "failed", lost: "completed"}


@pytest.mark.parametrize("obstacle", ["locked", "refused"])
def test_an_action_that_cannot_be_changed_does_not_stop_the_sweep(
    project, connection, database_url, monkeypatch, obstacle
):
    monkeypatch.setattr(evaluation, "_SWEEP_BATCH", 2)
    ids = [schedule(project, condition={"wait": approved(number)}) for number in range(4)]
    project.processor.tick()
    for number in range(4):
        lose_wake(project, connection, number)
    connection.execute("set lock_timeout to 50")
    if obstacle == "refused":
        connection.execute(
            f"alter table scheduled_actions add check (id <> '{ids[0]}' or scheduled_at = '{NEVER}') not valid"
        )

    with psycopg.connect(database_url) as other:
        if obstacle == "locked":
            other.execute("select from scheduled_actions where id = %s for update", [ids[0]])
        found = evaluation.sweep(connection)

    # The action that is locked in the same batch is left to the next sweep.
    assert found == (2 if obstacle == "locked" else 3)
    assert row(connection, ids[0])["scheduled_at"] == NEVER
    assert all(row(connection, one)["scheduled_at"] < NEVER for one in ids[4 - found :])


def test_the_sweep_leaves_rescheduled_actions_alone(project, connection):
    action_id = schedule(project, condition={"wait": approved()})
    project.processor.tick()
    later = "2099-01-01T00:00:00+00:00"
    project.scheduler.update_action(action_id, scheduled_at=later)
    lose_wake(project, connection, 1)

    assert evaluation.sweep(connection) == 0
    waits.make_due(connection, [action_id])

    assert row(connection, action_id)["scheduled_at"] == later
