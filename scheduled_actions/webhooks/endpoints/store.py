"""Webhook endpoints in the database, and how every endpoint has been doing; secrets come and go encrypted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduled_actions.database.statements import Statements
from scheduled_actions.webhooks.rules.health import Health

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)

#: Endpoints of one team.
ENDPOINTS_MOST = 100
#: Event types that are remembered of one team.
EVENT_TYPES_MOST = 1000
#: Waiting actions that are looked at for what is on its way.
LOOKED_AT = 1_000


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """An endpoint as the table has it, and what is known of its failures."""

    id: UUID
    team_id: str | None
    url: str
    description: str
    patterns: list[str]
    filter: Any
    enabled: bool
    ordering: str
    rate_limit: float | None
    retry: Any
    header_names: list[str]
    #: Encrypted.
    headers: str | None
    #: Encrypted.
    secret: str
    #: Encrypted; signs, too, until its instant; None from then on.
    previous_secret: str | None
    previous_secret_until: datetime | None
    created_by: str | None
    created_at: datetime
    updated_at: datetime
    failing_since: datetime | None
    clock_started_at: datetime | None
    disabled_at: datetime | None
    disabled_reason: str | None


class State(NamedTuple):
    """How an endpoint has been doing."""

    endpoint: str
    failing_since: datetime | None
    clock_started_at: datetime | None
    disabled_at: datetime | None
    disabled_reason: str | None


@dataclass(frozen=True, slots=True)
class Lane:
    """What is on its way to an endpoint, as the table of actions tells it: of all processes together."""

    #: Claimed by a tick, and not settled.
    in_flight: int
    #: Deliveries that one process has in flight at most: it begins with 1, and ends at this while the endpoint answers.
    in_flight_limit: int
    waiting: int
    #: When the first of those that wait is due.
    next_attempt_at: datetime | None
    #: Of those that wait: put off for the endpoint's sake. That cost no attempt.
    put_off: int
    #: When the first of these is due.
    put_off_until: datetime | None
    #: Of the first of these: `hung` (one took five seconds or more), `slow` (one takes far longer than usual), `full`
    #: (no room beside those in flight) or `rate_limit`.
    put_off_reason: str | None
    #: False: more actions wait than were looked at, and so there may be more of these.
    is_complete: bool


class EventType(NamedTuple):
    """An event type that was seen."""

    event: str
    first_seen_at: datetime
    last_seen_at: datetime


def create(connection: Connection, values: Mapping[str, Any]) -> UUID | None:
    """Put an endpoint in the table, in the caller's transaction; None when its team has as many as it may have."""
    sql.run(connection, "lock_endpoints", {"team_id": values["team_id"]})
    row = sql.run(connection, "create_endpoint", {**_as_json(values), "most": ENDPOINTS_MOST}).fetchone()
    return None if row is None else row[0]


def get(connection: Connection, endpoint_id: UUID, *, team_id: str | None = None) -> EndpointRow | None:
    """Return the endpoint of that id; None when there is none (in that team)."""
    row = sql.run_leniently(connection, "get_endpoint", {"id": endpoint_id, "team_id": team_id}).fetchone()
    return None if row is None else EndpointRow(*row)


def find(
    connection: Connection, *, team_id: str | None = None, after: UUID | None = None, limit: int = 100
) -> list[EndpointRow]:
    """Return the endpoints (of that team), the oldest first, those with ids above `after`."""
    rows = sql.run_leniently(
        connection, "list_endpoints", {"team_id": team_id, "after": after, "limit": limit}
    ).fetchall()
    return [EndpointRow(*row) for row in rows]


def of_team(connection: Connection, team_id: str | None) -> list[EndpointRow]:
    """Return the endpoints that may want an event of that team: its own, and those of no team."""
    return [
        EndpointRow(*row) for row in sql.run_leniently(connection, "endpoints_of_team", {"team_id": team_id}).fetchall()
    ]


def lock(connection: Connection, endpoint_id: UUID, *, team_id: str | None) -> None:
    """Keep an endpoint (of that team) as it is until the transaction ends."""
    sql.run(connection, "lock_endpoint", {"id": endpoint_id, "team_id": team_id})


def update(connection: Connection, endpoint_id: UUID, changes: Mapping[str, Any], *, team_id: str | None) -> bool:
    """Change what is given of an endpoint; tell whether there was one (in that team)."""
    nothing = dict.fromkeys(_CHANGEABLE)
    parameters = {**nothing, **_as_json(changes), "given": list(changes), "id": endpoint_id, "team_id": team_id}
    return sql.run(connection, "update_endpoint", parameters).fetchone() is not None


