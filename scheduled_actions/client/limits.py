"""List limit keys from application code, with the runtime of the process."""

from scheduled_actions import runtime
from scheduled_actions.core.messages import suggests_keywords
from scheduled_actions.limits.service import LimitList


@suggests_keywords
def list_limits(
    *, prefix: str | None = None, team_id: str | None = None, cursor: str | None = None, limit: int = 100
) -> LimitList:
    """Return the limit keys in use, by key and team; see `LimitKeys.page`."""
    return LimitList(runtime.current().limits.page(prefix=prefix, team_id=team_id, cursor=cursor, limit=limit))
