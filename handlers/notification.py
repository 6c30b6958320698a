"""`notification:send`: notify one person through the first of their channels that works.

    notify(["ann@example.org", "role:cfo"], "The contract has been signed.")

This action also sends the reminders of deadlines; reminders to one person at the same time are combined into one
message. Use `@resolve_recipients` to define people, their channels and their quiet hours.
"""

from __future__ import annotations

from typing import Any

from scheduled_actions import Context, Skip, Snooze, action, runtime
from scheduled_actions.notifications.planning import Notices


@action("notification:send", timeout_seconds=30, max_attempts=10, description="Notify one person")
def send(payload: Notices, context: Context) -> Skip | Snooze | dict[str, Any]:
    """Send the notifications as one message; return `{"sent", "notices", "left_out", "tried"}`.

    Returns `Skip` if no notification is valid any longer, and `Snooze` in quiet hours and before a channel is tried
    again.

    Raises:
        Fail: All channels failed, the last one permanently; or the recipient is no longer allowed.
        NoChannelYet: The last channel failed temporarily.
        InvalidArgument: The recipient no longer resolves to a person.
        HandlerBroken: A resolver cannot be imported, or raised an exception.
    """
    return runtime.current().sender.send(payload, context)
