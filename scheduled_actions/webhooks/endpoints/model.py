"""A receiver of webhooks as a value, wherever it was declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from scheduled_actions.core.retry import RetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """What routing and delivering need to know of a receiver; its address and secrets come when they are used."""

    #: Its name in the file, or its id in the database as text.
    name: str
    patterns: tuple[str, ...]
    #: Whether it is in the database: then somebody else chose its address.
    is_tenants: bool
    #: Gets this team's events alone; None: those of every team.
    team_id: str | None = None
    #: Whether its owner wants deliveries.
    enabled: bool = True
    filter: Mapping[str, Any] | None = None
    ordering: Literal["none", "fifo"] = "none"
    #: Deliveries a second, at most.
    rate_limit: float | None = None
    #: None: the table of Standard Webhooks.
    retry: RetryPolicy | None = None
    #: The first failure since the last success; None after a success.
    failing_since: datetime | None = None
    #: Why it gets nothing any more, whatever its owner wants; None while it does.
    disabled_reason: str | None = None

    def belongs_to(self, team_id: str | None) -> bool:
        """Return whether events of that team may go there."""
        return self.team_id is None or self.team_id == team_id
