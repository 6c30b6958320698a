"""Transactional handlers: they are charged only when called, wait for locks, and leave their connection unchanged."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest
from psycopg.adapt import Loader
from psycopg.rows import dict_row

from scheduled_actions import Context, action
from tests.factories import NOW, PATIENCE, insert, is_waiting, projects, row, set_clock, statuses, wait_until


@pytest.fixture
def a_project(database_url, connection):
    """Return a function that creates a project on the test's database, which has an additional table."""
    set_clock(connection, NOW)
    connection.execute("create table effects (what text)")
    with projects(database_url) as make:
        yield make


def effects(connection):
    """Return a function that reads the rows that the handlers have written."""
    return [what for (what,) in connection.execute("select what from effects order by what").fetchall()]


def transactional(body, action_type="test:run", **options):
    """Return a transactional handler that does `body(context)`."""

    @action(action_type, transactional=True, **options)
    def handle(payload: dict, context: Context):
        return body(context)

    return handle


def write(context, what="written"):
    """Insert a row in the handler's transaction."""
    context.connection.execute("insert into effects values (%s)", [what])


# -- waiting for a connection ------------------------------------------------------------------------------------------


def test_a_handler_that_waits_for_its_connection_is_neither_charged_nor_timed_out(a_project, connection):
    entered, released, calls = threading.Event(), threading.Event(), []

    def hold(context):
        calls.append(context.id)
        entered.set()
        released.wait(PATIENCE)

    # One of two threads may hold a connection.
    project = a_project(transactional(hold, timeout_seconds=1), concurrency=2, max_run_seconds=1.5)
    ids = [insert(connection, scheduled_at=NOW) for _ in range(2)]
    ticking = threading.Thread(target=project.processor.tick)
    ticking.start()
    assert entered.wait(PATIENCE)
    ticking.join(PATIENCE)
    released.set()

    (called,) = calls[:1]
    (waited,) = [one for one in ids if one != called]
    assert row(connection, called)["attempts"] == 1
    found = row(connection, waited)
    # Either the handler was called in its turn, with all of its time, or the action is unchanged.
    assert (found["status"], found["attempts"], found["error_message"]) in {
        ("pending", 0, None), ("pending", 1, "timed out after 1 s"),
    }  # fmt: skip
    assert (waited in calls) == (found["attempts"] == 1)


def test_the_time_limit_of_a_handler_begins_when_it_has_its_connection(a_project, connection):
    begun = []

    def work(context):
        begun.append(context.seconds_left)
        time.sleep(0.7)

    project = a_project(transactional(work, timeout_seconds=2), concurrency=2)
    ids = [insert(connection, scheduled_at=NOW) for _ in range(4)]

    report = project.processor.tick()

    assert report.succeeded == 4
    assert {statuses(connection)[one] for one in ids} == {"completed"}
    # The last one has waited longer than its time limit, and all but the first have waited 0.7 s.
    assert min(begun) > 1.5


def test_an_attempt_without_a_connection_for_its_handler_is_not_charged(a_project, connection, database_url):
    project = a_project(transactional(write), max_run_seconds=3)
    action_id = insert(connection, scheduled_at=NOW)
    database = project.database
    ticks_own, given = database.connection, []

    class NoMore:
        """Lends connections only to the tick's thread, as if the server had no more connections."""

        def __call__(self, *_):
            if threading.current_thread().name.startswith("scheduled-actions-"):
                given.append(1)
                raise psycopg.errors.TooManyConnections
            return ticks_own()

    database.connection = NoMore()
    project.processor.tick()
    database.connection = ticks_own

    assert given
    found = row(connection, action_id)
    assert (found["status"], found["attempts"], effects(connection)) == ("pending", 0, [])


