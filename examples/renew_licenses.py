"""Remind procurement of a license that expires, and start the approval 30 days before, unless it has been renewed."""

from datetime import datetime
from typing import Any

from scheduled_actions import action, complete_deadline, notify, set_deadline


def license_bought(license_id: str, expires_at: datetime) -> None:
    set_deadline(
        {"type": "license", "id": license_id},
        expires_at,
        name=f"license {license_id}",
        recipients="procurement@example.org",
        reminders=["60 days before", "30 days before", "14 days before", "7 days before"],
        auto_actions=[
            {"offset": "30 days before", "action_type": "approval:start", "payload": {"license": license_id}},
        ],
    )


def license_renewed(license_id: str) -> None:
    complete_deadline(f"license {license_id}")


@action("approval:start")
def start_approval(payload: dict[str, Any]) -> None:
    notify("cfo@example.org", f"Please approve the renewal of license {payload['license']}.")
