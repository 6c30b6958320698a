"""The named queries of the project: read only, bounded, with bound parameters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import psycopg
from psycopg.rows import dict_row, tuple_row

from scheduled_actions.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from scheduled_actions.config import Query
    from scheduled_actions.store.connection import Database

#: Bound by itself: the action's team.
TEAM = "team_id"
_PLACEHOLDER = re.compile(r"%\(([A-Za-z_][A-Za-z0-9_]*)\)s")


def parameters_of(query: Query, given: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the parameters that a query takes, the team's aside.

    Raises:
        InvalidArgument: Others are given, or one is missing.
    """
    wanted = frozenset(_PLACEHOLDER.findall(query.sql)) - {TEAM}
    if wanted != given.keys():
        names = ", ".join(sorted(wanted)) or "none"
        raise InvalidArgument("condition.parameters", sorted(given), f"what the query takes: {names}")
    return wanted


def first_row(
    database: Database, query: Query, given: Mapping[str, Any], *, team_id: str | None
) -> Sequence[Any] | None:
    """Return the first row of a query; None where it has none.

    Raises:
        InvalidArgument: The parameters are not those of the query.
        TimeoutError: Its time is up.
        psycopg.Error: The database refuses it, or it would change something.
    """
    parameters_of(query, given)
    with database.connection() as connection:
        try:
            with connection.transaction():
                found = list(_rows(connection, query, given, team_id=team_id, limit=1, factory=tuple_row))
        except psycopg.errors.QueryCanceled:
            # Told apart here from a connection that an operator ended.
            message = f"took longer than {query.timeout_seconds:g} s"
            raise TimeoutError(message) from None
    return cast("Sequence[Any]", found[0]) if found else None


def rows(
    connection: psycopg.Connection[Any], query: Query, given: Mapping[str, Any], *, team_id: str | None, limit: int
) -> list[dict[str, Any]]:
    """Return at most `limit` rows of a query, by column.

    Args:
        connection: In a transaction that changes nothing: it becomes read only.
        query: Which.
        given: Its parameters.
        team_id: Bound as `team_id`.
        limit: Of the rows.
    """
    parameters_of(query, given)
    return list(_rows(connection, query, given, team_id=team_id, limit=limit, factory=dict_row))


def _rows(
    connection: psycopg.Connection[Any],
    query: Query,
    given: Mapping[str, Any],
    *,
    team_id: str | None,
    limit: int,
    factory: Any,  # noqa: ANN401 - one of psycopg's row factories
) -> Iterator[Any]:
    connection.execute("set transaction read only")
    connection.execute(
        "select set_config('statement_timeout', %s, true)", [str(max(1, round(query.timeout_seconds * 1000)))]
    )
    # The statement is the operator's own text; what callers give is bound. With parameters it goes the extended way,
    # on which a second statement behind a semicolon is refused.
    text = f"select * from (\n{query.sql.strip().removesuffix(';')}\n) query limit {limit:d}"  # noqa: S608 - as said
    with connection.cursor(row_factory=factory) as cursor:
        cursor.execute(text, {**given, TEAM: team_id})
        yield from cursor.fetchall()
