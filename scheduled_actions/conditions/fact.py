"""The fact: what is so of a thing, as the application reported it last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One row of `scheduled_action_facts`. All instants are aware and in UTC."""

    #: UUID version 7: ordered by creation.
    id: UUID
    #: None outside any team.
    team_id: str | None
    target_type: str
    target_id: str
    name: str
    #: Any JSON.
    value: Any
    #: Who reported it last; None where nobody said.
    reported_by: str | None
    #: Since when the value is this.
    changed_at: datetime
    #: When it was reported last, the same value or another.
    reported_at: datetime


class FactChange(NamedTuple):
    """A value that a fact had."""

    #: Any JSON.
    value: Any
    #: Whether the fact was removed then; its value is None.
    is_removal: bool
    reported_by: str | None
    changed_at: datetime


class Reported(NamedTuple):
    """What a report did."""

    #: Whether the fact was not so before.
    changed: bool
    #: Whether an action waits for it, which is due now.
    awaited: bool
