"""Read and write webhook endpoints, their queues and their failures in the database; secrets are encrypted.

A recorded failure can warn the owner of the endpoint, or disable an endpoint that has failed for days.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from scheduled_actions.actions import store as actions
from scheduled_actions.core.action import PAYLOAD_LIMIT, Scheduled
from scheduled_actions.core.config import EndpointSection
from scheduled_actions.core.errors import UnknownEndpoint
from scheduled_actions.core.json_text import encode
from scheduled_actions.core.log import log
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements
from scheduled_actions.webhooks.endpoints.model import Endpoint, EndpointQueue, EndpointRow, declared_endpoint
from scheduled_actions.webhooks.rules.health import Health, after_failure, auto_disable_at

sql = Statements(__file__)

#: Emitted when an endpoint has failed for twelve hours or more, at most once a day.
FAILING_EVENT = "webhook:endpoint-failing"
#: Emitted when failures disable an endpoint.
DISABLED_EVENT = "webhook:endpoint-disabled"

#: Maximum number of endpoints of one team.
ENDPOINTS_MOST = 100
#: Maximum number of event types recorded per team.
EVENT_TYPES_MOST = 1000
#: Maximum number of pending actions read for the queue of one endpoint.
LOOKED_AT = 1_000
#: Columns of `endpoint_states.sql`.
_STATE = ("failing_since", "clock_started_at", "disabled_at", "disabled_reason")
_CHANGEABLE = (
    "url", "description", "patterns", "enabled", "ordering", "filter", "rate_limit", "retry", "header_names", "headers",
)  # fmt: skip


def create(connection: Connection, values: Mapping[str, Any]) -> EndpointRow | None:
    """Insert an endpoint in the caller's transaction; return None if its team has `ENDPOINTS_MOST` endpoints."""
    sql.run(connection, "lock_endpoints", team_id=values["team_id"])
    row = sql.run(connection, "create_endpoint", **_as_json(values), most=ENDPOINTS_MOST).fetchone()
    return None if row is None else get(connection, row[0])


def get(connection: Connection, endpoint: str, *, team_id: str | None = None) -> EndpointRow | None:
    """Return an endpoint by id; None if it does not exist (in that team)."""
    row = sql.run_leniently(connection, "get_endpoint", id=endpoint, team_id=team_id).fetchone()
    return None if row is None else EndpointRow(*row)


def find(
    connection: Connection, *, team_id: str | None = None, after: str | None = None, limit: int = 100
) -> list[EndpointRow]:
    """Return at most `limit` endpoints (of that team), oldest first: all, or those with ids above `after`."""
    return [
        EndpointRow(*row)
        for row in sql.run_leniently(connection, "list_endpoints", team_id=team_id, after=after, limit=limit)
    ]


def of_team(connection: Connection, team_id: str | None) -> list[EndpointRow]:
    """Return the endpoints that can receive events of a team: its own, and those without a team."""
    return [EndpointRow(*row) for row in sql.run_leniently(connection, "endpoints_of_team", team_id=team_id)]


def of_file(connection: Connection, declared: Mapping[str, EndpointSection]) -> list[EndpointRow]:
    """Return the given endpoints of the settings file, with their recorded failures."""
    rows = sql.run_leniently(connection, "endpoint_states", endpoints=list(declared)) if declared else ()
    states = {name: dict(zip(_STATE, state, strict=True)) for name, *state in rows}
    return [replace(declared_endpoint(name, one), **states.get(name, {})) for name, one in declared.items()]


def lock(connection: Connection, endpoint: str, *, team_id: str | None) -> None:
    """Lock an endpoint (of that team) until the transaction ends."""
    sql.run(connection, "lock_endpoint", id=endpoint, team_id=team_id)


def update(connection: Connection, endpoint: str, changes: Mapping[str, Any], *, team_id: str | None) -> None:
    """Update the given columns.

    Raises:
        UnknownEndpoint: The endpoint does not exist (in that team).
    """
    values = dict.fromkeys(_CHANGEABLE) | _as_json(changes)
    _change(connection, "update_endpoint", endpoint, team_id=team_id, given=list(changes), **values)


def rotate(connection: Connection, endpoint: str, sealed: str, *, grace_seconds: float, team_id: str | None) -> None:
    """Store a new secret; the previous secret stays valid for `grace_seconds`.

    Raises:
        UnknownEndpoint: The endpoint does not exist (in that team).
    """
    _change(connection, "rotate_endpoint", endpoint, team_id=team_id, secret=sealed, grace_seconds=grace_seconds)


def delete(connection: Connection, endpoint: str, *, team_id: str | None) -> None:
    """Delete an endpoint and its recorded failures.

    Raises:
        UnknownEndpoint: The endpoint does not exist (in that team).
    """
    _change(connection, "delete_endpoint", endpoint, team_id=team_id)


