"""List the limit keys in use."""

from functools import partial
from http import HTTPStatus
from typing import Annotated

from pydantic import Field

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.pages import MAX_PAGE_SIZE
from scheduled_actions.limits.rules.display import WAITING_MOST
from scheduled_actions.limits.service import LimitKey
from scheduled_actions.web.api.models import (
    CURSOR,
    EmptyRequest,
    Limit,
    ResponseModel,
    ShortText,
    Storable,
    TeamQuery,
    page_of,
    shares_fields,
)
from scheduled_actions.web.api.routing import Answer, Call, Route, found_page


class LimitsQuery(TeamQuery):
    """Filters of a list of limit keys, and the page to return."""

    prefix: ShortText | None = Field(None, description="Only keys that begin with this.", examples=["api:"])
    limit: Limit = MAX_PAGE_SIZE
    cursor: Annotated[str, Field(max_length=4096), Storable] | None = Field(None, description=CURSOR)


@shares_fields(
    LimitKey,
    limit_key=None,
    team_id="Null for actions without a team, and if the limit applies across teams.",
    across_teams="Whether the actions of all teams count together.",
    pattern="The pattern of the settings that applies; null: no pattern matches, so that actions with the key never "
    "start.",
    at_once="Maximum number of actions that run at the same time; null: any number.",
    in_use="Number of slots in use; null in a list of one team if the limit applies across teams.",
    rate="Maximum rate of starts, such as `100 per minute`; null: any rate.",
    interval_seconds="Seconds between two starts at that rate.",
    burst="Maximum number of starts at once after a pause; null without a rate.",
    room="Number of actions that may start now; null: any number, or as for `in_use`.",
    opens_at="When the rate allows the next start; null if it does now, or as for `in_use`.",
    waiting=f"Number of queued actions, counted up to {WAITING_MOST:,}. An action waits in the queue of its first key; "
    "in a list of one team, only its actions count.",
    oldest_due_at="When the oldest of them was due.",
    is_paused="Whether the key is paused.",
)
class LimitKeyDocument(ResponseModel):
    """A limit key of queued or running actions, or of actions that started within the last hour."""


LimitKeyPage = page_of(
    "LimitKeyPage", "A page of limit keys, by key and team.", limits=list[LimitKeyDocument], next_cursor=str | None
)


def list_limits(call: Call[LimitsQuery, EmptyRequest]) -> Answer:
    """Return a page of limit keys, by key and team."""
    return found_page(call, LimitKeyPage, partial(call.runtime.limits.page, **call.filters))


ROUTES = (
    Route(
        "GET", "/limits", list_limits, "List the limit keys in use, by key and team", tag="Actions",
        query=LimitsQuery, answers={HTTPStatus.OK: (LimitKeyPage, "A page of limit keys.")},
        refuses=(InvalidArgument,),
    ),
)  # fmt: skip
