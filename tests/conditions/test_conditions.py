"""Actions that wait: for facts, for other actions, for time; through real ticks on a real database."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from scheduled_actions import Fail, action
from scheduled_actions.actions.model import NewAction
from scheduled_actions.core.errors import RequestError
from tests.factories import PATIENCE, insert, move_clock, projects, row, statuses, wait_until

ORDER = {"type": "purchase_order", "id": "42"}
APPROVED = {"kind": "document_state", "target": ORDER, "state": "approved"}
MINUTE = timedelta(minutes=1)


@pytest.fixture
def a_project(database_url):
    """Return a function that makes a project of handlers and settings on the test's database."""
    with projects(database_url) as make:
        yield make


@pytest.fixture
def ran():
    """Return the payloads that the handler of the project got."""
    return []


@pytest.fixture
def project(a_project, ran):
    """Return a project whose `order:submit` notes its payloads, and whose `order:refuse` fails for good."""

    @action("order:submit")
    def submit(payload: dict):
        ran.append(payload)

    @action("order:refuse")
    def refuse(payload: dict):
        raise Fail("refused")

    return a_project(submit, refuse)


def schedule(project, action_type="order:submit", **arguments):
    new = NewAction(action_type=action_type, payload=arguments.pop("payload", {}), **arguments)
    return project.scheduler.schedule_action(new).id


def waiting(condition=APPROVED, **options):
    return {"wait": condition, **options}


def counts(report):
    names = ("processed", "succeeded", "failed", "retried", "snoozed", "skipped", "remaining")
    return {name: getattr(report, name) for name in names if getattr(report, name)}


# -- once --------------------------------------------------------------------------------------------------------------


def test_an_action_whose_condition_holds_runs(project, connection, ran):
    project.facts.report(ORDER, "state", "approved")
    action_id = schedule(project, condition=APPROVED)

    report = project.processor.tick()

    assert counts(report) == {"processed": 1, "succeeded": 1}
    assert row(connection, action_id)["status"] == "completed"
    assert ran == [{}]


def test_an_action_whose_condition_does_not_hold_ends_as_skipped_with_the_reason_and_no_attempt(
    project, connection, ran
):
    project.facts.report(ORDER, "state", "draft")
    action_id = schedule(project, condition=APPROVED)

    report = project.processor.tick()

    found = row(connection, action_id)
    assert counts(report) == {"processed": 1, "skipped": 1}
    assert (found["status"], found["attempts"], found["started_at"]) == ("skipped", 0, None)
    assert found["error_message"] == (
        "condition_not_met: condition: state of purchase_order 42 is 'draft', not 'approved'"
    )
    assert ran == []


def test_a_condition_that_sql_made_unreadable_fails_its_action_and_harms_no_other(project, connection, ran):
    broken = insert(connection, action_type="order:submit", condition='{"kind": "magic"}')
    other = schedule(project)

    project.processor.tick()

    assert statuses(connection) == {broken: "failed", other: "completed"}
    assert (
        "its condition cannot be read: condition.kind: 'magic' is not one of"
        in row(connection, broken)["error_message"]
    )
    assert len(ran) == 1


# -- waiting -----------------------------------------------------------------------------------------------------------


def test_a_waiting_action_stays_pending_at_no_cost_in_attempts_and_says_what_is_missing(project, connection, ran):
    action_id = schedule(project, condition=waiting(check_interval=60))
    for minute in range(3):
        move_clock(connection, minute * MINUTE)
        report = project.processor.tick()
        assert counts(report) == {"processed": 1, "snoozed": 1}

    found = row(connection, action_id)
    assert (found["status"], found["attempts"]) == ("pending", 0)
    assert found["waiting"]["checks"] == 3
    assert found["waiting"]["unmet"] == "condition.wait: state of purchase_order 42 is not known"
    assert found["waiting"]["unmet_since"] == found["waiting"]["since"]
    assert [(entry["outcome"], entry["count"]) for entry in found["history"]] == [("waited", 3)]
    assert ran == []


def test_a_fact_that_is_reported_runs_what_waits_for_it_in_the_next_tick(project, connection, ran):
    action_id = schedule(project, condition=waiting(check_interval=3600))
    project.processor.tick()

    reported = project.facts.report(ORDER, "state", "approved")
    report = project.processor.tick()

    assert reported == (True, True)
    assert counts(report) == {"processed": 1, "succeeded": 1}
    assert row(connection, action_id)["status"] == "completed"
    assert connection.execute("select count(*) from scheduled_action_waits").fetchone() == (0,)


