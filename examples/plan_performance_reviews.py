"""Remind the managers of the performance reviews, which are due every year at the end of March."""

from scheduled_actions import set_deadline


def plan_performance_reviews(managers: list[str]) -> None:
    set_deadline(
        {"type": "performance-review", "id": "all"},
        recurrence="0 17 31 3 *",  # 31 March, 17:00
        timezone="Europe/Berlin",
        name="performance reviews",
        recipients=managers,
        reminders=[30, 14, 7, 1],
    )
