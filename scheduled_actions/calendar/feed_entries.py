"""What stands in a calendar feed beside the schedules: actions that wait, and deadlines that ring when they remind."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from scheduled_actions.calendar import store
from scheduled_actions.calendar.rules import entries as calendar_entries
from scheduled_actions.calendar.rules.ics import Entry
from scheduled_actions.database.clock import now

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from scheduled_actions.calendar.model import Feed
    from scheduled_actions.database.connection import Connection

#: How far ahead, and how many of each.
_AHEAD = timedelta(days=366)
_MOST = 500
#: Of what is overdue, that which is not older than this.
_BEHIND = timedelta(days=31)


def to_come(connection: Connection, feed: Feed) -> Iterator[Entry]:
    """Yield the deadlines and the actions outside of schedules that a feed shows, at most 500 of each.

    A deadline rings at each of its reminders that is planned before its due instant. It has no action type: a feed of
    one type shows none.
    """
    present = now(connection)
    begin, end = calendar_entries.begin(present - _BEHIND), present + _AHEAD
    filters = {"team_id": feed.team_id, "user": feed.user_id}
    waiting = store.actions(connection, begin, end, limit=_MOST, **filters)
    if feed.action_type is None:
        # Whatever the user is told of: the reminders are those of the deadlines shown.
        reminders: dict[UUID, list[datetime]] = defaultdict(list)
        for one in waiting:
            if one.kind == "reminder" and one.deadline_id is not None:
                reminders[one.deadline_id].append(one.at)
        for one in store.deadlines(connection, begin, end, limit=_MOST, **filters):
            yield _deadline(one, reminders.get(one.id, []))
    for one in waiting:
        is_alone = one.kind == "action" and one.schedule_id is None and one.deadline_id is None
        if is_alone and feed.action_type in {None, one.action_type}:
            yield _action(one)


def _deadline(entry: calendar_entries.Entry, reminders: list[datetime]) -> Entry:
    return Entry(
        key=f"deadline-{entry.id}",
        title=entry.title,
        text=f"Deadline of {entry.target_type} {entry.target_id}: {entry.status}",
        start=entry.at,
        made_at=_made_at(entry.id),
        changed_at=entry.changed_at,
        category="deadline",
        alarms=tuple(sorted((entry.at - at for at in reminders if at <= entry.at), reverse=True)),
    )


def _action(entry: calendar_entries.Entry) -> Entry:
    about = f" about {entry.target_type} {entry.target_id}" if entry.target_type else ""
    return Entry(
        key=f"action-{entry.id}",
        title=entry.title,
        text=f"{entry.action_type}{about}",
        start=entry.at,
        made_at=_made_at(entry.id),
        changed_at=entry.changed_at,
        category="action",
    )


def _made_at(identity: UUID) -> datetime:
    """Return when a row was made, as its id tells: it reads the same each time.

    Source: RFC 9562 §5.7: the first 48 bits of a UUID version 7 are milliseconds since 1970.
    """
    moment = identity.int >> 80 if identity.version == 7 else 0  # noqa: PLR2004 - the version's own number
    return datetime.fromtimestamp(moment / 1000, UTC)
