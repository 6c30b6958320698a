"""Build the financial report at the end of each quarter."""

from typing import Any

from scheduled_actions import action, schedule_recurring_action


@action("report:financial")
def build_financial_report(payload: dict[str, Any]) -> dict[str, str]:
    return {"report": f"{payload['company']}, financial report"}


def plan_financial_report(company: str) -> None:
    rule = "last business day of the quarter at 18:00"
    schedule_recurring_action("report:financial", {"company": company}, rule, timezone="Europe/Berlin", name=company)
