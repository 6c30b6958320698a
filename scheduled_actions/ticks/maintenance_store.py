"""What keeps the tables in order: what there is to do, rescue and prune."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.action import Claimed
from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from scheduled_actions.database.connection import Connection


sql = Statements(__file__)


@dataclass(frozen=True, slots=True)
class Expired:
    """An action whose lease has ended."""

    action: Claimed
    #: Whether its handler had been announced as started.
    was_started: bool
    #: How many others had been announced beside it.
    neighbours: int
    tick_started_at: datetime | None
    tick_id: UUID | None


def expired(connection: Connection, *, limit: int) -> list[Expired]:
    """Return actions whose lease has ended, locked until the transaction ends, at most `limit`."""
    rows = sql.run(connection, "expired", {"limit": limit}).fetchall()
    return [_expired(row) for row in rows]


def _expired(row: Sequence[Any]) -> Expired:
    (
        action_id, action_type, attempts, max_attempts, token, retry_text, lock_group, lock_group_blocks, last_outcome,
        scheduled_epoch, announced, tick_epoch, tick_id, schedule_id,
    ) = row  # fmt: skip
    action = Claimed(
        id=action_id,
        action_type=action_type,
        priority=0,
        scheduled_epoch=scheduled_epoch,
        scheduled_text="",
        attempts=attempts,
        max_attempts=max_attempts,
        lock_group=lock_group,
        lock_group_blocks=lock_group_blocks,
        last_outcome=last_outcome,
        payload_text="{}",
        state_text=None,
        retry_text=retry_text,
        metadata_text=None,
        history_text=None,
        team_id=None,
        error_message=None,
        target_type=None,
        target_id=None,
        user_id=None,
        created_by=None,
        schedule_id=schedule_id,
        deadline_id=None,
        dedup_key=None,
        occurrence_epoch=None,
        previous_epoch=None,
        started_epoch=None,
        created_epoch=scheduled_epoch,
        condition_text=None,
        has_follow_ups=True,
        token=token,
    )
    return Expired(
        action,
        was_started=announced > 0,
        neighbours=max(0, announced - 1),
        tick_started_at=None if tick_epoch is None else datetime.fromtimestamp(tick_epoch, UTC),
        tick_id=tick_id,
    )


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
