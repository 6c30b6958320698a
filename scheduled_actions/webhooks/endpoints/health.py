"""How endpoints are doing: failures are written down, owners warned, and what fails for days is disabled."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scheduled_actions.actions import store as actions
from scheduled_actions.core.action import PAYLOAD_LIMIT
from scheduled_actions.core.json_text import encode
from scheduled_actions.webhooks.endpoints import store
from scheduled_actions.webhooks.rules import health

if TYPE_CHECKING:
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.webhooks.endpoints.model import Endpoint

log = logging.getLogger("scheduled_actions")

#: Emitted when an endpoint has failed for a while, and when it is disabled.
FAILING_EVENT = "webhook:endpoint-failing"
DISABLED_EVENT = "webhook:endpoint-disabled"


def write_failure(connection: Connection, endpoint: Endpoint, fact: str, *, disables: bool) -> None:
    """Write a failure down; warn, or disable the endpoint, where that follows from it.

    Args:
        connection: In a transaction: an endpoint is disabled together with the event that tells of it.
        endpoint: Which.
        fact: What happened.
        disables: The receiver wants nothing more: it is disabled at once.
    """
    known, is_disabled, now = store.lock_health(connection, endpoint.name)
    failed, verdict = health.after_failure(known, now)
    if is_disabled:
        verdict = "none"
    elif disables:
        verdict = "disable"
    reason = fact if disables else f"nothing but failures for days, the last one: {fact}"
    store.write_health(connection, endpoint.name, failed, disabled_reason=reason if verdict == "disable" else None)
    if verdict != "none":
        _tell(connection, endpoint, fact, failed=failed, verdict=verdict)


def _tell(
    connection: Connection, endpoint: Endpoint, fact: str, *, failed: health.Health, verdict: health.Verdict
) -> None:
    """Schedule the event that tells of an endpoint in trouble: of its team, whose other endpoints may want it."""
    data: dict[str, Any] = {"endpoint": endpoint.name, "reason": fact}
    if failed.failing_since is not None:
        data["failing_since"] = failed.failing_since.isoformat()
    disabled_by = health.disabled_by(failed)
    if verdict == "warn" and disabled_by is not None:
        data["disabled_by"] = disabled_by.isoformat()
    event = DISABLED_EVENT if verdict == "disable" else FAILING_EVENT
    log.warning("webhook.endpoint_%s endpoint=%s", "disabled" if verdict == "disable" else "failing", endpoint.name)
    payload = {"event": event, "entity_type": "webhook", "entity_id": endpoint.name, "data": data}
    actions.schedule(
        connection,
        {
            "action_type": "webhook:send",
            "payload": encode("payload", payload, limit=PAYLOAD_LIMIT),
            "team_id": endpoint.team_id,
            "dedup_window": 0,
            "created_by": "webhooks",
        },
    )
