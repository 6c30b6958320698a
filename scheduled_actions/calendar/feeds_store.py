"""Calendar feeds in their table: by the digest of the secret in their address, never by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)

#: A row of every statement here: the columns of a feed in their order.
Row = tuple[Any, ...]


def create(connection: Connection, values: Mapping[str, Any]) -> Row:
    """Keep a feed: what `create_feed.sql` names."""
    row = sql.run(connection, "create_feed", values).fetchone()
    assert row is not None  # noqa: S101 - an insert that returns answers one row, or raises
    return row


def find(connection: Connection, digest: bytes) -> Row | None:
    """Return the feed of that digest while it answers, its use noted to within an hour."""
    return sql.run_leniently(connection, "find_feed", {"digest": digest}).fetchone()


def newest(connection: Connection, *, team_id: str | None, before: UUID | None, limit: int) -> list[Row]:
    """Return the newest feeds (of a team), at most `limit`, those with ids below `before`."""
    return sql.run_leniently(
        connection, "list_feeds", {"team_id": team_id, "before": before, "limit": limit}
    ).fetchall()


def revoke(connection: Connection, feed_id: UUID, *, team_id: str | None) -> Row | None:
    """Revoke a feed; None where there is none of that id (in that team)."""
    return sql.run_leniently(connection, "revoke_feed", {"id": feed_id, "team_id": team_id}).fetchone()
