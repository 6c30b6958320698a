"""A lingering tick runs actions when they become due; only one tick lingers, and a newer ping takes over."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import psycopg
import pytest

from scheduled_actions import Context, action
from scheduled_actions.ticks.attempts.attempt import InFlightAttempts
from tests.factories import (
    PATIENCE,
    database_now,
    insert,
    is_waiting,
    projects,
    row,
    statuses,
    wait_for_locks,
    wait_until,
)

SECOND = timedelta(seconds=1)
#: Time limit in seconds for each answer that is expected immediately, even on a busy machine.
SOON = 3.0


@pytest.fixture
def a_project(database_url):
    with projects(database_url) as make:
        yield make


@pytest.fixture
def lingering(a_project):
    """Return a function that creates a project whose ticks linger."""

    def make(seconds, *handlers, **settings):
        settings = {"linger_seconds": seconds, "max_duration_seconds": 60, "default_timeout_seconds": 5} | settings
        return a_project(*(handlers or [run]), **settings)

    return make


@action("test:run")
def run(payload: dict):
    return None


class InBackground:
    """A tick in a separate thread."""

    def __init__(self, project, **options):
        self.report = None
        self._project, self._options = project, options
        self._thread = threading.Thread(target=self._tick)
        self._thread.start()

    def _tick(self):
        self.report = self._project.processor.tick(**self._options)

    def answered(self, within=SOON):
        self._thread.join(within)
        assert self.report is not None, "the tick did not answer"
        return self.report


def lease_holder(connection):
    """Return the holder of the linger lease; None if there is none."""
    found = connection.execute("select value from scheduled_action_settings where name = 'linger_lease'").fetchone()
    return None if found is None else found[0]


def test_an_action_that_becomes_due_while_a_tick_lingers_runs_at_its_instant(lingering, connection):
    project = lingering(2)
    ahead = [
        connection.execute(
            "select id from schedule_action('test:run', '{}', statement_timestamp() + make_interval(secs => %s))",
            [seconds],
        ).fetchone()[0]
        for seconds in (0.3, 0.5, 0.50001, 1.1)
    ]

    report = project.processor.tick()

    assert (report.succeeded, set(statuses(connection).values())) == (4, {"completed"})
    for action_id in ahead:
        found = project.scheduler.get_action(action_id)
        assert timedelta(0) <= found.started_at - found.scheduled_at < SECOND
    assert report.duration_ms >= 1900


def test_actions_with_a_lock_group_or_another_priority_run_at_their_instant(lingering, connection):
    project = lingering(1.5)
    connection.execute(
        "select schedule_action('test:run', '{}', statement_timestamp() + interval '0.4 s', lock_group => 'g'),"
        " schedule_action('test:run', '{}', statement_timestamp() + interval '0.5 s', priority => 7),"
        " schedule_action('test:run', '{}', statement_timestamp() + interval '1 day', priority => -7)"
    )

    assert project.processor.tick().succeeded == 2


def test_an_action_that_expires_while_a_tick_lingers_ends(lingering, connection):
    project = lingering(20)
    tick = InBackground(project)
    wait_until(lambda: lease_holder(connection))

    now = database_now(connection)
    late = insert(connection, scheduled_at=now + timedelta(days=1), expires_at=now)

    wait_until(lambda: row(connection, late)["status"] == "skipped")
    project.processor.stop()
    assert tick.answered().skipped == 1


def test_new_actions_are_found_within_a_second_and_immediately_after_a_notification(lingering, connection):
    project = lingering(20)
    tick = InBackground(project)
    wait_until(lambda: lease_holder(connection))

    unasked = insert(connection)
    wait_until(lambda: row(connection, unasked)["status"] == "completed")
    asked = insert(connection)
    began = time.monotonic()
    busy = project.processor.tick(lingers=False)
    wait_until(lambda: row(connection, asked)["status"] == "completed")

    assert busy.busy
    assert time.monotonic() - began < SOON
    project.processor.stop()
    assert tick.answered().succeeded == 2


def test_actions_start_at_their_instant_while_a_slow_handler_runs(lingering, connection):
    entered, leave = threading.Event(), threading.Event()

    @action("test:long", timeout_seconds=30)
    def long(payload: dict):
        entered.set()
        leave.wait(PATIENCE)

    project = lingering(10, run, long)
    insert(connection, action_type="test:long")
    tick = InBackground(project)
    assert entered.wait(PATIENCE)
    ahead = connection.execute(
        "select id from schedule_action('test:run', '{}', statement_timestamp() + interval '2.5 s')"
    ).fetchone()[0]

    wait_until(lambda: row(connection, ahead)["status"] == "completed")

    found = project.scheduler.get_action(ahead)
    assert found.started_at - found.scheduled_at < SECOND
    leave.set()
    project.processor.stop()
    assert tick.answered().succeeded == 2


@pytest.mark.parametrize("same_process", [True, False])
def test_a_newer_ping_takes_over_lingering_and_the_older_one_is_answered(lingering, connection, same_process):
    first = lingering(30)
    second = first if same_process else lingering(30)
    older = InBackground(first)
    before = wait_until_held(connection, None)

    newer = InBackground(second)
    wait_until_held(connection, before)
    report = older.answered()
    action_id = insert(connection)

    wait_until(lambda: row(connection, action_id)["status"] == "completed")
    assert (report.busy, newer.report) == (False, None)
    second.processor.stop()
    assert newer.answered().succeeded == 1


def wait_until_held(connection, by_other_than):
    wait_until(lambda: lease_holder(connection) != by_other_than)
    return lease_holder(connection)


def test_a_ping_during_a_working_tick_lingers_after_it(lingering, connection):
    entered, leave = threading.Event(), threading.Event()

    @action("test:long", timeout_seconds=30)
    def long(payload: dict):
        entered.set()
        leave.wait(PATIENCE)

    project = lingering(30, run, long)
    insert(connection, action_type="test:long")
    older = InBackground(project)
    assert entered.wait(PATIENCE)
    newer = InBackground(project)
    wait_until(lambda: project.processor.state.single_flight.is_relieved)

    leave.set()
    assert older.answered().succeeded == 1
    action_id = insert(connection)

    wait_until(lambda: row(connection, action_id)["status"] == "completed")
    project.processor.stop()
    assert newer.answered().succeeded == 1


def test_of_several_waiting_pings_the_latest_takes_over(lingering, connection):
    entered, leave = threading.Event(), threading.Event()

    @action("test:long", timeout_seconds=30)
    def long(payload: dict):
        entered.set()
        leave.wait(PATIENCE)

    project = lingering(30, run, long)
    insert(connection, action_type="test:long")
    InBackground(project)
    assert entered.wait(PATIENCE)
    second = InBackground(project)
    wait_until(lambda: project.processor.state.single_flight.is_relieved)

    third = InBackground(project)

    assert second.answered().busy
    leave.set()
    project.processor.stop()
    third.answered()


def test_a_stop_ends_lingering_immediately(lingering, connection):
    project = lingering(30)
    tick = InBackground(project)
    wait_until(lambda: lease_holder(connection))

    project.processor.stop()

    assert tick.answered().tick_id is not None


def test_lingering_ends_early_enough_for_the_last_handler_under_the_hosts_time_limit(lingering):
    began = time.monotonic()

    lingering(30).processor.tick(host_seconds=7.0)

    # Five seconds are left for the last action that becomes due, and one second for the answer.
    assert 0.9 < time.monotonic() - began < 0.9 + SOON


def test_an_action_that_cannot_be_claimed_causes_no_busy_loop(lingering, connection):
    connection.execute(
        "insert into scheduled_action_holds values ('', 'g', gen_random_uuid(), now(), now() + interval '1 h')"
    )
    insert(connection, lock_group="g")
    project = lingering(1.2)
    before = connection.execute("select sum(idx_scan) from pg_stat_user_indexes").fetchone()[0]

    project.processor.tick()

    connection.execute("select pg_stat_force_next_flush()")
    assert connection.execute("select sum(idx_scan) from pg_stat_user_indexes").fetchone()[0] - before < 2000


def test_a_ping_that_arrives_at_the_end_of_a_tick_is_not_lost(a_project, connection, database_url, monkeypatch):
    seen = []

    @action("test:run")
    def handle(payload: dict, context: Context):
        seen.append(context.id)

    project = a_project(handle)
    wait_for_locks(project, monkeypatch)
    # The tick hangs in its very last statement, after its last look for due actions.
    connection.execute(
        "create function held() returns trigger language plpgsql as"
        " 'begin if new.outcome is not null then perform pg_advisory_xact_lock(77); end if; return new; end';"
        "create trigger held before update on scheduled_action_ticks for each row execute function held()"
    )
    with connection.transaction():
        connection.execute("select pg_advisory_xact_lock(77)")
        tick = InBackground(project)
        wait_until(lambda: is_waiting(connection))
        with psycopg.connect(database_url, autocommit=True) as other:
            late = other.execute("select id from schedule_action('test:run', '{}')").fetchone()[0]
        asked = project.processor.tick()

    assert (asked.busy, asked.remaining) == (True, 1)
    assert (tick.answered().succeeded, seen) == (1, [late])


def test_settings_that_leave_no_time_for_the_last_action_are_rejected(a_project):
    with pytest.raises(Exception, match=r"max_duration_seconds.*must be 95 or more"):
        a_project(run, linger_seconds=65)


def test_a_tick_whose_linger_time_has_passed_sleeps_while_a_slow_handler_runs(lingering, connection, monkeypatch):
    waits = []
    collect = InFlightAttempts.collect
    monkeypatch.setattr(
        InFlightAttempts, "collect", lambda *given, **more: waits.append(given) or collect(*given, **more)
    )

    @action("test:long", timeout_seconds=30)
    def long(payload: dict):
        time.sleep(4)

    project = lingering(2, run, long)
    insert(connection, action_type="test:long")
    # The lingering tick finds it before it is due. Later, its past instant must not end each wait immediately.
    connection.execute("select schedule_action('test:run', '{}', statement_timestamp() + interval '2.6 s')")

    project.processor.tick()

    assert len(waits) < 100
