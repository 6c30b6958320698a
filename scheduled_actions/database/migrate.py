"""Migrate a database to the schema of this code: numbered migrations, then SQL functions, then indexes.

A migration is applied once, in its own transaction, with the functions that it calls. Functions are applied again when
their files have changed, and dropped when their files have been removed, all in one transaction. A function
whose signature has changed cannot be replaced. It is renamed, so that the views, triggers and defaults that use it
remain until a migration replaces them, and dropped after the last migration. Indexes that a migration builds
`concurrently` come last, outside any transaction: see `concurrent_indexes`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import psycopg

from scheduled_actions.core.errors.families import DeploymentError, error_class
from scheduled_actions.database import concurrent_indexes, versions
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements

sql = Statements(__file__)

#: The advisory lock of migrations: of two concurrent processes, the second waits and then finds nothing to do.
_LOCK_KEY = 0x5C4ED_AC7104
#: DDL waits at most this long for a table, because other sessions queue behind it.
_LOCK_TIMEOUT = "5s"
_OLDEST_SERVER = 140000
#: Functions that sessions with any search path call by name.
_ENTRY_POINTS = [
    "schedule_action",
    "schedule_actions",
    "emit_event",
    "schedule_recurring_action",
    "set_deadline",
    "report_fact",
    "scheduled_actions_pause",
    "scheduled_actions_resume",
    "scheduled_actions_watch",
    "scheduled_actions_unwatch",
    "scheduled_actions_grant",
]
#: Suffix of a renamed function that could not be replaced.
_OUTDATED = "_outdated"


@error_class
class ServerUnsuitable(DeploymentError):
    """The version of the server or the encoding of the database is not supported."""

    message = "{problem}"
    problem: str


@error_class
class MigrationBlocked(DeploymentError):
    """Another session kept a table locked for longer than a step of `migrate` waits."""

    message = (
        f"{{name}} waited {_LOCK_TIMEOUT} for a table that another session has locked, and changed nothing: "
        "run `scheduled-actions migrate` again"
    )
    #: The step: `migration NAME`, or `the update of the SQL functions`.
    name: str


@error_class
class FunctionInUse(DeploymentError):
    """A view, a trigger or a default uses an SQL function that this release removed or changed."""

    message = (
        "SQL functions of an earlier release are still in use: {uses}; drop these objects, or change them to use the "
        "current functions, then run `scheduled-actions migrate` again"
    )
    uses: str


@error_class
class FunctionTaken(DeploymentError):
    """A function in the schema of the tables has the name of a function of this package, but was not created by it."""

    message = (
        "the schema of the tables already has other functions with names that this package uses: {signatures}; nothing "
        "was changed: rename these functions, or use a separate schema for this package"
    )
    signatures: str


class _Overload(NamedTuple):
    """A function in the database's catalog; functions of the same name have different signatures."""

    name: str
    signature: str
    #: Version of the catalog row; changes when the function is replaced.
    place: str


class RemovedFunction(NamedTuple):
    """A function of an earlier release that still exists in the database."""

    #: Name and argument types, as `drop function` requires them.
    signature: str
    #: The objects that depend on it, as the server describes them: `view own_report`.
    users: tuple[str, ...]


