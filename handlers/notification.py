"""`notification:send`: a notice to one person, through the first of their channels that works.

    notify(["ann@example.org", "role:cfo"], "The contract has been signed.")

Reminders of deadlines come here, too; those to one person that come together become one message. Who people are, which
channels they have and when they are not to be disturbed is for `@resolve_recipients` to say.
"""

from __future__ import annotations

from typing import Any

from scheduled_actions import Context, Skip, Snooze, action, runtime
from scheduled_actions.notifications.planning import Notices  # noqa: TC001 - whoever asks for the type hints of send finds it


@action("notification:send", timeout_seconds=30, max_attempts=10, description="Send a notice to one person")
def send(payload: Notices, context: Context) -> Skip | Snooze | dict[str, Any]:
    """Send it; the result says when, through which channel, and what was tried before."""
    return runtime.current().sender.send(payload, context)
