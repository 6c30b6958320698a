"""Add up an invoice: a handler whose payload is validated, and whose return value is the result of the action."""

from scheduled_actions import action


@action("invoice:add-up")
def add_up(payload: dict[str, list[int]]) -> dict[str, int]:
    return {"total": sum(payload["amounts"])}
