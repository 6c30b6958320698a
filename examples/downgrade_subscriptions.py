"""Downgrade a subscription at the end of its billing cycle; the user may change that until two minutes before."""

from datetime import datetime
from typing import Any
from uuid import UUID

from scheduled_actions import Context, action, cancel_action, schedule_action, update_action

EDIT_LOCK_SECONDS = 120


@action("subscription:downgrade", transactional=True)
def downgrade(payload: dict[str, Any], context: Context) -> None:
    context.connection.execute("update subscriptions set plan = %(plan)s where id = %(subscription)s", payload)


def downgrade_later(subscription: int, plan: str, cycle_ends_at: datetime) -> UUID:
    payload = {"subscription": subscription, "plan": plan}
    return schedule_action("subscription:downgrade", payload, scheduled_at=cycle_ends_at).id


def choose_another_plan(downgrade_id: UUID, subscription: int, plan: str) -> None:
    payload = {"subscription": subscription, "plan": plan}
    update_action(downgrade_id, payload=payload, edit_lock_seconds=EDIT_LOCK_SECONDS)


def keep_plan(downgrade_id: UUID) -> None:
    cancel_action(downgrade_id, reason="The customer keeps the plan", edit_lock_seconds=EDIT_LOCK_SECONDS)
