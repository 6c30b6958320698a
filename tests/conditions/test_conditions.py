"""Actions that wait for facts, other actions, deadlines and time, in real ticks on a real database."""

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
def create_project(database_url):
    """Return a function that creates a project of handlers and settings on the test database."""
    with projects(database_url) as create:
        yield create


@pytest.fixture
def ran():
    """Return the list of payloads that the handler received."""
    return []


@pytest.fixture
def project(create_project, ran):
    """Return a project whose `order:submit` records its payloads and whose `order:refuse` fails finally."""

    @action("order:submit")
    def submit(payload: dict):
        ran.append(payload)

    @action("order:refuse")
    def refuse(payload: dict):
        raise Fail("refused")

    return create_project(submit, refuse)


def schedule(project, action_type="order:submit", **arguments):
    new = NewAction(action_type=action_type, payload=arguments.pop("payload", {}), **arguments)
    return project.scheduler.schedule_action(new).id


def waiting(condition=APPROVED, **options):
    return {"wait": condition, **options}


def counts(report):
    names = ("processed", "succeeded", "failed", "retried", "snoozed", "skipped", "remaining")
    return {name: getattr(report, name) for name in names if getattr(report, name)}


# -- conditions without a wait -----------------------------------------------------------------------------------------


def test_an_action_whose_condition_holds_runs(project, connection, ran):
    project.facts.report(ORDER, "state", "approved")
    action_id = schedule(project, condition=APPROVED)

    report = project.processor.tick()

    assert counts(report) == {"processed": 1, "succeeded": 1}
    assert row(connection, action_id)["status"] == "completed"
    assert ran == [{}]


def test_an_action_with_an_unmet_condition_is_skipped_with_the_reason_and_no_attempt(project, connection, ran):
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


def test_an_unreadable_condition_fails_only_its_own_action(project, connection, ran):
    broken = insert(connection, action_type="order:submit", condition='{"kind": "magic"}')
    other = schedule(project)

    project.processor.tick()

    assert statuses(connection) == {broken: "failed", other: "completed"}
    assert (
        "the condition cannot be read: condition.kind: 'magic' is not one of"
        in row(connection, broken)["error_message"]
    )
    assert len(ran) == 1


# -- waiting -----------------------------------------------------------------------------------------------------------


def test_a_waiting_action_stays_pending_without_attempts_and_stores_the_unmet_condition(project, connection, ran):
    action_id = schedule(project, condition=waiting(check_interval=60, max_checks=9))
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


def test_a_reported_fact_runs_the_waiting_action_in_the_next_tick(project, connection, ran):
    action_id = schedule(project, condition=waiting(check_interval=3600))
    project.processor.tick()

    reported = project.facts.report(ORDER, "state", "approved")
    report = project.processor.tick()

    assert reported == (True, True)
    assert counts(report) == {"processed": 1, "succeeded": 1}
    assert row(connection, action_id)["status"] == "completed"
    assert connection.execute("select count(*) from scheduled_action_waits").fetchone() == (0,)


def test_a_fact_that_does_not_meet_the_condition_causes_one_check(project, connection):
    action_id = schedule(project, condition=waiting(check_interval=3600))
    project.processor.tick()

    project.facts.report(ORDER, "state", "rejected")
    report = project.processor.tick()

    assert counts(report) == {"processed": 1, "snoozed": 1}
    assert "is 'rejected'" in row(connection, action_id)["waiting"]["unmet"]


def test_reporting_the_same_value_wakes_no_action(project, connection):
    project.facts.report(ORDER, "state", "draft")
    schedule(project, condition=waiting(check_interval=3600))
    project.processor.tick()

    assert project.facts.report(ORDER, "state", "draft") == (False, False)
    assert counts(project.processor.tick()) == {}


def test_facts_of_another_team_are_not_read_and_wake_no_action(project, connection, ran):
    action_id = schedule(project, condition=waiting(check_interval=3600), team_id="ours")
    project.processor.tick()

    for team in (None, "theirs"):
        assert project.facts.report(ORDER, "state", "approved", team_id=team) == (True, False)
        project.processor.tick()

    assert row(connection, action_id)["status"] == "pending"
    project.facts.report(ORDER, "state", "approved", team_id="ours")
    project.processor.tick()
    assert row(connection, action_id)["status"] == "completed"


