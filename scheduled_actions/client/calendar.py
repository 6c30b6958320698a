"""Read the calendar from application code, with the runtime of the process."""

from datetime import date, datetime

from scheduled_actions import runtime
from scheduled_actions.calendar.service import EntryPage
from scheduled_actions.core.messages import suggests_keywords


@suggests_keywords
def get_calendar(
    user_id: str | None = None,
    *,
    start: datetime | date | str | None = None,
    end: datetime | date | str | None = None,
    team_id: str | None = None,
    cursor: str | None = None,
    limit: int = 100,
) -> EntryPage:
    """Return a page of the calendar in chronological order; see `CalendarService.page`."""
    return runtime.current().calendar.page(
        start=start, end=end, user_id=user_id, team_id=team_id, cursor=cursor, limit=limit
    )
