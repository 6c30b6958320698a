"""Send an SMS about a late payment on five days, scheduled over HTTP."""

from datetime import datetime
from typing import Any

import requests


def send_late_payment_sms(api: str, token: str, phone: str, first_at: datetime) -> None:
    schedule: dict[str, Any] = {
        "action_type": "sms:send",
        "payload": {"to": phone, "text": "Your payment is late."},
        "recurrence": "daily",
        "remaining": 5,
        "scheduled_at": first_at.isoformat(),
    }
    headers = {"Authorization": f"Bearer {token}"}
    requests.post(f"{api}/api/v1/schedules", json=schedule, headers=headers, timeout=10).raise_for_status()
