"""Series whose occurrences have conditions and follow-ups, in real ticks."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from scheduled_actions import action, condition
from scheduled_actions.core.errors import InvalidArgument, UnknownActionType
from scheduled_actions.registry import Registry
from scheduled_actions.schedules import operations
from tests.factories import NOW, PATIENCE, projects, row, set_clock

BOOKS = {"type": "books", "id": "2026"}
CLOSED = {"kind": "document_state", "target": BOOKS, "state": "closed"}
WAITING = {"wait": CLOSED, "check_interval": 3600}
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


@pytest.fixture
def ran():
    """Return the instants of the occurrences that ran."""
    return []


@pytest.fixture
def project(database_url, connection, ran):
    """Return a project with the clock set to NOW; its `report:make` fails while `ran` contains "fail"."""

    @action("report:make", max_attempts=1)
    def make(payload: dict, context):
        if "fail" in ran:
            raise ValueError
        ran.append(context.occurrence_at - NOW)

    @action("report:send")
    def send(payload: dict):
        ran.append(payload)

    set_clock(connection, NOW)
    with projects(database_url) as made:
        yield made(make, send)


def daily(project, **options):
    return project.schedules.schedule_recurring("report:make", {}, "daily", scheduled_at=DAY, name="report", **options)


def tick(project, connection, after):
    set_clock(connection, NOW + after)
    return project.processor.tick()


def occurrences(connection):
    """Return each occurrence: its instant relative to NOW, its status, and its error message."""
    found = connection.execute(
        "select occurrence_at, status, error_message from scheduled_actions where schedule_id is not null"
        " order by occurrence_at"
    )
    return [(at - NOW, status, reason) for at, status, reason in found]


# -- conditions without a wait -----------------------------------------------------------------------------------------


def test_an_occurrence_whose_condition_does_not_hold_is_skipped_with_the_reason_and_the_series_continues(
    project, connection, ran
):
    daily(project, condition=CLOSED)

    tick(project, connection, DAY)
    project.facts.report(BOOKS, "state", "closed")
    tick(project, connection, 2 * DAY)

    reason = "condition_not_met: condition: state of books 2026 is not known"
    assert occurrences(connection) == [
        (DAY, "skipped", reason),
        (2 * DAY, "completed", None),
        (3 * DAY, "pending", None),
    ]
    assert ran == [2 * DAY]


def test_a_rolling_series_continues_after_an_occurrence_is_skipped_by_its_condition(project, connection, ran):
    daily(project, condition=CLOSED, recurrence_type="rolling")

    tick(project, connection, DAY)

    assert [status for _, status, _ in occurrences(connection)] == ["skipped", "pending"]


# -- waiting -----------------------------------------------------------------------------------------------------------


def test_occurrences_due_while_another_waits_are_skipped_and_the_waiting_one_runs_after_the_fact(
    project, connection, ran
):
    daily(project, condition=WAITING)

    tick(project, connection, DAY)
    tick(project, connection, 2 * DAY)
    project.facts.report(BOOKS, "state", "closed")
    tick(project, connection, 2 * DAY + MINUTE)
    tick(project, connection, 3 * DAY)

    left_out = "overlap: an earlier occurrence has been waiting for its condition since 2026-03-05 12:00:00Z"
    assert occurrences(connection) == [
        (DAY, "completed", None),
        (2 * DAY, "skipped", left_out),
        (3 * DAY, "completed", None),
        (4 * DAY, "pending", None),
    ]
    assert ran == [DAY, 3 * DAY]


@pytest.mark.parametrize("overlap", ["allow", "queue"])
def test_occurrences_that_may_overlap_wait_at_the_same_time_and_all_run(project, connection, ran, overlap):
    daily(project, condition=WAITING, overlap=overlap)

    tick(project, connection, DAY)
    tick(project, connection, 2 * DAY)
    project.facts.report(BOOKS, "state", "closed")
    tick(project, connection, 2 * DAY + MINUTE)

    assert [status for _, status, _ in occurrences(connection)] == ["completed", "completed", "pending"]
    assert sorted(ran) == [DAY, 2 * DAY]


def test_a_rolling_series_plans_no_occurrence_while_one_waits(project, connection, ran):
    daily(project, condition=WAITING, recurrence_type="rolling")

    tick(project, connection, DAY)
    tick(project, connection, 2 * DAY)
    project.facts.report(BOOKS, "state", "closed")
    tick(project, connection, 2 * DAY + MINUTE)

    assert occurrences(connection) == [(DAY, "completed", None), (3 * DAY + MINUTE, "pending", None)]


def test_an_occurrence_whose_wait_times_out_is_skipped_and_the_series_continues(project, connection, ran):
    daily(project, condition=WAITING | {"timeout": 3600, "on_timeout": {"action_type": "report:send"}})

    tick(project, connection, DAY)
    tick(project, connection, DAY + 60 * MINUTE)
    tick(project, connection, 2 * DAY)

    assert [status for _, status, _ in occurrences(connection)] == ["skipped", "pending", "pending"]
    assert ran == [{}]


#: Makes the next insertion of an action fail with a serialization failure; later insertions succeed.
FAIL_THE_FIRST_INSERT = """
    create sequence insertions;
    create function fail_the_first_insert() returns trigger language plpgsql as $$ begin
      if nextval('insertions') = 1 then raise exception using errcode = 'serialization_failure'; end if;
      return new;
    end $$;
    create trigger fail_the_first_insert before insert on scheduled_actions
      for each row execute function fail_the_first_insert();
