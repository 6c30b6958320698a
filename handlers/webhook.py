"""`webhook:send`: an event on its way to the endpoints that want it.

    emit_event("task:created", entity_id="t1", data={"name": "Write"})

The endpoints are set in `scheduled_actions.toml` under `[webhooks.endpoints.NAME]`, or made while the application runs
(`scheduled-actions webhooks endpoints create`). The event's own action
finds those that want it and schedules one delivery for each, of this same type; a delivery posts to its
endpoint, signed the Standard Webhooks way, and is retried over three days.
"""

from __future__ import annotations

from typing import Any

from scheduled_actions import runtime
from scheduled_actions.registry.handler import Context, Skip, Snooze, action
from scheduled_actions.webhooks.sending import DELIVERY_RETRY, WebhookEvent, send_webhook


@action(
    "webhook:send",
    timeout_seconds=20,
    max_attempts=10,
    retry=DELIVERY_RETRY,
    open_to_teams=True,
    description="Route an event to the endpoints that want it, or deliver it to one of them, signed",
)
def send(event: WebhookEvent, context: Context) -> Skip | Snooze | dict[str, Any]:
    """Return the endpoints an event went to, or the status a delivery was answered with."""
    current = runtime.current()
    return send_webhook(event, context, current.config, book=current.endpoint_book)
