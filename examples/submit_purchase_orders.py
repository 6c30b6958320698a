"""Submit a purchase order when all approvers have approved it."""

from scheduled_actions import report_fact, schedule_when


def order_written(number: str, approvers: list[str]) -> None:
    order = {"type": "purchase_order", "id": number}
    is_approved = {"kind": "approval_complete", "target": order, "approvers": approvers}
    schedule_when("order:submit", {"number": number}, is_approved)


def order_approved(number: str, approver: str) -> None:
    report_fact({"type": "purchase_order", "id": number}, f"approval:{approver}", value=True, by=approver)
