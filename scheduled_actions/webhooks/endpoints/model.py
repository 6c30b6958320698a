"""Models of a webhook endpoint: as stored, as used for deliveries, and as returned by the API."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from scheduled_actions.core.config import EndpointSection
from scheduled_actions.core.retry import Delays

Source: TypeAlias = Literal["database", "file"]


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """The public part of an endpoint: its settings without secrets, and its failures."""

    #: The team whose events the endpoint receives; None: events of all teams.
    team_id: str | None
    #: None for an endpoint of the settings file: the path of its URL may be a secret of the operator.
    url: str | None
    description: str
    patterns: list[str]
    filter: Any
    enabled: bool
    ordering: str
    #: Maximum number of deliveries per second; None: unlimited.
    rate_limit: float | None
    #: None: the retry table of Standard Webhooks.
    retry: Any
    header_names: list[str]
    created_by: str | None
    created_at: datetime | None
    updated_at: datetime | None
    #: When the previous secret expires; None if there is none.
    previous_secret_until: datetime | None
    #: The first failure since the last success; None if there is none.
    failing_since: datetime | None
    disabled_at: datetime | None
    #: Why the endpoint was disabled automatically; None if it was not.
    disabled_reason: str | None


@dataclass(frozen=True, slots=True)
class EndpointRow(EndpointSettings):
    """An endpoint as stored; `enabled` is the owner's setting."""

    #: The endpoint's name in the settings file, or its id in the database as a string.
    name: str
    clock_started_at: datetime | None
    #: The custom headers, encrypted like the secrets; None if there are none.
    sealed_headers: str | None
    #: None for an endpoint of the settings file, whose secret is in the environment.
    secret: str | None
    #: None if there is no previous secret, or if it has expired.
    previous_secret: str | None
    #: Where the endpoint is defined. The URL of an endpoint in the database is user input.
    source: Source = "database"


@dataclass(frozen=True, slots=True)
class Endpoint(EndpointRow):
    """An endpoint as used for routing and delivery: its patterns, filter and retry policy have been validated."""

    def belongs_to(self, team_id: str | None) -> bool:
        """Return whether the endpoint receives events of that team."""
        return self.team_id is None or self.team_id == team_id


@dataclass(frozen=True, slots=True)
class EndpointQueue:
    """The number of running and pending deliveries of an endpoint, across all processes."""

    #: Deliveries that a tick has claimed but not settled yet.
    in_flight: int
    #: Maximum number of deliveries in flight per process: 1 while a delivery is deferred as `hung`, otherwise the
    #: setting `concurrency`, up to which a process raises the limit while the endpoint responds.
    in_flight_limit: int
    #: Pending deliveries.
    waiting: int
    #: When the first pending delivery is due.
    next_attempt_at: datetime | None
    #: Pending deliveries that were deferred without using an attempt.
    deferred: int
    #: When the first deferred delivery is due.
    deferred_until: datetime | None
    #: Why the first deferred delivery was deferred: a key of `DEFERRAL_REASONS`.
    deferred_reason: str | None
    #: False: not all pending actions were read, so the counts are lower bounds.
    is_complete: bool


@dataclass(frozen=True, slots=True)
class EndpointDetails(EndpointSettings):
    """An endpoint as returned by the API; `enabled` is false if the owner or failures disabled the endpoint."""

    #: The endpoint's id in the database, or its name in the settings file.
    id: str
    source: Source
    #: Host and port of the URL; None if the URL is unset or invalid.
    place: str | None
    #: The instant from which a further failure disables the endpoint; None until it has failed for twelve hours, and
    #: once it is disabled.
    auto_disable_at: datetime | None
    queue: EndpointQueue


def declared_endpoint(name: str, declared: EndpointSection) -> EndpointRow:
    """Return an endpoint of the settings file as a row without recorded failures."""
    return EndpointRow(
        name=name, source="file", patterns=list(declared.patterns), enabled=declared.enabled,
        description=declared.description, ordering=declared.ordering, rate_limit=declared.rate_limit,
        retry=declared.retry and Delays(declared.retry).as_json(), team_id=None, url=None, filter=None,
        header_names=[], sealed_headers=None, secret=None, previous_secret=None, previous_secret_until=None,
        created_by=None, created_at=None, updated_at=None, failing_since=None, clock_started_at=None, disabled_at=None,
        disabled_reason=None,
    )  # fmt: skip