def test_a_fact_that_does_not_meet_the_condition_wakes_it_for_one_look(project, connection):
    action_id = schedule(project, condition=waiting(check_interval=3600))
    project.processor.tick()

    project.facts.report(ORDER, "state", "rejected")
    report = project.processor.tick()

    assert counts(report) == {"processed": 1, "snoozed": 1}
    assert "is 'rejected'" in row(connection, action_id)["waiting"]["unmet"]


def test_the_same_fact_again_wakes_nobody(project, connection):
    project.facts.report(ORDER, "state", "draft")
    schedule(project, condition=waiting(check_interval=3600))
    project.processor.tick()

    assert project.facts.report(ORDER, "state", "draft") == (False, False)
    assert counts(project.processor.tick()) == {}


def test_facts_of_another_team_are_not_seen_and_wake_nobody(project, connection, ran):
    action_id = schedule(project, condition=waiting(check_interval=3600), team_id="ours")
    project.processor.tick()

    for team in (None, "theirs"):
        assert project.facts.report(ORDER, "state", "approved", team_id=team) == (True, False)
        project.processor.tick()

    assert row(connection, action_id)["status"] == "pending"
    project.facts.report(ORDER, "state", "approved", team_id="ours")
    project.processor.tick()
    assert row(connection, action_id)["status"] == "completed"


def test_a_wait_that_is_over_its_time_is_skipped_and_what_was_wanted_then_is_scheduled(project, connection, ran):
    late = {"action_type": "order:submit", "payload": {"late": True}}
    action_id = schedule(project, condition=waiting(check_interval=3600, timeout="2m", on_timeout=late))
    project.processor.tick()

    move_clock(connection, timedelta(minutes=2, seconds=1))
    project.processor.tick()

    found = row(connection, action_id)
    assert (found["status"], found["attempts"]) == ("skipped", 0)
    assert found["error_message"].startswith("condition_timeout: not met within 120 s: condition.wait: state of")
    assert ran == [{"late": True}]


def test_a_wait_ends_with_its_last_check(project, connection):
    action_id = schedule(project, condition=waiting(check_interval=60, max_checks=2))
    project.processor.tick()
    assert row(connection, action_id)["status"] == "pending"

    move_clock(connection, MINUTE)
    project.processor.tick()

    found = row(connection, action_id)
    assert found["status"] == "skipped"
    assert found["error_message"].startswith("max_checks: not met at check 2:")


def test_a_person_who_retries_a_wait_that_ended_begins_it_again(project, connection):
    action_id = schedule(project, condition=waiting(check_interval=60, max_checks=1))
    project.processor.tick()

    project.scheduler.retry_action(action_id)
    project.facts.report(ORDER, "state", "approved")
    project.processor.tick()

    assert row(connection, action_id)["status"] == "completed"


def test_time_that_has_passed_runs_an_action_at_its_instant_whatever_its_interval(project, connection):
    day = {"kind": "time_elapsed", "duration": "24h"}
    action_id = schedule(project, condition=waiting(day, check_interval="P7D"))
    project.processor.tick()

    move_clock(connection, timedelta(hours=23, minutes=59))
    assert counts(project.processor.tick()) == {}
    move_clock(connection, timedelta(hours=24, seconds=1))
    project.processor.tick()

    assert row(connection, action_id)["status"] == "completed"


def test_a_waiting_action_that_somebody_moved_to_another_time_is_left_there(project, connection):
    action_id = schedule(project, condition=waiting(check_interval=60))
    project.processor.tick()
    project.scheduler.update_action(action_id, scheduled_at=timedelta(days=1))

    project.facts.report(ORDER, "state", "approved")

    assert counts(project.processor.tick()) == {}
    assert row(connection, action_id)["status"] == "pending"


def test_a_member_that_waits_does_not_keep_its_lock_group_from_the_others(project, connection):
    first = schedule(project, condition=waiting(check_interval=3600), lock_group="po")
    second = schedule(project, lock_group="po")

    project.processor.tick()

    assert statuses(connection) == {first: "pending", second: "completed"}


