"""Defaults of a database or a role do not affect scheduling and ticks."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime

import psycopg
import pytest
from psycopg import sql

from scheduled_actions import action
from scheduled_actions.actions.model import NewAction
from scheduled_actions.database.bounded import UNLIMITED, StatementLimits
from scheduled_actions.database.connection import Database
from scheduled_actions.schedules import operations
from tests.factories import insert_many, projects, statuses

AT = datetime(2030, 2, 1, 10, 30, tzinfo=UTC)
ACTIONS, PROCESSES = 300, 3


@pytest.fixture
def a_project(database_url):
    """Return a function that creates a project with handlers and settings on the test's database."""
    with projects(database_url) as make:
        yield make


@pytest.fixture
def set_default(connection):
    """Return a function that sets a default of the test's database for later sessions."""

    def set_default(name, value):
        statement = sql.SQL("alter database {} set {} to {}")
        database = sql.Identifier(connection.info.dbname)
        connection.execute(statement.format(database, sql.SQL(name), sql.Literal(value)))

    return set_default


@pytest.mark.parametrize("style", ["German", "SQL, DMY", "Postgres, DMY"])
def test_instants_are_stored_claimed_and_read_with_any_date_style(a_project, set_default, style):
    set_default("datestyle", style)

    @action("test:run")
    def handle(payload):
        pass

    project = a_project(handle)
    later = project.scheduler.schedule_action(NewAction(action_type="test:run", payload={}, scheduled_at=AT))
    now = project.scheduler.schedule_action(NewAction(action_type="test:run", payload={"n": 1}))

    report = project.processor.tick()

    assert report.succeeded == 1
    assert project.scheduler.get_action(later.id).scheduled_at == AT
    assert project.scheduler.get_action(now.id).completed_at is not None


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_statements_and_transactions_run_at_read_committed_regardless_of_the_default(
    database_url, set_default, isolation
):
    set_default("default_transaction_isolation", isolation)
    with closing(Database(lambda: database_url)) as database, database.connection() as connection:
        alone = connection.execute("show transaction_isolation").fetchone()
        with connection.transaction():
            within = connection.execute("show transaction_isolation").fetchone()

    assert (alone, within) == (("read committed",), ("read committed",))


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_concurrent_ticks_run_each_action_once_regardless_of_the_default_isolation(
    a_project, connection, set_default, isolation
):
    set_default("default_transaction_isolation", isolation)
    runs = Counter()
    lock = threading.Lock()

    @action("test:run")
    def handle(payload, context):
        with lock:
            runs[context.action.id] += 1

    insert_many(connection, ACTIONS)
    racing = [a_project(handle, batch_size=20, concurrency=4) for _ in range(PROCESSES)]
    with ThreadPoolExecutor(PROCESSES) as pool:
        reports = list(pool.map(lambda project: project.processor.tick(), racing))

    assert set(statuses(connection).values()) == {"completed"}
    assert (len(runs), set(runs.values())) == (ACTIONS, {1})
    assert sum(report.succeeded for report in reports) == ACTIONS


def test_scheduling_joins_a_serializable_transaction_of_the_caller(a_project, connection, database_url):
    @action("test:run")
    def handle(payload):
        pass

    project = a_project(handle)
    with psycopg.connect(database_url) as own:
        own.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        own.execute("select count(*) from scheduled_actions")
        project.scheduler.schedule_action(NewAction(action_type="test:run", payload={"n": 1}), connection=own)
        # A write that the caller's snapshot does not include is not a conflict, because the two actions are unrelated.
        project.scheduler.schedule_action(NewAction(action_type="test:run", payload={"n": 2}))
        project.scheduler.schedule_action(NewAction(action_type="test:run", payload={"n": 3}), connection=own)
        level = own.execute("show transaction_isolation").fetchone()

    assert level == ("serializable",)
    assert len(statuses(connection)) == 3


