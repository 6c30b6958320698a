"""Rescue of the actions of dead processes, and pruning of old rows."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from scheduled_actions import action
from scheduled_actions.actions import claims, settling
from tests.factories import (
    a_tick,
    an_outcome,
    database_now,
    holds,
    insert,
    insert_many,
    move_clock,
    projects,
    row,
    statuses,
    together,
)


@pytest.fixture
def a_project(database_url):
    """Return a function that creates a project with handlers and settings on the test's database."""
    with projects(database_url) as make:
        yield make


@action("test:run")
def run(payload):
    """Do nothing."""


@pytest.fixture
def project(a_project):
    """Yield a project with one handler that does nothing."""
    return a_project(run)


def a_dead_process(connection, *announced, count=None):
    """Claim the due actions, and announce those at these positions as started, without settling any.

    Returns:
        The claimed actions, and the row of the tick.
    """
    tick = a_tick(connection, lease_seconds=70)
    claimed, _ = claims.claim_free(connection, tick, wanted=count or 99, after=claims.START, excluded=())
    with connection.transaction():
        grouped, _ = claims.claim_grouped(connection, tick, wanted=count or 99, after=claims.START, excluded=())
    claimed += grouped
    settling.settle(connection, tick, [], running=[claimed[position].id for position in announced])
    return claimed, tick


def minutes_later(connection, minutes=2):
    move_clock(connection, timedelta(minutes=minutes))


# -- rescue ------------------------------------------------------------------------------------------------------------


def test_an_action_with_a_valid_lease_is_not_rescued(project, connection):
    a_dead_process(connection, 0, count=insert(connection) and 1)
    move_clock(connection, timedelta(seconds=69))

    assert len(project.maintenance.rescue(connection)) == 0
    assert set(statuses(connection).values()) == {"processing"}


def test_a_rescue_charges_only_the_announced_actions(project, connection):
    made = insert_many(connection, 5)
    _, tick = a_dead_process(connection, 1, 3)
    minutes_later(connection)

    rescued = project.maintenance.rescue(connection)

    assert [one.status for one in rescued] == ["pending"] * 5
    rows = [row(connection, one) for one in made]
    assert [found["attempts"] for found in rows] == [0, 1, 0, 1, 0]
    assert {found["status"] for found in rows} == {"pending"}
    assert [len(found["history"]) for found in rows] == [0, 1, 0, 1, 0]
    (entry,) = rows[1]["history"]
    assert (entry["outcome"], entry["attempt"], entry["tick"]) == ("crashed", 1, str(tick.id))
    assert "the process ended while the handler was running" in entry["error"]
    assert rows[1]["error_message"] == entry["error"]
    assert rows[0]["error_message"] is None


def test_a_rescued_action_is_due_immediately(project, connection):
    insert(connection)
    a_dead_process(connection, 0)
    minutes_later(connection)

    report = project.processor.tick()

    assert (report.rescued, report.succeeded) == (1, 1)


def test_a_withdrawn_announcement_charges_no_action(project, connection):
    (action_id,) = insert_many(connection, 1)
    _, tick = a_dead_process(connection, 0)
    settling.settle(connection, tick, [], running=[])
    minutes_later(connection)

    project.maintenance.rescue(connection)

    assert row(connection, action_id)["attempts"] == 0


def test_an_announcement_of_an_earlier_tick_does_not_charge_a_later_claim(project, connection):
    """The first process died while it ran the action; the second had claimed it, but not started it."""
    (action_id,) = insert_many(connection, 1)
    a_dead_process(connection, 0)
    minutes_later(connection, 2)
    project.maintenance.rescue(connection)
    a_dead_process(connection)
    minutes_later(connection, 4)

    project.maintenance.rescue(connection)

    assert row(connection, action_id)["attempts"] == 1


def test_an_action_that_crashes_its_process_alone_fails_once_its_attempts_are_used_up(project, connection):
    action_id = insert(connection, max_attempts=2, attempts=1)
    a_dead_process(connection, 0)
    minutes_later(connection)

    report = project.processor.tick()

    found = row(connection, action_id)
    assert (found["status"], found["attempts"]) == ("failed", 2)
    assert found["completed_at"] is not None
    assert (report.rescued, report.failed, report.processed) == (1, 1, 1)
    assert [error["action_id"] for error in report.errors] == [str(action_id)]


