"""Return the calendar; create, list, revoke and serve its iCalendar feeds."""

import hashlib
from dataclasses import replace
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Annotated

from flask import Response, request
from pydantic import Field

from scheduled_actions.calendar.rules.entries import LONGEST, Entry
from scheduled_actions.calendar.service import FORECAST_MOST, SCHEDULES_MOST, USUAL, EntryPage
from scheduled_actions.calendar.store import Feed
from scheduled_actions.core.errors import InvalidArgument, UnknownFeed
from scheduled_actions.core.pages import MAX_PAGE_SIZE
from scheduled_actions.runtime import Runtime
from scheduled_actions.web.api.models import (
    CURSOR,
    EmptyRequest,
    Instant,
    Limit,
    PageQuery,
    RequestModel,
    ResponseModel,
    ShortText,
    TeamQuery,
    TokenName,
    page_of,
    shares_fields,
)
from scheduled_actions.web.api.problems import problem, problem_response
from scheduled_actions.web.api.routing import Answer, Call, Route, page_answer
from scheduled_actions.web.api.tokens import SecretRecord

_CURSOR = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{6})?~[0-2]~[0-9a-f]{32}$"
#: How long calendar programs may cache a feed.
_MAX_AGE_SECONDS = 300


class CalendarQuery(TeamQuery):
    """Time range and filters of the calendar."""

    start: Instant | None = Field(None, alias="from", description="Start of the range, inclusive. Default: now.")
    end: Instant | None = Field(
        None,
        alias="to",
        description=f"End of the range, exclusive; at most {LONGEST.days} days after `from`. Default: {USUAL.days} "
        "days after `from`.",
    )
    user_id: ShortText | None = Field(
        None,
        description="Only actions and schedules with this `user_id`, and deadlines with this recipient, including "
        "the actions of these deadlines.",
    )
    limit: Limit = MAX_PAGE_SIZE
    cursor: Annotated[str, Field(max_length=80, pattern=_CURSOR)] | None = Field(
        None, description=f"{CURSOR} Send it with the `from` and `to` of that response."
    )


@shares_fields(
    Entry,
    kind=None,
    at=None,
    id="Id of the action, of the deadline or, for a forecast, of the schedule.",
    title="Name of the deadline or schedule; without a name, the target of the deadline or the action type.",
    action_type=None,
    status="Status of the action (`pending`) or the deadline (`open`, `missed` or `paused`); null for a forecast.",
    team_id=None,
    user_id=None,
    target_type=None,
    target_id=None,
    action_id=None,
    deadline_id=None,
    schedule_id=None,
)
class CalendarEntry(ResponseModel):
    """An entry of the calendar: a pending action, the due instant of a deadline, or a forecast occurrence."""

    forecast: bool = Field(
        validation_alias="is_forecast",
        description="Whether the entry is a forecast: computed from the rule of a schedule, and not stored yet.",
    )


@shares_fields(
    EntryPage,
    next_cursor=None,
    truncated_schedules="Schedules whose forecast is incomplete on this page: they have more than "
    f"{FORECAST_MOST} occurrences in the range, or the evaluation budget was used up.",
    has_more_schedules=f"Whether more than {SCHEDULES_MOST} schedules match; only the {SCHEDULES_MOST} oldest are "
    "forecast.",
)
class CalendarPage(ResponseModel):
    """A page of the calendar, in chronological order."""

    entries: list[CalendarEntry]
    start: datetime = Field(serialization_alias="from", description="Start of the range, inclusive.")
    end: datetime = Field(serialization_alias="to", description="End of the range, exclusive.")


class CreateFeedRequest(RequestModel):
    """The name and the filters of a new calendar feed."""

    name: TokenName = Field(description="Name of the calendar in calendar programs.")
    team_id: ShortText | None = Field(
        None, description="Limits the feed to this team. Default: the team of the request's token, else all teams."
    )
    user_id: ShortText | None = Field(
        None,
        description="Limits the feed to actions and schedules with this `user_id`, and deadlines with this recipient.",
    )
    action_type: ShortText | None = Field(
        None, description="Limits the feed to actions and schedules of this type; the feed then has no deadlines."
    )


@shares_fields(Feed, user_id=None, action_type=None)
class FeedDocument(SecretRecord):
    """A calendar feed, without its secret."""


