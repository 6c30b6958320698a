"""Read, recover and replay webhook deliveries in the database."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from scheduled_actions.core.action import Status
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements

sql = Statements(__file__)

#: Final statuses of a lost delivery: failed, or skipped (for example because the endpoint was disabled).
LOST = (Status.FAILED, Status.SKIPPED)
#: Final statuses of a routed event: completed if an endpoint matched or an alert was sent by email; otherwise skipped.
ROUTED = (Status.COMPLETED, Status.SKIPPED)


@dataclass(frozen=True, slots=True)
class Delivery:
    """The delivery of an event to one endpoint."""

    id: UUID
    status: str
    endpoint: str
    team_id: str | None
    event: str
    entity_type: str
    entity_id: str
    attempts: int
    max_attempts: int | None
    #: When the next attempt is due; None unless pending.
    next_attempt_at: datetime | None
    #: HTTP status of the response to the latest attempt; None without one, and after a deferral, skip or retry.
    response_status: int | None
    error: str | None
    #: Per attempt: `attempt`, `at`, `status`, `duration_ms`, `answer` (the first KiB of the response), `error`.
    attempt_log: list[Mapping[str, Any]]
    event_action_id: str
    lock_group: str | None
    started_at: datetime | None
    completed_at: datetime | None
    created_at: datetime


#: Maximum number of actions (events and deliveries) that one page reads to find matches.
EXAMINED = 10_000


class EventCursor(NamedTuple):
    """The last event of the previous batch; both fields are None before the first batch."""

    completed_at: datetime | None = None
    id: UUID | None = None


class RoutedEvent(NamedTuple):
    """An event that a tick has routed to its endpoints; it may have matched none."""

    id: UUID
    completed_at: datetime
    team_id: str | None
    payload: Mapping[str, Any]


def find(
    connection: Connection,
    *,
    status: str | None = None,
    endpoint: str | None = None,
    event: str | None = None,
    team_id: str | None = None,
    before: UUID | None = None,
    limit: int = 100,
    examined: int = EXAMINED,
) -> tuple[list[Delivery], UUID | None]:
    """Return the newest deliveries with ids below `before` that match every filter, and the next cursor.

    Reads at most `examined` events and deliveries, so a page may contain fewer than `limit`. The cursor is None on the
    last page only.
    """
    ids, end = sql.run_one(
        connection,
        "find_deliveries",
        status=status,
        endpoint=endpoint,
        event=event,
        team_id=team_id,
        before=before,
        limit=limit + 1,
        examined=examined,
    )
    rows = sql.run_leniently(connection, "list_deliveries", ids=ids[:limit]) if ids else ()
    return [Delivery(*row) for row in rows], ids[limit - 1] if len(ids) > limit else end


def get(connection: Connection, delivery_id: UUID, *, team_id: str | None = None) -> Delivery | None:
    """Return a delivery by id; None if no delivery has that id (in that team)."""
    row = sql.run_leniently(connection, "get_delivery", id=delivery_id, team_id=team_id).fetchone()
    return None if row is None else Delivery(*row)


def count_lost(connection: Connection, selection: Mapping[str, Any]) -> int:
    """Return the number of recoverable deliveries, at most 100,000.

    `selection` contains `since` and `until`, the bounds of the instants at which deliveries ended, and `endpoint` and
    `team_id`; None selects all. `until` excludes deliveries that fail again after the recovery started.
    """
    return int(sql.run_one(connection, "count_recoverable", **selection, statuses=list(LOST))[0])


def recover(connection: Connection, selection: Mapping[str, Any], *, status: Status, by: str | None, limit: int) -> int:
    """Make at most `limit` lost deliveries with this status pending again; return their number."""
    return len(sql.run(connection, "recover_deliveries", **selection, status=status, by=by, limit=limit).fetchall())


def missed(
    connection: Connection, selection: Mapping[str, Any], *, status: Status, after: EventCursor, limit: int
) -> list[RoutedEvent]:
    """Return at most `limit` events after a cursor that were not routed to the endpoint of the selection."""
    cursor = {"after_at": after.completed_at, "after_id": after.id}
    return [
        RoutedEvent(*row)
        for row in sql.run_leniently(connection, "missed_events", **selection, **cursor, status=status, limit=limit)
    ]


def deliver_missed(
    connection: Connection,
    ids: Collection[UUID],
    *,
    endpoint: str,
    until: datetime,
    retry: Mapping[str, Any] | None,
    max_attempts: int | None,
    by: str | None,
) -> int:
    """Schedule deliveries of missed events to an endpoint; return the number of new deliveries.

    Args:
        connection: To the database.
        ids: The ids of the events; an event that has been routed to the endpoint by now is left out.
        endpoint: Name or id of the endpoint.
        until: When the replay began; all new deliveries are scheduled for this instant.
        retry: The retry policy of the deliveries, as JSON; None: the default.
        max_attempts: The maximum number of attempts of each delivery; None: the default.
        by: The requester, stored in the history of each event, and as the creator of each delivery.
    """
    [count] = sql.run_one(
        connection,
        "deliver_missed",
        ids=list(ids),
        endpoint=endpoint,
        until=until,
        retry=None if retry is None else json.dumps(retry),
        max_attempts=max_attempts,
        by=by,
    )
    return int(count)