def migrate(connection: Connection, *, report: Callable[[str], None] = lambda _: None) -> list[str]:
    """Migrate the database to the schema of this code; return the list of changes.

    The list contains names of migrations, `function NAME`, `function NAME (dropped)` and `index NAME`.

    Migrations only expand the schema, so that the code of the previous release continues to run on it. A database that
    a later release has migrated is not changed.

    Args:
        connection: In autocommit mode. Tables that do not exist in its search path are created in the path's first
            schema.
        report: Called with the name of each migration before it is applied, with `N functions` before functions are
            updated, with `function NAME (dropped)` for each dropped function, with `index NAME` before an index is
            built or dropped, and with a longer text before waiting for another session's build.

    Raises:
        ServerUnsuitable: The server is older than PostgreSQL 14, or the database's encoding is not UTF8.
        SchemaShadowed: An earlier schema in the search path hides tables or functions of this package; nothing was
            changed.
        SchemaUnreleased: An unreleased build created the tables; nothing was changed.
        FunctionTaken: A function that this package did not create has the name of one of its functions, and was not
            replaced.
        MigrationBlocked: Another session has locked a table; the step that waited for it was rolled back.
        FunctionInUse: Another object depends on a removed or replaced function; the step that found it was rolled back.
        IndexNotBuilt: The server did not build or drop an index; the next call resumes there.
    """
    if (version := connection.info.server_version) < _OLDEST_SERVER:
        raise ServerUnsuitable(f"the server version is PostgreSQL {version // 10000}; version 14 or later is required")
    if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
        raise ServerUnsuitable(
            f"the encoding of the database is {encoding}; UTF8 is required: create a database with encoding 'UTF8'"
        )
    schema = versions.read_files()
    versions.check_visible(connection, schema)
    done: list[str] = []
    applied: list[versions.Function] = []
    for migration in _pending(schema, versions.read_released(connection, schema)):
        with _locked(connection, f"migration {migration.name}"):
            # Another process may have applied the migration before this one got the lock.
            found = versions.read_released(connection, schema)
            if migration in _pending(schema, found):
                _check_free(connection, schema, found)
                report(migration.name)
                applied += _apply(connection, schema, migration, found)
                done.append(migration.name)
    with _locked(connection, "the update of the SQL functions"):
        found = versions.read_released(connection, schema)
        if found.is_later_than(schema):
            return done
        stale = found.stale_functions(schema)
        if stale:
            _check_free(connection, schema, found)
            report(f"{len(stale)} function{'' if len(stale) == 1 else 's'}")
            _apply_functions(connection, stale)
            record_functions(connection, stale)
            applied += stale
        _fix_search_paths(connection, schema)
        sql.run(connection, "refresh_access_schemas")
        removed = [f"function {name} (dropped)" for name in _drop_removed(connection, schema)]
        for name in removed:
            report(name)
    done += [f"function {one.name}" for one in applied] + removed
    return done + concurrent_indexes.reconcile(connection, _index_statements(schema), report=report)


def unfinished_indexes(connection: Connection) -> list[str]:
    """Return the names of the indexes that `migrate` would change; none if a later release migrated the database.

    The tables must exist.
    """
    schema = _current_schema(connection)
    return concurrent_indexes.unfinished(connection, _index_statements(schema)) if schema else []


def removed_functions(connection: Connection) -> list[RemovedFunction]:
    """Return the functions that `migrate` would drop, with the objects that depend on them.

    The list is empty if a later release migrated the database. The tables must exist.
    """
    schema = _current_schema(connection)
    return _removed(connection, schema) if schema else []


def _current_schema(connection: Connection) -> versions.Schema | None:
    """Return the schema of this code; None if a later release migrated the database."""
    schema = versions.read_files()
    return None if versions.read(connection).is_later_than(schema) else schema


@contextmanager
def _locked(connection: Connection, name: str) -> Iterator[None]:
    """Run the block in a transaction with the migration lock and with the tables' schema first in the search path.

    Raises:
        MigrationBlocked: A table stayed locked by another session.
    """
    try:
        with connection.transaction():
            connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK_KEY])
            connection.execute("select set_config('lock_timeout', %s, true)", [_LOCK_TIMEOUT])
            sql.run(connection, "our_schema_first")
            yield
    except psycopg.errors.LockNotAvailable:
        raise MigrationBlocked(name) from None


def _pending(schema: versions.Schema, found: versions.SchemaVersions) -> list[versions.Migration]:
    return [one for one in schema.migrations if one.number > found.applied]


def _apply(
    connection: Connection, schema: versions.Schema, migration: versions.Migration, found: versions.SchemaVersions
) -> list[versions.Function]:
    """Apply a migration with the functions that it calls; return the functions that were applied."""
    called = schema.called_in(migration.text)
    stale = [one for one in found.stale_functions(schema) if one.name in called]
    # Defaults, constraints, triggers and views need the functions that they call.
    _apply_functions(connection, stale)
    connection.execute(concurrent_indexes.split(migration.text)[0])
    record_functions(connection, stale)
    # In the same transaction: a replaced function loses its settings, and may run with its owner's privileges.
    _fix_search_paths(connection, schema)
    recorded = {"number": migration.number, "name": migration.name, "checksum": migration.checksum}
    sql.run(connection, "record_migration", recorded)
    return stale


