"""What people are told of a deadline, and who stands in for those who are away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from datetime import datetime

    from scheduled_actions.deadline import Deadline, Stage
    from scheduled_actions.handler import Context
    from scheduled_actions.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Telling:
    """One stage of a deadline that people are told of."""

    deadline: Deadline
    stage: Stage
    occurrence: int
    to: tuple[Any, ...]
    now: datetime


def tell(context: Context, _runtime: Runtime, telling: Telling) -> list[str]:
    """Have notices sent once this attempt has settled; return whom they go to."""
    deadline = telling.deadline
    due = deadline.due_at.astimezone(ZoneInfo(deadline.timezone))
    name = deadline.name or f"{deadline.target_type} {deadline.target_id}"
    text = f"{name} is due on {due:%Y-%m-%d %H:%M} ({deadline.timezone}).\n"
    for address in telling.to:
        context.schedule("email:send", {"to": address, "subject": f"{name}: due {due:%Y-%m-%d %H:%M}", "text": text})
    return [str(one) for one in telling.to]


def climb(context: Context, runtime: Runtime, telling: Telling) -> tuple[list[str], list[str]]:
    """Tell the people of a level; return whom, and who was passed over."""
    return tell(context, runtime, telling), []