def test_a_last_attempt_does_not_fail_after_a_crash_that_another_action_may_have_caused(project, connection):
    insert_many(connection, 2, max_attempts=1)
    a_dead_process(connection, 0, 1)
    minutes_later(connection)

    rescued = project.maintenance.rescue(connection)

    assert [one.status for one in rescued] == ["pending"] * 2
    found = connection.execute("select status, attempts, history -> -1 ->> 'outcome' from scheduled_actions").fetchall()
    assert found == [("pending", 0, "crashed")] * 2


def test_an_action_that_crashed_with_others_runs_alone_next(a_project, connection):
    """No other action is announced while its handler runs."""
    announced = {}

    @action("test:run")
    def handle(payload, context):
        running = connection.execute("select running from scheduled_action_ticks where finished_at is null").fetchone()
        announced[payload["name"]] = len(running[0]) - 1

    for name in ("culprit", "victim"):
        insert(connection, payload={"name": name}, max_attempts=1)
    a_dead_process(connection, 0, 1)
    for n in range(4):
        insert(connection, payload={"name": f"other {n}"})
    minutes_later(connection)

    report = a_project(handle, concurrency=4).processor.tick()

    assert report.succeeded == 6
    assert (announced["culprit"], announced["victim"]) == (0, 0)


def test_an_action_is_rescued_by_one_process_only(project, connection, database_url):
    made = insert_many(connection, 60)
    a_dead_process(connection, *range(30))
    minutes_later(connection)

    counts = together(database_url, 8, lambda own, _: len(project.maintenance.rescue(own)))

    assert sum(counts) == 60
    assert sum(row(connection, one)["attempts"] for one in made) == 30


def test_a_rescue_processes_one_batch_at_a_time(project, connection):
    connection.execute(
        "insert into scheduled_actions (action_type, scheduled_at, status, claim_token, lease_expires_at)"
        " select 'test:run', now(), 'processing', gen_random_uuid(), now() - interval '1 s'"
        " from generate_series(1, 501)"
    )

    assert [len(project.maintenance.rescue(connection)) for _ in range(3)] == [500, 1, 0]


def test_a_rescue_frees_a_lock_group_unless_the_action_blocks_it(project, connection):
    insert(connection, lock_group="free")
    blocking = insert(connection, lock_group="kept", lock_group_blocks=True)
    a_dead_process(connection, 0, 1)
    minutes_later(connection)

    project.maintenance.rescue(connection)

    assert holds(connection) == {"kept": blocking}


def test_a_locked_schedule_does_not_block_a_rescue(project, connection, database_url):
    schedule = project.schedules.schedule_recurring("test:run", {}, "every 5 minutes", recurrence_type="rolling")
    move_clock(connection, timedelta(minutes=5))
    a_dead_process(connection)
    with psycopg.connect(database_url) as other:
        other.execute("select 1 from scheduled_action_schedules where id = %s for update", [schedule.id])
        minutes_later(connection, 7)

        assert project.processor.tick().rescued == 1


def test_a_late_outcome_of_a_rescued_action_is_rejected(project, connection):
    (action_id,) = insert_many(connection, 1)
    (claimed,), tick = a_dead_process(connection, 0)
    minutes_later(connection)
    project.maintenance.rescue(connection)
    before = row(connection, action_id)

    settled = settling.settle(connection, tick, [an_outcome(claimed)], running=None)

    assert settled.statuses == {}
    assert row(connection, action_id) == before


def test_a_rescued_action_with_a_cancel_request_is_cancelled(project, connection):
    (action_id,) = insert_many(connection, 1)
    a_dead_process(connection, 0)
    project.scheduler.cancel_action(action_id)
    minutes_later(connection)

    project.maintenance.rescue(connection)

    assert statuses(connection) == {action_id: "cancelled"}


