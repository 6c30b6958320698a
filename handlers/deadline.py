"""`reminder:send`, `escalation:send`, `deadline:miss`, `deadline:renew`, `deadline:apply`: the actions of deadlines.

`set_deadline` schedules them; do not schedule them yourself. Those of stages are transactional: their notifications,
the deadline's history and the end of the action commit together.
"""

from __future__ import annotations

from typing import Any

from scheduled_actions import Context, Exponential, Skip, action, runtime
from scheduled_actions.deadlines.handlers import StagePayload, miss, renew, send_notices
from scheduled_actions.deadlines.requested import AppliedDeadline, apply


@action("reminder:send", transactional=True, max_attempts=10, description="Send a reminder of a deadline")
def send_reminder(payload: StagePayload, context: Context) -> Skip | dict[str, Any]:
    """Schedule the notifications of a reminder.

    Returns:
        `{"notified": […]}`, and `"passed_over": […]` if recipients are away; `Skip` if there is no reminder to send.

    Raises:
        UnknownDeadline: The deadline does not exist in the team of the action.
        InvalidArgument: A recipient is invalid, or resolves to no person.
    """
    return _send(payload, context)


@action(
    "escalation:send", transactional=True, max_attempts=10, description="Notify the next escalation level of a deadline"
)
def send_escalation(payload: StagePayload, context: Context) -> Skip | dict[str, Any]:
    """Schedule the notifications of an escalation level.

    Returns:
        `{"notified": […]}`, and `"passed_over": […]` if recipients are away; `Skip` if there is no level to notify.

    Raises:
        UnknownDeadline: The deadline does not exist in the team of the action.
        InvalidArgument: A recipient is invalid, or resolves to no person.
    """
    return _send(payload, context)


def _send(payload: StagePayload, context: Context) -> Skip | dict[str, Any]:
    current = runtime.current()
    return send_notices(payload, context, current.notifications, emits_events=current.emits_events)


@action(
    "deadline:miss", transactional=True, retry=Exponential(5, 3600), description="Mark a deadline missed when it is due"
)
def mark_missed(payload: StagePayload, context: Context) -> Skip | dict[str, Any]:
    """Mark the deadline missed, create the next one of its series, and return `{"missed_at"}`.

    Returns `Skip` unless the deadline is open and due.
    """
    return miss(payload, context, emits_events=runtime.current().emits_events)


@action(
    "deadline:renew", transactional=True, retry=Exponential(5, 3600), description="Create the next deadline of a series"
)
def create_next(payload: StagePayload, context: Context) -> Skip | dict[str, Any]:
    """Create the next deadline of the series, and return `{"deadline_id"}`.

    Returns `Skip` if the deadline no longer exists, or if its series has ended.
    """
    return renew(payload, context)


@action(
    "deadline:apply", max_attempts=10, retry=Exponential(5, 3600), description="Apply a deadline that SQL has requested"
)
def apply_deadline(payload: AppliedDeadline) -> Skip | dict[str, Any]:
    """Create or update the deadline, and return `{"deadline_id"}`.

    Returns `Skip` if the deadline does not exist, or if the call has been applied already.
    """
    return apply(runtime.current().deadlines, payload.deadline_id)
