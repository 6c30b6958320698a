"""SQL functions: created or replaced where their file has changed, without the overloads of earlier versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import psycopg

from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.database.schema.files import Function

sql = Statements(__file__)

#: Functions that SQL of any application calls by name, under whatever search path it has.
_ENTRY_POINTS = [
    "schedule_action",
    "schedule_actions",
    "report_fact",
    "scheduled_actions_watch",
    "scheduled_actions_unwatch",
]


class _Overload(NamedTuple):
    """One function of the catalog."""

    name: str
    signature: str
    #: Changes when the function is replaced.
    place: str


def apply(connection: Connection, functions: Sequence[Function]) -> None:
    """Create or replace the functions; of each, only the signature of its file remains.

    Args:
        connection: In a transaction, in the schema of the tables.
        functions: In any order: bodies are checked when they run.

    Raises:
        psycopg.errors.DependentObjectsStillExist: A trigger, a view or a default uses a signature that is to go; the
            migration of the change has to replace it first.
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
    for outdated in before & _overloads(connection, names):
        connection.execute(f"drop function {outdated.signature}")


def record(connection: Connection, functions: Sequence[Function]) -> None:
    """Store which versions the database has; their table is there."""
    if functions:
        parameters = {"names": [one.name for one in functions], "checksums": [one.checksum for one in functions]}
        sql.run(connection, "record_functions", parameters)


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
        for overload in before:
            connection.execute(f"drop function {overload.signature}")
        connection.execute(function.text)


def _overloads(connection: Connection, names: Sequence[str]) -> set[_Overload]:
    return {_Overload(*row) for row in sql.run(connection, "function_overloads", {"names": list(names)}).fetchall()}