def test_a_row_that_cannot_be_read_is_rescued_like_any_other(project, connection):
    made = [
        insert(connection, scheduled_at="-infinity"),
        insert(connection, payload='{"n": ' + "9" * 5001 + "}"),
        insert(connection, action_type="unknown:type", retry="soon"),
    ]
    a_dead_process(connection, 0, 1, 2)
    minutes_later(connection)

    assert len(project.maintenance.rescue(connection)) == 3
    assert statuses(connection) == dict.fromkeys(made, "pending")


def test_a_tick_that_never_finished_is_closed_once_none_of_its_actions_is_leased(project, connection):
    insert(connection)
    _, tick = a_dead_process(connection, 0)
    find = "select outcome, running, finished_at is not null from scheduled_action_ticks where id = %s"
    project.maintenance.rescue(connection)
    assert connection.execute(find, [tick.id]).fetchone()[0] is None

    minutes_later(connection)
    project.maintenance.rescue(connection)

    assert connection.execute(find, [tick.id]).fetchone() == ("lost", [], True)


def test_a_rescue_applies_max_attempts_of_the_handler(a_project, connection):
    @action("test:run", max_attempts=1)
    def handle(payload): ...

    action_id = insert(connection)
    a_dead_process(connection, 0)
    minutes_later(connection)

    a_project(handle).maintenance.rescue(connection)

    assert statuses(connection) == {action_id: "failed"}


# -- pruning -----------------------------------------------------------------------------------------------------------


def an_old(connection, status, days, **columns):
    completed_at = database_now(connection) - timedelta(days=days)
    return insert(connection, status=status, completed_at=completed_at, **columns)


@pytest.mark.parametrize("status", ["completed", "cancelled", "skipped"])
def test_finished_actions_are_kept_for_a_week(project, connection, status):
    kept = an_old(connection, status, 6.9)
    an_old(connection, status, 7.1)

    assert project.maintenance.prune(limit=99) == 1
    assert list(statuses(connection)) == [kept]


def test_failed_actions_are_kept_for_ninety_days(project, connection):
    kept = [an_old(connection, "failed", days) for days in (7.1, 89.9)]
    an_old(connection, "failed", 90.1)

    assert project.maintenance.prune(limit=99) == 1
    assert list(statuses(connection)) == kept


def test_the_settings_define_the_retention(a_project, connection):
    project = a_project(run, retention_days=1, retention_failed_days=2)
    kept = [an_old(connection, "completed", 0.9), an_old(connection, "failed", 1.9)]
    for status, days in (("completed", 1.1), ("failed", 2.1)):
        an_old(connection, status, days)

    assert project.maintenance.prune(limit=99) == 2
    assert list(statuses(connection)) == kept


def test_unfinished_actions_are_never_pruned(project, connection):
    long_ago = database_now(connection) - timedelta(days=400)
    made = [
        insert(connection, created_at=long_ago, scheduled_at=long_ago),
        insert(connection, created_at=long_ago, status="no_action"),
        insert(
            connection,
            created_at=long_ago,
            status="processing",
            claim_token=uuid4(),
            lease_expires_at=database_now(connection),
        ),
    ]

    assert project.maintenance.prune(limit=99) == 0
    assert sorted(statuses(connection)) == sorted(made)


def test_pruning_stops_at_its_limit_the_oldest_first(project, connection):
    newest, *_ = [an_old(connection, "completed", days) for days in (8, 9, 10)]

    assert project.maintenance.prune(limit=2) == 2
    assert list(statuses(connection)) == [newest]


def test_pruning_continues_batch_by_batch(project, connection):
    connection.execute(
        "insert into scheduled_actions (action_type, scheduled_at, status, completed_at)"
        " select 'test:run', now(), 'completed', now() - interval '8 days' from generate_series(1, 1300)"
    )

    assert [project.maintenance.prune(limit=1200), project.maintenance.prune(limit=1200)] == [1200, 100]


def test_a_tick_prunes_old_actions(project, connection):
    an_old(connection, "completed", 8)

    assert project.processor.tick().pruned == 1
    assert statuses(connection) == {}


def test_pruning_waits_for_no_lock(project, connection, database_url):
    locked, _ = an_old(connection, "completed", 8), an_old(connection, "completed", 9)
    connection.execute("set lock_timeout = '1s'")

    def work(own, number):
        if number == 0:
            with own.transaction():
                own.execute("select from scheduled_actions where id = %s for update", [locked])
                return project.maintenance.prune_on(connection, limit=99)
        return None

    assert together(database_url, 1, work) == [1]
    assert list(statuses(connection)) == [locked]