def _change(connection: Connection, statement: str, endpoint: str, **parameters: Any) -> None:  # noqa: ANN401 - columns
    if sql.run(connection, statement, id=endpoint, **parameters).fetchone() is None:
        raise UnknownEndpoint(endpoint)


def reseal(connection: Connection, row: EndpointRow, sealed: Mapping[str, str | None]) -> None:
    """Store re-encrypted `secret`, `previous_secret` and `headers`, unless they have changed since `row` was read."""
    sql.run(connection, "reseal_endpoint", id=row.name, old_secret=row.secret, old_headers=row.sealed_headers, **sealed)


def queues(connection: Connection, endpoints: Collection[str], *, concurrency: int) -> dict[str, EndpointQueue]:
    """Return the queues of endpoints, by name or id.

    `concurrency` is the maximum number of deliveries in flight in one process.
    """
    rows = sql.run_leniently(
        connection, "endpoint_queues", endpoints=list(endpoints), most=LOOKED_AT, concurrency=concurrency
    )
    return {name: EndpointQueue(*facts) for name, *facts in rows}


def forget_failures(connection: Connection, endpoint: str, *, enable: bool) -> None:
    """Clear the recorded failures of an endpoint; with `enable`, enable it again."""
    sql.run(connection, "forget_failures", endpoint=endpoint, enable=enable)


def write_failure(connection: Connection, endpoint: Endpoint, reason: str, *, disables: bool) -> None:
    """Record a failure; if the endpoint has failed for long enough, emit a warning or disable the endpoint.

    Args:
        connection: In a transaction, so that the endpoint is disabled and the event emitted together.
        endpoint: The endpoint that failed.
        reason: Description of the failure.
        disables: Whether the receiver refuses all further deliveries, which disables the endpoint immediately.
    """
    *facts, is_disabled, now = sql.run_one(connection, "lock_endpoint_state", endpoint=endpoint.name)
    failed, decision = after_failure(Health(*facts), now)
    if is_disabled:
        decision = "none"
    elif disables:
        decision = "disable"
    lasting = reason if disables else f"failed for more than five days; latest failure: {reason}"
    disabled_reason = lasting if decision == "disable" else None
    sql.run(
        connection, "write_endpoint_state", endpoint=endpoint.name, disabled_reason=disabled_reason, **asdict(failed)
    )
    if decision == "none":
        return
    event, disable_at = DISABLED_EVENT, None
    if decision == "warn":
        event, disable_at = FAILING_EVENT, auto_disable_at(failed.clock_started_at)
    log.warning("webhook.endpoint_%s endpoint=%s", event.rpartition("-")[2], endpoint.name)
    instants = {"failing_since": failed.failing_since, "auto_disable_at": disable_at}
    data = {name: instant.isoformat() for name, instant in instants.items() if instant is not None}
    payload = {
        "event": event,
        "entity_type": "webhook",
        "entity_id": endpoint.name,
        "data": {**data, "endpoint": endpoint.name, "reason": reason},
    }
    # The event belongs to the endpoint's team, whose other endpoints may subscribe to it.
    schedule_event(connection, payload, team_id=endpoint.team_id, created_by="webhooks")


def schedule_event(
    connection: Connection, payload: Mapping[str, Any], *, team_id: str | None, created_by: str | None
) -> Scheduled:
    """Schedule an event, or its delivery to one endpoint; equal events are not merged."""
    return actions.schedule(
        connection,
        {
            "action_type": "webhook:send",
            "payload": encode("payload", payload, limit=PAYLOAD_LIMIT),
            "team_id": team_id,
            "dedup_window": 0,
            "created_by": created_by,
        },
    )


def reserve_slot(connection: Connection, endpoint: str, *, rate: float, patience: float) -> tuple[bool, float]:
    """Reserve the next slot under a rate limit.

    Returns:
        Whether a slot that starts within `patience` seconds was reserved; and the seconds until that slot starts or,
        without a slot, until the next attempt to reserve one.
    """
    is_free, seconds = sql.run_one(connection, "reserve_slot", endpoint=endpoint, rate=rate, patience=patience)
    return is_free, float(seconds)


def see_event(connection: Connection, event: str, *, team_id: str | None) -> None:
    """Record that an event type was emitted; a new type is ignored if its team already has `EVENT_TYPES_MOST`."""
    sql.run(connection, "see_event", event=event, team_id=team_id or "", most=EVENT_TYPES_MOST)


def event_types(connection: Connection, *, team_id: str | None) -> dict[str, tuple[datetime, datetime]]:
    """Return at most 1,000 event types that were emitted (in that team), with the first and the latest instant."""
    rows = sql.run_leniently(connection, "list_event_types", team_id=team_id)
    return {event: (first, last) for event, first, last in rows}


def _as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    documents = {name: json.dumps(values[name]) for name in ("filter", "retry") if values.get(name) is not None}
    return {**values, **documents}
