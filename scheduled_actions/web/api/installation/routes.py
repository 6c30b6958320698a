"""What is installed and what it did, over HTTP: the action types of this build, and the ticks."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from scheduled_actions.actions.validation import refusal_of
from scheduled_actions.core.errors import HandlerBroken, RegistryInvalid
from scheduled_actions.core.pages import PAGE_MOST, page_by
from scheduled_actions.core.retry import shown_policy
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.actions.models import Document
from scheduled_actions.web.api.models import Given, Limit, Shown
from scheduled_actions.web.api.routing import Answer, Call, Route

if TYPE_CHECKING:
    from scheduled_actions.actions import management
    from scheduled_actions.registry import Registry
    from scheduled_actions.registry.resolution import Handler

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CURSOR = "[0-9]{1,17}_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


class ActionType(Shown):
    """One action type of this build, with what its handler declares; null: the project's setting."""

    action_type: str
    description: str
    #: JSON Schema of its payload; null when the handler cannot be loaded.
    payload_schema: dict[str, Any] | None = Field(description="JSON Schema of its payload.")
    timeout_seconds: float | None
    max_attempts: int | None
    retry: dict[str, Any] | None
    dedup_window: float | None
    transactional: bool
    schedulable: bool = Field(description="Whether the token that asks may schedule it over HTTP.")
    error: str | None = Field(description="Why its handler cannot be loaded.")


class ActionTypes(Shown):
    """The registry."""

    action_types: list[ActionType]


class Tick(Shown):
    """One call of the cron endpoint."""

    id: UUID
    started_at: datetime
    finished_at: datetime | None
    lease_expires_at: datetime
    caller: str | None
    outcome: str | None = Field(
        description="Null while it runs; `hung_up`: its caller had gone by then; `lost`: its process died."
    )
    counts: Document
    budget: Document
    running: int = Field(description="Actions it has started and not yet settled.")
    duration_seconds: float | None
    lag_seconds: float | None = Field(description="How much earlier the tick before it started.")


class TicksPage(Shown):
    """Some of the ticks, the latest first."""

    ticks: list[Tick]
    next_cursor: str | None


def _read_place(value: Any) -> Any:  # noqa: ANN401 - pydantic refuses anything but a text
    """Return the instant and the id that a cursor holds."""
    if not isinstance(value, str) or not re.fullmatch(_CURSOR, value):
        raise PydanticCustomError("refused", "should be next_cursor of the page before")
    microseconds, _, tick_id = value.partition("_")
    return _EPOCH + timedelta(microseconds=int(microseconds)), UUID(tick_id)


class TicksQuery(Given):
    """Which ticks to list."""

    limit: Limit = PAGE_MOST
    cursor: Annotated[
        tuple[datetime, UUID] | None,
        BeforeValidator(_read_place),
        WithJsonSchema({"type": "string", "pattern": f"^{_CURSOR}$"}),
    ] = Field(None, description="`next_cursor` of the page before.")


def list_types(call: Call) -> Answer:
    """Answer the registry; a handler that cannot be loaded says why, and hides no other."""
    registry = call.runtime.registry
    return Answer(ActionTypes(action_types=[_described(call, one) for one in sorted(registry.types)]))


def _described(call: Call, action_type: str) -> ActionType:
    registry = call.runtime.registry
    handler, error = _loaded(registry, action_type)
    options = registry.options(action_type)
    return ActionType(
        action_type=action_type,
        description=options.description if handler is None else handler.description,
        payload_schema=None if handler is None else handler.payload.json_schema(),
        timeout_seconds=options.timeout_seconds,
        max_attempts=options.max_attempts,
        retry=None if options.retry is None else shown_policy(options.retry),
        dedup_window=options.dedup_window,
        transactional=options.transactional,
        schedulable=refusal_of(action_type, options, call.caller.requester) is None,
        error=error,
    )


def _loaded(registry: Registry, action_type: str) -> tuple[Handler | None, str | None]:
    try:
        return registry.resolve(action_type), None
    except HandlerBroken as broken:
        return None, broken.problem


def _place(tick: management.Tick) -> str:
    return f"{(tick.started_at - _EPOCH) // timedelta(microseconds=1)}_{tick.id}"


def list_ticks(call: Call) -> Answer:
    """Answer the latest ticks; they belong to no team."""
    call.caller.must_have_no_team("ticks belong to no team")
    query: TicksQuery = call.query
    ticks, next_cursor = page_by(
        _place, lambda limit: call.management.ticks(before=query.cursor, limit=limit), query.limit
    )
    return Answer(TicksPage(ticks=[Tick.model_validate(tick) for tick in ticks], next_cursor=next_cursor))


ROUTES = (
    Route(
        method="GET",
        path="/action-types",
        function=list_types,
        role=Role.VIEWER,
        tag="Installation",
        summary="List the action types of this build, with the JSON Schemas of their payloads",
        answers={HTTPStatus.OK: (ActionTypes, "The registry.")},
        refuses=(RegistryInvalid,),
    ),
    Route(
        method="GET",
        path="/ticks",
        function=list_ticks,
        role=Role.VIEWER,
        tag="Installation",
        summary="List the ticks, the latest first",
        description="Ticks belong to no team: a token that is bound to one sees none.",
        query=TicksQuery,
        answers={HTTPStatus.OK: (TicksPage, "A page.")},
    ),
)