def test_old_ticks_are_pruned_with_the_actions(project, connection):
    project.processor.tick()
    minutes_later(connection, 8 * 24 * 60)

    project.processor.tick()

    assert connection.execute("select count(*) from scheduled_action_ticks").fetchone() == (1,)


def test_event_types_unused_for_long_are_deleted(project, connection):
    project.processor.tick()
    connection.execute(
        "insert into webhook_event_types (team_id, event, last_seen_at)"
        " select 'blue', 'task:' || days, scheduled_actions_now() - make_interval(days => days)"
        " from unnest(array[0, 80, 83]) days"
    )
    minutes_later(connection, 8 * 24 * 60)

    project.processor.tick()

    left = connection.execute("select event from webhook_event_types order by 1").fetchall()
    assert left == [("task:0",), ("task:80",)]


# -- actions without a handler -----------------------------------------------------------------------------------------


def an_unhandled(connection, days, **columns):
    changed_at = database_now(connection) - timedelta(days=days)
    return insert(connection, status="no_action", updated_at=changed_at, **{"action_type": "test:gone"} | columns)


def test_actions_without_a_handler_are_cancelled_after_their_retention(a_project, connection):
    project = a_project(run, retention_no_action_days=30)
    young, old = an_unhandled(connection, 29.9), an_unhandled(connection, 30.1)

    project.processor.tick()

    reason = "no build had a handler for this type for 30 days (retention_no_action_days)"
    assert statuses(connection) == {young: "no_action", old: "cancelled"}
    found = row(connection, old)
    assert (found["error_message"], found["history"][-1]["reason"]) == (reason, reason)
    assert found["completed_at"] == found["updated_at"]


def test_actions_without_a_handler_are_kept_by_default(project, connection):
    old = an_unhandled(connection, 4000)

    project.processor.tick()

    assert statuses(connection) == {old: "no_action"}


def test_an_old_action_whose_handler_is_back_runs_instead_of_being_cancelled(a_project, connection):
    project = a_project(run, retention_no_action_days=1)
    old = an_unhandled(connection, 2, action_type="test:run")

    project.processor.tick()

    assert statuses(connection) == {old: "completed"}


def test_an_action_that_another_build_released_meanwhile_is_not_cancelled(a_project, connection, monkeypatch):
    project = a_project(run, retention_no_action_days=1)
    old = an_unhandled(connection, 2)
    find = claims.expired_no_action

    def find_and_release(*arguments, **options):
        found = find(*arguments, **options)
        connection.execute("update scheduled_actions set status = 'pending'")
        return found

    monkeypatch.setattr(claims, "expired_no_action", find_and_release)

    assert project.maintenance.cancel_unhandled(connection) == 0
    assert statuses(connection) == {old: "pending"}


def test_an_action_that_cannot_be_cancelled_does_not_prevent_the_others(a_project, connection):
    project = a_project(run, retention_no_action_days=1)
    bad, good = an_unhandled(connection, 3, user_id="bad"), an_unhandled(connection, 2)
    connection.execute(
        "alter table scheduled_actions add constraint kept check (status <> 'cancelled' or user_id is null)"
    )

    project.processor.tick()

    assert statuses(connection) == {bad: "no_action", good: "cancelled"}


def test_the_schedule_of_a_cancelled_occurrence_without_a_handler_continues(a_project, connection):
    schedule = a_project(run).schedules.schedule_recurring("test:run", {}, "every 1 hour")
    without_handlers = a_project(retention_no_action_days=1)
    connection.execute(
        "update scheduled_actions set scheduled_at = scheduled_actions_now(), occurrence_at = scheduled_actions_now()"
    )
    without_handlers.processor.tick()
    move_clock(connection, timedelta(days=1, minutes=1))

    assert without_handlers.maintenance.cancel_unhandled(connection) == 1
    found = connection.execute("select status from scheduled_actions where schedule_id = %s order by id", [schedule.id])
    assert [one[0] for one in found] == ["cancelled", "pending"]
