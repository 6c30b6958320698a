"""What keeps the tables in order: what there is to do, rescue and prune."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from uuid import UUID

    from scheduled_actions.database.connection import Connection


sql = Statements(__file__)


class Expired(NamedTuple):
    """An action whose lease has ended, as `expired.sql` reads it."""

    id: UUID
    action_type: str
    attempts: int
    max_attempts: int | None
    #: The fence of the claim that has expired.
    token: UUID
    retry_text: str | None
    lock_group: str | None
    lock_group_blocks: bool
    #: The outcome of the last entry of its history; None for an action that has none.
    last_outcome: str | None
    schedule_id: UUID | None
    #: How many actions its tick had announced as started with it, itself included; 0 where it had not announced it.
    announced: int
    #: In epoch seconds; with `tick_id` None where it was not announced.
    tick_epoch: float | None
    tick_id: UUID | None

    @property
    def was_started(self) -> bool:
        """Whether its handler had been announced as started."""
        return self.announced > 0

    @property
    def neighbours(self) -> int:
        """How many others had been announced with it."""
        return max(0, self.announced - 1)

    @property
    def tick_started_at(self) -> datetime | None:
        """When the tick began that had announced it."""
        return None if self.tick_epoch is None else datetime.fromtimestamp(self.tick_epoch, UTC)


def expired(connection: Connection, *, limit: int) -> list[Expired]:
    """Return actions whose lease has ended, locked until the transaction ends, at most `limit`."""
    return [Expired._make(row) for row in sql.run(connection, "expired", {"limit": limit})]


def close_lost_ticks(connection: Connection) -> int:
    """Close the ticks that ended without a word, once nothing of theirs is leased; return how many."""
    return sql.run(connection, "close_lost_ticks").rowcount


def prune_actions(
    connection: Connection,
    *,
    retention_days: int,
    retention_failed_days: int,
    limit: int,
    action_id: UUID | None = None,
) -> int:
    """Remove finished actions past their retention, at most `limit`, of one id or of any; return how many."""
    days = {"retention_days": retention_days, "retention_failed_days": retention_failed_days}
    ids = None if action_id is None else [action_id]
    return sql.run(connection, "prune_actions", {**days, "limit": limit, "ids": ids}).rowcount


def prunable(connection: Connection, *, retention_days: int, retention_failed_days: int, limit: int) -> list[UUID]:
    """Return the ids of finished actions past their retention, the oldest first, at most `limit`."""
    days = {"retention_days": retention_days, "retention_failed_days": retention_failed_days}
    return [row[0] for row in sql.run(connection, "prunable_actions", {**days, "limit": limit})]


def prune_ticks(connection: Connection, *, retention_days: int, unseen_days: int, limit: int) -> int:
    """Remove ticks past their retention, and event types unseen for so long, at most `limit`; return how many ticks."""
    parameters = {"retention_days": retention_days, "unseen_days": unseen_days, "limit": limit}
    return sql.run(connection, "prune_ticks", parameters).rowcount