def test_a_wait_over_its_timeout_is_skipped_and_on_timeout_is_scheduled(project, connection, ran):
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


def test_retrying_an_ended_wait_starts_it_again(project, connection):
    action_id = schedule(project, condition=waiting(check_interval=60, max_checks=1))
    project.processor.tick()

    project.scheduler.retry_action(action_id)
    project.facts.report(ORDER, "state", "approved")
    project.processor.tick()

    assert row(connection, action_id)["status"] == "completed"


def test_a_time_condition_runs_its_action_at_its_instant_with_any_check_interval(project, connection):
    day = {"kind": "time_elapsed", "duration": "24h"}
    action_id = schedule(project, condition=waiting(day, check_interval="P7D"))
    project.processor.tick()

    move_clock(connection, timedelta(hours=23, minutes=59))
    assert counts(project.processor.tick()) == {}
    move_clock(connection, timedelta(hours=24, seconds=1))
    project.processor.tick()

    assert row(connection, action_id)["status"] == "completed"


def test_a_rescheduled_waiting_action_keeps_its_time(project, connection):
    action_id = schedule(project, condition=waiting(check_interval=60))
    project.processor.tick()
    project.scheduler.update_action(action_id, scheduled_at=timedelta(days=1))

    project.facts.report(ORDER, "state", "approved")

    assert counts(project.processor.tick()) == {}
    assert row(connection, action_id)["status"] == "pending"


def test_a_waiting_member_does_not_hold_its_lock_group(project, connection):
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


def test_an_action_runs_after_its_predecessors_have_completed(project, connection):
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


def test_an_action_waits_for_a_failed_predecessor_until_it_is_retried(project, connection):
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
def test_an_action_can_wait_until_another_action_failed_or_was_cancelled(project, connection, status):
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


def test_predecessors_are_evaluated_before_the_condition(project, connection):
    first = schedule(project, scheduled_at=MINUTE)
    second = schedule(project, after=first, condition=APPROVED)
    project.processor.tick()
    assert row(connection, second)["status"] == "pending"

    move_clock(connection, MINUTE)
    project.processor.tick()
    project.processor.tick()

    assert row(connection, second)["status"] == "skipped"


def test_the_wait_for_a_predecessor_times_out_like_that_for_a_condition(project, connection, ran):
    first = schedule(project, "order:refuse")
    limits = {"timeout": "2m", "on_timeout": {"action_type": "order:submit", "payload": {"late": True}}}
    second = schedule(project, after=first, condition=limits)
    project.processor.tick()
    project.processor.tick()
    assert row(connection, second)["status"] == "pending"

    move_clock(connection, timedelta(minutes=2, seconds=1))
    project.processor.tick()

    found = row(connection, second)
    assert (found["status"], found["attempts"]) == ("skipped", 0)
    assert found["error_message"].startswith("condition_timeout: not met within 120 s: after.0: action ")
    assert ran == [{"late": True}]


def test_an_action_whose_predecessor_completes_within_its_timeout_runs(project, connection):
    first = schedule(project, scheduled_at=MINUTE)
    second = schedule(project, after=first, condition={"timeout": 120})
    project.processor.tick()

    move_clock(connection, MINUTE)
    project.processor.tick()
    project.processor.tick()

    assert statuses(connection) == {first: "completed", second: "completed"}


def test_a_timeout_without_anything_to_wait_for_is_rejected(project, connection):
    with pytest.raises(RequestError, match='condition limits a wait, but there is nothing to wait for: add "wait"'):
        schedule(project, condition={"timeout": 120})

    assert statuses(connection) == {}


# -- deadlines ---------------------------------------------------------------------------------------------------------


