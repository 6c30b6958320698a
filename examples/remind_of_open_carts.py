"""Mail each client once whose cart was not changed since yesterday; the query is in scheduled_actions.toml."""

from scheduled_actions import schedule_recurring_action


def remind_of_open_carts() -> None:
    schedule_recurring_action(
        "for_each:run",
        {"query": "open_carts", "action_type": "email:send", "key": "cart"},
        "hourly",
        name="open carts",
    )
