"""List ticks, and the action types of this build."""

import re
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any
from uuid import UUID

from pydantic import BeforeValidator, Field, WithJsonSchema

from scheduled_actions.actions import management, validation
from scheduled_actions.core import pages, retry
from scheduled_actions.core.errors import HandlerBroken
from scheduled_actions.registry.handler import HandlerOptions
from scheduled_actions.web.api.models import (
    CURSOR,
    UUID_SHAPE,
    EmptyRequest,
    Limit,
    RequestModel,
    ResponseModel,
    page_of,
    rejection,
    shares_fields,
)
from scheduled_actions.web.api.routing import Answer, Call, Route, found_page

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CURSOR = f"[0-9]{{1,17}}_{UUID_SHAPE}"


@shares_fields(
    HandlerOptions,
    action_type=None,
    description=None,
    timeout_seconds=None,
    max_attempts=None,
    dedup_window=None,
    transactional=None,
    limit=None,
)
class ActionType(ResponseModel):
    """An action type of this build with the options of its handler; a null option has the value of the settings."""

    payload_schema: dict[str, Any] | None = Field(
        description="JSON Schema of the payload; null if the handler cannot be loaded."
    )
    retry: dict[str, Any] | None
    schedulable: bool = Field(
        description="Whether the type is open to the token of this request; the role is not considered."
    )
    error: str | None = Field(description="Why the handler cannot be loaded; null if it can be loaded.")


class ActionTypes(ResponseModel):
    """The action types of this build, sorted by name."""

    action_types: list[ActionType]


@shares_fields(
    management.TickRecord,
    id=None,
    started_at=None,
    finished_at=None,
    lease_expires_at=None,
    caller=None,
    outcome="`finished`; `hung_up`: the client disconnected before the end; `lost`: the process ended before the tick "
    "did; null until the end is recorded.",
    counts=None,
    budget=None,
    running="Number of actions that the tick has started and not settled yet.",
    duration_seconds=None,
    lag_seconds="Seconds from the start of the previous tick to the start of this tick; null without a previous tick.",
)
class TickDocument(ResponseModel):
    """A tick: one execution of the cron endpoint."""


TickPage = page_of("TickPage", "A page of ticks, newest first.", ticks=list[TickDocument], next_cursor=str | None)


def _parse_cursor(value: Any) -> Any:  # noqa: ANN401 - any query parameter
    if not isinstance(value, str) or not re.fullmatch(_CURSOR, value):
        raise rejection("is an invalid cursor: send next_cursor of the previous page")
    microseconds, _, tick_id = value.partition("_")
    return _EPOCH + timedelta(microseconds=int(microseconds)), UUID(tick_id)


def _cursor_of(tick: management.TickRecord) -> str:
    return f"{(tick.started_at - _EPOCH) // timedelta(microseconds=1)}_{tick.id}"


class TicksQuery(RequestModel):
    """The page of ticks to return."""

    limit: Limit = pages.MAX_PAGE_SIZE
    cursor: Annotated[
        tuple[datetime, UUID] | None,
        BeforeValidator(_parse_cursor),
        WithJsonSchema({"type": "string", "pattern": f"^{_CURSOR}$"}),
    ] = Field(None, description=CURSOR)


def list_action_types(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Return the action types of this build, including those whose handler cannot be loaded."""
    return Answer(ActionTypes(action_types=[_describe(call, one) for one in sorted(call.runtime.registry.types)]))


def _describe(call: Call[Any, Any], action_type: str) -> ActionType:
    registry = call.runtime.registry
    options = registry.options(action_type)
    described: dict[str, Any] = {
        **{field.name: getattr(options, field.name) for field in fields(options)},
        "retry": None if options.retry is None else retry.shown_policy(options.retry),
        "schedulable": validation.refusal_of(action_type, options, call.caller.requester) is None,
        "payload_schema": None,
        "error": None,
    }
    try:
        handler = registry.resolve(action_type)
        described |= {"description": handler.description, "payload_schema": handler.payload.json_schema()}
    except HandlerBroken as broken:
        described["error"] = broken.problem
    return ActionType(**described)


def list_ticks(call: Call[TicksQuery, EmptyRequest]) -> Answer:
    """Return a page of ticks, newest first."""
    call.caller.must_have_no_team("ticks belong to no team")
    read = partial(call.runtime.action_operations.ticks, before=call.query.cursor)
    return found_page(
        call, TickPage, lambda limit: pages.read_page_by(_cursor_of, lambda most: read(limit=most), limit)
    )


ROUTES = (
    Route(
        "GET", "/action-types", list_action_types,
        "List the action types of this build, with the JSON Schemas of their payloads", tag="Installation",
        answers={HTTPStatus.OK: (ActionTypes, "The action types.")},
    ),
    Route(
        "GET", "/ticks", list_ticks, "List ticks, newest first",
        tag="Installation", description="The token must not be bound to a team.", query=TicksQuery,
        answers={HTTPStatus.OK: (TickPage, "A page of ticks.")},
    ),
)  # fmt: skip
