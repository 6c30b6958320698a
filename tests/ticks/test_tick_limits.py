"""A tick ends in time, whatever its handlers, its process and its database do."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta

import psycopg
import pytest
from pydantic import BaseModel, field_validator

from scheduled_actions import Context, RetryAfter, action
from scheduled_actions.actions.model import NewAction
from scheduled_actions.core.errors import DatabaseUnavailable, SchemaOutdated
from scheduled_actions.ticks.tick import LEASE_MARGIN_SECONDS
from tests.factories import (
    PATIENCE,
    holds,
    insert,
    insert_many,
    is_waiting,
    move_clock,
    projects,
    row,
    statuses,
    wait_until,
)


class LeavesAtOne(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def leave(cls, number):
        if number == 1:
            raise SystemExit("gone")
        return number


@pytest.fixture
def a_project(database_url):
    """Return a function that creates a project with handlers and settings on the test's database."""
    with projects(database_url) as make:
        yield make


@pytest.fixture
def released():
    """Yield an event that releases hanging handlers, and set it at the end."""
    event = threading.Event()
    yield event
    event.set()


def schedule(project, action_type="test:run", **arguments):
    new = NewAction(**{"action_type": action_type, "payload": {}} | arguments)
    return project.scheduler.schedule_action(new).id


def running(connection):
    """Return the ids that the ticks which have not ended have announced."""
    found = connection.execute("select unnest(running) from scheduled_action_ticks where finished_at is null")
    return [one for (one,) in found.fetchall()]


def a_hanging(released, action_type="test:hang", **options):
    @action(action_type, **{"timeout_seconds": 0.2} | options)
    def hang(payload):
        released.wait(PATIENCE)

    return hang


@action("test:run")
def run(payload):
    """Do nothing."""


