"""Ticks hand the due actions of an executor to its broker as tickets, whatever becomes of them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from flask import Flask
from psycopg.types.json import Jsonb

from scheduled_actions import ScheduledActions, action
from scheduled_actions.core.errors import ActionLocked, WrongCarrier
from scheduled_actions.executors import dispatch
from scheduled_actions.executors.carriers import SendOutcome
from scheduled_actions.executors.takeover import WorkerRow, take_over
from scheduled_actions.limits import claims as limit_claims
from scheduled_actions.operations.doctor import service as doctor
from tests.factories import (
    CRON_SECRET,
    PATIENCE,
    database_now,
    insert,
    insert_many,
    is_waiting,
    move_clock,
    row,
    statuses,
    wait_until,
)

SENT, REFUSED, UNKNOWN = SendOutcome
FILM = {"type": "film", "id": "1"}
WAITING = {"wait": {"kind": "document_state", "target": FILM, "state": "approved"}}
TICKET_SECONDS = 60


@action("video:cut")
def cut(payload: dict) -> dict:
    return {"cut": True}


@action("email:send")
def send(payload: dict) -> None:
    pass


def run_messages(project, broker):
    """Run the messages that were sent, as a worker in this process."""
    messages, broker.messages = broker.messages, []
    for message in messages:
        project.executors.run_message(message.as_json())


def test_a_tick_sends_a_ticket_of_each_due_action_of_the_executor(connection, a_carried_project, broker):
    project = a_carried_project(cut, send)
    mine = insert(connection, action_type="video:cut", team_id="acme")
    later = insert(connection, action_type="video:cut", scheduled_at="2100-01-01")
    other = insert(connection, action_type="email:send")

    report = project.processor.tick()

    assert report.errors == []
    assert statuses(connection) == {mine: "processing", later: "pending", other: "completed"}
    [message] = broker.messages
    assert message.as_json() == {
        "v": 1,
        "executor": "media",
        "tickets": [
            {
                "id": str(mine),
                "token": row(connection, mine)["claim_token"],
                "action_type": "video:cut",
                "team_id": "acme",
            }
        ],
    }


def test_a_process_without_the_handler_sends_tickets_too(connection, a_carried_project, broker):
    insert(connection, action_type="video:cut")

    a_carried_project(send).processor.tick()

    assert len(broker.tickets) == 1


def test_messages_contain_as_many_tickets_as_the_settings_say_in_the_order_of_the_claims(
    connection, a_carried_project, broker
):
    project = a_carried_project(cut, tickets_per_message=3)
    ids = insert_many(connection, 7, action_type="video:cut")

    project.processor.tick()

    assert [[ticket.id for ticket in message.tickets] for message in broker.messages] == [ids[:3], ids[3:6], ids[6:]]


def test_while_the_broker_is_away_nothing_is_claimed_and_other_types_run(connection, a_carried_project, broker):
    project = a_carried_project(cut, send)
    mine, other = insert(connection, action_type="video:cut"), insert(connection, action_type="email:send")
    broker.is_away = True

    report = project.processor.tick()

    assert [error["error"] for error in report.errors] == ["executor media: no broker answers at redis://broker"]
    assert (report.success, report.succeeded) == (True, 1)
    assert statuses(connection) == {mine: "pending", other: "completed"}
    assert row(connection, mine)["attempts"] == 0


def test_after_a_failure_the_executor_is_left_out_briefly_and_then_tried_again(
    connection, a_carried_project, broker, monkeypatch
):
    project = a_carried_project(cut)
    insert(connection, action_type="video:cut")
    broker.is_away = True
    project.processor.tick()
    broker.is_away = False

    project.processor.tick()
    assert broker.tickets == []
    state = project.processor.state
    monkeypatch.setattr(state, "monotonic", lambda clock=state.monotonic: clock() + dispatch.FAILED_SECONDS)
    project.processor.tick()
    assert len(broker.tickets) == 1


def test_refused_tickets_are_released_at_once_uncharged(connection, a_carried_project, broker):
    project = a_carried_project(cut)
    first, second = insert_many(connection, 2, action_type="video:cut")
    broker.outcomes = [SENT, REFUSED]

    report = project.processor.tick()

    assert [error["error"] for error in report.errors] == ["executor media: the broker has refused 1 of 2 tickets"]
    assert statuses(connection) == {first: "processing", second: "pending"}
    released = row(connection, second)
    assert (released["attempts"], released["claim_token"], released["executor"]) == (0, None, None)


def test_an_action_whose_message_is_lost_returns_uncharged_when_its_ticket_ends(connection, a_carried_project, broker):
    project = a_carried_project(cut, ticket_seconds=TICKET_SECONDS)
    lost = insert(connection, action_type="video:cut", max_attempts=1)
    broker.outcomes = [UNKNOWN]
    project.processor.tick()
    assert len(broker.tickets) == 1
    broker.messages.clear()

    move_clock(connection, timedelta(seconds=TICKET_SECONDS - 5))
    project.processor.tick()
    assert (broker.messages, statuses(connection)) == ([], {lost: "processing"})
    move_clock(connection, timedelta(seconds=TICKET_SECONDS + 1))
    project.processor.tick()

    assert len(broker.tickets) == 1
    assert row(connection, lost)["attempts"] == 0
    run_messages(project, broker)
    assert statuses(connection) == {lost: "completed"}


def test_a_message_that_arrives_after_its_tickets_have_ended_changes_nothing(connection, a_carried_project, broker):
    project = a_carried_project(cut, ticket_seconds=TICKET_SECONDS)
    mine = insert(connection, action_type="video:cut")
    project.processor.tick()

    move_clock(connection, timedelta(seconds=TICKET_SECONDS + 1))
    run_messages(project, broker)

    assert statuses(connection) == {mine: "processing"}
    assert row(connection, mine)["announced_at"] is None


def test_a_message_that_arrives_twice_runs_its_action_once(connection, a_carried_project, broker):
    ran = []

    @action("video:cut")
    def count(payload: dict):
        ran.append(payload)

    project = a_carried_project(count, tickets_per_message=5)
    ids = insert_many(connection, 20, action_type="video:cut")
    project.processor.tick()
    messages = [message.as_json() for message in broker.messages]

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(project.executors.run_message, messages * 3))

    assert len(ran) == 20
    assert statuses(connection) == dict.fromkeys(ids, "completed")


def test_at_most_as_many_tickets_are_untaken_as_the_settings_allow_however_many_processes_send(
    connection, a_carried_project, broker, monkeypatch
):
    monkeypatch.setattr(dispatch, "_FULL_SECONDS", 0.0)

    def admit_slowly(*given, admit=limit_claims.admit_candidates):
        # So that all of them claim at the same time.
        time.sleep(0.1)
        return admit(*given)

    monkeypatch.setattr(limit_claims, "admit_candidates", admit_slowly)
    projects = [a_carried_project(cut, outstanding=7) for _ in range(4)]
    insert_many(connection, 40, action_type="video:cut")

    for _ in range(3):
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda project: project.processor.tick(), projects))

    assert len(broker.tickets) == 7
    run_messages(projects[0], broker)
    projects[0].processor.tick()
    assert len(broker.tickets) == 7


def test_while_workers_take_tickets_a_tick_sends_further_ones(connection, a_carried_project, broker):
    project = a_carried_project(cut, outstanding=2)
    ids = insert_many(connection, 7, action_type="video:cut")
    has_ended = threading.Event()

    def work():
        while not has_ended.wait(0.01):
            run_messages(project, broker)

    worker = threading.Thread(target=work)
    worker.start()
    project.processor.tick()
    has_ended.set()
    worker.join(PATIENCE)
    run_messages(project, broker)

    assert statuses(connection) == dict.fromkeys(ids, "completed")


def test_an_action_whose_condition_does_not_hold_becomes_no_ticket(connection, a_carried_project, broker):
    project = a_carried_project(cut)
    waiting = insert(connection, action_type="video:cut", condition=Jsonb(WAITING))
    ready = insert(connection, action_type="video:cut")

    report = project.processor.tick()

    assert [ticket.id for ticket in broker.tickets] == [ready]
    assert report.snoozed == 1
    assert row(connection, waiting)["status"] == "pending"


def test_a_condition_that_no_longer_holds_when_the_ticket_arrives_lets_the_action_wait(
    connection, a_carried_project, broker
):
    project = a_carried_project(cut)
    mine = insert(connection, action_type="video:cut", condition=Jsonb(WAITING))
    project.facts.report(FILM, "state", "approved")
    project.processor.tick()
    assert [ticket.id for ticket in broker.tickets] == [mine]
    project.facts.report(FILM, "state", "draft")

    run_messages(project, broker)

    assert (row(connection, mine)["status"], row(connection, mine)["attempts"]) == ("pending", 0)


def test_a_lock_group_is_kept_from_the_ticket_until_the_action_ends(connection, a_carried_project, broker):
    project = a_carried_project(cut)
    first, second = insert_many(connection, 2, action_type="video:cut", lock_group="film 1")

    project.processor.tick()
    project.processor.tick()
    assert [ticket.id for ticket in broker.tickets] == [first]
    run_messages(project, broker)
    project.processor.tick()

    assert [ticket.id for ticket in broker.tickets] == [second]


def test_the_slots_of_limits_are_in_use_while_tickets_are_untaken(connection, a_carried_project, broker):
    project = a_carried_project(cut, limits={"gpu:*": {"at_once": 2}})
    insert_many(connection, 5, action_type="video:cut", limit_keys=["gpu:1"])

    for _ in range(2):
        project.processor.tick()
    assert len(broker.tickets) == 2
    run_messages(project, broker)
    project.processor.tick()

    assert len(broker.tickets) == 2


def test_a_broker_that_hangs_delays_no_other_action_and_no_answer(connection, a_carried_project, broker):
    project = a_carried_project(cut, send, max_run_seconds=1, max_duration_seconds=4, default_timeout_seconds=1)
    insert(connection, action_type="video:cut")
    other = insert(connection, action_type="email:send")
    goes_on = threading.Event()
    broker.before_send = lambda: goes_on.wait(PATIENCE)

    report = project.processor.tick()

    assert report.succeeded == 1
    assert row(connection, other)["status"] == "completed"
    assert broker.messages == []
    # A later tick does not start a second sender, and the first one ends as if the tick were still running.
    project.processor.tick()
    goes_on.set()
    wait_until(lambda: broker.messages)
    assert len(broker.tickets) == 1


def test_a_lingering_tick_looks_for_actions_of_an_executor_only_once_a_second(a_carried_project, monkeypatch):
    project = a_carried_project(cut, linger_seconds=3, default_timeout_seconds=5)
    searches = []
    original = dispatch.ExecutorQueue.claim

    def claim(queue, *args, **options):
        searches.append(time.monotonic())
        return original(queue, *args, **options)

    monkeypatch.setattr(dispatch.ExecutorQueue, "claim", claim)
    project.processor.tick(lingers=True)

    # One at the beginning, and one for each second.
    assert 2 <= len(searches) <= 6


def test_a_lingering_tick_sends_tickets_of_actions_that_become_due_meanwhile(connection, a_carried_project, broker):
    project = a_carried_project(cut, linger_seconds=30, max_duration_seconds=55, default_timeout_seconds=1)
    insert(connection, action_type="video:cut", scheduled_at=database_now(connection) + timedelta(seconds=1))
    tick = threading.Thread(target=project.processor.tick)
    tick.start()

    wait_until(lambda: broker.tickets)

    project.processor.stop()
    tick.join(PATIENCE)
    assert not tick.is_alive()


def test_an_error_of_the_carrier_is_reported_and_its_actions_return(connection, a_carried_project, broker):
    project = a_carried_project(cut, ticket_seconds=TICKET_SECONDS)
    mine = insert(connection, action_type="video:cut")

    def fail():
        raise KeyError("a defect")

    broker.before_send = fail
    report = project.processor.tick()

    assert [error["error"] for error in report.errors] == ["executor media: KeyError: its tickets could not be sent"]
    move_clock(connection, timedelta(seconds=TICKET_SECONDS + 1))
    broker.before_send = lambda: None
    a_carried_project(cut).processor.tick()
    assert [ticket.id for ticket in broker.tickets] == [mine]


def test_pings_of_workers_are_refused_for_executors_with_a_broker(a_carried_project):
    project = a_carried_project(cut)

    with pytest.raises(WrongCarrier, match=r'executor "media" has carrier = "celery"'):
        project.executors.ping("media")
    app = Flask("scheduled_actions")
    ScheduledActions(app, runtime=project)
    answer = app.test_client().post("/cron/process?executor=media", headers={"x-cron-secret": CRON_SECRET})
    assert (answer.status_code, answer.json["code"]) == (422, "wrong_carrier")


def test_cancelling_an_action_whose_ticket_is_untaken_ends_it_at_once(connection, a_carried_project, broker):
    project = a_carried_project(cut, limits={"gpu:*": {"at_once": 1}})
    first, second = insert_many(connection, 2, action_type="video:cut", lock_group="film 1", limit_keys=["gpu:1"])
    project.processor.tick()
    assert [ticket.id for ticket in broker.tickets] == [first]

    with pytest.raises(ActionLocked):
        project.scheduler.cancel_action(first, also_running=False, edit_lock_seconds=120)
    cancelled = project.scheduler.cancel_action(first, by="ann", also_running=False)

    assert (cancelled.status, cancelled.attempts) == ("cancelled", 0)
    stored = row(connection, first)
    assert [entry["outcome"] for entry in stored["history"]] == ["cancelled"]
    assert [stored[name] for name in ("claim_token", "lease_expires_at", "executor")] == [None] * 3
    run_messages(project, broker)
    assert row(connection, first) == stored
    project.processor.tick()
    assert [ticket.id for ticket in broker.tickets] == [second]


def test_cancelling_waits_for_a_take_over_and_then_requests_the_running_action_to_stop(
    connection, database_url, a_carried_project, broker
):
    project = a_carried_project(cut)
    mine = insert(connection, action_type="video:cut")
    project.processor.tick()
    with psycopg.connect(database_url) as taking:
        take_over(
            taking, WorkerRow(executor="media", concurrency=1), broker.tickets, seconds=[60], running=(), token=uuid4()
        )
        with ThreadPoolExecutor(1) as threads:
            cancelling = threads.submit(project.scheduler.cancel_action, mine)
            wait_until(lambda: is_waiting(connection))
            taking.commit()
            cancelled = cancelling.result(PATIENCE)

    assert cancelled.status == "processing"
    assert row(connection, mine)["announced_at"] is not None
    assert row(connection, mine)["cancel_requested_at"] is not None


def test_untaken_tickets_are_counted_until_a_worker_takes_them(connection, a_carried_project, broker):
    project = a_carried_project(cut)
    insert_many(connection, 3, action_type="video:cut")

    project.processor.tick()
    [before] = project.executors.find()
    move_clock(connection, timedelta(minutes=3))
    problem = next(check for check in doctor.diagnose(project) if check.name == "executors")
    run_messages(project, broker)
    [after] = project.executors.find()

    assert (before.carrier, before.untaken, before.due, before.running) == ("celery", 3, 0, 0)
    assert before.oldest_untaken_at is not None
    assert (problem.level, problem.detail) == (
        "warning",
        "executor media: no worker has taken a ticket within the last day (3 untaken tickets)",
    )
    assert (after.untaken, after.oldest_untaken_at) == (0, None)
