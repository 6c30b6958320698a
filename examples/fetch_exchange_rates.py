"""Fetch the exchange rates of the day from a bank, with the handler in handlers/exchange_rates.py."""

from scheduled_actions import schedule_recurring_action


def fetch_rates_daily() -> None:
    schedule_recurring_action(
        "rates:fetch", {"base": "EUR"}, "daily at 16:30", timezone="Europe/Berlin", name="exchange rates"
    )
