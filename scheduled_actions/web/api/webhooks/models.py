"""What goes in and out of the management API about webhooks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from scheduled_actions.core.action import Status
from scheduled_actions.core.pages import PAGE_MOST
from scheduled_actions.web.api.actions.models import Document
from scheduled_actions.web.api.models import (
    UUID_SHAPE,
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
from scheduled_actions.webhooks.deliveries import BATCH, BATCH_MOST, Step
from scheduled_actions.webhooks.deliveries_store import Place

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RECOVERY = "^(failed|skipped)_[0-9]{1,17}$"
_REPLAY = f"^(completed|skipped)_[0-9]{{1,17}}(_[0-9]{{1,17}}_{UUID_SHAPE})?$"

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


class Lane(Shown):
    """What is on its way to an endpoint, of all processes together."""

    in_flight: int = Field(description="Claimed by a tick, and not settled.")
    in_flight_limit: int = Field(
        description="In flight in one process, at most: begins with 1, doubles with each answer up to this, begins "
        "anew after one that hung."
    )
    waiting: int
    next_attempt_at: datetime | None = Field(description="When the first of those that wait is due.")
    put_off: int = Field(description="Of those that wait: put off for the endpoint's sake. That costs no attempt.")
    put_off_until: datetime | None = Field(description="When the first of these is due.")
    put_off_reason: str | None = Field(
        description="`hung` (one took five seconds or more), `slow` (one takes far longer than usual), `full` (as "
        "many are in flight as may be), `team` (other endpoints of its team do not answer) or `rate_limit`."
    )
    is_complete: bool = Field(description="False: of more than 10,000 waiting actions those due next were looked at.")


class EndpointSettings(Shown):
    """What people set of an endpoint."""

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


class Endpoint(EndpointSettings):
    """An endpoint: all but its secrets and the values of its headers."""

    previous_secret_until: datetime | None = Field(description="Until when the secret before signs, too.")
    failing_since: datetime | None = Field(description="The first failure since the last success.")
    disabled_by: datetime | None = Field(description="From when on a further failure disables it.")
    disabled_at: datetime | None
    disabled_reason: str | None
    lane: Lane


class MadeEndpoint(Endpoint):
    """An endpoint with its secret."""

    secret: str | None = Field(
        description="Shown this once: it is stored encrypted. Null in the answer to a repeated Idempotency-Key."
    )


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
