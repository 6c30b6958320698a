"""What a simulation reads: how long handlers take, and what waits already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduled_actions.database.statements import Statements
from scheduled_actions.operations.simulation.rules import Load

if TYPE_CHECKING:
    from datetime import datetime

    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)

#: Waiting actions that are counted; `waiting_by_minute.sql` stops there.
WAITING_MOST = 100_000


def typical_seconds(connection: Connection) -> dict[str, float]:
    """Return how long the handlers of each type took, in the middle, of those that completed last."""
    return {action_type: float(seconds) for action_type, seconds in sql.run(connection, "typical_seconds")}


def waiting(connection: Connection, *, until: datetime, team_id: str | None) -> list[Load]:
    """Return what waits outside of schedules and comes due by an instant; `WAITING_MOST` are counted.

    Args:
        connection: Where.
        until: Aware.
        team_id: Only of this team; None: of all.
    """
    rows = sql.run(connection, "waiting_by_minute", {"until": until, "team_id": team_id, "limit": WAITING_MOST})
    return [Load(at, action_type, count) for at, action_type, count in rows]
