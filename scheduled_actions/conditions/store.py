"""Facts in the table: report, read, remove. Every function takes the connection: it can be the caller's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from scheduled_actions.conditions.fact import Fact, FactChange, Reported
from scheduled_actions.database.statements import Statements
from scheduled_actions.database.transactions import refused, savepoint

if TYPE_CHECKING:
    from uuid import UUID

    from scheduled_actions.conditions.rules.model import FactKey
    from scheduled_actions.database.connection import Connection


sql = Statements(__file__)


def report(connection: Connection, key: FactKey, value: str, *, team_id: str | None, by: str | None) -> Reported:
    """Write a fact.

    Args:
        connection: Its transaction, if any, decides whether the fact ever was.
        key: Which.
        value: JSON text.
        team_id: The tenant.
        by: Who reports it.

    Raises:
        RequestError: The database refuses it; in a transaction of the caller's nothing was changed either.
    """
    parameters = _named(key, team_id) | {"value": value, "by": by}
    try:
        with savepoint(connection):
            row = sql.run(connection, "report_fact", parameters).fetchone()
    except (psycopg.errors.InvalidParameterValue, psycopg.DataError) as error:
        raise refused(error) from error
    assert row is not None  # noqa: S101 - the function always answers one row
    return Reported(*row)


def get(connection: Connection, key: FactKey, *, team_id: str | None) -> Fact | None:
    """Return a fact; None when there is none."""
    row = sql.run_leniently(connection, "get_fact", _named(key, team_id)).fetchone()
    return None if row is None else Fact(**dict(zip(_FIELDS, row, strict=True)))


def lock(connection: Connection, key: FactKey, *, team_id: str | None) -> None:
    """Keep a fact as it is until the transaction ends."""
    sql.run(connection, "lock_fact", _named(key, team_id))


def find(connection: Connection, **filters: Any) -> list[Fact]:  # noqa: ANN401 - named in the statement
    """Return the newest facts that match every filter, as `list_facts.sql` has them."""
    rows = sql.run_leniently(connection, "list_facts", filters)
    return [Fact(**dict(zip(_FIELDS, row, strict=True))) for row in rows]


def history(connection: Connection, key: FactKey, *, team_id: str | None, limit: int) -> list[FactChange]:
    """Return the latest values that a fact had, the newest first."""
    rows = sql.run_leniently(connection, "fact_history", _named(key, team_id) | {"limit": limit})
    return [FactChange(*row) for row in rows]


def delete(connection: Connection, key: FactKey, *, team_id: str | None, by: str | None) -> UUID | None:
    """Remove a fact; return its id, None when there is none."""
    row = sql.run(connection, "delete_fact", _named(key, team_id) | {"by": by}).fetchone()
    return None if row is None else row[0]


def _named(key: FactKey, team_id: str | None) -> dict[str, Any]:
    return {"target_type": key.target_type, "target_id": key.target_id, "name": key.name, "team_id": team_id or ""}


#: The columns that the reading statements return, in their order.
_FIELDS = tuple(Fact.__dataclass_fields__)
