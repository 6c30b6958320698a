"""`reminder:send`, `escalation:send`, `deadline:miss`, `deadline:renew`: what deadlines plan by themselves.

They are planned by `set_deadline` and take no payload of yours. Each commits together with its settlement: what is
told, what is noted in the deadline's history, and the end of the action are one, or never were.
"""

from __future__ import annotations

from typing import Any

from scheduled_actions import Context, Exponential, Skip, action, runtime
from scheduled_actions.deadlines.handlers import StagePayload, escalate, miss, remind, renew


@action("reminder:send", transactional=True, max_attempts=10, description="Remind people of a deadline")
def send_reminder(payload: StagePayload, context: Context) -> Skip | dict[str, Any]:
    """Tell the recipients of a stage; the result is `{"told": […]}`."""
    return remind(payload, context, runtime.current().notifications)


@action(
    "escalation:send", transactional=True, max_attempts=10, description="Tell the next level of a deadline's ladder"
)
def send_escalation(payload: StagePayload, context: Context) -> Skip | dict[str, Any]:
    """Tell the people of a level; the result is `{"told": […], "passed_over": […]}`."""
    current = runtime.current()
    return escalate(payload, context, current.notifications, emits_events=current.emits_events)


@action(
    "deadline:miss", transactional=True, retry=Exponential(5, 3600), description="Mark a deadline missed when it is due"
)
def mark_missed(payload: StagePayload, context: Context) -> Skip | dict[str, Any]:
    """Mark it missed, unless it was resolved or moved; the result is `{"missed_at"}`."""
    return miss(payload, context, emits_events=runtime.current().emits_events)


@action(
    "deadline:renew", transactional=True, retry=Exponential(5, 3600), description="Make the next deadline of a series"
)
def make_next(payload: StagePayload, context: Context) -> Skip | dict[str, Any]:
    """Make the deadline that follows, unless it is there; the result is `{"deadline_id"}`."""
    return renew(payload, context)