def test_a_waiting_action_can_be_cancelled(project, connection):
    action_id = schedule(project, condition=waiting(check_interval=60))
    project.processor.tick()

    project.scheduler.cancel_action(action_id)
    project.facts.report(ORDER, "state", "approved")

    assert counts(project.processor.tick()) == {}
    assert row(connection, action_id)["status"] == "cancelled"


# -- after -------------------------------------------------------------------------------------------------------------


def test_an_action_runs_after_those_it_names_have_completed(project, connection):
    first = schedule(project, scheduled_at=MINUTE)
    second = schedule(project, scheduled_at=2 * MINUTE)
    third = schedule(project, after=[first, second])
    project.processor.tick()

    move_clock(connection, MINUTE)
    project.processor.tick()
    assert statuses(connection) == {first: "completed", second: "pending", third: "pending"}
    move_clock(connection, 2 * MINUTE)
    project.processor.tick()
    project.processor.tick()

    assert set(statuses(connection).values()) == {"completed"}


def test_an_action_waits_on_for_one_that_failed_until_a_person_has_it_done(project, connection):
    first = schedule(project, "order:refuse")
    second = schedule(project, after=first)
    project.processor.tick()
    project.processor.tick()
    assert statuses(connection) == {first: "failed", second: "pending"}
    assert "is failed, not completed" in row(connection, second)["waiting"]["unmet"]

    connection.execute("update scheduled_actions set action_type = 'order:submit' where id = %s", [first])
    project.scheduler.retry_action(first)
    project.processor.tick()
    project.processor.tick()

    assert statuses(connection) == {first: "completed", second: "completed"}


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_an_action_can_wait_for_another_end_of_one(project, connection, status):
    first = schedule(project, "order:refuse", scheduled_at=MINUTE)
    ended = {"kind": "action_status", "action_id": str(first), "status": ["failed", "cancelled"]}
    second = schedule(project, condition=waiting(ended, check_interval=3600))
    project.processor.tick()

    if status == "cancelled":
        project.scheduler.cancel_action(first)
    move_clock(connection, MINUTE)
    project.processor.tick()
    project.processor.tick()

    assert statuses(connection) == {first: status, second: "completed"}


def test_only_an_action_of_the_same_team_can_be_waited_for(project, connection):
    theirs = schedule(project, team_id="theirs")

    with pytest.raises(RequestError, match="after: no action has the id"):
        schedule(project, after=theirs, team_id="ours")

    assert statuses(connection) == {theirs: "pending"}


def test_after_and_a_condition_of_one_look_are_looked_at_in_that_order(project, connection):
    first = schedule(project, scheduled_at=MINUTE)
    second = schedule(project, after=first, condition=APPROVED)
    project.processor.tick()
    assert row(connection, second)["status"] == "pending"

    move_clock(connection, MINUTE)
    project.processor.tick()
    project.processor.tick()

    assert row(connection, second)["status"] == "skipped"


# -- deadlines ---------------------------------------------------------------------------------------------------------


def test_an_action_waits_until_a_deadline_is_not_open_any_more_and_is_woken_then(project, connection):
    (deadline_id,) = connection.execute(
        "insert into scheduled_action_deadlines (target_type, target_id, due_at)"
        " values ('licence', '7', now() + interval '1 day') returning id"
    ).fetchone()
    is_open = {"kind": "deadline_open", "deadline_id": str(deadline_id)}
    once = schedule(project, condition=is_open)
    after = schedule(project, condition=waiting({"not": is_open}, check_interval=3600))
    theirs = schedule(project, condition=waiting(is_open), team_id="theirs")
    project.processor.tick()
    assert [row(connection, one)["status"] for one in (once, after, theirs)] == ["completed", "pending", "pending"]
    assert "no deadline has the id" in row(connection, theirs)["waiting"]["unmet"]

    connection.execute("update scheduled_action_deadlines set status = 'missed'")
    project.processor.tick()

    assert row(connection, after)["status"] == "completed"


# -- what follows an end -----------------------------------------------------------------------------------------------


def follow(**payload):
    return {"action_type": "order:submit", "payload": payload}


def test_what_follows_a_success_is_scheduled_with_its_settlement(project, connection, ran):
    first = schedule(project, on_success=[follow(then=1), {**follow(then=2), "delay": "PT1M"}], team_id="ours")

    project.processor.tick()

    assert ran == [{}, {"then": 1}]
    found = connection.execute(
        "select payload ->> 'then', status, team_id, created_by, scheduled_by from scheduled_actions"
        " where id <> %s order by 1",
        [first],
    ).fetchall()
    by = f"action:{first}"
    assert found == [("1", "completed", "ours", by, first), ("2", "pending", "ours", by, first)]


