"""What stands around one action: the facts that say why it has not run. A few look-ups by index, however many rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduled_actions.actions.store import action_of
from scheduled_actions.core.action import Action, Status
from scheduled_actions.database.statements import Statements
from scheduled_actions.operations.explain.rules.facts import AHEAD_MOST, HoldSeen, LockSeen, SeriesSeen, TickSeen
from scheduled_actions.schedules import store as schedules

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)

_ACTION = len(Action.__dataclass_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """An action and what stands around it, as one statement saw them."""

    action: Action
    now: datetime
    last_tick: TickSeen | None
    claimed_by: TickSeen | None
    #: Whether the tick that claimed it has announced its handler.
    is_started: bool
    hold: HoldSeen | None
    first_in_group: UUID | None
    lock: LockSeen | None


def surroundings(connection: Connection, action_id: UUID, *, team_id: str | None) -> Surroundings | None:
    """Return an action and what stands around it; None when there is none of that id (in that team)."""
    row = sql.run_leniently(connection, "explain_action", {"id": action_id, "team_id": team_id}).fetchone()
    if row is None:
        return None
    columns, (now, *rest) = row[:_ACTION], row[_ACTION:]
    last, claimed, (is_started, *hold, first, pid, since) = rest[:6], rest[6:12], rest[12:]
    return Surroundings(
        action=action_of(columns),
        now=now,
        last_tick=_tick(last),
        claimed_by=_tick(claimed),
        is_started=is_started,
        hold=_hold(hold),
        first_in_group=first,
        lock=None if pid is None else LockSeen(process=pid, since=since),
    )


def ahead(connection: Connection, action: Action) -> int:
    """Return how many due actions without a lock group a claim takes before this one, counted to `AHEAD_MOST`."""
    place = {"priority": action.priority, "scheduled_at": action.scheduled_at, "id": action.id, "most": AHEAD_MOST}
    row = sql.run(connection, "ahead_in_line", place).fetchone()
    return int(row[0]) if row else 0


def series(connection: Connection, action: Action) -> SeriesSeen | None:
    """Return the schedule of a planned occurrence, as a claim would find it; None for any other action."""
    if action.schedule_id is None:
        return None
    ids = {"schedule_id": action.schedule_id, "action_id": action.id}
    row = sql.run_leniently(connection, "series_at_work", ids).fetchone()
    found = schedules.get(connection, schedule_id=action.schedule_id)
    if row is None or found is None:
        return None
    running_since, waiting_since, has_unhandled = row
    return SeriesSeen(
        schedule=found.schedule,
        running_since=running_since,
        waiting_since=waiting_since,
        has_unhandled=has_unhandled,
    )


def _tick(values: Sequence[Any]) -> TickSeen | None:
    tick_id, started_at, finished_at, lease_expires_at, remaining, duration = values
    if tick_id is None:
        return None
    return TickSeen(
        id=tick_id,
        started_at=started_at,
        finished_at=finished_at,
        lease_expires_at=lease_expires_at,
        remaining=remaining if isinstance(remaining, int) else 0,
        duration_seconds=duration if isinstance(duration, int | float) else None,
    )


def _hold(values: Sequence[Any]) -> HoldSeen | None:
    action_id, status, blocks, scheduled_at, busy_until = values
    if action_id is None:
        return None
    return HoldSeen(
        action_id=action_id,
        status=None if status is None else Status(status),
        blocks=bool(blocks),
        scheduled_at=scheduled_at,
        busy_until=busy_until,
    )
