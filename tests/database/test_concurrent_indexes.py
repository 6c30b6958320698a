"""Indexes of migrations: built without blocking writers, and finished by the next run after an interruption."""

from __future__ import annotations

import threading
from contextlib import closing

import psycopg
import pytest

from scheduled_actions.database import concurrent_indexes, migrate, versions
from scheduled_actions.database.bounded import UNLIMITED
from scheduled_actions.database.concurrent_indexes import IndexNotBuilt
from scheduled_actions.database.connection import Database
from scheduled_actions.operations.doctor.rules import Level, database as database_rules
from tests.factories import PATIENCE, together, wait_until

BUILD = "create index concurrently scheduled_actions_by_creator on scheduled_actions (created_by);"


@pytest.fixture
def add_migration(monkeypatch, tmp_path):
    """Return a function that adds a migration file after the existing ones."""
    for path in versions.MIGRATIONS.glob("*.sql"):
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.setattr(versions, "MIGRATIONS", tmp_path)

    def add(text):
        path = tmp_path / f"{versions.read_files().latest + 1:04}_more.sql"
        path.write_text(text, encoding="utf-8")
        return path.stem

    return add


def is_valid(connection, index="scheduled_actions_by_creator"):
    """Return whether the index is valid; None if it is missing."""
    row = connection.execute("select indisvalid from pg_index where indexrelid = to_regclass(%s)", [index]).fetchone()
    return row and row[0]


def test_a_concurrent_index_of_a_migration_is_built_after_its_transaction(connection, add_migration):
    name = add_migration(
        f"alter table scheduled_actions add column shade text;\n{BUILD.replace('created_by', 'shade')}\n"
    )

    assert migrate.migrate(connection) == [name, "index scheduled_actions_by_creator"]
    assert is_valid(connection) is True
    assert migrate.migrate(connection) == []


def test_writers_are_not_blocked_while_an_index_is_built(connection, add_migration, database_url):
    """The build waits for a transaction that is older; an insert during that time is not blocked."""
    add_migration(BUILD)
    with psycopg.connect(database_url) as older, psycopg.connect(database_url, autocommit=True) as migrating:
        older.execute("select id from schedule_action('test:run')")
        thread = threading.Thread(target=migrate.migrate, args=[migrating])
        thread.start()
        wait_until(lambda: is_valid(connection) is False)

        connection.execute("set lock_timeout = '2s'")
        connection.execute("select id from schedule_action('test:run')")

        older.rollback()
        thread.join(PATIENCE)
    assert is_valid(connection) is True


def test_an_invalid_index_of_an_interrupted_build_is_built_again(connection, add_migration, database_url):
    add_migration(BUILD)
    with psycopg.connect(database_url) as older:
        older.execute("select id from schedule_action('test:run')")
        # The build waits for the open transaction and is aborted, as if its process had been killed.
        connection.execute("set lock_timeout = '50ms'")
        with pytest.raises(
            IndexNotBuilt, match=r"index scheduled_actions_by_creator could not be built or dropped: .*lock timeout"
        ) as caught:
            migrate.migrate(connection)
    assert "run `scheduled-actions migrate` again" in str(caught.value)
    assert is_valid(connection) is False

    assert migrate.migrate(connection) == ["index scheduled_actions_by_creator"]
    assert is_valid(connection) is True


def test_the_doctor_names_an_unfinished_index(connection, add_migration):
    before = database_rules.indexes(migrate.unfinished_indexes(connection))
    add_migration(BUILD)

    missing = database_rules.indexes(migrate.unfinished_indexes(connection))

    assert (before.level, missing.level) == (Level.OK, Level.WARNING)
    assert missing.detail == "missing or invalid: scheduled_actions_by_creator"


def test_a_connection_with_statement_limits_can_build_indexes(connection, add_migration, database_url):
    """A limited statement runs in its own transaction, in which no index can be built concurrently."""
    add_migration(BUILD)

    with closing(Database(lambda: database_url)) as database, database.connection(UNLIMITED) as own:
        assert migrate.migrate(own)[-1] == "index scheduled_actions_by_creator"


def test_an_index_that_a_later_migration_drops_is_not_built_again(connection, add_migration):
    add_migration(BUILD)
    migrate.migrate(connection)
    name = add_migration("drop index concurrently scheduled_actions_by_creator;\n")

    assert migrate.migrate(connection) == [name, "index scheduled_actions_by_creator"]
    assert is_valid(connection) is None
    assert migrate.migrate(connection) == []


def test_concurrent_migrations_do_not_deadlock(connection, add_migration, database_url):
    """Two concurrent builds wait for each other's transactions, so the server aborts one of them."""
    add_migration(
        f"{BUILD}\ncreate index concurrently scheduled_actions_by_user on scheduled_actions (user_id, created_by);"
    )

    together(database_url, 4, lambda own, _: migrate.migrate(own))

    assert is_valid(connection) is True
    assert is_valid(connection, "scheduled_actions_by_user") is True


def test_migrate_waits_for_an_index_that_another_session_is_building(connection, add_migration, database_url):
    add_migration(BUILD)
    with (
        psycopg.connect(database_url) as older,
        psycopg.connect(database_url, autocommit=True) as building,
        psycopg.connect(database_url, autocommit=True) as migrating,
    ):
        older.execute("select id from schedule_action('test:run')")
        builder = threading.Thread(target=building.execute, args=[BUILD])
        builder.start()
        wait_until(lambda: is_valid(connection) is False)
        first = connection.execute("select 'scheduled_actions_by_creator'::regclass::oid").fetchone()
        reported = []
        thread = threading.Thread(target=migrate.migrate, args=[migrating], kwargs={"report": reported.append})
        thread.start()
        wait_until(
            lambda: "index scheduled_actions_by_creator (waiting: another session is building an index)" in reported
        )

        older.rollback()
        builder.join(PATIENCE)
        thread.join(PATIENCE)
    assert is_valid(connection) is True
    assert connection.execute("select 'scheduled_actions_by_creator'::regclass::oid").fetchone() == first


def test_an_index_name_that_another_object_has_is_an_error(connection, add_migration, monkeypatch):
    monkeypatch.setattr(concurrent_indexes, "_POLL_SECONDS", 0.001)
    add_migration(BUILD)
    connection.execute("create table scheduled_actions_by_creator (created_by text)")

    with pytest.raises(IndexNotBuilt, match='relation "scheduled_actions_by_creator" already exists'):
        migrate.migrate(connection)


def test_concurrent_index_statements_are_removed_from_the_transaction_as_a_whole():
    text = "create table t (a int);\ncreate unique index concurrently u on t (a)\n  where a > 0;\nselect 1;\n"

    in_transaction, (found,) = concurrent_indexes.split(text)

    assert in_transaction == "create table t (a int);\nselect 1;\n"
    assert (found.name, found.is_unique) == ("u", True)
    assert found.definition == "t (a)\n  where a > 0"
