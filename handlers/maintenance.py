"""`maintenance:prune`: delete old rows immediately.

    schedule_action("maintenance:prune", {"limit": 50_000})

Each tick already prunes a limited number of old rows. This action is for a large backlog, for example after
`retention_days` has been shortened or after a long time without pings. It is a minimal
handler: it validates its payload, calls the package and returns JSON.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from scheduled_actions import action, runtime


class Prune(BaseModel):
    """The payload of `maintenance:prune`."""

    model_config = ConfigDict(extra="forbid")

    #: Maximum number of actions to delete; old rows of other tables are deleted in addition.
    limit: Annotated[int, Field(ge=1, le=100_000)] = 10_000


@action("maintenance:prune", description="Delete finished actions that are older than the retention period")
def prune(payload: Prune) -> dict[str, int]:
    """Delete the rows; return `{"pruned": number of actions}`."""
    return {"pruned": runtime.current().maintenance.prune(limit=payload.limit)}
