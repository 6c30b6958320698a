"""What a calendar shows, read from the tables in the order of its instants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions.calendar.rules.entries import Entry, EntryKind
from scheduled_actions.database.statements import Statements
from scheduled_actions.schedules.store import found

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from scheduled_actions.calendar.rules.entries import Place
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.schedules.model import Schedule

sql = Statements(__file__)

_KINDS: Mapping[str, EntryKind] = {"reminder:send": "reminder", "escalation:send": "escalation"}


def actions(connection: Connection, after: Place, to: datetime, *, limit: int, **filters: str | None) -> list[Entry]:
    """Return the actions that wait before `to`, the first `limit` after a place; `filters`: `team_id` and `user`."""
    at, action_id = after.after("actions")
    parameters = {**filters, "after_at": at, "after_id": action_id, "to": to, "limit": limit}
    name = "calendar_actions" if filters["user"] is None else "calendar_actions_of_user"
    return [_action(*row) for row in sql.run_leniently(connection, name, parameters)]


def _action(*row: Any) -> Entry:  # noqa: ANN401 - the columns of calendar_actions.sql
    at, action_id, title, action_type, status, team_id, user_id, target_type, target_id, *others = row
    deadline_id, schedule_id, changed_at = others
    return Entry(
        kind=_KINDS.get(action_type, "action") if deadline_id is not None else "action",
        at=at,
        id=action_id,
        title=title,
        action_type=action_type,
        status=status,
        team_id=team_id,
        user_id=user_id,
        target_type=target_type,
        target_id=target_id,
        action_id=action_id,
        deadline_id=deadline_id,
        schedule_id=schedule_id,
        changed_at=changed_at,
    )


def deadlines(connection: Connection, after: Place, to: datetime, *, limit: int, **filters: str | None) -> list[Entry]:
    """Return the unresolved deadlines due before `to`, the first `limit` after a place; `filters` as for `actions`."""
    at, deadline_id = after.after("deadlines")
    parameters = {**filters, "after_at": at, "after_id": deadline_id, "to": to, "limit": limit}
    name = "calendar_deadlines" if filters["user"] is None else "calendar_deadlines_of_user"
    return [_deadline(*row) for row in sql.run_leniently(connection, name, parameters)]


def _deadline(*row: Any) -> Entry:  # noqa: ANN401 - the columns of calendar_deadlines.sql
    at, deadline_id, title, status, team_id, target_type, target_id, changed_at = row
    return Entry(
        kind="deadline",
        at=at,
        id=deadline_id,
        title=title,
        action_type=None,
        status=status,
        team_id=team_id,
        user_id=None,
        target_type=target_type,
        target_id=target_id,
        action_id=None,
        deadline_id=deadline_id,
        schedule_id=None,
        changed_at=changed_at,
    )


def schedules(connection: Connection, to: datetime, *, limit: int, **filters: str | None) -> list[Schedule]:
    """Return the live schedules of which occurrences may come before `to`; `filters` as for `actions`."""
    rows = sql.run_leniently(connection, "calendar_schedules", {**filters, "to": to, "limit": limit})
    return [found(row).schedule for row in rows]
