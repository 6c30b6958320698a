"""Pauses as values."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

PauseKind = Literal["action_type", "team", "lock_group", "limit"]


@dataclass(frozen=True, slots=True)
class Pause:
    """What claims pass over: the actions of an action type, a team, a lock group or a limit key."""

    id: UUID
    #: What is paused.
    kind: PauseKind
    #: The action type, team, lock group or limit key.
    name: str
    #: The team whose actions are paused; None: actions of all teams.
    team_id: str | None
    #: Why it is paused.
    note: str | None
    #: Who paused it.
    paused_by: str | None
    paused_at: datetime
    #: When the pause ends; None: when it is resumed. In the past while its actions return to the claims.
    ends_at: datetime | None
    #: Number of due actions held back, at most 10,000.
    parked: int


@dataclass(frozen=True, slots=True)
class HeldBack:
    """The active pauses, and the due actions that they hold back."""

    #: Number of active pauses, at most 1,000.
    pauses: int
    #: Number of due actions that they have parked or whose limit key they pause, at most 10,000.
    actions: int
