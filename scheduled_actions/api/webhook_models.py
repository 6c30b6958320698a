"""What goes in and out of the management API about webhooks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from scheduled_actions.action import Status
from scheduled_actions.api.action_models import Document
from scheduled_actions.api.models import (
    PAGE_MOST,
    Delay,
    Given,
    Id,
    Instant,
    Limit,
    RetryPolicy,
    ShortText,
    Shown,
    StatusName,
    WholeNumber,
    refused,
)
from scheduled_actions.deliveries import BATCH, BATCH_MOST, Step
from scheduled_actions.delivery import URL_LIMIT
from scheduled_actions.endpoint_checks import (
    DESCRIPTION_LIMIT,
    RATE_LEAST,
    RATE_MOST,
    check_secret,
    check_settings,
)
from scheduled_actions.errors import InvalidArgument, UrlInvalid
from scheduled_actions.store.deliveries import Place
from scheduled_actions.webhooks import filters, headers, routing

if TYPE_CHECKING:
    from collections.abc import Callable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_NUL = "^[^\\u0000]*$"
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_RECOVERY = "^(failed|skipped)_[0-9]{1,17}$"
_REPLAY = f"^(completed|skipped)_[0-9]{{1,17}}(_[0-9]{{1,17}}_{_UUID})?$"


def _setting(name: str) -> BeforeValidator:
    """Return the check of one setting of an endpoint; what it refuses is refused here, of the same field."""
    return BeforeValidator(_asked(name, lambda value: check_settings({name: value})[name]))


def _asked(name: str, check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def asked(value: Any) -> Any:  # noqa: ANN401 - it is what is judged
        try:
            return check(value)
        except InvalidArgument as error:
            # Some refusals name a place inside the field, some what they judge.
            where = error.name if error.name.startswith(name) else name
            raise refused(InvalidArgument(where, error.value, error.expected)) from None
        except UrlInvalid as error:
            message = f"{error.problem}; it must be {error.expected}"
            raise PydanticCustomError("refused", "{message}", {"message": message}) from None

    return asked


def _secret(value: Any) -> Any:  # noqa: ANN401 - it is what is judged
    if not isinstance(value, str):
        raise InvalidArgument("secret", "what is given", "a text")
    return check_secret(value)


_SIDE = r"(\*|\*?[A-Za-z0-9_.-]+(\*[A-Za-z0-9_.-]+)?\*?)"
_SCALAR: dict[str, Any] = {"anyOf": [{"type": ["null", "boolean", "number"]}, {"type": "string", "pattern": _NO_NUL}]}
_SCALARS = {"type": "array", "items": _SCALAR, "maxItems": filters.VALUES_LIMIT}
_TEXT = {"type": "string", "pattern": _NO_NUL}
_CONDITION: dict[str, Any] = {
    "anyOf": [
        _SCALAR,
        _SCALARS,
        {
            "type": "object",
            "properties": {
                **dict.fromkeys(("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$contains"), _SCALAR),
                **dict.fromkeys(("$in", "$nin"), _SCALARS),
                **dict.fromkeys(("$starts_with", "$ends_with"), _TEXT),
                "$exists": {"type": "boolean"},
            },
            "additionalProperties": False,
        },
    ]
}
_PATHS: dict[str, Any] = {
    "type": "object",
    "maxProperties": filters.NAMES_LIMIT,
    "propertyNames": {"pattern": "^[^$\\u0000][^\\u0000]*$"},
    "additionalProperties": _CONDITION,
}
_INNER = {"type": "array", "items": _PATHS, "minItems": 1, "maxItems": filters.LIST_LIMIT}
_FILTER: dict[str, Any] = {
    "description": f"Paths into the body that is delivered, and what must stand there; at most "
    f"{filters.LENGTH_LIMIT:,} characters. `$and`, `$or` and `$not` may stand inside one another.",
    "type": ["object", "null"],
    "maxProperties": filters.NAMES_LIMIT,
    "properties": {"$and": _INNER, "$or": _INNER, "$not": _PATHS},
    "propertyNames": {"pattern": "^([^$\\u0000][^\\u0000]*|[$](and|or|not))$"},
    "additionalProperties": _CONDITION,
}

Url = Annotated[
    str,
    _setting("url"),
    WithJsonSchema(
        {
            "description": "https, with a host of the public internet.",
            "type": "string",
            "maxLength": URL_LIMIT,
            "pattern": r"^https://([A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?\.){1,4}[A-Za-z]{2,24}(:[1-9][0-9]{0,3})?"
            r"(/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?$",
        }
    ),
]
Description = Annotated[
    str,
    _setting("description"),
    WithJsonSchema({"type": "string", "maxLength": DESCRIPTION_LIMIT, "pattern": _NO_NUL}),
]
Patterns = Annotated[
    list[str],
    _setting("patterns"),
    WithJsonSchema(
        {
            "description": f"{routing.PATTERN_SHAPE.capitalize()}.",
            "type": "array",
            "minItems": 1,
            "maxItems": 100,
            "items": {"type": "string", "maxLength": routing.NAME_LIMIT, "pattern": f"^{_SIDE}:{_SIDE}$"},
        }
    ),
]
Filter = Annotated[dict[str, Any] | None, _setting("filter"), WithJsonSchema(_FILTER)]
Rate = Annotated[
    float | None,
    _setting("rate_limit"),
    WithJsonSchema({"type": ["number", "null"], "minimum": RATE_LEAST, "maximum": RATE_MOST}),
]
Headers = Annotated[
    dict[str, str],
    _setting("headers"),
    WithJsonSchema(
        {
            "description": "Those that frame or sign the message are refused.",
            "type": "object",
            "maxProperties": headers.COUNT_LIMIT,
            "propertyNames": {"pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$"},
            "additionalProperties": {"type": "string", "pattern": "^[!-~]([ -~\\t]{0,1022}[!-~])?$"},
        }
    ),
]
Secret = Annotated[
    str,
    BeforeValidator(_asked("secret", _secret)),
    WithJsonSchema({"type": "string", "pattern": "^whsec_([A-Za-z0-9+/]{4}){8,21}$"}),
]
Ordering = Literal["none", "fifo"]
BatchLimit = Annotated[int, Field(ge=1, le=BATCH_MOST, description="Looked at by this call."), WholeNumber]


class EndpointChanges(Given):
    """What is to be different about an endpoint; what is left out stays."""

    url: Url = ""
    description: Description = ""
    patterns: Patterns = Field(default_factory=list)
    filter: Filter = Field(None, description="Null: everything that the patterns want.")
    enabled: bool = Field(default=True, description="True also forgives what disabled it.")
    rate_limit: Rate = Field(None, description="Deliveries a second; null: as many as come.")
    headers: Headers = Field(default_factory=dict)
    ordering: Ordering = "none"
    retry: RetryPolicy | None = Field(None, description="Null: the table of Standard Webhooks.")

    def settings(self) -> dict[str, Any]:
        """Return what is given, by name."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class NewEndpoint(Given):
    """An endpoint to make."""

    url: Url
    team_id: ShortText | None = Field(None, description="Gets this team's events alone; left out: those of every team.")
    description: Description = ""
    patterns: Patterns = Field(default_factory=lambda: ["*:*"])
    filter: Filter = None
    enabled: bool = True
    rate_limit: Rate = Field(None, description="Deliveries a second, at most.")
    headers: Headers = Field(default_factory=dict)
    ordering: Ordering = "none"
    retry: RetryPolicy | None = Field(None, description="Left out: the table of Standard Webhooks.")
    secret: Secret | None = Field(None, description="Brought from elsewhere; left out: a new one.")


