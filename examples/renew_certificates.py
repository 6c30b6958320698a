"""Remind the operators of a certificate that expires, and renew it 30 days before, and again 7 days before."""

from datetime import datetime

from scheduled_actions import set_deadline


def certificate_issued(host: str, expires_at: datetime) -> None:
    set_deadline(
        {"type": "certificate", "id": host},
        expires_at,
        recipients="operators@example.org",
        reminders=[60, 30, 14, 7, 1],
        auto_actions=[
            {"offset": -30, "action_type": "certificate:renew", "payload": {"host": host}},
            {"offset": -7, "action_type": "certificate:renew", "payload": {"host": host}},
        ],
    )
