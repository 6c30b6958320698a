"""Remind the owner of each contract 90, 60 and 30 days before it ends, and escalate to legal when it ends."""

from dataclasses import dataclass
from datetime import datetime

from scheduled_actions import set_deadline


@dataclass
class Contract:
    number: str
    owner: str
    ends_at: datetime


def plan_renewals(contracts: list[Contract]) -> None:
    for contract in contracts:
        set_deadline(
            {"type": "contract", "id": contract.number},
            contract.ends_at,
            name=f"contract {contract.number}",
            recipients=contract.owner,
            reminders=[90, 60, 30],
            escalation=[{"offset": "when due", "to": "legal@example.org"}],
        )