def test_what_follows_a_failure_is_scheduled_once_it_is_final(project, connection, ran):
    schedule(project, "order:refuse", on_failure=follow(mended=True), on_success=follow(never=True))

    project.processor.tick()

    assert ran == [{"mended": True}]


def test_what_follows_a_failure_is_scheduled_when_rescue_ends_the_action_as_failed(project, connection, ran):
    action_id = schedule(project, on_failure=follow(rescued=True), max_attempts=1)
    tick = connection.execute(
        "insert into scheduled_action_ticks (id, started_at, lease_expires_at, running)"
        " values (gen_random_uuid(), now() - interval '1 hour', now() - interval '1 minute', %s)"
        " returning lease_expires_at",
        [[action_id]],
    ).fetchone()
    assert tick is not None
    connection.execute(
        "update scheduled_actions set status = 'processing', claim_token = gen_random_uuid(),"
        " lease_expires_at = %s where id = %s",
        [*tick, action_id],
    )

    project.processor.tick()

    assert row(connection, action_id)["status"] == "failed"
    assert ran == [{"rescued": True}]


def test_what_follows_is_followed_itself(project, ran):
    schedule(project, on_success={**follow(n=1), "on_success": {**follow(n=2), "on_success": follow(n=3)}})

    project.processor.tick()

    assert ran == [{}, {"n": 1}, {"n": 2}, {"n": 3}]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"action_type": "order:sumbit"}, 'on_success.0.action_type: action type "order:sumbit" has no handler'),
        ([follow(), {**follow(), "priority": "high"}], "on_success.1: priority: 'high' is not"),
        ({**follow(), "delay": "soon"}, "on_success.0: delay: 'soon' is not a duration"),
        ({**follow(), "team_id": "theirs"}, "on_success.0.team_id"),
        ([follow()] * 21, "at most 20 actions"),
        ({**follow(), "on_success": {**follow(), "on_failure": 7}}, "on_success.0: on_success.0: on_failure: a int"),
    ],
)
def test_a_follow_up_that_cannot_be_is_refused_when_the_action_is_scheduled(project, connection, given, message):
    with pytest.raises(RequestError, match="on_success") as refused:
        schedule(project, on_success=given)

    assert message in str(refused.value)
    assert statuses(connection) == {}


# -- a tick that lingers -----------------------------------------------------------------------------------------------


def test_a_fact_reported_beside_a_lingering_tick_runs_its_action_at_once(a_project, connection):
    ran = threading.Event()

    @action("order:submit")
    def submit(payload: dict):
        ran.set()

    project = a_project(submit, linger_seconds=30, max_duration_seconds=60, default_timeout_seconds=5)
    action_id = schedule(project, condition=waiting(check_interval=3600))
    tick = threading.Thread(target=project.processor.tick)
    tick.start()
    try:
        wait_until(lambda: row(connection, action_id)["waiting"] and row(connection, action_id)["status"] == "pending")
        project.facts.report(ORDER, "state", "approved")
        assert ran.wait(PATIENCE)
    finally:
        project.processor.stop()
        tick.join(PATIENCE)


def test_a_fact_reported_beside_a_tick_that_does_not_linger_runs_its_action_in_that_tick(a_project, connection):
    entered, leave = threading.Event(), threading.Event()

    @action("test:hold", timeout_seconds=15)
    def hold(payload: dict):
        entered.set()
        leave.wait(PATIENCE)

    @action("order:submit")
    def submit(payload: dict):
        """Do nothing."""

    project = a_project(hold, submit)
    action_id = schedule(project, condition=waiting(check_interval=3600))
    project.processor.tick()
    assert row(connection, action_id)["waiting"]
    insert(connection, action_type="test:hold")
    reports = []
    tick = threading.Thread(target=lambda: reports.append(project.processor.tick()))
    tick.start()
    assert entered.wait(PATIENCE)

    project.facts.report(ORDER, "state", "approved")
    leave.set()
    tick.join(PATIENCE)

    assert reports[0].succeeded == 2
    assert row(connection, action_id)["status"] == "completed"
