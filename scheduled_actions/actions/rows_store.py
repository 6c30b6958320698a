"""Rows of queries that have become actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from scheduled_actions.database.connection import Connection


sql = Statements(__file__)


def note(
    connection: psycopg.Connection[Any],
    keys: Sequence[str],
    *,
    name: str,
    team_id: str | None,
    again_after_seconds: float | None,
) -> set[str]:
    """Write down that these rows become actions; return the keys of those that had not.

    Args:
        connection: Its transaction decides, over the actions, too.
        keys: Of the rows.
        name: Whose rows they are.
        team_id: The tenant.
        again_after_seconds: When they may again; None: never.
    """
    if not keys:
        return set()
    parameters = {"team_id": team_id or "", "name": name, "keys": list(keys), "seconds": again_after_seconds}
    return {row[0] for row in sql.run(connection, "note_rows", parameters)}


def prune(connection: Connection, *, limit: int) -> int:
    """Forget rows of queries that may become actions again, at most `limit`; return how many."""
    return sql.run(connection, "prune_rows", {"limit": limit}).rowcount
