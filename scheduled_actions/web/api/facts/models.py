"""Facts as the management API takes and answers them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, WithJsonSchema

from scheduled_actions.core.pages import PAGE_MOST
from scheduled_actions.web.api.actions.models import Document
from scheduled_actions.web.api.models import Given, Id, Limit, ShortText, Shown

AnyJson = Annotated[Any, WithJsonSchema({})]


class NewFact(Given):
    """What is so of a thing."""

    value: AnyJson = Field(description="Any JSON, at most 16 KiB. The same as before changes nothing.")
    team_id: ShortText | None = Field(None, description="The tenant. A token bound to a team reports only there.")


class FactsQuery(Given):
    """Which facts to list."""

    target_type: ShortText | None = None
    target_id: ShortText | None = None
    name: ShortText | None = None
    team_id: ShortText | None = None
    limit: Limit = PAGE_MOST
    cursor: Id | None = Field(None, description="`next_cursor` of the page before.")


class FactQuery(Given):
    """Whose fact it is."""

    team_id: ShortText | None = None


class HistoryQuery(FactQuery):
    """How much of its history."""

    limit: Limit = PAGE_MOST


class Fact(Shown):
    """What is so of a thing, as it was reported last."""

    id: UUID
    team_id: str | None
    target_type: str
    target_id: str
    name: str
    value: Document
    reported_by: str | None
    changed_at: datetime = Field(description="Since when the value is this.")
    reported_at: datetime


class ReportedFact(Fact):
    """A fact as reporting answers it."""

    changed: bool = Field(description="Whether it was not so before.")
    awaited: bool = Field(description="Whether an action waits for it, which is due now.")


class FactsPage(Shown):
    """Some of the facts that match, the newest first."""

    facts: list[Fact]
    next_cursor: UUID | None = Field(description="Where to go on; null on the last page.")


class FactChange(Shown):
    """A value that a fact had."""

    value: Document
    is_removal: bool = Field(description="Whether the fact was removed then.")
    reported_by: str | None
    changed_at: datetime


class FactHistory(Shown):
    """The latest values of a fact, the newest first."""

    changes: list[FactChange]