# -- locks during the settlement ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("series", [False, True])
def test_a_lock_on_the_row_is_waited_for_within_the_attempts_time(a_project, connection, database_url, series):
    entered, locked, calls = threading.Event(), threading.Event(), []

    def work(context):
        calls.append(context.id)
        write(context)
        entered.set()
        locked.wait(PATIENCE)

    project = a_project(transactional(work))
    if series:
        schedule = project.schedules.schedule_recurring("test:run", {}, "PT1H", recurrence_type="rolling")
        action_id = schedule.next_action_id
        connection.execute("update scheduled_actions set scheduled_at = scheduled_actions_now()")
    else:
        action_id = insert(connection, scheduled_at=NOW)
    ticking = threading.Thread(target=project.processor.tick)
    ticking.start()
    assert entered.wait(PATIENCE)
    with psycopg.connect(database_url) as other:
        table = "scheduled_action_schedules" if series else "scheduled_actions"
        other.execute(f"select from {table} for update")
        locked.set()
        wait_until(lambda: is_waiting(connection))
        # Longer than the limit of a lock wait.
        time.sleep(0.6)
    ticking.join(PATIENCE)

    assert calls == [action_id]
    assert effects(connection) == ["written"]
    found = row(connection, action_id)
    assert (found["status"], found["attempts"]) == ("completed", 1)


def test_a_lock_that_outlasts_the_attempt_rolls_it_back_and_every_other_outcome_is_written(
    a_project, connection, database_url
):
    entered, locked = threading.Event(), threading.Event()

    def work(context):
        write(context)
        entered.set()
        locked.wait(PATIENCE)

    @action("test:other")
    def other_handler(payload: dict) -> None:
        """Do nothing."""

    project = a_project(transactional(work, timeout_seconds=2), other_handler)
    action_id = insert(connection, scheduled_at=NOW)
    reports = []
    ticking = threading.Thread(target=lambda: reports.append(project.processor.tick()))
    ticking.start()
    assert entered.wait(PATIENCE)
    others = [insert(connection, action_type="test:other", scheduled_at=NOW) for _ in range(5)]
    with psycopg.connect(database_url) as other:
        other.execute("select from scheduled_actions where id = %s for update", [action_id])
        locked.set()
        wait_until(lambda: [statuses(connection)[one] for one in others] == ["completed"] * 5)
        # Longer than the attempt's time, and than the first refused write of its failure.
        time.sleep(3)
    ticking.join(PATIENCE)

    assert (reports[0].succeeded, reports[0].retried) == (5, 1)
    assert effects(connection) == []
    found = row(connection, action_id)
    assert (found["status"], found["attempts"]) == ("pending", 1)
    assert "LockNotAvailable" in found["error_message"]


def test_a_lock_on_the_schedule_that_outlasts_the_attempt_rolls_it_back_within_its_time(
    a_project, connection, database_url
):
    entered, locked = threading.Event(), threading.Event()

    def work(context):
        write(context)
        entered.set()
        locked.wait(PATIENCE)

    project = a_project(transactional(work, timeout_seconds=1))
    schedule = project.schedules.schedule_recurring("test:run", {}, "PT1H", recurrence_type="rolling")
    connection.execute("update scheduled_actions set scheduled_at = scheduled_actions_now()")
    ticking = threading.Thread(target=project.processor.tick)
    ticking.start()
    assert entered.wait(PATIENCE)
    with psycopg.connect(database_url) as other:
        other.execute("select from scheduled_action_schedules for update")
        locked.set()
        # The lock is still held: the attempt does not wait until the tick ends.
        wait_until(lambda: row(connection, schedule.next_action_id)["attempts"] == 1)
    ticking.join(PATIENCE)

    assert effects(connection) == []
    found = row(connection, schedule.next_action_id)
    assert found["status"] == "pending"
    assert "LockNotAvailable" in found["error_message"]


# -- the connection afterwards -----------------------------------------------------------------------------------------


NOTICE = "do $$ begin raise warning 'hello'; end $$"
heard = []


class _Wrong(Loader):
    """A loader that returns the wrong value for every text."""

    def load(self, data):
        return "wrong"


def _adapters(context):
    for name in ("text", "uuid", "int4", "int8", "bool", "timestamptz"):
        context.connection.adapters.register_loader(name, _Wrong)


def _factories(context):
    context.connection.row_factory = dict_row
    context.connection.cursor_factory = type("Cursor", (psycopg.ClientCursor,), {})


def _handlers(context):
    def fail(notice):
        heard.append(notice)

    heard.clear()
    context.connection.add_notice_handler(fail)
    context.connection.execute(NOTICE)


