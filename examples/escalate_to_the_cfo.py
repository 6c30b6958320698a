"""Remind two people of a tax return, from 60 days before to the day before, and escalate to the CFO a day after."""

from datetime import datetime

from scheduled_actions import set_deadline


def tax_return_due(year: int, due_at: datetime) -> None:
    set_deadline(
        {"type": "tax-return", "id": str(year)},
        due_at,
        name=f"tax return {year}",
        recipients=["accountant@example.org", "controller@example.org"],
        reminders=[60, 30, 14, 7, 1],
        escalation=[{"offset": 1, "to": "cfo@example.org"}],
    )