def test_a_failed_statement_leaves_no_transaction_behind(database_url):
    with closing(Database(lambda: database_url)) as database, database.connection() as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("select 1 / 0")

        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert connection.execute("select %s::int", [7]).fetchone() == (7,)


def test_the_limits_of_a_statement_end_with_the_statement(database_url):
    limits = StatementLimits(lock_seconds=0.7, statement_seconds=9)
    asked = "select current_setting('lock_timeout'), current_setting('statement_timeout')"
    with closing(Database(lambda: database_url, limits=limits)) as database:
        with database.connection() as connection:
            alone = connection.execute(asked).fetchone()
            with connection.transaction():
                within = connection.execute(asked).fetchone()
        with database.connection(UNLIMITED) as connection:
            after = connection.execute(asked).fetchone()

    assert (alone, within, after) == (("700ms", "9s"), ("700ms", "9s"), ("0", "0"))


def test_the_server_cancels_a_statement_that_exceeds_its_time_limit(database_url):
    limits = StatementLimits(statement_seconds=0.05)
    with closing(Database(lambda: database_url, limits=limits)) as database, database.connection() as connection:
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("select pg_sleep(30)")

        assert connection.execute("select 1").fetchone() == (1,)


def test_limits_isolation_and_date_style_are_restored_after_a_transactional_handler(a_project, set_default):
    set_default("datestyle", "German")
    set_default("default_transaction_isolation", "serializable")

    @action("test:run", transactional=True)
    def handle(payload, context):
        context.connection.execute("set statement_timeout = '1h'; set datestyle = 'SQL, DMY'")

    project = a_project(handle, concurrency=1)
    project.scheduler.schedule_action(NewAction(action_type="test:run", payload={}))
    report = project.processor.tick()
    asked = "select current_setting(name) from unnest(%s::text[]) name"
    names = ["statement_timeout", "default_transaction_isolation", "datestyle"]
    kept = [project.database.connection() for _ in range(3)]
    with kept[0] as one, kept[1] as two, kept[2] as three:
        found = [[value for (value,) in each.execute(asked, [names]).fetchall()] for each in (one, two, three)]

    assert report.succeeded == 1, report.errors
    assert {tuple(each[:2]) for each in found} == {("10s", "read committed")}
    assert all(each[2].startswith("ISO") for each in found)


@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
def test_the_sql_function_schedules_with_any_date_style_and_isolation(
    a_project, connection, set_default, database_url, isolation
):
    @action("test:run")
    def handle(payload):
        pass

    set_default("datestyle", "German")
    set_default("default_transaction_isolation", isolation)
    statement = (
        "select id::text, deduplicated from schedule_action('test:run', %s::jsonb, scheduled_at => %s::timestamptz,"
        " dedup_key => 'the same', dedup_window => 60)"
    )
    with psycopg.connect(database_url) as own:
        first = own.execute(statement, ['{"n": 1}', AT]).fetchone()
        again = own.execute(statement, ['{"n": 1}', AT]).fetchone()

    assert (first[1], again) == (False, (first[0], True))
    assert a_project(handle).scheduler.get_action(first[0]).scheduled_at == AT


@pytest.mark.parametrize("call", ["cancel_action", "skip_next"])
def test_a_call_on_the_callers_connection_does_not_change_its_lock_timeout(a_project, connection, database_url, call):
    @action("test:run")
    def handle(payload):
        pass

    project = a_project(handle)
    made = project.schedules.schedule_recurring("test:run", {}, "daily", pause_after_failures=3)
    with psycopg.connect(database_url) as own:
        own.execute("set local lock_timeout = '7s'")
        if call == "cancel_action":
            project.scheduler.cancel_action(project.schedules.get(made.id).next_action_id, connection=own)
        else:
            operations.skip_next(project.schedules, made.id, connection=own)
        found = own.execute("show lock_timeout").fetchone()

    assert found == ("7s",)