SPOILS = {
    "read_only": "set default_transaction_read_only = on",
    "search_path": "set search_path = pg_catalog",
    "statement_timeout": "set statement_timeout = 1",
    "role": "create role no_rights; set role no_rights",
    "time_zone": "set timezone = 'Asia/Kathmandu'",
    "adapters": _adapters,
    "factories": _factories,
    "handlers": _handlers,
}


@pytest.fixture(autouse=True)
def no_notices():
    """Remove the notices of the previous test."""
    heard.clear()


@pytest.mark.parametrize("spoil", SPOILS)
def test_changes_of_a_handler_to_its_connection_end_with_the_attempt(a_project, connection, spoil):
    def work(context):
        write(context)
        how = SPOILS[spoil]
        if callable(how):
            how(context)
        else:
            context.connection.execute(how)

    @action("test:next", transactional=True)
    def after(payload: dict, context: Context):
        found = context.connection.execute(
            "select 1::int4, 'text'::text, current_setting('timezone'), current_user = session_user"
        ).fetchone()
        assert found[:2] == (1, "text")
        assert found[2:] == ("UTC", True) or found[3]
        write(context, "next")
        context.connection.execute(NOTICE)

    zone = connection.execute("show timezone").fetchone()[0]
    project = a_project(transactional(work), after, concurrency=2)
    first = insert(connection, scheduled_at=NOW)
    project.processor.tick()
    second = insert(connection, action_type="test:next", scheduled_at=NOW)
    report = project.processor.tick()
    connection.execute("drop role if exists no_rights")

    assert statuses(connection) == {first: "completed", second: "completed"}
    assert report.succeeded == 1
    assert effects(connection) == ["next", "written"]
    assert len(heard) == (spoil == "handlers")
    with project.database.connection() as kept:
        assert kept.execute("show timezone").fetchone()[0] == zone


@pytest.mark.parametrize("ending", ["rollback", "commit", "rollback; begin", "commit and chain"])
def test_a_handler_that_ends_its_transaction_in_sql_fails_with_an_explanation(a_project, connection, ending):
    def work(context):
        write(context)
        context.connection.execute(ending)

    project = a_project(transactional(work))
    action_id = insert(connection, scheduled_at=NOW)
    neighbor = insert(connection, action_type="test:gone", scheduled_at=NOW)

    report = project.processor.tick()

    found = row(connection, action_id)
    assert (found["status"], report.succeeded) == ("failed", 0)
    assert "ended its transaction" in found["error_message"]
    assert statuses(connection)[neighbor] == "no_action"
    # Rows that the handler committed remain; those that it rolled back do not exist.
    assert effects(connection) == (["written"] if ending.startswith("commit") else [])


def test_a_handler_may_use_a_nested_transaction(a_project, connection):
    def work(context):
        with context.connection.transaction():
            write(context)
        with context.connection.transaction() as inner:
            write(context, "undone")
            raise psycopg.Rollback(inner)

    project = a_project(transactional(work))
    insert(connection, scheduled_at=NOW)

    assert project.processor.tick().succeeded == 1
    assert effects(connection) == ["written"]


def test_a_lock_on_the_ticks_own_row_ends_no_tick_and_loses_no_outcome(a_project, connection, database_url):
    entered, locked = threading.Event(), threading.Event()

    def work(context):
        write(context)
        entered.set()
        locked.wait(PATIENCE)

    project = a_project(transactional(work))
    ids = [insert(connection, scheduled_at=NOW) for _ in range(4)]
    reports = []
    ticking = threading.Thread(target=lambda: reports.append(project.processor.tick()))
    ticking.start()
    assert entered.wait(PATIENCE)
    with psycopg.connect(database_url) as other:
        other.execute("select from scheduled_action_ticks for update")
        locked.set()
        wait_until(lambda: is_waiting(connection) or not ticking.is_alive())
        time.sleep(1)
    ticking.join(PATIENCE)

    # An action that could not be announced has not started; the next tick runs it.
    assert reports
    assert project.processor.tick().success
    assert {statuses(connection)[one] for one in ids} == {"completed"}
    assert effects(connection) == ["written"] * 4
