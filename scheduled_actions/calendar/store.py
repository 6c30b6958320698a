"""Read the entries of the calendar, and store calendar feeds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from scheduled_actions.calendar.rules.entries import DayItem, Entry, EntryKind, Place
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements
from scheduled_actions.schedules.model import Schedule
from scheduled_actions.schedules.store import snapshot_of

sql = Statements(__file__)

_KINDS: Mapping[str, EntryKind] = {"reminder:send": "reminder", "escalation:send": "escalation"}


@dataclass(frozen=True, slots=True)
class Feed:
    """A calendar feed, without the secret of its address; the fields are in the order of the columns."""

    id: UUID
    #: The name of the calendar in calendar programs.
    name: str
    #: The first characters of the secret.
    hint: str
    #: The team, user or action type that limits the feed; None: no limit.
    team_id: str | None
    user_id: str | None
    action_type: str | None
    created_by: str | None
    created_at: datetime
    #: Accurate to an hour; None before the first use.
    last_used_at: datetime | None
    revoked_at: datetime | None


def _kind_of(action_type: str, deadline_id: UUID | None) -> EntryKind:
    """Return the kind of a pending action."""
    return _KINDS.get(action_type, "action") if deadline_id is not None else "action"


def actions(
    connection: Connection, after: Place, to: datetime, *, user_id: str | None, team_id: str | None, limit: int
) -> list[Entry]:
    """Return the first pending actions after a place and before `to`.

    Actions that mark a deadline missed or create the next one are left out.
    """
    name = "calendar_actions" if user_id is None else "calendar_actions_of_user"
    parameters = after.parameters("actions") | {"to": to, "user": user_id, "team_id": team_id, "limit": limit}
    return [
        Entry(
            kind=_kind_of(action_type, deadline_id),
            at=at,
            id=action_id,
            title=title,
            action_type=action_type,
            status=status,
            team_id=team,
            user_id=user,
            target_type=target_type,
            target_id=target_id,
            action_id=action_id,
            deadline_id=deadline_id,
            schedule_id=schedule_id,
            changed_at=changed_at,
        )
        for (
            at, action_id, title, action_type, status, team, user, target_type, target_id, deadline_id, schedule_id,
            changed_at,
        ) in sql.run_leniently(connection, name, parameters)
    ]  # fmt: skip


def deadlines(
    connection: Connection, after: Place, to: datetime, *, user_id: str | None, team_id: str | None, limit: int
) -> list[Entry]:
    """Return the first unresolved deadlines that are due after a place and before `to`."""
    name = "calendar_deadlines" if user_id is None else "calendar_deadlines_of_user"
    return [
        Entry(
            kind="deadline",
            at=at,
            id=deadline_id,
            title=title,
            status=status,
            team_id=team,
            target_type=target_type,
            target_id=target_id,
            deadline_id=deadline_id,
            changed_at=changed_at,
        )
        for at, deadline_id, title, status, team, target_type, target_id, changed_at in sql.run_leniently(
            connection,
            name,
            after.parameters("deadlines") | {"to": to, "user": user_id, "team_id": team_id, "limit": limit},
        )
    ]


def schedules(
    connection: Connection, to: datetime, *, user_id: str | None, team_id: str | None, limit: int
) -> list[Schedule]:
    """Return at most `limit` active fixed schedules whose planned occurrence is before `to`."""
    return [
        snapshot_of(row).schedule
        for row in sql.run_leniently(
            connection, "calendar_schedules", user=user_id, team_id=team_id, to=to, limit=limit
        )
    ]


def days_of_all(
    connection: Connection, starts: Sequence[datetime], ends: Sequence[datetime], *, user_id: str | None, most: int
) -> list[DayItem]:
    """Return the pending and ended actions of each day, grouped by status, type, schedule and deadline.

    At most `most` ended actions are read per day and status, and at most `most` pending actions per day and priority,
    separately with and without a lock group.
    """
    parameters = {"starts": list(starts), "ends": list(ends), "user": user_id, "most": most}
    rows = [
        row
        for name in ("calendar_days_ended", "calendar_days_waiting")
        for row in sql.run_leniently(connection, name, parameters)
    ]
    read: Counter[tuple[int, str]] = Counter()
    for day, status, *_, number in rows:
        read[day, status] += number
    return [_day_item(row, is_truncated=read[row[:2]] >= most) for row in rows if _is_shown(row)]


def days_of_team(
    connection: Connection,
    starts: Sequence[datetime],
    ends: Sequence[datetime],
    *,
    user_id: str | None,
    team_id: str,
    most: int,
) -> tuple[list[DayItem], bool]:
    """Return a team's pending and ended actions of each day in groups, from its newest `most` actions per status.

    Returns:
        The groups, and whether the team may have more actions.
    """
    parameters = {"starts": list(starts), "ends": list(ends), "user": user_id, "team_id": team_id, "most": most}
    rows = sql.run_leniently(connection, "calendar_days_of_team", parameters).fetchall()
    read: Counter[str] = Counter()
    for _, status, *_, number in rows:
        read[status] += number
    return [_day_item(row) for row in rows if _is_shown(row)], max(read.values(), default=0) >= most


def _is_shown(row: tuple[Any, ...]) -> bool:
    """Whether a group of actions belongs to one of the days and has matching actions; day 0 and null belong to none."""
    day, *_, count, _, _, _ = row
    return bool(day and count)


def _day_item(row: tuple[Any, ...], *, is_truncated: bool = False) -> DayItem:
    _, status, action_type, schedule_id, deadline_id, title, count, at, action_id, _ = row
    return DayItem(
        kind=_kind_of(action_type, deadline_id) if status == "pending" else "ended",
        status=status,
        title=title,
        action_type=action_type,
        count=count,
        is_truncated=is_truncated,
        at=at,
        action_id=action_id,
        deadline_id=deadline_id,
        schedule_id=schedule_id,
    )


def create_feed(connection: Connection, values: Mapping[str, Any]) -> Feed:
    """Insert a feed; `values` are the parameters of `create_feed.sql`."""
    (feed,) = _feeds(connection, "create_feed", values)
    return feed


def find_feed(connection: Connection, digest: bytes) -> Feed | None:
    """Return the usable feed whose secret has this digest, and record the use of the feed at most once an hour."""
    return next(iter(_feeds(connection, "find_feed", {"digest": digest})), None)


def newest_feeds(connection: Connection, *, team_id: str | None, before: UUID | None, limit: int) -> list[Feed]:
    """Return at most `limit` feeds with ids below `before`, newest first; None for `before` or `team_id`: any."""
    return _feeds(connection, "list_feeds", {"team_id": team_id, "before": before, "limit": limit})


def revoke_feed(connection: Connection, feed_id: UUID, *, team_id: str | None) -> Feed | None:
    """Revoke a feed and return it; None if no feed has that id (in that team)."""
    return next(iter(_feeds(connection, "revoke_feed", {"id": feed_id, "team_id": team_id})), None)


def _feeds(connection: Connection, name: str, parameters: Mapping[str, Any]) -> list[Feed]:
    return [Feed(*row) for row in sql.run_leniently(connection, name, parameters)]
