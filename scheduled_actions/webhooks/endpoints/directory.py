"""Look up webhook endpoints of the settings file and the database, and record the outcomes of their deliveries.

Rows are cached for a second: at a thousand deliveries per second, a query for each would take longer than the delivery.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

import psycopg

from scheduled_actions.core import retry, signing
from scheduled_actions.core.config import Config
from scheduled_actions.core.encryption import SecretBox
from scheduled_actions.core.errors import (
    BudgetExceeded,
    NotConfigured,
    ScheduledActionsError,
    UnknownEndpoint,
    UrlInvalid,
)
from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget
from scheduled_actions.core.json_text import decode
from scheduled_actions.core.log import log
from scheduled_actions.database.boundary import contain, reason_of
from scheduled_actions.database.connection import Connection, Database
from scheduled_actions.outbound import delivery
from scheduled_actions.outbound.reach import Reach, parse_networks, reach_of
from scheduled_actions.webhooks.endpoints import store
from scheduled_actions.webhooks.endpoints.model import Endpoint, EndpointRow, declared_endpoint
from scheduled_actions.webhooks.rules import filters, routing
from scheduled_actions.webhooks.throttle import EndpointThrottle

#: How long a row is cached.
_CACHE_SECONDS = 1.0
#: After a recorded failure, further failures of the endpoint are not recorded for this time.
_FAILURE_SECONDS = 60.0
#: An event type is recorded again after this time.
_EVENT_TYPE_SECONDS = 3600.0
#: After this time, the host of a plain HTTP URL is resolved again.
_EXPOSED_SECONDS = 60.0
#: Entries per cache; a full cache is cleared.
_CACHE_SIZE = 5000

Key = TypeVar("Key")
Value = TypeVar("Value")


class _Lookups(dict[Key, tuple[float, Value]]):
    """Cached results of queries, each with the instant at which it expires."""

    def read(self, key: Key, now: float, query: Callable[[Key], Value], *, seconds: float = _CACHE_SECONDS) -> Value:
        """Return the cached result for a key; run the query if there is none or it has expired."""
        entry = self.get(key)
        if entry is None or now >= entry[0]:
            if len(self) >= _CACHE_SIZE:
                self.clear()
            entry = self[key] = now + seconds, query(key)
        return entry[1]


@dataclass(frozen=True, slots=True)
class DeliveryTarget:
    """The URL, signing keys, custom headers and network limits of a delivery."""

    url: str
    #: Empty: deliveries are not signed.
    keys: tuple[bytes, ...]
    headers: Mapping[str, str]
    reach: Reach


class EndpointDirectory:
    """The endpoints of one project.

    Args:
        config: The endpoints of the settings file, and the keys that decrypt secrets in the database.
        database: Holds the other endpoints, and the failures of all.
        monotonic: A monotonic clock, in seconds.
    """

    def __init__(self, config: Config, database: Database, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self.settings = config.settings.webhooks
        self._database = database
        self._monotonic = monotonic
        self._box = SecretBox(config.encryption_keys)
        #: Prevents endpoints that hang from delaying the others.
        self.throttle = EndpointThrottle(config.settings.concurrency, monotonic=monotonic)
        self._by_name: _Lookups[str, Endpoint | None] = _Lookups()
        self._by_team: _Lookups[str | None, list[Endpoint]] = _Lookups()
        self._targets: _Lookups[tuple[str, datetime | None, bool], DeliveryTarget] = _Lookups()
        self._exposed: _Lookups[tuple[str, str], bool] = _Lookups()
        self._failures_recorded: dict[str, float] = {}
        self._event_types: _Lookups[tuple[str | None, str], None] = _Lookups()

    def forget(self) -> None:
        """Clear the caches of endpoints, and allow the next failures to be recorded immediately."""
        self._by_name.clear()
        self._by_team.clear()
        self._failures_recorded.clear()

    def match(self, event: str, *, team_id: str | None, body: Mapping[str, Any]) -> list[tuple[Endpoint, int | None]]:
        """Return the endpoints that receive an event: first those of the settings file, then those of the database.

        Disabled endpoints are included unless the settings file disables them; their deliveries are skipped and can be
        recovered. An endpoint whose filter exceeds its share of steps is also included; the filter is evaluated again
        for the delivery.

        Args:
            event: `entity:verb`.
            team_id: The team of the event.
            body: The delivered body, for filters.

        Returns:
            Each endpoint, with None or, if its filter could not be evaluated, with the number of steps that the filter
                exceeded.

        Raises:
            InvalidArgument: The event, or a pattern in the settings file, is invalid.
            DatabaseUnavailable: The endpoints cannot be read from the database.
        """
        stored = self._by_team.read(team_id, self._monotonic(), self._read_team)
        # All filters get an equal share of the steps, so that a costly filter of one endpoint cannot affect another.
        steps = min(filters.FILTER_STEPS, STEPS // max(1, len(stored)))
        matched = [
            match
            for endpoint in stored
            if endpoint.belongs_to(team_id)
            and any(routing.matches(event, pattern) for pattern in endpoint.patterns)
            and (match := _apply_filter(endpoint, body, steps)) is not None
        ]
        declared = self.settings.endpoints
        names = routing.route(
            event,
            endpoints=declared,
            routing=self.settings.routing,
            default_endpoint=None if matched else self.settings.default_endpoint,
        )
        return [*((read_endpoint(declared_endpoint(name, declared[name])), None) for name in names), *matched]

    def find(self, name: str, *, team_id: str | None) -> Endpoint | None:
        """Return an endpoint by name or id; None if it does not exist or belongs to another team."""
        found = self.lookup(name)
        return found if found is not None and found.belongs_to(team_id) else None

    def lookup(self, name: str) -> Endpoint | None:
        """Return an endpoint of any team by name or id; None if it does not exist."""
        return self._by_name.read(name, self._monotonic(), self._read)

    def target(self, endpoint: Endpoint) -> DeliveryTarget:
        """Return the URL, signing keys, headers and network limits of an endpoint's deliveries.

        Raises:
            NotConfigured: The URL or the secret is unset or invalid; the message contains neither.
            SecretUnreadable: The secret or the headers were encrypted with a key that is not configured.
            UnknownEndpoint: The endpoint has just been deleted.
        """
        if endpoint.source == "file":
            return self._declared_target(endpoint.name)
        current = self.lookup(endpoint.name)
        if current is None:
            raise UnknownEndpoint(endpoint.name)
        version = (current.name, current.updated_at, current.previous_secret is not None)
        return self._targets.read(version, self._monotonic(), lambda _: self._stored_target(current))

    def exposure(self, name: str) -> str | None:
        """Return why an endpoint of the settings file is disabled in production: its URL would expose the events.

        Args:
            name: The name of a declared endpoint.

        Returns:
            A sentence without the URL; None if the URL is https, its host is in `webhooks.private_networks` or has no
                address, the settings file disables the endpoint, or this is not a production environment.
        """
        declared = self.settings.endpoints[name]
        url = self._config.endpoint_url(declared)
        if url is None or not declared.enabled or not self._config.is_production:
            return None
        networks = parse_networks(self.settings.private_networks)
        is_exposed = self._exposed.read(
            (name, url),
            self._monotonic(),
            lambda key: delivery.is_exposed(key[1], networks=networks),
            seconds=_EXPOSED_SECONDS,
        )
        return (
            f"{declared.env_var} is an http URL, but production requires https outside webhooks.private_networks"
            if is_exposed
            else None
        )

    # -- reading -------------------------------------------------------------------------------------------------------

    def _read(self, name: str) -> Endpoint | None:
        declared = self.settings.endpoints.get(name)
        if declared is None and not is_id(name):
            return None
        with self._database.connection() as connection:
            row = store.get(connection, name) if declared is None else store.of_file(connection, {name: declared})[0]
        if row is None:
            return None
        endpoint = read_endpoint(row)
        exposure = None if declared is None else self.exposure(name)
        return endpoint if exposure is None else replace(endpoint, disabled_reason=exposure)

    def _read_team(self, team_id: str | None) -> list[Endpoint]:
        with self._database.connection() as connection:
            return [read_endpoint(row) for row in store.of_team(connection, team_id)]

    def _declared_target(self, name: str) -> DeliveryTarget:
        declared = self.settings.endpoints[name]
        expected = f'set it to the http or https URL of endpoint "{name}"'
        url = self._config.endpoint_url(declared)
        if url is None:
            raise NotConfigured(declared.env_var, expected)
        try:
            delivery.check_url(url)
        except UrlInvalid as error:
            raise NotConfigured(
                declared.env_var, f"{expected}; its current value {error.problem}", problem="is invalid"
            ) from None
        reach = reach_of(self.settings, is_tenants=False)
        if self._config.is_production and urlsplit(url).scheme == "http":
            # The host may have another address now than when `exposure` resolved it.
            reach = replace(reach, includes_internet=False)
        return DeliveryTarget(url, self._config.endpoint_keys(declared), {}, reach)

    def _stored_target(self, endpoint: Endpoint) -> DeliveryTarget:
        what = f'of endpoint "{endpoint.name}"'
        sealed = [one for one in (endpoint.secret, endpoint.previous_secret) if one]
        keys = [key for one in sealed for key in signing.keys_of(self._box.open(one, what=f"the secret {what}"))]
        headers: Any = {}
        if endpoint.sealed_headers is not None:
            headers = decode(self._box.open(endpoint.sealed_headers, what=f"the headers {what}"))
        return DeliveryTarget(endpoint.url or "", tuple(keys), headers, reach_of(self.settings))

    # -- outcomes ------------------------------------------------------------------------------------------------------

    def reserve_slot(self, endpoint: Endpoint, *, patience: float) -> tuple[bool, float]:
        """Reserve the next slot under an endpoint's rate limit.

        Returns:
            As for `store.reserve_slot`; without a rate limit, True and 0.
        """
        if endpoint.rate_limit is None:
            return True, 0.0
        with self._database.connection() as connection:
            return store.reserve_slot(connection, endpoint.name, rate=endpoint.rate_limit, patience=patience)

    def record_event_type(self, event: str, *, team_id: str | None) -> None:
        """Record that an event type was emitted now; in this process, at most once per hour and team."""

        def see(_: object) -> None:
            with self._database.connection() as connection:
                store.see_event(connection, event, team_id=team_id)

        self._event_types.read((team_id, event), self._monotonic(), see, seconds=_EVENT_TYPE_SECONDS)

    def record_success(self, endpoint: Endpoint) -> None:
        """Clear the recorded failures of an endpoint after a successful delivery."""
        if endpoint.failing_since is None and endpoint.name not in self._failures_recorded:
            return
        self._record(endpoint, lambda connection: store.forget_failures(connection, endpoint.name, enable=False))
        self._failures_recorded.pop(endpoint.name, None)

    def record_failure(self, endpoint: Endpoint, reason: str, *, disables: bool = False) -> None:
        """Record a failure; warn the owner of an endpoint that keeps failing, and disable it after several days.

        Failures less than a minute after a recorded one are ignored, unless `disables` is true.

        Args:
            endpoint: The endpoint that failed.
            reason: Description of the failure; shown when the endpoint is disabled.
            disables: Whether the receiver refuses all further deliveries, which disables the endpoint immediately.
        """
        now = self._monotonic()
        if not disables and now < self._failures_recorded.get(endpoint.name, 0.0):
            return
        self._record(endpoint, lambda connection: store.write_failure(connection, endpoint, reason, disables=disables))
        self._failures_recorded[endpoint.name] = now + _FAILURE_SECONDS

    def _record(self, endpoint: Endpoint, write: Callable[[Connection], None]) -> None:
        """Write an outcome in a transaction; log an error, because raising it would repeat the post."""
        try:
            with self._database.connection() as connection, connection.transaction():
                write(connection)
        except (psycopg.Error, ScheduledActionsError) as error:
            log.warning("webhook.unrecorded endpoint=%s error=%s", endpoint.name, type(error).__name__)
        self._by_name.pop(endpoint.name, None)
        self._by_team.clear()


def _apply_filter(endpoint: Endpoint, body: Mapping[str, Any], steps: int) -> tuple[Endpoint, int | None] | None:
    try:
        return (endpoint, None) if fits(endpoint, body, steps=steps) else None
    except BudgetExceeded:
        return endpoint, steps


def fits(endpoint: Endpoint, body: Mapping[str, Any], *, steps: int) -> bool:
    """Return whether an endpoint's filter accepts a body.

    Raises:
        BudgetExceeded: The filter takes more than `steps`.
    """
    budget = EvaluationBudget(f'the filter of endpoint "{endpoint.name}"', steps=steps)
    return filters.fits(body, endpoint.filter, budget)


def is_id(name: object) -> bool:
    """Return whether a name has the form of a database endpoint's id: a UUID in lower case with hyphens."""
    try:
        return isinstance(name, str) and str(UUID(name)) == name
    except ValueError:
        return False


def read_endpoint(row: EndpointRow) -> Endpoint:
    """Parse a stored endpoint.

    An unreadable column disables the endpoint, with a reason. Deliveries of events that match its readable patterns are
    still scheduled; they are skipped, and can be recovered.
    """
    problems: dict[str, str] = {}

    def read(name: str, parse: Any, stored: Any) -> Any:  # noqa: ANN401 - a column
        def refuse(error: BaseException) -> None:
            problems[name] = f"its {name} cannot be read: {reason_of(error)}"

        return contain(lambda: parse(stored), refuse)

    parsed = {name: getattr(row, name) for name in EndpointRow.__dataclass_fields__} | {
        "patterns": tuple(one for one in row.patterns if read("patterns", routing.split_pattern, one)),
        "filter": read("filter", filters.check, row.filter),
        "retry": None if row.retry is None else read("retry", retry.parse, row.retry),
    }
    if row.disabled_at:
        problems["state"] = row.disabled_reason or "disabled"
    return Endpoint(**parsed | {"disabled_reason": "; ".join(problems.values()) or None})
