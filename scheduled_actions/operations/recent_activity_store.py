"""How it has been going of late: a few bounded statements over the ticks and what has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.database.connection import Connection


sql = Statements(__file__)


class Failing(NamedTuple):
    """A type some of whose actions failed."""

    action_type: str
    number: int
    latest_at: datetime
    latest_id: UUID
    latest_error: str | None


class Near(NamedTuple):
    """An unresolved deadline whose due instant is near, or has passed."""

    id: UUID
    name: str | None
    target_type: str
    target_id: str
    status: str
    due_at: datetime
    paused_at: datetime | None


def of_ticks(connection: Connection, *, since: datetime, step_seconds: float) -> list[tuple[int, int, int, int, int]]:
    """Return of each step how many ticks there were, and how many actions succeeded, are retried, and failed."""
    return sql.run(connection, "pulse_of_ticks", {"since": since, "step_seconds": step_seconds}).fetchall()


def lateness(
    connection: Connection, *, since: datetime, step_seconds: float, steps: int
) -> list[tuple[int, float, float]]:
    """Return of each step that has any by how many seconds actions began late: the median, and 95 of 100."""
    parameters = {"since": since, "step_seconds": step_seconds, "steps": steps}
    return sql.run(connection, "pulse_lateness", parameters).fetchall()


def of_team(
    connection: Connection, *, team_id: str, since: datetime, step_seconds: float
) -> list[tuple[int, int, int, float | None, float | None]]:
    """Return of each step how many of a team's actions completed and failed, and how late they began."""
    parameters = {"team_id": team_id, "since": since, "step_seconds": step_seconds}
    return sql.run(connection, "pulse_of_team", parameters).fetchall()


def failures(connection: Connection, *, team_id: str | None, since: datetime, limit: int) -> list[Failing]:
    """Return the types that failed since then, the most frequent first, at most `limit`."""
    parameters: dict[str, Any] = {"team_id": team_id, "since": since, "limit": limit}
    return [Failing(*row) for row in sql.run_leniently(connection, "pulse_failures", parameters)]


def near_deadlines(connection: Connection, *, team_id: str | None, within_seconds: float, limit: int) -> list[Near]:
    """Return the unresolved deadlines that are due within the time, or were, the earliest first, at most `limit`."""
    parameters = {"team_id": team_id, "within_seconds": within_seconds, "limit": limit}
    return [Near(*row) for row in sql.run_leniently(connection, "near_deadlines", parameters)]