def _index_statements(schema: versions.Schema) -> Iterable[concurrent_indexes.IndexStatement]:
    """Return the last statement of each index."""
    split = [concurrent_indexes.split(migration.text)[1] for migration in schema.migrations]
    return {one.name: one for statements in split for one in statements}.values()


def _check_free(connection: Connection, schema: versions.Schema, found: versions.SchemaVersions) -> None:
    """Check that the database has no unrecorded function with the name of a function in `schema`.

    Raises:
        FunctionTaken: At least one such function exists, and would be replaced.
    """
    unrecorded = [name for name in schema.function_names if name not in found.functions]
    if taken := sorted(one.signature for one in _overloads(connection, unrecorded)):
        raise FunctionTaken(", ".join(taken))


def _apply_functions(connection: Connection, functions: Sequence[versions.Function]) -> None:
    """Create or replace functions; rename existing functions with the same name and another signature.

    Args:
        connection: In a transaction of `_locked`.
        functions: The functions in any order, because bodies are not checked before they run.
    """
    if not functions:
        return
    connection.execute("select set_config('check_function_bodies', 'off', true)")
    names = [one.name for one in functions]
    before = _overloads(connection, names)
    existing = {one.name for one in before}
    if new := [one.text for one in functions if one.name not in existing]:
        connection.execute("\n".join(new))
    for function in [one for one in functions if one.name in existing]:
        try:
            with connection.transaction():
                connection.execute(function.text)
        except psycopg.errors.InvalidFunctionDefinition:
            # Argument names and result columns can only be changed with a new function.
            _rename(connection, [one for one in before if one.name == function.name])
            connection.execute(function.text)
    # A function that existed before and was not replaced has a different signature from the one in its file.
    _rename(connection, before & _overloads(connection, names))


def record_functions(connection: Connection, functions: Sequence[versions.Function]) -> None:
    """Record these versions of functions in the database; their table must exist."""
    if functions:
        sql.run(
            connection,
            "record_functions",
            names=[one.name for one in functions],
            checksums=[one.checksum for one in functions],
        )


def _drop_removed(connection: Connection, schema: versions.Schema) -> list[str]:
    """Drop recorded functions that are not in `schema`, and renamed earlier versions; return the names of the former.

    Raises:
        FunctionInUse: Another object depends on one of these functions.
    """
    if removed := _removed(connection, schema):
        _drop(connection, [one.signature for one in removed])
    return sorted(name for (name,) in sql.run(connection, "forget_functions", {"ours": schema.function_names}))


def _removed(connection: Connection, schema: versions.Schema) -> list[RemovedFunction]:
    """Return recorded functions that are not in `schema`, and renamed earlier versions, with the objects that use them.

    The tables must exist; the search path does not matter.
    """
    return [
        RemovedFunction(name, tuple(users))
        for name, users in sql.run(connection, "removed_functions", ours=schema.function_names, outdated=_OUTDATED)
    ]


def _fix_search_paths(connection: Connection, schema: versions.Schema) -> None:
    """Set the search path of the functions that must not depend on that of the session."""
    parameters = {"ours": schema.function_names, "entry_points": _ENTRY_POINTS}
    if statements := [one for (one,) in sql.run(connection, "functions_without_search_path", parameters)]:
        connection.execute("; ".join(statements))


def _rename(connection: Connection, outdated: Iterable[_Overload]) -> None:
    for one in outdated:
        # An earlier run may have renamed a function without dropping it.
        _drop(connection, [one.signature.replace(f"{one.name}(", f"{one.name}{_OUTDATED}(", 1)])
        connection.execute(f"alter function {one.signature} rename to {one.name}{_OUTDATED}")


def _drop(connection: Connection, signatures: Sequence[str]) -> None:
    try:
        connection.execute(f"drop function if exists {', '.join(signatures)}")
    except psycopg.errors.DependentObjectsStillExist as error:
        uses = (error.diag.message_detail or "").replace(f"{_OUTDATED}(", "(").splitlines()
        raise FunctionInUse("; ".join(uses)) from error


def _overloads(connection: Connection, names: Sequence[str]) -> set[_Overload]:
    return {_Overload(*row) for row in sql.run(connection, "function_overloads", {"names": list(names)})}