def test_an_action_that_waits_until_a_deadline_is_not_open_is_woken_when_it_is_missed(project, connection):
    (deadline_id,) = connection.execute(
        "insert into scheduled_action_deadlines (target_type, target_id, due_at)"
        " values ('license', '7', now() + interval '1 day') returning id"
    ).fetchone()
    is_open = {"kind": "deadline_open", "deadline_id": str(deadline_id)}
    once = schedule(project, condition=is_open)
    after = schedule(project, condition=waiting({"not": is_open}, check_interval=3600))
    theirs = schedule(project, condition=waiting(is_open), team_id="theirs")
    project.processor.tick()
    assert [row(connection, action_id)["status"] for action_id in (once, after, theirs)] == [
        "completed",
        "pending",
        "pending",
    ]
    assert "no deadline has the id" in row(connection, theirs)["waiting"]["unmet"]

    connection.execute("update scheduled_action_deadlines set status = 'missed'")
    project.processor.tick()

    assert row(connection, after)["status"] == "completed"


# -- follow-ups --------------------------------------------------------------------------------------------------------


def follow_up(**payload):
    return {"action_type": "order:submit", "payload": payload}


def test_on_success_is_scheduled_with_the_settlement(project, connection, ran):
    first = schedule(project, on_success=[follow_up(then=1), {**follow_up(then=2), "delay": "PT1M"}], team_id="ours")

    project.processor.tick()

    assert ran == [{}, {"then": 1}]
    found = connection.execute(
        "select payload ->> 'then', status, team_id, created_by, scheduled_by from scheduled_actions"
        " where id <> %s order by 1",
        [first],
    ).fetchall()
    by = f"action:{first}"
    assert found == [("1", "completed", "ours", by, first), ("2", "pending", "ours", by, first)]


def test_on_failure_is_scheduled_when_the_failure_is_final(project, connection, ran):
    schedule(project, "order:refuse", on_failure=follow_up(repaired=True), on_success=follow_up(never=True))

    project.processor.tick()

    assert ran == [{"repaired": True}]


def test_on_failure_is_scheduled_when_rescue_fails_the_action(project, connection, ran):
    action_id = schedule(project, on_failure=follow_up(rescued=True), max_attempts=1)
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


def test_follow_ups_have_follow_ups(project, ran):
    schedule(project, on_success={**follow_up(n=1), "on_success": {**follow_up(n=2), "on_success": follow_up(n=3)}})

    project.processor.tick()

    assert ran == [{}, {"n": 1}, {"n": 2}, {"n": 3}]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"action_type": "order:sumbit"}, 'on_success.0.action_type: action type "order:sumbit" has no handler'),
        ([follow_up(), {**follow_up(), "priority": "high"}], "on_success.1: priority: 'high' is not"),
        ({**follow_up(), "delay": "soon"}, "on_success.0: delay: 'soon' is not a duration"),
        ({**follow_up(), "team_id": "theirs"}, "on_success.0.team_id"),
        ([follow_up()] * 21, "has 21 actions; at most 20 are allowed"),
        (
            {**follow_up(), "on_success": {**follow_up(), "on_failure": 7}},
            "on_success.0: on_failure must be an action to schedule",
        ),
    ],
)
def test_an_invalid_follow_up_is_rejected_when_the_action_is_scheduled(project, connection, given, message):
    with pytest.raises(RequestError, match="on_success") as refused:
        schedule(project, on_success=given)

    assert message in str(refused.value)
    assert statuses(connection) == {}


# -- lingering ticks ---------------------------------------------------------------------------------------------------


def test_a_fact_reported_during_a_lingering_tick_runs_its_action_immediately(create_project, connection):
    ran = threading.Event()

    @action("order:submit")
    def submit(payload: dict):
        ran.set()

    project = create_project(submit, linger_seconds=30, max_duration_seconds=60, default_timeout_seconds=5)
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


def test_a_fact_reported_during_a_tick_runs_its_action_in_that_tick(create_project, connection):
    entered, leave = threading.Event(), threading.Event()

    @action("test:hold", timeout_seconds=15)
    def hold(payload: dict):
        entered.set()
        leave.wait(PATIENCE)

    @action("order:submit")
    def submit(payload: dict):
        """Do nothing."""

    project = create_project(hold, submit)
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
