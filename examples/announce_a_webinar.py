"""Remind each participant of a webinar, with its start in their own time zone."""

from datetime import datetime

from scheduled_actions import set_deadline


def plan_webinar(title: str, starts_at: datetime, participants: dict[str, str]) -> None:
    set_deadline(
        {"type": "webinar", "id": title},
        starts_at,
        name=title,
        recipients=[{"email": address, "timezone": zone} for address, zone in participants.items()],
        reminders=["1 day before", "1 hour before"],
    )
