"""Deliveries as the view shows them, and those that are to go out again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduled_actions.core.action import Status
from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)

#: How a delivery ends that did not arrive: given up, or come for an endpoint that was disabled.
LOST = (Status.FAILED, Status.SKIPPED)
#: How an event ends: routed, or wanted by nobody.
ROUTED = (Status.COMPLETED, Status.SKIPPED)


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event on its way to one endpoint."""

    id: UUID
    status: str
    endpoint: str
    team_id: str | None
    event: str
    entity_type: str
    entity_id: str
    attempts: int
    max_attempts: int | None
    #: None unless it is pending.
    next_attempt_at: datetime | None
    #: HTTP status of the last answer; None without one.
    response_status: int | None
    error: str | None
    #: Of each attempt: `attempt`, `at`, `status`, `duration_ms`, `answer` (its first KiB), `error`.
    attempt_log: list[Mapping[str, Any]]
    event_action_id: str
    lock_group: str | None
    started_at: datetime | None
    completed_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which of what ended between two instants is meant."""

    since: datetime
    #: What ends from then on is not meant: else what fails again at once would be meant for ever.
    until: datetime
    #: None: of every endpoint.
    endpoint: str | None = None
    #: None: of every team.
    team_id: str | None = None


#: Deliveries that one page looks at, at most, in search of those that match.
EXAMINED = 10_000


class Place(NamedTuple):
    """Where a walk over events stands: after this one."""

    completed_at: datetime | None = None
    id: UUID | None = None


class Event(NamedTuple):
    """An event that was routed."""

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
    """Return the newest deliveries that match every filter, those with ids below `before`, and where to go on.

    No more than `examined` of them are looked at. Where to go on is None at the end; before it there may be fewer than
    `limit`, even none.
    """
    parameters = {
        "status": status,
        "endpoint": endpoint,
        "event": event,
        "team_id": team_id,
        "before": before,
        "limit": limit + 1,
        "examined": examined,
    }
    found = sql.run(connection, "find_deliveries", parameters).fetchone()
    assert found is not None  # noqa: S101 - a select of one row
    ids, end = found
    rows = sql.run_leniently(connection, "list_deliveries", {"ids": ids[:limit]}) if ids else ()
    return [Delivery(*row) for row in rows], ids[limit - 1] if len(ids) > limit else end


def get(connection: Connection, delivery_id: UUID, *, team_id: str | None = None) -> Delivery | None:
    """Return one delivery; None when there is none of that id (in that team)."""
    row = sql.run_leniently(connection, "get_delivery", {"id": delivery_id, "team_id": team_id}).fetchone()
    return None if row is None else Delivery(*row)


def count_lost(connection: Connection, selection: Selection) -> int:
    """Return how many deliveries are to be recovered, counted to 100,000."""
    row = sql.run(connection, "count_recoverable", {**_parameters(selection), "statuses": list(LOST)}).fetchone()
    return int(row[0]) if row else 0


def recover(connection: Connection, selection: Selection, *, status: Status, by: str | None, limit: int) -> int:
    """Make so many lost deliveries pending again; return how many there were, 0 when none is left."""
    parameters = {**_parameters(selection), "status": status, "by": by, "limit": limit}
    return len(sql.run(connection, "recover_deliveries", parameters).fetchall())


def missed(connection: Connection, selection: Selection, *, status: Status, after: Place, limit: int) -> list[Event]:
    """Return the next events that were routed without the endpoint of the selection."""
    parameters = {
        **_parameters(selection),
        "status": status,
        "after_at": after.completed_at,
        "after_id": after.id,
        "limit": limit,
    }
    return [Event(*row) for row in sql.run_leniently(connection, "missed_events", parameters).fetchall()]


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
    """Schedule the deliveries of events that did not go to an endpoint; return how many, others' doing aside."""
    parameters = {
        "ids": list(ids),
        "endpoint": endpoint,
        "until": until,
        "retry": None if retry is None else json.dumps(retry),
        "max_attempts": max_attempts,
        "by": by,
    }
    row = sql.run(connection, "deliver_missed", parameters).fetchone()
    return int(row[0]) if row else 0


def _parameters(selection: Selection) -> dict[str, Any]:
    return {
        "since": selection.since,
        "until": selection.until,
        "endpoint": selection.endpoint,
        "team_id": selection.team_id,
    }
