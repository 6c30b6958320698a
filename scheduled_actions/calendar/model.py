"""A calendar feed as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


@dataclass(frozen=True, slots=True)
class Feed:
    """One feed, as far as it is known here; the secret in its address is not."""

    id: UUID
    #: What calendar programs call it.
    name: str
    #: The first characters of its secret.
    hint: str
    #: Only what belongs to this team, this user, this type; None: of all.
    team_id: str | None
    user_id: str | None
    action_type: str | None
    created_by: str | None
    created_at: datetime
    #: To within an hour; None before the first reading.
    last_used_at: datetime | None
    revoked_at: datetime | None