class Rotation(Given):
    """A new secret."""

    secret: Secret | None = Field(None, description="Brought from elsewhere; left out: a new one.")
    beside: Delay = Field(timedelta(days=1), description="For how long the one before signs, too; 0: no longer.")


class Endpoint(Shown):
    """An endpoint: all but its secrets and the values of its headers."""

    id: str = Field(description="Its id, or its name in the project's file.")
    source: Literal["database", "file"]
    team_id: str | None
    url: str | None = Field(description="Null for one of the file.")
    place: str | None = Field(description="Its host and port.")
    description: str
    patterns: list[str]
    filter: Document
    enabled: bool = Field(description="Whether it gets deliveries.")
    ordering: Ordering
    rate_limit: float | None
    retry: Document
    header_names: list[str]
    created_by: str | None
    created_at: datetime | None
    updated_at: datetime | None
    previous_secret_until: datetime | None = Field(description="Until when the secret before signs, too.")
    failing_since: datetime | None = Field(description="The first failure since the last success.")
    disabled_at: datetime | None
    disabled_reason: str | None


class MadeEndpoint(Endpoint):
    """An endpoint with its secret."""

    secret: str = Field(description="Shown this once: it is stored encrypted.")


class EndpointsPage(Shown):
    """Some of the endpoints: those of the file on the first page, then those of the database, the oldest first."""

    endpoints: list[Endpoint]
    next_cursor: str | None


