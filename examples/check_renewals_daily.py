"""Check every day, from a start date on, which subscriptions renew soon."""

from datetime import datetime

from scheduled_actions import schedule_recurring_action


def check_renewals_daily(start: datetime) -> None:
    schedule_recurring_action("billing:check-renewals", {}, "daily", scheduled_at=start, name="renewals")