def rotate(
    connection: Connection, endpoint_id: UUID, sealed: str, *, beside_seconds: float, team_id: str | None
) -> bool:
    """Give an endpoint a new secret, the one before signing beside it for a while; tell whether there was one."""
    parameters = {"id": endpoint_id, "secret": sealed, "beside_seconds": beside_seconds, "team_id": team_id}
    return sql.run(connection, "rotate_endpoint", parameters).fetchone() is not None


def reseal(
    connection: Connection, row: EndpointRow, *, secret: str, previous_secret: str | None, headers: str | None
) -> bool:
    """Write an endpoint's secrets, encrypted anew; tell whether it still had those of `row`."""
    parameters = {
        "id": row.id,
        "old_secret": row.secret,
        "old_headers": row.headers,
        "secret": secret,
        "previous_secret": previous_secret,
        "headers": headers,
    }
    return sql.run(connection, "reseal_endpoint", parameters).fetchone() is not None


def delete(connection: Connection, endpoint_id: UUID, *, team_id: str | None) -> bool:
    """Remove an endpoint and what is known of it; tell whether there was one (in that team)."""
    return sql.run(connection, "delete_endpoint", {"id": endpoint_id, "team_id": team_id}).fetchone() is not None


def states(connection: Connection, endpoints: Collection[str]) -> dict[str, State]:
    """Return how endpoints have been doing, by name; those that never failed are missing."""
    rows = sql.run_leniently(connection, "endpoint_states", {"endpoints": list(endpoints)}).fetchall()
    return {row[0]: State(*row) for row in rows}


def lanes(connection: Connection, endpoints: Collection[str], *, concurrency: int) -> dict[str, Lane]:
    """Return what is on its way to each of the endpoints, by name; one process starts up to `concurrency` at once."""
    parameters = {"endpoints": list(endpoints), "most": LOOKED_AT, "concurrency": concurrency}
    rows = sql.run_leniently(connection, "endpoint_lanes", parameters).fetchall()
    return {name: Lane(*facts) for name, *facts in rows}


def lock_health(connection: Connection, endpoint: str) -> tuple[Health, bool, datetime]:
    """Return what is known of an endpoint's failures, locked until the transaction ends.

    Returns:
        It; whether the endpoint is disabled; and the instant that it is.
    """
    row = sql.run(connection, "lock_endpoint_state", {"endpoint": endpoint}).fetchone()
    assert row is not None  # noqa: S101 - insert or update, one row either way
    failing_since, last_failure_at, clock_started_at, warned_at, is_disabled, now = row
    health = Health(
        failing_since=failing_since,
        last_failure_at=last_failure_at,
        clock_started_at=clock_started_at,
        warned_at=warned_at,
    )
    return health, is_disabled, now


def write_health(connection: Connection, endpoint: str, health: Health, *, disabled_reason: str | None) -> None:
    """Write what is known of an endpoint's failures; a reason disables it."""
    sql.run(
        connection,
        "write_endpoint_state",
        {
            "endpoint": endpoint,
            "failing_since": health.failing_since,
            "last_failure_at": health.last_failure_at,
            "clock_started_at": health.clock_started_at,
            "warned_at": health.warned_at,
            "disabled_reason": disabled_reason,
        },
    )


def forget_failures(connection: Connection, endpoint: str, *, enable: bool) -> None:
    """Hold nothing against an endpoint any more; with `enable` it gets deliveries again."""
    sql.run(connection, "forget_failures", {"endpoint": endpoint, "enable": enable})


def take_place(connection: Connection, endpoint: str, *, rate: float, patience: float) -> tuple[bool, float]:
    """Take the next place under a rate limit.

    Returns:
        Whether there is one within `patience` seconds, and how many seconds to wait: for it, or before asking again.
    """
    row = sql.run(connection, "take_place", {"endpoint": endpoint, "rate": rate, "patience": patience}).fetchone()
    assert row is not None  # noqa: S101 - the function always answers one row
    return bool(row[0]), float(row[1])


def see_event(connection: Connection, event: str, *, team_id: str | None) -> None:
    """Remember that there was such an event, where its team has not too many types."""
    sql.run(connection, "see_event", {"event": event, "team_id": team_id or "", "most": EVENT_TYPES_MOST})


def event_types(connection: Connection, *, team_id: str | None) -> list[EventType]:
    """Return the event types that were seen (of that team), by name, at most a thousand."""
    return [
        EventType(*row) for row in sql.run_leniently(connection, "list_event_types", {"team_id": team_id}).fetchall()
    ]


_CHANGEABLE = (
    "url", "description", "patterns", "enabled", "ordering", "filter", "rate_limit", "retry", "header_names", "headers",
)  # fmt: skip


def _as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: json.dumps(value) if name in {"filter", "retry"} and value is not None else value
        for name, value in values.items()
    }
