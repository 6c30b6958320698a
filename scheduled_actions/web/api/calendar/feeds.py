"""Calendar feeds over HTTP: make, list, revoke; and the calendar behind a private address."""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from typing import TYPE_CHECKING
from uuid import UUID

from flask import Response, request
from pydantic import Field

from scheduled_actions.core.errors import UnknownFeed
from scheduled_actions.core.pages import page_of
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.models import Given, ShortText, Shown, TokenName
from scheduled_actions.web.api.requests.problems import problem, problem_of
from scheduled_actions.web.api.routing import Answer, Call, Route
from scheduled_actions.web.api.tokens.secrets import KeptSecret, Newest

if TYPE_CHECKING:
    from scheduled_actions.calendar import model
    from scheduled_actions.runtime import Runtime

#: For how long a calendar program may keep what it read, in seconds.
_FRESH_SECONDS = 300


class NewFeed(Given):
    """A calendar feed to make."""

    name: TokenName = Field(description="What calendar programs call it.")
    team_id: ShortText | None = Field(None, description="Only what belongs to this team.")
    user_id: ShortText | None = Field(None, description="Only what belongs to this user.")
    action_type: ShortText | None = Field(None, description="Only of this action type.")


class Feed(KeptSecret):
    """A calendar feed, as far as it is known here."""

    user_id: str | None
    action_type: str | None


class MadeFeed(Feed):
    """A feed that was just made."""

    path: str | None = Field(
        description="Where its calendar is, below the application's own address. Shown this once: null in the "
        "answer to a repeated Idempotency-Key."
    )


class FeedsPage(Shown):
    """Some of the feeds, the newest first."""

    feeds: list[Feed]
    next_cursor: UUID | None


def make(call: Call) -> Answer:
    """Make a feed, of the caller's team where it has one; it ends with the caller's token."""
    given: NewFeed = call.body
    feed, secret = call.runtime.feeds.create(
        given.name,
        team_id=call.caller.team_for(given.team_id),
        user_id=given.user_id,
        action_type=given.action_type,
        token_id=call.caller.token_id,
        created_by=call.caller.name,
        connection=call.connection,
    )
    return Answer(
        MadeFeed(**_shown(feed).model_dump(), path=f"{call.base.removesuffix('/api/v1')}/calendar/{secret}.ics"),
        HTTPStatus.CREATED,
    )


def list_feeds(call: Call) -> Answer:
    """Answer the newest feeds, of the caller's team where it has one."""

    def newest(limit: int) -> list[model.Feed]:
        return call.runtime.feeds.newest(team_id=call.caller.team_id, before=call.query.cursor, limit=limit)

    shown, next_cursor = page_of(newest, call.query.limit)
    return Answer(FeedsPage(feeds=[_shown(one) for one in shown], next_cursor=next_cursor))


def revoke(call: Call) -> Answer:
    """Let the address of a feed answer nothing any more."""
    return Answer(_shown(call.runtime.feeds.revoke(call.path["id"], team_id=call.caller.team_id)))


def _shown(feed: model.Feed) -> Feed:
    return Feed.model_validate(feed)


def calendar(runtime: Runtime, secret: str) -> Response:
    """Answer the calendar behind a private address, as iCalendar; 304 where the reader has it already."""
    try:
        with runtime.request_threads.one():
            text = runtime.feeds.text(secret)
    except Exception as error:  # noqa: BLE001 - told to the reader, and logged, there; the path, a secret, in neither
        return problem_of(error, path="/calendar/…")
    if text is None:
        return problem(HTTPStatus.NOT_FOUND, "unknown_feed", "no calendar is here: it was revoked, or never was")
    response = Response(text, content_type="text/calendar; charset=utf-8")
    response.headers["Cache-Control"] = f"private, max-age={_FRESH_SECONDS}"
    response.headers["Content-Disposition"] = 'inline; filename="scheduled-actions.ics"'
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.set_etag(hashlib.sha256(text).hexdigest()[:32])
    response.make_conditional(request)
    return response


ROUTES = (
    Route(
        method="GET",
        path="/calendar/feeds",
        function=list_feeds,
        role=Role.VIEWER,
        tag="Calendar",
        summary="List the calendar feeds, the newest first",
        query=Newest,
        answers={HTTPStatus.OK: (FeedsPage, "A page.")},
    ),
    Route(
        method="POST",
        path="/calendar/feeds",
        function=make,
        role=Role.OPERATOR,
        tag="Calendar",
        summary="Make a calendar feed",
        description="Its private address is shown once, in this answer. It ends with the token that made it.",
        body=NewFeed,
        answers={HTTPStatus.CREATED: (MadeFeed, "The feed.")},
        creates=True,
        shown_once="path",
    ),
    Route(
        method="DELETE",
        path="/calendar/feeds/{id}",
        function=revoke,
        role=Role.OPERATOR,
        tag="Calendar",
        summary="Revoke a calendar feed",
        description="Its address answers nothing any more; one that was revoked before stays as it was.",
        answers={HTTPStatus.OK: (Feed, "The feed as it is now.")},
        refuses=(UnknownFeed,),
    ),
)
