"""What became of the occurrences of a schedule, for whoever looks at it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scheduled_actions.actions.store import action_of
from scheduled_actions.core.action import Status
from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.core.action import Action
    from scheduled_actions.database.connection import Connection


sql = Statements(__file__)


def latest(connection: Connection, schedule_id: UUID, *, limit: int) -> list[Action]:
    """Return the latest actions of a schedule that were started or have ended, at most `limit`, the newest first."""
    parameters = {"schedule_id": schedule_id, "limit": limit}
    return [action_of(row) for row in sql.run_leniently(connection, "latest_of_schedule", parameters)]


class Outcome(NamedTuple):
    """What became of one occurrence."""

    action_id: UUID
    status: Status
    #: The rule's own instant; aware.
    occurrence_at: datetime


def of_schedules(connection: Connection, schedule_ids: Collection[UUID], *, limit: int) -> dict[UUID, list[Outcome]]:
    """Return what became of the latest occurrences of each schedule, at most `limit` of each, the newest first."""
    found: dict[UUID, list[Outcome]] = {schedule_id: [] for schedule_id in schedule_ids}
    parameters = {"ids": list(schedule_ids), "limit": limit}
    for schedule_id, action_id, status, occurrence_at in sql.run(connection, "outcomes_of_schedules", parameters):
        found[schedule_id].append(Outcome(action_id, Status(status), occurrence_at))
    return found