"""


def test_cancelling_a_rolling_occurrence_during_its_condition_check_plans_the_next_one(database_url, connection):
    is_checking, may_end = threading.Event(), threading.Event()

    @action("report:make")
    def make(payload: dict):
        return None

    @condition("slow")
    def slow(check):
        is_checking.set()
        assert may_end.wait(PATIENCE)
        return False

    set_clock(connection, NOW)
    with projects(database_url) as made:
        project = made(registry=Registry.of(make, slow))
        wait = {"wait": {"kind": "custom", "name": "slow"}}
        schedule = daily(project, recurrence_type="rolling", condition=wait)
        # Cancelling and planning are one transaction: its failure must not leave the series without an occurrence.
        connection.execute(FAIL_THE_FIRST_INSERT)
        ticking = threading.Thread(target=tick, args=(project, connection, DAY))
        ticking.start()
        assert is_checking.wait(PATIENCE)
        project.scheduler.cancel_action(schedule.next_action_id)
        may_end.set()
        ticking.join(PATIENCE)

    assert [status for _, status, _ in occurrences(connection)] == ["cancelled", "pending"]


# -- operations and changes --------------------------------------------------------------------------------------------


def test_a_pause_deletes_the_planned_occurrence_and_keeps_the_waiting_one(project, connection, ran):
    daily(project, condition=WAITING)
    tick(project, connection, DAY)

    operations.pause(project.schedules, "report")
    project.facts.report(BOOKS, "state", "closed")
    tick(project, connection, DAY + MINUTE)

    assert occurrences(connection) == [(DAY, "completed", None)]


def test_manual_and_backfilled_runs_also_wait_for_the_condition(project, connection, ran):
    daily(project, condition=WAITING)
    set_clock(connection, NOW + 3 * DAY)

    manual = operations.run_now(project.schedules, "report").id
    (backfilled, *_) = operations.backfill(project.schedules, "report", NOW + DAY + MINUTE, NOW + 2 * DAY)
    project.processor.tick()

    assert row(connection, manual)["waiting"]["checks"] == row(connection, backfilled)["waiting"]["checks"] == 1


def test_a_new_condition_is_evaluated_for_the_waiting_occurrence_of_a_rolling_series(project, connection, ran):
    daily(project, condition=WAITING, recurrence_type="rolling")
    tick(project, connection, DAY)

    project.schedules.update("report", condition=None)
    tick(project, connection, DAY + MINUTE)

    assert ran == [DAY]


def test_follow_ups_are_scheduled_at_the_end_of_each_occurrence(project, connection, ran):
    sends = {"action_type": "report:send", "payload": {"to": "cfo"}}
    daily(project, on_success=sends, on_failure=[sends | {"payload": {"to": "it"}}])

    tick(project, connection, DAY)
    project.processor.tick()
    ran.append("fail")
    tick(project, connection, 2 * DAY)
    project.processor.tick()

    assert ran == [DAY, {"to": "cfo"}, "fail", {"to": "it"}]


def test_an_upsert_with_the_same_condition_changes_nothing_and_none_removes_a_follow_up(project, connection):
    options = {"condition": WAITING, "on_success": {"action_type": "report:send"}}
    first = daily(project, **options)

    again = daily(project, **options)
    planned = row(connection, first.next_action_id)
    changed = project.schedules.update("report", condition=CLOSED, on_success=None)

    assert again == first
    assert (planned["condition"], planned["on_success"][0]["action_type"]) == (WAITING, "report:send")
    assert (changed.condition, changed.on_success) == (CLOSED, None)
    planned = row(connection, first.next_action_id)
    assert (planned["condition"], planned["on_success"], planned["waiting"]) == (CLOSED, None, None)


@pytest.mark.parametrize(
    ("given", "error", "expected"),
    [
        ({"condition": {"kind": "magic"}}, InvalidArgument, "condition.kind: 'magic'"),
        ({"condition": {"kind": "custom", "name": "gone"}}, InvalidArgument, "condition.name: 'gone'"),
        ({"on_success": {"action_type": "report:mail"}}, UnknownActionType, "on_success.0.action_type: action type"),
        ({"on_failure": [{"action_type": "report:send", "team_id": "t"}]}, InvalidArgument, "on_failure.0.team_id"),
        ({"after": ["0197a000-0000-7000-8000-000000000001"]}, InvalidArgument, "after"),
    ],
)
def test_invalid_dependencies_of_a_schedule_are_rejected(project, connection, given, error, expected):
    with pytest.raises(error) as refusal:
        daily(project, **given)

    assert expected in str(refusal.value)
    assert occurrences(connection) == []
