"""Notify the user and the manager of a case without an answer for a day, and of an AAA client not contacted for 30."""

from datetime import timedelta

from scheduled_actions import action, complete_deadline, notify, schedule_recurring_action, set_deadline


def case_opened(case: str, user: str, manager: str) -> None:
    set_deadline(
        {"type": "case", "id": case}, timedelta(days=1), name=case, recipients=[user, manager], reminders=["when due"]
    )


def case_answered(case: str) -> None:
    complete_deadline(case)


@action("client:forgotten")
def forgotten(payload: dict[str, str]) -> None:
    notify([payload["account_manager"], payload["manager"]], f"{payload['client']} was not contacted for 30 days.")


def watch_clients() -> None:
    schedule_recurring_action(
        "for_each:run",
        {"query": "forgotten_clients", "action_type": "client:forgotten", "key": "contact"},
        "daily at 09:00",
        name="forgotten clients",
    )
