"""Remind each member of the team at 09:00 in their own time zone: {"ann@example.org": "Europe/Berlin"}."""

from typing import Any

from scheduled_actions import Context, action, notify, schedule_local


@action("stand-up:remind")
def remind(payload: dict[str, Any], context: Context) -> None:
    notify(str(context.action.user_id), "The stand-up starts in 15 minutes.")


def plan_stand_up(members: dict[str, str]) -> None:
    schedule_local("stand-up:remind", {}, "09:00", members, recurrence="every weekday", name="stand-up")
