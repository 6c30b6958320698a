"""The calendar as the management API answers it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import ConfigDict, Field

from scheduled_actions.calendar.rules.entries import LONGEST, EntryKind
from scheduled_actions.calendar.service import FORECAST_MOST, SCHEDULES_MOST, USUAL
from scheduled_actions.core.pages import PAGE_MOST
from scheduled_actions.web.api.models import Given, Instant, Limit, ShortText, Shown

_CURSOR = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{6})?~[0-2]~[0-9a-f]{32}$"


class CalendarQuery(Given):
    """Between which instants, and whose."""

    model_config = ConfigDict(populate_by_name=True)

    start: Instant | None = Field(None, alias="from", description="From this instant on. Left out: now.")
    end: Instant | None = Field(
        None,
        alias="to",
        description=f"Before this one, at most {LONGEST.days} days on. Left out: {USUAL.days} days on.",
    )
    user: ShortText | None = Field(None, description="Only what has this `user_id`, or names this recipient.")
    team_id: ShortText | None = None
    limit: Limit = PAGE_MOST
    cursor: Annotated[str, Field(max_length=80, pattern=_CURSOR)] | None = Field(
        None, description="`next_cursor` of the page before, asked with the same `from` and `to`."
    )


class Entry(Shown):
    """One thing at one instant."""

    kind: EntryKind
    at: datetime
    id: UUID = Field(description="Of the action, the deadline or the schedule.")
    title: str = Field(description="The deadline's or the schedule's name, or the action type.")
    forecast: bool = Field(
        validation_alias="is_forecast", description="No row yet: what a schedule's rule names as things are now."
    )
    action_type: str | None
    status: str | None = Field(description="Of the action, or of the deadline: `open`, `missed` or `paused`.")
    team_id: str | None
    user_id: str | None
    target_type: str | None
    target_id: str | None
    action_id: UUID | None
    deadline_id: UUID | None
    schedule_id: UUID | None


class CalendarPage(Shown):
    """Some of what is to come, in order."""

    entries: list[Entry]
    next_cursor: str | None
    start: datetime = Field(description="From this instant on.")
    end: datetime = Field(description="Before this one.")
    cut_short: list[UUID] = Field(
        description=f"Schedules whose forecast ends on this page, after {FORECAST_MOST}, although more is to come."
    )
    has_more_schedules: bool = Field(
        description=f"Whether there are more than {SCHEDULES_MOST}: the forecast of the others is left out."
    )


#: What a page of another team has.
EMPTY: dict[str, Any] = {"entries": [], "next_cursor": None, "cut_short": [], "has_more_schedules": False}
