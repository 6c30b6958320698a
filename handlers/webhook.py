"""`webhook:send`: deliver an event to the endpoints that subscribe to it.

    emit_event("task:created", entity_id="t1", data={"name": "Write"})

Declare endpoints in `scheduled_actions.toml` under `[webhooks.endpoints.NAME]`, or create them at run time
(`scheduled-actions webhooks endpoints create`). The action of an event schedules one delivery of the same type per
matching endpoint. A delivery is a POST, signed if the endpoint has a secret (Standard Webhooks), and by default retried
for about three days.
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
    description="Route an event to the matching endpoints, or deliver it to one endpoint",
)
def send(event: WebhookEvent, context: Context) -> Skip | Snooze | dict[str, Any]:
    """Route an event and return its endpoints, or deliver it and return the response.

    Returns `Skip` if no endpoint receives the event, and `Snooze` if the delivery is deferred. `send_webhook` lists the
    errors.
    """
    return send_webhook(event, context, runtime.current().endpoint_directory)
