"""Bring a database up to this code: numbered migrations, then SQL functions, then indexes.

A migration is applied once, in a transaction of its own, with the functions that it calls. Functions are applied again
when their files have changed, and dropped when these are gone, all in one transaction. Indexes that a migration builds
`concurrently` come last, outside any transaction: see `concurrent_indexes`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from scheduled_actions.core.errors import DeploymentError
from scheduled_actions.database import concurrent_indexes, functions, versions
from scheduled_actions.database.schema import files
from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)

#: Two processes that migrate at once: the second waits, then finds nothing to do.
_LOCK_KEY = 0x5C4ED_AC7104
#: DDL that waits longer for a table gives up instead of standing in everybody's way.
_LOCK_TIMEOUT = "5s"
_OLDEST_SERVER = 140000


class ServerUnsuitable(DeploymentError):
    """The server or the database cannot carry the tables."""

    code = "server_unsuitable"

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


class MigrationBlocked(DeploymentError):
    """Another session kept a table locked for longer than a migration waits."""

    code = "migration_blocked"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"migration {name} waited {_LOCK_TIMEOUT} for a table that another session holds; "
            "nothing was changed: try again"
        )


def migrate(connection: Connection, *, report: Callable[[str], None] = lambda _: None) -> list[str]:
    """Bring the database up to this code; return what was changed.

    Those are migrations, `function NAME`, `function NAME (dropped)` and `index NAME`.

    Migrations only expand, so that the code of one release before goes on running on the new schema. In a database of a
    later release nothing is changed.

    Args:
        connection: In autocommit mode. Tables that are not in a schema of its search path are created in the first.
        report: Called with each migration's name before it is applied, with `N functions` before they are, with
            `function NAME (dropped)` after that, and with `index NAME` before an index is built.

    Raises:
        ServerUnsuitable: The server is older than PostgreSQL 14, or the database's encoding is not UTF8.
        SchemaHidden: Another schema hides tables or functions of ours in the search path; nothing was changed.
        SchemaUnreleased: The tables were made by a build that was never released; nothing was changed.
        FunctionTaken: A function that is none of ours has the name of one; nothing was changed.
        MigrationBlocked: Another session holds a table; nothing of that migration was changed.
        FunctionInUse: Something that no migration has replaced uses a function that is to go; the migrations before are
            applied, the other functions are as before.
        IndexNotBuilt: The server ended the build of an index; the next call resumes there.
    """
    _check_server(connection)
    schema = files.read()
    versions.check_visible(connection, schema)
    done: list[str] = []
    applied: list[files.Function] = []
    for migration in _pending(schema, versions.read_released(connection, schema)):
        with _locked(connection, migration.name):
            # Another process may have applied it meanwhile.
            found = versions.read_released(connection, schema)
            if migration in _pending(schema, found):
                functions.check_free(connection, found.unrecorded_functions(schema))
                report(migration.name)
                applied += _apply(connection, schema, migration, found)
                done.append(migration.name)
    with _locked(connection, "functions"):
        found = versions.read_released(connection, schema)
        if found.is_later_than(schema):
            return done
        stale = found.stale_functions(schema)
        if stale:
            functions.check_free(connection, found.unrecorded_functions(schema))
            report(f"{len(stale)} functions")
            functions.apply(connection, stale)
            functions.record(connection, stale)
            applied += stale
        functions.fix_search_paths(connection, schema.functions)
        sql.run(connection, "refresh_doors")
        removed = [f"function {name} (dropped)" for name in functions.drop_removed(connection, schema.functions)]
        for name in removed:
            report(name)
    done += [f"function {one.name}" for one in applied] + removed
    return done + concurrent_indexes.reconcile(connection, _index_statements(schema), report=report)


def unfinished_indexes(connection: Connection) -> list[str]:
    """Return the names of the indexes that `migrate` would change: none in a database of a later release."""
    schema = files.read()
    if versions.read(connection).is_later_than(schema):
        return []
    return concurrent_indexes.unfinished(connection, _index_statements(schema))


def removed_functions(connection: Connection) -> list[functions.Removed]:
    """Return the functions that `migrate` would drop, with what uses them: none in a database of a later release."""
    schema = files.read()
    if versions.read(connection).is_later_than(schema):
        return []
    return functions.removed(connection, schema.functions)


@contextmanager
def _locked(connection: Connection, name: str) -> Iterator[None]:
    """Run a transaction that no other process migrates in, in the schema of the tables."""
    try:
        with connection.transaction():
            connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK_KEY])
            connection.execute("select set_config('lock_timeout', %s, true)", [_LOCK_TIMEOUT])
            sql.run(connection, "our_schema_first")
            yield
    except psycopg.errors.LockNotAvailable:
        raise MigrationBlocked(name) from None


def _pending(schema: files.Schema, found: versions.Versions) -> list[files.Migration]:
    return [one for one in schema.migrations if one.number > found.applied]


def _apply(
    connection: Connection, schema: files.Schema, migration: files.Migration, found: versions.Versions
) -> list[files.Function]:
    """Apply a migration with the functions that it calls; return those."""
    called = schema.called_in(migration.text)
    stale = [one for one in found.stale_functions(schema) if one.name in called]
    # Defaults, constraints, triggers and views need the functions that they name.
    functions.apply(connection, stale)
    in_transaction, _ = concurrent_indexes.split(migration.text)
    connection.execute(in_transaction)
    functions.record(connection, stale)
    # In the same transaction: a replaced function loses its settings, and may run with its owner's rights.
    functions.fix_search_paths(connection, schema.functions)
    sql.run(
        connection,
        "record_migration",
        {"number": migration.number, "name": migration.name, "checksum": migration.checksum},
    )
    return stale


def _check_server(connection: Connection) -> None:
    if connection.info.server_version < _OLDEST_SERVER:
        found = connection.info.server_version // 10000
        raise ServerUnsuitable(f"the server is PostgreSQL {found}; 14 or newer is needed")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise ServerUnsuitable(f"the database's encoding is {encoding}; UTF8 is needed: create it with encoding 'UTF8'")


def _index_statements(schema: files.Schema) -> list[concurrent_indexes.IndexStatement]:
    return [one for migration in schema.migrations for one in concurrent_indexes.split(migration.text)[1]]
