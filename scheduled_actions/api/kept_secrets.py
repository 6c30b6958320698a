"""What tokens and calendar feeds have in common: secrets that are shown once, listed by their hints, and revoked."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar
from uuid import UUID

from pydantic import Field

from scheduled_actions.api.models import PAGE_MOST, Given, Id, Limit, Shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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


class Identified(Protocol):
    """Anything with an id."""

    @property
    def id(self) -> UUID:
        """Ascends with time."""


One = TypeVar("One", bound=Identified)


def page_of(query: Newest, newest: Callable[[UUID | None, int], Sequence[One]]) -> tuple[Sequence[One], UUID | None]:
    """Return a page, and where the next one begins; None at the end.

    Args:
        query: How many, and from where on.
        newest: Gives the newest before an id, at most so many.
    """
    # One more than is told: then it is known that there are more.
    found = newest(query.cursor, query.limit + 1)
    shown = found[: query.limit]
    return shown, shown[-1].id if len(found) > query.limit else None
