"""SQL functions: created or replaced where their file has changed, dropped where it is gone.

A version with another signature cannot be replaced. It is renamed, so that the views, triggers and defaults that use it
stay until a migration replaces them, and dropped after the last migration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import psycopg

from scheduled_actions.core.errors import DeploymentError
from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.database.schema.files import Function

sql = Statements(__file__)

#: Functions that are called by name under whatever search path the session has.
_ENTRY_POINTS = [
    "schedule_action",
    "schedule_actions",
    "report_fact",
    "scheduled_actions_watch",
    "scheduled_actions_unwatch",
    "scheduled_actions_grant",
]
#: What the name of a function that could not be replaced ends with.
_OUTDATED = "_outdated"


class FunctionInUse(DeploymentError):
    """A view, a trigger or a default uses an SQL function that this release has no more, or with other arguments."""

    code = "function_in_use"

    def __init__(self, uses: str) -> None:
        self.uses = uses
        super().__init__(
            f"SQL functions of an earlier release are still in use: {uses}; drop what uses them, or let it use the "
            "present version, and run `scheduled-actions migrate` again"
        )


class FunctionTaken(DeploymentError):
    """A function that is none of this package has the name of one, in the schema of the tables."""

    code = "function_taken"

    def __init__(self, signatures: Sequence[str]) -> None:
        self.signatures = tuple(signatures)
        super().__init__(
            f"the schema of the tables has functions with names of this package: {', '.join(signatures)}; nothing was "
            "changed: rename them, or give this package a schema of its own"
        )


class _Overload(NamedTuple):
    """One function of the catalog."""

    name: str
    signature: str
    #: Changes when the function is replaced.
    place: str


class Removed(NamedTuple):
    """A function of an earlier release that the database still has."""

    #: As `drop function` takes it.
    signature: str
    #: What depends on it, as the server describes it: `view own_report`.
    users: tuple[str, ...]


def check_free(connection: Connection, names: Sequence[str]) -> None:
    """Check that the schema has no functions of these names, which are not recorded as ours.

    Args:
        connection: In a transaction that no other process migrates in, in the schema of the tables.
        names: Without arguments.

    Raises:
        FunctionTaken: It has one, which would be replaced.
    """
    if taken := sorted(one.signature for one in _overloads(connection, names)):
        raise FunctionTaken(taken)


def apply(connection: Connection, functions: Sequence[Function]) -> None:
    """Create or replace the functions; of each, only the signature of its file keeps the name.

    Args:
        connection: In a transaction, in the schema of the tables.
        functions: In any order: bodies are checked when they run.
    """
    if not functions:
        return
    connection.execute("select set_config('check_function_bodies', 'off', true)")
    names = [one.name for one in functions]
    before = _overloads(connection, names)
    there = {one.name for one in before}
    if new := [one.text for one in functions if one.name not in there]:
        connection.execute("\n".join(new))
    for function in functions:
        if function.name in there:
            _replace(connection, function, [one for one in before if one.name == function.name])
    # What was there before and was not replaced has another signature than the file.
    _rename(connection, before & _overloads(connection, names))


def record(connection: Connection, functions: Sequence[Function]) -> None:
    """Store which versions the database has; their table is there."""
    if functions:
        parameters = {"names": [one.name for one in functions], "checksums": [one.checksum for one in functions]}
        sql.run(connection, "record_functions", parameters)


def drop_removed(connection: Connection, functions: Sequence[Function]) -> list[str]:
    """Drop our functions that are none of these, and earlier signatures of these; return the names of the former.

    Raises:
        FunctionInUse: Something that no migration has replaced depends on one.
    """
    if removed_functions := removed(connection, functions):
        _drop(connection, [one.signature for one in removed_functions])
    parameters = {"ours": [one.name for one in functions]}
    return sorted(name for (name,) in sql.run(connection, "forget_functions", parameters).fetchall())


def removed(connection: Connection, functions: Sequence[Function]) -> list[Removed]:
    """Return our functions that are none of these, and earlier signatures of these, with what uses them.

    Args:
        connection: In any schema; the tables are there.
        functions: All of this code.
    """
    parameters = {"ours": [one.name for one in functions], "outdated": _OUTDATED}
    rows = sql.run(connection, "removed_functions", parameters).fetchall()
    return [Removed(signature, tuple(users)) for signature, users in rows]


def fix_search_paths(connection: Connection, functions: Sequence[Function]) -> None:
    """Let functions find what they name in our schema, whatever the search path of the session that runs them."""
    parameters = {"ours": [one.name for one in functions], "entry_points": _ENTRY_POINTS}
    statements = [one for (one,) in sql.run(connection, "functions_without_search_path", parameters).fetchall()]
    if statements:
        connection.execute("; ".join(statements))


def _replace(connection: Connection, function: Function, before: Sequence[_Overload]) -> None:
    try:
        with connection.transaction():
            connection.execute(function.text)
    except psycopg.errors.InvalidFunctionDefinition:
        # Names of arguments, or the columns of the answer, change with a new function only.
        _rename(connection, before)
        connection.execute(function.text)


def _rename(connection: Connection, outdated: Iterable[_Overload]) -> None:
    for one in outdated:
        # What an earlier run renamed so, and could not drop.
        _drop(connection, [one.signature.replace(f"{one.name}(", f"{one.name}{_OUTDATED}(", 1)])
        connection.execute(f"alter function {one.signature} rename to {one.name}{_OUTDATED}")


def _drop(connection: Connection, signatures: Sequence[str]) -> None:
    try:
        connection.execute(f"drop function if exists {', '.join(signatures)}")
    except psycopg.errors.DependentObjectsStillExist as error:
        uses = (error.diag.message_detail or "").replace(f"{_OUTDATED}(", "(")
        raise FunctionInUse("; ".join(uses.splitlines())) from error


def _overloads(connection: Connection, names: Sequence[str]) -> set[_Overload]:
    return {_Overload(*row) for row in sql.run(connection, "function_overloads", {"names": list(names)}).fetchall()}
