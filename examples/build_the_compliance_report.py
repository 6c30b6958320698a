"""Build the compliance report on the last business day of each month."""

from datetime import UTC, datetime
from typing import Any

from scheduled_actions import Context, action


@action(
    "report:compliance",
    recurrence={
        "rule": "last business day of the month at 17:00",
        "timezone": "America/New_York",
        "skip": {"holidays": "US"},
    },
)
def build_compliance_report(payload: dict[str, Any], context: Context) -> dict[str, str]:
    day = context.occurrence_at or datetime.now(UTC)  # a run by hand has none
    return {"report": f"Compliance, {day:%B %Y}"}
