"""Remind the operators of a certificate that expires, and renew it 30 days before, and again 7 days before."""

from datetime import datetime

from scheduled_actions import set_deadline


def certificate_issued(host: str, expires_at: datetime) -> None:
    set_deadline(
        {"type": "certificate", "id": host},
        expires_at,
        recipients="operators@example.org",
        reminders=["60 days before", "30 days before", "14 days before", "7 days before", "1 day before"],
        auto_actions=[
            {"offset": offset, "action_type": "certificate:renew", "payload": {"host": host}}
            for offset in ("30 days before", "7 days before")
        ],
    )