@contextmanager
def on_a_thread(work, *arguments, **options):
    """Run the function in a separate thread; yield a future for its result."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(work, *arguments, **options)


# -- handlers that take too long ---------------------------------------------------------------------------------------


def test_an_attempt_that_exceeds_its_timeout_fails_and_the_others_settle_on_time(a_project, connection, released):
    project = a_project(a_hanging(released), run)
    hanging = schedule(project, "test:hang")
    good = [schedule(project) for _ in range(20)]

    report = project.processor.tick()

    found = row(connection, hanging)
    assert (report.retried, report.succeeded) == (1, 20)
    assert report.duration_ms < PATIENCE * 500
    assert (found["status"], found["attempts"]) == ("pending", 1)
    assert found["error_message"] == "timed out after 0.2 s"
    assert [entry["outcome"] for entry in found["history"]] == ["timed_out"]
    assert {statuses(connection)[one] for one in good} == {"completed"}


def test_a_handler_that_exceeds_its_timeout_is_asked_to_stop(a_project, connection):
    was_asked, left = threading.Event(), []

    @action("test:run", timeout_seconds=0.2)
    def handle(payload, context: Context):
        wait_until(lambda: context.should_stop)
        left.append(context.seconds_left)
        was_asked.set()

    project = a_project(handle)
    schedule(project)

    project.processor.tick()

    assert was_asked.wait(PATIENCE)
    assert left == [0.0]


def test_an_async_handler_that_exceeds_its_timeout_is_cancelled(a_project):
    cancelled = threading.Event()

    @action("test:run", timeout_seconds=0.2)
    async def handle(payload):
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    project = a_project(handle)
    schedule(project)

    report = project.processor.tick()

    assert cancelled.wait(PATIENCE)
    assert report.retried == 1
    wait_until(lambda: project.processor.state.threads.capacity == 2)


def test_a_late_outcome_is_rejected_and_logged_as_stale(a_project, connection, released, caplog):
    @action("test:run", timeout_seconds=0.2)
    def handle(payload, context: Context):
        context.schedule("test:run", {})
        released.wait(PATIENCE)
        return "too late"

    project = a_project(handle)
    action_id = schedule(project)
    project.processor.tick()
    before = row(connection, action_id)

    released.set()
    wait_until(lambda: project.processor.state.threads.stuck == 0)
    wait_until(lambda: "action.stale" in caplog.text)

    assert row(connection, action_id) == before
    assert list(statuses(connection)) == [action_id]


def test_a_late_transactional_handler_leaves_nothing_behind(a_project, connection):
    connection.execute("create table effects ()")

    @action("test:run", transactional=True, timeout_seconds=0.3)
    def handle(payload, context: Context):
        context.connection.execute("insert into effects default values")
        context.connection.execute("select pg_sleep(20)")

    project = a_project(handle)
    action_id = schedule(project)

    report = project.processor.tick()

    assert (report.retried, row(connection, action_id)["status"]) == (1, "pending")
    wait_until(lambda: project.processor.state.threads.stuck == 0)
    assert connection.execute("select count(*) from effects").fetchone() == (0,)


def test_a_handler_abandoned_while_it_waited_for_a_transaction_never_starts(a_project, connection, released):
    started = []

    @action("test:run", transactional=True, timeout_seconds=0.2)
    def handle(payload):
        started.append(payload["n"])
        released.wait(PATIENCE)

    project = a_project(handle, concurrency=2, max_run_seconds=2)
    for n in range(2):
        insert(connection, payload={"n": n})

    project.processor.tick()
    released.set()
    wait_until(lambda: project.processor.state.threads.stuck == 0)

    assert len(started) == 1, "the other waited, because only one transaction runs at a time"


def test_a_process_reports_that_all_of_its_threads_are_stuck(a_project, connection, released):
    project = a_project(a_hanging(released, max_attempts=1), run, concurrency=2)
    hanging = [schedule(project, "test:hang", priority=-1) for _ in range(2)]
    waiting = schedule(project)

    first = project.processor.tick()
    second = project.processor.tick()

    assert project.processor.state.is_exhausted
    assert first.failed == 2
    assert statuses(connection) == dict.fromkeys(hanging, "failed") | {waiting: "pending"}
    assert [error["error"] for error in second.errors] == [
        (
            "all 2 handler threads are occupied by handlers that exceeded their timeout and did not return; "
            "this process claims nothing until one returns or the process is restarted"
        )
    ]
    assert (second.remaining, second.more) == (1, True)
    assert row(connection, waiting)["attempts"] == 0


def test_a_process_works_again_once_its_threads_have_returned(a_project, connection, released):
    project = a_project(a_hanging(released, max_attempts=1), run, concurrency=1)
    schedule(project, "test:hang")
    project.processor.tick()
    assert project.processor.state.is_exhausted

    released.set()
    wait_until(lambda: not project.processor.state.is_exhausted)
    waiting = schedule(project)
    report = project.processor.tick()

    assert report.succeeded == 1
    assert statuses(connection)[waiting] == "completed"


def test_an_action_past_its_timeout_holds_its_lock_group_until_it_returns(a_project, connection, released):
    project = a_project(a_hanging(released, max_attempts=1), run)
    late = schedule(project, "test:hang", lock_group="g")
    following = schedule(project, lock_group="g")

    project.processor.tick()
    assert statuses(connection) == {late: "failed", following: "pending"}
    assert project.processor.tick().succeeded == 0

    released.set()
    wait_until(lambda: holds(connection) == {})
    assert project.processor.tick().succeeded == 1


def test_an_action_that_could_never_fit_is_reported_and_not_started(a_project, connection):
    started = []

    @action("test:long", timeout_seconds=60)
    def long(payload):
        started.append(payload)

    project = a_project(long, run)
    too_long = [schedule(project, "test:long") for _ in range(3)]
    good = schedule(project)

    report = project.processor.tick()

    assert started == []
    assert statuses(connection) == dict.fromkeys(too_long, "pending") | {good: "completed"}
    assert {row(connection, one)["attempts"] for one in too_long} == {0}
    (error,) = report.errors
    assert error["action_type"] == "test:long"
    assert "not started: its timeout of 60 s does not fit into a tick of 55 s" in error["error"]
    assert (report.remaining, report.processed) == (3, 1)


def test_a_blocking_member_that_could_never_fit_does_not_keep_the_tick_busy(a_project, connection):
    """The action has started before, so it keeps its hold when it is released."""

    @action("test:long", timeout_seconds=60)
    def long(payload): ...

    project = a_project(long)
    action_id = insert(
        connection,
        action_type="test:long",
        lock_group="g",
        lock_group_blocks=True,
        history=[{"attempt": 1, "outcome": "failed"}],
    )
    connection.execute(
        "insert into scheduled_action_holds (team_id, lock_group, action_id) values ('', 'g', %s)", [action_id]
    )

    report = project.processor.tick()

    assert report.duration_ms < PATIENCE * 500
    assert statuses(connection) == {action_id: "pending"}


# -- time limits -------------------------------------------------------------------------------------------------------


def test_no_action_starts_after_max_run_seconds_and_the_others_are_released_uncharged(a_project, connection):
    """Each handler takes 60 ms, so about sixteen of a hundred run in a second."""
    pause = threading.Event()

    @action("test:run")
    def handle(payload):
        pause.wait(0.06)

    project = a_project(handle, concurrency=1, max_run_seconds=1, max_duration_seconds=40)
    insert_many(connection, 100)

    report = project.processor.tick()

    found = connection.execute(
        "select status, attempts, count(*)::int from scheduled_actions group by 1, 2 order by 1"
    ).fetchall()
    late = connection.execute(
        "select count(*) from scheduled_actions a, scheduled_action_ticks t"
        " where a.started_at > t.started_at + interval '3 s'"
    ).fetchone()
    assert found == [("completed", 1, report.succeeded), ("pending", 0, 100 - report.succeeded)]
    assert 0 < report.succeeded < 40
    assert late == (0,)
    assert (report.remaining, report.more) == (100 - report.succeeded, True)
    assert report.duration_ms < 5000


def test_a_tick_abandons_running_handlers_and_answers_by_its_end(a_project, connection, released):
    """The handler takes longer than the measured durations of its type let expect."""
    project = a_project(
        a_hanging(released, timeout_seconds=30), concurrency=2, max_run_seconds=1.5, max_duration_seconds=3.5
    )
    for _ in range(20):
        project.processor.state.duration_stats.record("test:hang", [0.01])
    action_id = schedule(project, "test:hang")

    report = project.processor.tick()

    found = row(connection, action_id)
    assert 2400 < report.duration_ms < 6000
    assert (report.retried, found["status"], found["attempts"]) == (1, "pending", 1)
    assert "the tick's time was up" in found["error_message"]


def test_a_shorter_time_limit_of_the_host_applies(a_project, connection):
    project = a_project(run)
    action_id = schedule(project)

    report = project.processor.tick(host_seconds=20)

    assert statuses(connection) == {action_id: "pending"}
    assert "does not fit into a tick of 20 s" in report.errors[0]["error"]


def test_no_action_starts_if_the_hosts_time_is_up(a_project, connection):
    project = a_project(run, default_timeout_seconds=0.1)
    action_id = schedule(project)

    report = project.processor.tick(host_seconds=0.0)

    assert statuses(connection) == {action_id: "pending"}
    assert (report.processed, report.remaining) == (0, 1)


def test_a_lease_lasts_fifteen_seconds_longer_than_its_tick(a_project, connection):
    leases = []

    @action("test:run")
    def handle(payload, context: Context):
        leases.append(
            connection.execute(
                "select lease_expires_at - (select started_at from scheduled_action_ticks) from scheduled_actions"
            ).fetchone()[0]
        )

    project = a_project(handle)
    schedule(project)

    project.processor.tick()

    assert leases == [timedelta(seconds=55 + 15)]


def test_a_tick_whose_leases_have_ended_starts_nothing_more(a_project, connection):
    """The process was frozen for an hour."""
    order = []

    @action("test:run")
    def handle(payload):
        order.append(payload)
        move_clock(connection, timedelta(hours=1))

    project = a_project(handle, concurrency=1)
    for _ in range(3):
        insert(connection)

    report = project.processor.tick()

    assert len(order) == 1
    assert report.succeeded == 1, "no other tick had claimed it"
    assert sorted(statuses(connection).values()) == ["completed", "pending", "pending"]


# -- stopping a process ------------------------------------------------------------------------------------------------


def test_a_stopping_process_finishes_running_handlers_and_releases_the_other_actions(a_project, connection):
    is_running, asked = threading.Event(), []

    @action("test:run")
    def handle(payload, context: Context):
        is_running.set()
        wait_until(lambda: context.should_stop)
        asked.append(True)

    project = a_project(handle, concurrency=1)
    for _ in range(3):
        insert(connection)

    with on_a_thread(project.processor.tick) as ticking:
        assert is_running.wait(PATIENCE)
        project.processor.stop()
        report = ticking.result(PATIENCE)

    found = connection.execute("select status, attempts from scheduled_actions order by 1").fetchall()
    assert asked == [True]
    assert report.succeeded == 1
    assert found == [("completed", 1), ("pending", 0), ("pending", 0)]
    later = project.processor.tick()
    assert (later.busy, later.remaining, later.processed) == (True, 2, 0)


def test_a_second_tick_of_the_same_process_answers_busy(a_project, connection, released):
    is_running = threading.Event()

    @action("test:run")
    def handle(payload):
        is_running.set()
        released.wait(PATIENCE)

    project = a_project(handle)
    schedule(project)

    with on_a_thread(project.processor.tick) as ticking:
        assert is_running.wait(PATIENCE)
        waiting = schedule(project, priority=5, scheduled_at=None)
        second = project.processor.tick()
        released.set()
        first = ticking.result(PATIENCE)

    assert second.as_json() == {
        **dict.fromkeys(("processed", "succeeded", "failed", "retried", "snoozed", "skipped", "rescued", "pruned"), 0),
        "success": True,
        "busy": True,
        "remaining": second.remaining,
        "more": second.remaining > 0,
        "errors": [],
        "duration_ms": second.duration_ms,
        "tick_id": None,
    }
    assert first.busy is False
    assert statuses(connection)[waiting] in {"pending", "completed"}


def test_an_action_that_becomes_due_while_a_tick_works_runs_in_that_tick(a_project, connection):
    @action("test:slow")
    def slow(payload):
        insert(connection)
        wait_until(lambda: "completed" in statuses(connection).values())

    project = a_project(slow, run)
    schedule(project, "test:slow")

    assert project.processor.tick().succeeded == 2


def test_an_action_that_fails_last_and_is_due_again_immediately_is_not_left_for_the_next_tick(a_project, connection):
    answers = iter([RetryAfter(0), None])

    @action("test:slow")
    def slow(payload):
        wait_until(lambda: list(statuses(connection).values()).count("completed") == 8)
        if error := next(answers):
            raise error

    project = a_project(slow, run, concurrency=2)
    schedule(project, "test:slow", priority=-1)
    for _ in range(8):
        insert(connection)

    report = project.processor.tick()

    assert (report.retried, report.succeeded, report.remaining) == (1, 9, 0)


@pytest.mark.parametrize("leaves", ["the next of its group", "a follow-up"])
def test_actions_that_the_last_settlement_makes_due_are_not_left_for_the_next_tick(a_project, connection, leaves):
    @action("test:slow")
    def slow(payload, context: Context):
        wait_until(lambda: list(statuses(connection).values()).count("completed") == 8)
        if leaves == "a follow-up":
            context.schedule("test:run", {})

    project = a_project(slow, run, concurrency=2)
    group = "g" if leaves == "the next of its group" else None
    schedule(project, "test:slow", priority=-1, lock_group=group)
    if group:
        schedule(project, lock_group=group)
    for _ in range(8):
        insert(connection)

    report = project.processor.tick()

    assert (report.succeeded, report.remaining) == (10, 0)


def test_two_processes_share_the_due_actions_and_run_each_once(a_project, connection):
    lock, ran = threading.Lock(), []
    both = threading.Barrier(2)

    def a_process():
        met = threading.Event()

        @action("test:run")
        def handle(payload, context: Context):
            if not met.is_set():
                met.set()
                both.wait(PATIENCE)
            with lock:
                ran.append(context.id)

        return a_project(handle, concurrency=1)

    processes = [a_process(), a_process()]
    made = [insert(connection) for _ in range(120)]

    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda process: process.processor.tick(), processes))

    assert sorted(ran) == sorted(made)
    assert sum(report.succeeded for report in reports) == 120
    assert all(report.succeeded for report in reports)
    assert {row(connection, one)["attempts"] for one in made} == {1}


# -- cancelling running actions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ends_by", "status"), [("raising", "cancelled"), ("returning", "completed")])
def test_a_running_action_that_is_cancelled_is_asked_to_stop_and_never_retried(a_project, connection, ends_by, status):
    is_running = threading.Event()

    @action("test:run")
    def handle(payload, context: Context):
        is_running.set()
        wait_until(lambda: context.should_stop)
        if ends_by == "raising":
            raise InterruptedError

    project = a_project(handle)
    action_id = schedule(project)

    with on_a_thread(project.processor.tick) as ticking:
        assert is_running.wait(PATIENCE)
        asked = project.scheduler.cancel_action(action_id, by="zoe", reason="no need")
        report = ticking.result(PATIENCE)

    found = row(connection, action_id)
    assert asked.status == "processing"
    assert asked.cancel_requested_at is not None
    assert (found["status"], found["attempts"]) == (status, 1)
    assert found["history"][0] | {"at": ""} == {
        "outcome": "cancel_requested", "at": "", "by": "zoe", "reason": "no need",
    }  # fmt: skip
    assert (report.skipped, report.succeeded) == ((1, 0) if status == "cancelled" else (0, 1))


# -- an unavailable database -------------------------------------------------------------------------------------------


def test_a_tick_continues_when_its_connections_are_closed(a_project, connection):
    @action("test:run")
    def handle(payload):
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )

    project = a_project(handle, concurrency=1)
    made = [insert(connection) for _ in range(4)]

    report = project.processor.tick()

    assert report.succeeded == 4
    assert statuses(connection) == dict.fromkeys(made, "completed")


def test_a_settlement_is_repeated_if_its_connection_is_lost_during_it(a_project, connection, database_url):
    """Another session locks the row, so that the settlement waits and can be cancelled."""
    holder = psycopg.connect(database_url)

    @action("test:run")
    def handle(payload, context: Context):
        holder.execute("select from scheduled_actions where id = %s for update", [context.id])

    project = a_project(handle)
    action_id = schedule(project)

    with holder, on_a_thread(project.processor.tick) as ticking:
        wait_until(lambda: is_waiting(connection))
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'"
            " and datname = current_database()"
        )
        holder.rollback()
        report = ticking.result(PATIENCE)

    assert row(connection, action_id)["status"] == "completed"
    assert row(connection, action_id)["attempts"] == 1
    assert report.succeeded == 1


def test_an_outcome_with_a_locked_row_delays_no_other(a_project, connection, database_url):
    holder = psycopg.connect(database_url)

    @action("test:held")
    def handle(payload, context: Context):
        holder.execute("select from scheduled_actions where id = %s for update", [context.id])

    project = a_project(handle, run)
    held = schedule(project, "test:held", priority=-1)
    others = [schedule(project) for _ in range(2)]

    with holder, on_a_thread(project.processor.tick) as ticking:
        wait_until(lambda: {statuses(connection)[one] for one in others} == {"completed"})
        assert statuses(connection)[held] == "processing"
        wait_until(lambda: held in running(connection))
        holder.rollback()
        report = ticking.result(PATIENCE)

    assert report.succeeded == 3
    assert statuses(connection)[held] == "completed"


def test_a_start_whose_outcome_could_not_be_written_in_time_is_charged(a_project, connection, database_url):
    holder = psycopg.connect(database_url)

    @action("test:run")
    def handle(payload, context: Context):
        if context.attempt == 1:
            holder.execute("select from scheduled_actions where id = %s for update", [context.id])

    project = a_project(handle, max_run_seconds=1.5, max_duration_seconds=3.2, default_timeout_seconds=0.1)
    action_id = schedule(project)
    with holder:
        # The last statement of the tick is cancelled while it waits for the row.
        with suppress(DatabaseUnavailable):
            project.processor.tick()
        holder.rollback()
    assert statuses(connection) == {action_id: "processing"}
    assert running(connection) == [action_id]

    move_clock(connection, timedelta(seconds=LEASE_MARGIN_SECONDS + 2))
    project.processor.tick()

    found = row(connection, action_id)
    assert (found["status"], found["attempts"]) == ("completed", 2)
    assert [entry["outcome"] for entry in found["history"]] == ["crashed", "completed"]
    assert running(connection) == []


def test_a_start_for_a_ping_that_arrived_at_the_end_of_the_tick_is_charged(a_project, connection):
    """The tick ends, continues for a ping that has arrived, and its process freezes until the lease has ended."""
    starts = []

    @action("test:run")
    def handle(payload, context: Context):
        starts.append((context.id, context.attempt))
        if len(starts) == 1:
            asked.processor.state.single_flight.notify()
        if len(starts) == 2:
            move_clock(connection, timedelta(hours=1))
            rescuing.processor.tick()

    asked, rescuing = a_project(handle), a_project(handle)
    first = schedule(asked)
    connection.execute("create table later (id uuid)")
    connection.execute(
        "create function schedule_once() returns trigger language plpgsql as $$ begin insert into later"
        " select id from schedule_action('test:run', '{}') where not exists (select from later); return null; end $$"
    )
    connection.execute(
        "create trigger once after update on scheduled_action_ticks for each row"
        " when (old.finished_at is null and new.finished_at is not null) execute function schedule_once()"
    )

    asked.processor.tick()

    later = connection.execute("select id from later").fetchone()[0]
    assert starts == [(first, 1), (later, 1), (later, 2)]
    found = row(connection, later)
    assert (found["status"], found["attempts"]) == ("completed", 2)
    assert [entry["outcome"] for entry in found["history"]] == ["crashed", "completed"]


def test_a_release_that_could_not_be_written_charges_no_attempt(a_project, connection, database_url):
    holder = psycopg.connect(database_url)
    started = []

    @action("test:run")
    def handle(payload, context: Context):
        started.append(context.id)
        if len(started) == 1:
            holder.execute("select from scheduled_actions where id <> %s for update", [context.id])
            stopping.processor.stop()

    stopping = a_project(handle, concurrency=1)
    first, second = schedule(stopping), schedule(stopping)
    with holder:
        stopping.processor.tick()
        holder.rollback()
    assert statuses(connection) == {first: "completed", second: "processing"}

    move_clock(connection, timedelta(hours=1))
    a_project(handle).processor.tick()

    found = row(connection, second)
    assert started == [first, second]
    assert (found["status"], found["attempts"], found["history"]) == ("completed", 1, [])


def test_a_payload_whose_validation_exits_fails_and_its_thread_continues(a_project, connection):
    @action("test:run", max_attempts=1)
    def handle(payload: LeavesAtOne):
        return payload.number

    project = a_project(handle, concurrency=1)
    ids = [insert(connection, payload={"number": number}) for number in (1, 2)]

    project.processor.tick()

    assert statuses(connection) == {ids[0]: "failed", ids[1]: "completed"}
    assert "SystemExit: gone" in row(connection, ids[0])["error_message"]
    assert project.processor.state.threads.stuck == 0


def test_an_outcome_that_the_database_refuses_affects_no_other(a_project, connection):
    """A user's constraint rejects a value of the column that stores the handlers' results."""
    connection.execute("alter table scheduled_actions add check (result is null or result <> '13')")

    @action("test:run")
    def handle(payload):
        return payload["n"]

    project = a_project(handle)
    made = [insert(connection, payload={"n": n}) for n in (12, 13, 14)]

    report = project.processor.tick()

    assert [statuses(connection)[one] for one in made] == ["completed", "failed", "completed"]
    assert (report.succeeded, report.failed) == (2, 1)
    assert "the outcome cannot be stored" in row(connection, made[1])["error_message"]


def test_a_database_that_does_not_answer_ends_the_tick_in_time(a_project, connection, database_url):
    """A migration locks the table and does not end."""
    project = a_project(run, max_run_seconds=0.5, max_duration_seconds=2.2, default_timeout_seconds=0.1)
    action_id = schedule(project)

    with psycopg.connect(database_url) as holder:
        holder.execute("lock table scheduled_actions in access exclusive mode")
        began = time.monotonic()
        with pytest.raises(DatabaseUnavailable):
            project.processor.tick()
        seconds = time.monotonic() - began

    assert seconds < 5
    assert statuses(connection) == {action_id: "pending"}
    assert project.processor.tick().succeeded == 1


def test_an_unreachable_database_is_reported(a_project, admin, database_url):
    project = a_project(run)
    name = psycopg.conninfo.conninfo_to_dict(database_url)["dbname"]
    admin.execute(f'alter database "{name}" allow_connections false')

    with pytest.raises(DatabaseUnavailable):
        project.processor.tick()

    admin.execute(f'alter database "{name}" allow_connections true')
    assert project.processor.tick().success


def test_missing_tables_are_reported(a_project, connection):
    connection.execute("drop table scheduled_action_ticks")

    with pytest.raises(SchemaOutdated, match="run `scheduled-actions migrate`"):
        a_project(run).processor.tick()


def test_instants_come_from_the_databases_clock(a_project, connection):
    """The application's clock is wrong by an hour: none of its instants is stored."""
    move_clock(connection, timedelta(hours=1))
    project = a_project(run)
    action_id = schedule(project)

    project.processor.tick()

    found = row(connection, action_id)
    now = connection.execute("select scheduled_actions_now()").fetchone()[0]
    for name in ("scheduled_at", "created_at", "started_at", "completed_at", "updated_at"):
        assert abs(datetime.fromisoformat(found[name]) - now) < timedelta(minutes=1), name


def test_no_payload_is_ever_logged(a_project, connection, caplog):
    caplog.set_level(logging.DEBUG)

    @action("test:run")
    def handle(payload):
        raise ValueError

    project = a_project(handle)
    schedule(project, payload={"card": "4111111111111111"})

    project.processor.tick()

    assert "action.settled" in caplog.text
    assert "4111" not in caplog.text


def test_a_tick_without_due_actions_answers_immediately(a_project):
    project = a_project(run)
    project.processor.tick()

    began = time.monotonic()
    report = project.processor.tick()

    assert time.monotonic() - began < PATIENCE / 4
    assert (report.processed, report.more) == (0, False)
