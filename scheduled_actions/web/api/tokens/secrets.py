"""What tokens and calendar feeds have in common: secrets that are shown once, listed by their hints, and revoked."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import Field

from scheduled_actions.core.pages import PAGE_MOST
from scheduled_actions.web.api.models import Given, Id, Limit, Shown


class Newest(Given):
    """Which of them to list."""

    limit: Limit = PAGE_MOST
    cursor: Id | None = Field(None, description="`next_cursor` of the page before.")


class KeptSecret(Shown):
    """A secret, as far as it is known here."""

    id: UUID
    name: str
    hint: str = Field(description="The first characters of the secret.")
    team_id: str | None
    created_by: str | None
    created_at: datetime
    last_used_at: datetime | None = Field(description="To within an hour.")
    revoked_at: datetime | None
