"""`maintenance:prune`: old rows out, now instead of little by little.

    schedule_action("maintenance:prune", {"limit": 50_000})

Every tick prunes a little by itself, so nobody has to schedule this; it is for the day on which
`retention_days` was shortened. The smallest handler there is: it validates, calls the package, answers JSON.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from scheduled_actions import action, runtime


class Prune(BaseModel):
    """How much to do at once."""

    model_config = ConfigDict(extra="forbid")

    #: Rows at most; what is left waits for the next time.
    limit: Annotated[int, Field(ge=1, le=100_000)] = 10_000


@action("maintenance:prune", description="Remove finished actions older than the retention")
def prune(payload: Prune) -> dict[str, int]:
    """Remove them; the result is `{"pruned": how many}`."""
    return {"pruned": runtime.current().maintenance.prune(limit=payload.limit)}