class EndpointsQuery(Given):
    """Which endpoints to list."""

    team_id: ShortText | None = None
    limit: Limit = PAGE_MOST
    cursor: Id | None = Field(None, description="`next_cursor` of the page before.")


class Attempt(Shown):
    """One attempt of a delivery."""

    attempt: int | None
    at: str | None
    status: int | None = Field(description="HTTP status; null without an answer.")
    duration_ms: float | None
    answer: str | None = Field(description="The first KiB of the answer's body.")
    error: str | None


class Delivery(Shown):
    """An event on its way to one endpoint."""

    id: UUID
    status: Status
    endpoint: str
    team_id: str | None
    event: str
    entity_type: str
    entity_id: str
    attempts: int
    max_attempts: int | None
    next_attempt_at: datetime | None
    response_status: int | None
    error: str | None
    attempt_log: list[Attempt]
    event_action_id: str
    lock_group: str | None
    started_at: datetime | None
    completed_at: datetime | None
    created_at: datetime


class DeliveriesPage(Shown):
    """Some of the deliveries that match, the newest first."""

    deliveries: list[Delivery]
    next_cursor: UUID | None


class DeliveriesQuery(Given):
    """Which deliveries to list."""

    status: StatusName | None = None
    endpoint: ShortText | None = Field(None, description="Its id, or its name in the project's file.")
    event: ShortText | None = Field(None, description="Exactly this event.")
    team_id: ShortText | None = None
    limit: Limit = PAGE_MOST
    cursor: Id | None = Field(None, description="`next_cursor` of the page before.")


class Recovery(Given):
    """Which lost deliveries to make pending again."""

    since: Instant = Field(description="When they were lost.")
    endpoint: ShortText | None = None
    limit: BatchLimit = BATCH
    cursor: Annotated[str, Field(pattern=_RECOVERY)] | None = Field(
        None, description="`next_cursor` of the call before."
    )


class Replay(Given):
    """Which events an endpoint is to get that it has missed."""

    since: Instant = Field(description="When they were routed.")
    limit: BatchLimit = BATCH
    cursor: Annotated[str, Field(pattern=_REPLAY)] | None = Field(None, description="`next_cursor` of the call before.")


class Progress(Shown):
    """How far a recovery or a replay is."""

    count: int = Field(description="Deliveries that are on their way now, by this call.")
    more: bool = Field(description="Call again with `next_cursor`; without it a new run finds what is left.")
    next_cursor: str | None


class EventType(Shown):
    """An event type that was declared, or seen."""

    event: str
    description: str
    tables: list[str] = Field(description="Tables whose changes it tells of.")
    first_seen_at: datetime | None
    last_seen_at: datetime | None


class EventTypes(Shown):
    """The event types, by name."""

    events: list[EventType]


class ScheduledDelivery(Shown):
    """The action that delivers."""

    id: UUID


def cursor_of(step: Step) -> str | None:
    """Return where to go on after a step; None when it was the last."""
    if step.is_done:
        return None
    place = "" if step.place.completed_at is None else f"_{_micros(step.place.completed_at)}_{step.place.id}"
    return f"{step.status}_{_micros(step.until)}{place}"


def step_of(cursor: str | None) -> Step | None:
    """Return the step that a cursor, which has the right form, goes on after; None where there is none."""
    if cursor is None:
        return None
    status, until, *place = cursor.split("_")
    after = Place(_instant(place[0]), UUID(place[1])) if place else Place()
    return Step(count=0, is_done=False, until=_instant(until), status=Status(status), place=after)


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _instant(micros: str) -> datetime:
    return _EPOCH + timedelta(microseconds=int(micros))
