"""Connections are kept, lent to one caller at a time and replaced when lost; errors contain no secrets."""

from __future__ import annotations

import os
import resource
import socket
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from scheduled_actions.core.errors import DatabaseUnavailable, SchemaOutdated
from scheduled_actions.database.bounded import UNLIMITED
from scheduled_actions.database.connection import CancellableConnection, Database, abort_connection
from tests.factories import together, wait_until


@pytest.fixture
def database(database_url):
    """Yield the `Database` of the test; close its connections afterwards."""
    with closing(Database(lambda: database_url, keep=2)) as database:
        yield database


def pid(connection):
    return connection.info.backend_pid


def terminate(connection, *backends):
    for backend in backends:
        connection.execute("select pg_terminate_backend(%s)", [backend])
        wait_until(
            lambda backend=backend: (
                connection.execute("select from pg_stat_activity where pid = %s", [backend]).fetchone() is None
            )
        )


def test_a_connection_is_kept_for_the_next_caller(database):
    with database.connection() as first:
        used = pid(first)

    with database.connection() as second:
        assert pid(second) == used


def test_concurrent_callers_have_separate_connections(database):
    with database.connection() as one, database.connection() as other:
        assert pid(one) != pid(other)


def test_at_most_the_configured_number_of_connections_is_kept(database):
    with ExitStack() as stack:
        lent = [stack.enter_context(database.connection()) for _ in range(4)]

    assert sum(1 for connection in lent if not connection.closed) == 2


def test_a_closed_database_can_be_used_again(database):
    with database.connection() as kept:
        pass

    database.close()

    assert kept.closed
    with database.connection() as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_connection_returned_after_the_close_is_closed(database):
    with database.connection() as late:
        database.close()

    assert late.closed


def test_a_connection_that_was_lost_while_idle_is_replaced_without_an_error(database, connection):
    with database.connection() as one, database.connection() as other:
        idle = pid(one), pid(other)
    terminate(connection, *idle)

    with database.connection() as replaced:
        assert replaced.execute("select 1").fetchone() == (1,)


def test_a_connection_lost_during_use_raises_database_unavailable_and_is_not_kept(database, connection):
    lent = []

    def use():
        with database.connection() as used:
            lent.append(used)
            terminate(connection, pid(used))
            used.execute("select 1")

    with pytest.raises(DatabaseUnavailable, match=r"it (ended|closed) the connection"):
        use()

    assert lent[0].closed
    with database.connection() as replaced:
        assert replaced.execute("select 1").fetchone() == (1,)


def test_a_connection_is_kept_after_a_failed_statement(database):
    with pytest.raises(psycopg.errors.DivisionByZero), database.connection() as used:
        used.execute("select 1 / 0")

    with database.connection() as kept:
        assert kept is used


def test_a_connection_with_an_open_transaction_is_closed(database):
    with database.connection(UNLIMITED) as used:
        used.execute("begin")

    assert used.closed


def test_the_row_factory_of_one_caller_does_not_affect_the_next(database):
    with database.connection() as used:
        used.row_factory = dict_row

    with database.connection() as kept:
        assert kept is used
        assert kept.execute("select 1").fetchone() == (1,)


def test_a_forked_child_does_not_use_its_parents_connections(database, monkeypatch):
    with database.connection() as parents:
        pass

    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        with database.connection() as own:
            assert pid(own) != pid(parents)

    assert not parents.closed
    parents.close()


def test_connections_work_in_a_process_with_a_thousand_open_files(database):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    try:
        with ExitStack() as stack:
            for _ in range(1100):
                stack.enter_context(Path(os.devnull).open("rb"))
            with database.connection() as first:
                assert first.fileno() > 1024
            with database.connection() as second:
                assert second is first
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_statements_are_not_prepared_by_name_behind_a_pooler(database):
    with database.connection() as connection:
        for _ in range(10):
            connection.execute("select %s::int", [1])

        assert connection.execute("select count(*) from pg_prepared_statements").fetchone() == (0,)


def test_statements_are_prepared_without_a_pooler(database_url):
    with closing(Database(lambda: database_url, is_direct=True)) as database, database.connection() as connection:
        for _ in range(10):
            connection.execute("select %s::int", [1])

        assert connection.execute("select count(*) from pg_prepared_statements").fetchone()[0] > 0