class CreatedFeed(FeedDocument):
    """A new calendar feed with its private path."""

    path: str | None = Field(
        description="Private path of the iCalendar file on this host, shown only in this response. Null in a replayed "
        "response."
    )


FeedPage = page_of("FeedPage", "A page of calendar feeds, newest first.", feeds=list[FeedDocument])


def get_calendar(call: Call[CalendarQuery, EmptyRequest]) -> Answer:
    """Return a page of the calendar; an empty page for a team that the caller may not see."""
    page = call.runtime.calendar.page(**call.filters, limit=call.query.limit)
    if not call.sees_team:
        page = replace(page, entries=[], next_cursor=None, truncated_schedules=[], has_more_schedules=False)
    return Answer(CalendarPage.model_validate(page))


def create_feed(call: Call[EmptyRequest, CreateFeedRequest]) -> Answer:
    """Create a calendar feed, which stops working when the caller's stored token expires or is revoked."""
    feed, secret = call.runtime.feeds.create(
        call.body.name,
        team_id=call.caller.team_for(call.body.team_id),
        user_id=call.body.user_id,
        action_type=call.body.action_type,
        token_id=call.caller.token_id,
        created_by=call.caller.name,
        connection=call.connection,
    )
    path = f"{call.base.removesuffix('/api/v1')}/calendar/{secret}.ics"
    return Answer(FeedDocument.model_validate(feed), HTTPStatus.CREATED).extended(CreatedFeed, path=path)


def list_feeds(call: Call[PageQuery, EmptyRequest]) -> Answer:
    """Return a page of calendar feeds, including revoked ones, newest first."""
    return page_answer(
        call, FeedPage, partial(call.runtime.feeds.newest, team_id=call.team_filter, before=call.query.cursor)
    )


def revoke_feed(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Revoke a calendar feed, so that its address stops working."""
    return Answer(FeedDocument.model_validate(call.runtime.feeds.revoke(call.reference, team_id=call.caller.team_id)))


def calendar(runtime: Runtime, secret: str) -> Response:
    """Return the iCalendar file of a feed; 304 if the client has the current version, 404 if no valid feed is found."""
    try:
        with runtime.request_threads.one():
            text = runtime.feeds.text(secret)
    except Exception as error:  # noqa: BLE001 - the boundary of feeds: converted and logged, without the secret path
        return problem_response(error, path="/calendar/…")
    if text is None:
        return problem(
            HTTPStatus.NOT_FOUND,
            "unknown_feed",
            "no calendar feed has this address, the feed was revoked, or its token was revoked or has expired",
        )
    headers = {
        "Cache-Control": f"private, max-age={_MAX_AGE_SECONDS}",
        "Content-Disposition": 'inline; filename="scheduled-actions.ics"',
        "X-Content-Type-Options": "nosniff",
    }
    response = Response(text, headers=headers, content_type="text/calendar; charset=utf-8")
    response.set_etag(hashlib.sha256(text).hexdigest()[:32])
    response.make_conditional(request)
    return response


ROUTES = (
    Route(
        "GET", "/calendar", get_calendar, "Get the calendar",
        tag="Calendar",
        description="Pending actions, due instants of unresolved deadlines, and forecast occurrences of active fixed "
        "schedules, in chronological order.",
        query=CalendarQuery, answers={HTTPStatus.OK: (CalendarPage, "A page of the calendar.")},
        refuses=(InvalidArgument,),
    ),
    Route(
        "GET", "/calendar/feeds", list_feeds, "List calendar feeds, newest first",
        tag="Calendar", query=PageQuery,
        answers={HTTPStatus.OK: (FeedPage, "A page of feeds.")},
    ),
    Route(
        "POST", "/calendar/feeds", create_feed, "Create a calendar feed",
        tag="Calendar",
        description="The private path is shown only in this response. The feed stops working when the token of this "
        "request expires or is revoked; with `ADMIN_TOKEN`, only when the feed is revoked.",
        body=CreateFeedRequest, answers={HTTPStatus.CREATED: (CreatedFeed, "The feed.")}, creates=True,
        shown_once="path",
    ),
    Route(
        "POST", "/calendar/feeds/{id}/revoke", revoke_feed, "Revoke a calendar feed",
        tag="Calendar", description="Revoking a feed again changes nothing.",
        answers={HTTPStatus.OK: (FeedDocument, "The feed.")}, refuses=(UnknownFeed,), creates=True,
    ),
)  # fmt: skip
