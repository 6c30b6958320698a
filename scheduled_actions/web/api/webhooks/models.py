"""Requests and responses of the routes of webhooks."""

from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

from pydantic import Field

from scheduled_actions.core.action import Status
from scheduled_actions.web.api.models import (
    CURSOR,
    UUID_SHAPE,
    Delay,
    Instant,
    RequestModel,
    ResponseModel,
    RetryPolicy,
    ShortText,
    StatusName,
    TeamPageQuery,
    WholeNumber,
    page_of,
    shares_fields,
)
from scheduled_actions.web.api.webhooks.fields import (
    Description,
    Filter,
    Headers,
    Ordering,
    Patterns,
    Rate,
    Secret,
    Url,
)
from scheduled_actions.webhooks.deliveries import BATCH_SIZE, MAX_BATCH_SIZE, BatchProgress
from scheduled_actions.webhooks.deliveries_store import Delivery, EventCursor
from scheduled_actions.webhooks.endpoints import model, service

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RECOVERY = "^(failed|skipped)_[0-9]{1,17}$"
_REPLAY = f"^(completed|skipped)_[0-9]{{1,17}}(_[0-9]{{1,17}}_{UUID_SHAPE})?$"


class _Settings(RequestModel):
    description: Description = ""
    filter: Filter = Field(
        None, description="Condition on the body of the event; null: all events that match the patterns."
    )
    enabled: bool = Field(default=True, description="True also enables an endpoint that was disabled automatically.")
    rate_limit: Rate = Field(None, description="Maximum deliveries per second; null: unlimited.")
    headers: Headers = Field(default_factory=dict)
    ordering: Ordering = "none"
    retry: RetryPolicy | None = Field(
        None, description="Retry policy, or a list of delays in seconds. Default: the delays of Standard Webhooks."
    )


class UpdateEndpointRequest(_Settings):
    """Changes to an endpoint; omitted fields keep their values."""

    url: Url = ""
    patterns: Patterns = Field(default_factory=list)


class CreateEndpointRequest(_Settings):
    """The settings of a new endpoint."""

    url: Url
    team_id: ShortText | None = Field(
        None,
        description="Limits the endpoint to the events of this team. Default: the team of the request's token, else "
        "all teams.",
    )
    patterns: Patterns = Field(default_factory=lambda: ["*:*"])
    secret: Secret | None = Field(None, description="An existing secret. Default: a new one is generated.")


class RotateSecretRequest(RequestModel):
    """Options of the rotation of a secret."""

    secret: Secret | None = Field(None, description="An existing secret. Default: a new one is generated.")
    grace_seconds: Delay = Field(
        timedelta(days=1),
        description="How long the previous secret stays valid: seconds, or an ISO 8601 duration; 0 revokes that secret "
        "immediately.",
    )


@shares_fields(
    model.EndpointQueue,
    in_flight="Number of deliveries that ticks have claimed and not settled yet.",
    in_flight_limit="Maximum number of deliveries in flight per process: 1 while `deferred_reason` is `hung`, else the "
    "setting `concurrency`. A process starts with 1, and reaches the maximum while the endpoint responds.",
    waiting=None,
    next_attempt_at="When the first pending delivery is due; null without one.",
    deferred="Number of pending deliveries that were deferred; a deferral uses no attempt.",
    deferred_until="When the first deferred delivery is due; null without one.",
    deferred_reason="Why the first deferred delivery was deferred: `hung` (a delivery took five seconds or more), "
    "`slow` (a delivery in flight takes much longer than usual), `full` (the in-flight limit is reached), `team` "
    "(other endpoints of the team do not respond) or `rate_limit`.",
    is_complete="Whether all pending deliveries were read; if false, the numbers are lower bounds.",
)
class EndpointQueueDocument(ResponseModel):
    """The pending and running deliveries of an endpoint, in all processes."""


@shares_fields(
    model.EndpointDetails,
    id="Endpoint id, or its name in `scheduled_actions.toml`.",
    source=None,
    team_id=None,
    url="URL of the endpoint; null if the endpoint is declared in `scheduled_actions.toml`.",
    place="Host and port of the URL; null if the URL is missing or invalid.",
    description=None,
    patterns=None,
    filter=None,
    enabled="Whether events are delivered to the endpoint; false if its owner disabled it, or if it was disabled "
    "automatically (see `disabled_reason`).",
    rate_limit=None,
    retry=None,
    header_names=None,
    created_by=None,
    created_at=None,
    updated_at=None,
)
class EndpointSettingsDocument(ResponseModel):
    """The settings of an endpoint."""

    ordering: Ordering


