"""What became of the occurrences of a schedule, for whoever looks at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduled_actions.store.actions import action_of, read_leniently

if TYPE_CHECKING:
    from uuid import UUID

    from scheduled_actions.action import Action
    from scheduled_actions.store.connection import Connection


def latest(connection: Connection, schedule_id: UUID, *, limit: int) -> list[Action]:
    """Return the latest actions of a schedule that were started or have ended, at most `limit`, the newest first."""
    parameters = {"schedule_id": schedule_id, "limit": limit}
    return [action_of(row) for row in read_leniently(connection, "latest_of_schedule", parameters)]
