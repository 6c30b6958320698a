"""Tokens in their table: by digest, never by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from uuid import UUID

    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)

#: A row of every statement here: the columns of a token in their order, and whether it has expired.
Row = tuple[Any, ...]


def create(
    connection: Connection,
    *,
    name: str,
    digest: bytes,
    hint: str,
    role: str,
    team_id: str | None,
    created_by: str | None,
    expires_at: datetime | None,
    expires_in: timedelta | None,
) -> Row:
    """Keep a token's digest and what is said of it; without `expires_at` and `expires_in` it lives for ever."""
    row = sql.run(
        connection,
        "create_token",
        {
            "name": name,
            "digest": digest,
            "hint": hint,
            "role": role,
            "team_id": team_id,
            "created_by": created_by,
            "expires_at": expires_at,
            "expires_in": expires_in,
        },
    ).fetchone()
    assert row is not None  # noqa: S101 - an insert that returns answers one row, or raises
    return row


def find(connection: Connection, digest: bytes) -> Row | None:
    """Return the token of that digest, its use noted to within an hour; None where there is none."""
    return sql.run_leniently(connection, "find_token", {"digest": digest}).fetchone()


def newest(connection: Connection, *, team_id: str | None, before: UUID | None, limit: int) -> list[Row]:
    """Return the newest tokens (of a team), at most `limit`, those with ids below `before`."""
    return sql.run_leniently(
        connection, "list_tokens", {"team_id": team_id, "before": before, "limit": limit}
    ).fetchall()


def revoke(connection: Connection, token_id: UUID, *, team_id: str | None) -> Row | None:
    """Revoke a token; None where there is none of that id (in that team)."""
    return sql.run_leniently(connection, "revoke_token", {"id": token_id, "team_id": team_id}).fetchone()


def end_session(connection: Connection, session_id: UUID, *, lifetime_seconds: int) -> None:
    """Remember that a session of the dashboard has ended, for as long as its cookie could be shown."""
    sql.run(connection, "end_session", {"id": session_id, "lifetime_seconds": lifetime_seconds})


def is_ended(connection: Connection, session_id: UUID) -> bool:
    """Return whether a session of the dashboard was ended."""
    row = sql.run(connection, "session_is_ended", {"id": session_id}).fetchone()
    return row is not None and bool(row[0])