@shares_fields(
    model.EndpointDetails,
    previous_secret_until="When the previous secret expires; null without a previous secret.",  # noqa: S106 - a description
    failing_since="Time of the first failure since the last success; null if there was no failure since.",
    auto_disable_at="The first failure at or after this time disables the endpoint. Null for an endpoint that was "
    "disabled automatically, and until two failures are at least 12 hours apart without a success between them.",
    disabled_at=None,
    disabled_reason=None,
)
class EndpointDocument(EndpointSettingsDocument):
    """An endpoint, without its secrets and the values of its headers."""

    queue: EndpointQueueDocument


class CreatedEndpoint(EndpointDocument):
    """An endpoint with its secret."""

    secret: str | None = Field(
        description="The secret, shown only in this response and stored encrypted; null in a replayed response."
    )


EndpointPage = page_of(
    "EndpointPage",
    "A page of endpoints: first those of `scheduled_actions.toml`, then those of the database, oldest first.",
    endpoints=list[EndpointDocument],
    next_cursor=str | None,
)


class DeliveryAttempt(ResponseModel):
    """An attempt of a delivery."""

    attempt: int | None
    at: str | None
    status: int | None = Field(description="HTTP status of the response; null without a response.")
    duration_ms: float | None
    answer: str | None = Field(description="The first KiB of the response body.")
    error: str | None


@shares_fields(
    Delivery,
    id=None,
    endpoint=None,
    team_id=None,
    event=None,
    entity_type=None,
    entity_id=None,
    attempts=None,
    max_attempts=None,
    next_attempt_at=None,
    response_status=None,
    error=None,
    event_action_id=None,
    lock_group=None,
    started_at=None,
    completed_at=None,
    created_at=None,
)
class DeliveryDocument(ResponseModel):
    """The delivery of an event to an endpoint."""

    status: Status
    attempt_log: list[DeliveryAttempt]


DeliveryPage = page_of("DeliveryPage", "A page of deliveries, newest first.", deliveries=list[DeliveryDocument])


class DeliveriesQuery(TeamPageQuery):
    """Filters of a list of deliveries."""

    status: StatusName | None = None
    endpoint: ShortText | None = Field(None, description="Endpoint id, or its name in `scheduled_actions.toml`.")
    event: ShortText | None = Field(None, description="Exact event type.")


class _BatchRequest(RequestModel):
    limit: Annotated[int, Field(ge=1, le=MAX_BATCH_SIZE), WholeNumber] = Field(
        BATCH_SIZE, description="Maximum number of deliveries to make pending, or of events to read, in this request."
    )


class RecoverDeliveriesRequest(_BatchRequest):
    """The failed and skipped deliveries to make pending again."""

    start: Instant = Field(
        alias="from", description="Only deliveries that failed or were skipped at or after this time."
    )
    endpoint: ShortText | None = None
    cursor: Annotated[str, Field(pattern=_RECOVERY)] | None = Field(None, description=CURSOR)


class ReplayEventsRequest(_BatchRequest):
    """The missed events to deliver to an endpoint."""

    start: Instant = Field(alias="from", description="Only events that were routed at or after this time.")
    cursor: Annotated[str, Field(pattern=_REPLAY)] | None = Field(None, description=CURSOR)


@shares_fields(BatchProgress, count="Number of deliveries that this request scheduled or made pending.")
class BatchResult(ResponseModel):
    """The progress of a recovery or a replay."""

    more: bool = Field(
        description="Whether to repeat the request with `next_cursor` as `cursor`; without `cursor`, a request starts "
        "again at the first batch."
    )
    next_cursor: str | None


@shares_fields(
    service.EventTypeSummary,
    event=None,
    description=None,
    tables="Watched tables that emit the event; empty for a token of a team.",
    first_seen_at=None,
    last_seen_at=None,
)
class EventType(ResponseModel):
    """An event type that is declared in the settings or emitted by a watched table, or that was emitted before."""


class EventTypes(ResponseModel):
    """The event types, sorted by name."""

    events: list[EventType]


class ScheduledDelivery(ResponseModel):
    """The id of the action that sends a delivery."""

    id: UUID


def cursor_of(step: BatchProgress) -> str | None:
    """Return the cursor after a batch; None after the last batch."""
    if step.is_done:
        return None
    place = "" if step.place.completed_at is None else f"_{_microseconds(step.place.completed_at)}_{step.place.id}"
    return f"{step.status}_{_microseconds(step.until)}{place}"


def step_of(cursor: str | None) -> BatchProgress | None:
    """Return the progress that a valid cursor contains; None without a cursor."""
    if cursor is None:
        return None
    status, until, *place = cursor.split("_")
    after = EventCursor(_instant(place[0]), UUID(place[1])) if place else EventCursor()
    return BatchProgress(count=0, is_done=False, until=_instant(until), status=Status(status), place=after)


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _instant(microseconds: str) -> datetime:
    return _EPOCH + timedelta(microseconds=int(microseconds))