def test_missing_tables_are_reported_with_a_remedy(database, connection):
    connection.execute("drop table scheduled_action_ticks")

    with pytest.raises(SchemaOutdated, match="run `scheduled-actions migrate`"), database.connection() as used:
        used.execute("select from scheduled_action_ticks")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"password": "hunter2hunter2"}, "the user name or the password was rejected"),
        ({"dbname": "secret_name"}, "the database or the role does not exist"),
    ],
)
def test_a_refused_login_is_reported_without_names_or_secrets(database_url, changes, reason):
    dsn = make_conninfo(database_url, **changes)

    with pytest.raises(DatabaseUnavailable) as refused:
        Database(lambda: dsn).connect()

    assert str(refused.value) == f"the database cannot be reached: {reason}"
    assert refused.value.__cause__ is None, "the message of the driver may contain the address"


def test_an_unreachable_server_is_reported(database_url):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dsn = make_conninfo(database_url, port=unused.getsockname()[1])

        with pytest.raises(DatabaseUnavailable, match="the connection was refused"):
            Database(lambda: dsn).connect()


@pytest.mark.parametrize("dsn", ["postgresql://u:hunter2@127.0.0.1:notaport/d", "password=hunter2 nonsense", "hunter2"])
def test_the_error_for_a_malformed_database_url_does_not_contain_it(dsn):
    with pytest.raises(DatabaseUnavailable) as refused:
        Database(lambda: dsn).connect()

    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


@pytest.mark.parametrize(
    ("dsn", "reason"),
    [
        ("postgresql://u:hunter2@127.0.0.1:99999/d", "the port is not a number from 1 to 65535: check DATABASE_URL"),
        ("postgresql://u:hunter2@127.0.0.1:abc/d", "the port is not a number from 1 to 65535: check DATABASE_URL"),
        ("postgresql://u:hunter2@127.0.0.1/d?sslmode=x", "no connection can be opened: check DATABASE_URL"),
        ("host=/hunter2 dbname=d", "no connection can be opened: check DATABASE_URL"),
    ],
)
def test_the_error_for_a_wrong_database_url_says_what_to_check_without_any_part_of_it(dsn, reason):
    with pytest.raises(DatabaseUnavailable) as refused:
        Database(lambda: dsn).connect()

    assert refused.value.reason.startswith(reason)
    assert not any(word in str(refused.value) for word in ("hunter2", "127.0.0.1", "99999"))


def test_a_lost_server_is_detected_within_seconds_unless_the_url_sets_other_timeouts(database_url):
    with closing(Database(lambda: database_url).connect()) as connection:
        assert connection.info.get_parameters()["connect_timeout"] == "5"
        assert connection.info.get_parameters()["tcp_user_timeout"] == "10000"

    own = make_conninfo(database_url, connect_timeout=9)
    with closing(Database(lambda: own).connect()) as connection:
        assert connection.info.get_parameters()["connect_timeout"] == "9"
        assert conninfo_to_dict(connection.info.dsn)["keepalives_idle"] == "10"


def test_an_aborted_connection_is_not_lent_again(database_url):
    with closing(Database(lambda: database_url)) as database:
        with database.connection() as first, CancellableConnection(first) as loan:
            loan.cancel()
        with database.connection() as second:
            assert second.execute("select 1").fetchone() == (1,)


def test_a_returned_connection_cannot_be_aborted_during_its_next_use(database_url):
    with closing(Database(lambda: database_url)) as database:
        with database.connection() as first, CancellableConnection(first) as loan:
            pass
        with database.connection() as second:
            loan.cancel()

            assert second is first
            assert second.execute("select 1").fetchone() == (1,)


def test_a_statement_of_another_thread_can_be_aborted(database_url, connection):
    asleep = "select from pg_stat_activity where query = 'select pg_sleep(30)' and state = 'active'"
    lent = []

    def work(own, number):
        if number == 0:
            lent.append(own)
            with pytest.raises(psycopg.OperationalError):
                own.execute("select pg_sleep(30)")
            return
        wait_until(lambda: own.execute(asleep).fetchone() is not None)
        abort_connection(lent[0])

    together(database_url, 2, work)

    wait_until(lambda: connection.execute(asleep).fetchone() is None)
