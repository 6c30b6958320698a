"""Create, change and list webhook endpoints in the database; the lists include those of the settings file."""

import base64
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.action import Scheduled
from scheduled_actions.core.config import Config
from scheduled_actions.core.encryption import SecretBox
from scheduled_actions.core.errors import (
    ActionTypeForbidden,
    EndpointDeclaredInFile,
    TooManyEndpoints,
    UnknownEndpoint,
    UrlInvalid,
)
from scheduled_actions.core.pages import read_page_by
from scheduled_actions.core.requester import Requester
from scheduled_actions.core.wake import Wake
from scheduled_actions.database.connection import Connection, Database
from scheduled_actions.database.transactions import announce, borrowed_connection
from scheduled_actions.outbound import delivery
from scheduled_actions.webhooks import watches
from scheduled_actions.webhooks.endpoints import store
from scheduled_actions.webhooks.endpoints.checks import check_secret, check_settings
from scheduled_actions.webhooks.endpoints.directory import EndpointDirectory, is_id
from scheduled_actions.webhooks.endpoints.model import EndpointDetails, EndpointQueue, EndpointRow, EndpointSettings
from scheduled_actions.webhooks.rules.health import auto_disable_at

#: How long the previous secret stays valid after a rotation.
GRACE_PERIOD = timedelta(days=1)
#: The event of a test delivery.
TEST_EVENT = "webhook:test"

_DEFAULTS: dict[str, Any] = {
    "description": "", "patterns": ["*:*"], "filter": None, "enabled": True, "ordering": "none", "rate_limit": None,
    "retry": None, "header_names": [], "headers": None,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class EventTypeSummary:
    """An event type that is declared in the settings, emitted by a watched table, or known from earlier events."""

    event: str
    #: The description in the settings file; empty by default.
    description: str
    #: Watched tables that emit the event type; empty if the call is restricted to a team.
    tables: tuple[str, ...]
    first_seen_at: datetime | None
    last_seen_at: datetime | None


class Endpoints:
    """The webhook endpoints of one project.

    In every method, `team_id` restricts the call to one team; endpoints of other teams are treated as unknown.
    """

    def __init__(
        self, database: Database, config: Config, directory: EndpointDirectory, wake: Wake | None = None
    ) -> None:
        self._database = database
        self._config = config
        self._declared = config.settings.webhooks.endpoints
        self._directory = directory
        self._box = SecretBox(config.encryption_keys)
        self._wake = wake

    def create(
        self, *, url: str, team_id: str | None = None, secret: str | None = None, created_by: str | None = None,
        connection: Connection | None = None, **settings: Any,  # noqa: ANN401 - each is checked by its name
    ) -> tuple[EndpointDetails, str]:  # fmt: skip
        """Create an endpoint; return the endpoint and its secret, which cannot be read later.

        Args:
            url: https, on the public internet.
            team_id: The team whose events the endpoint receives; None: events of all teams.
            secret: `whsec_…`; None: generate a secret.
            created_by: The creator, stored with the endpoint.
            connection: Joins the caller's transaction; None: a new transaction.
            settings: `patterns` (default: all events), `filter`, `description`, `enabled`, `rate_limit`, `headers`,
                `ordering`, `retry`.

        Raises:
            RequestError: A value is invalid; nothing was created.
            NotConfigured: No valid key to encrypt the secret is configured.
            ExtraMissing: `cryptography` is not installed.
            TooManyEndpoints: The team already has the maximum number of endpoints.
        """
        secret = new_secret() if secret is None else check_secret(secret)
        values = _DEFAULTS | self._checked({"url": url, **settings})
        values |= {
            "team_id": arguments.check_text("team_id", team_id, longest=255),
            "secret": self._box.seal(secret),
            "created_by": arguments.check_text("created_by", created_by, longest=255),
        }
        with self._changing(connection) as lent:
            created = store.create(lent, values)
            if created is None:
                raise TooManyEndpoints(store.ENDPOINTS_MOST)
            return self._details(lent, created)[0], secret

    def get(self, endpoint: str, *, team_id: str | None = None) -> EndpointDetails:
        """Return an endpoint by its id in the database, or by its name in the settings file.

        Raises:
            UnknownEndpoint: No endpoint has that id or name.
        """
        with self._database.connection() as connection:
            return self._get(connection, endpoint, team_id)

    def page(
        self, *, team_id: str | None = None, cursor: str | None = None, limit: int = 100
    ) -> tuple[list[EndpointDetails], str | None]:
        """Return database endpoints, the oldest first, and the cursor of the next page; None on the last page.

        Without `team_id`, the first page starts with the endpoints of the settings file, which have no team.

        Args:
            team_id: Only endpoints of this team.
            cursor: The cursor returned with the previous page; None: the first page.
            limit: Maximum number of database endpoints on the page.

        Raises:
            UnknownEndpoint: The cursor is not an id.
            EndpointDeclaredInFile: The cursor is the name of an endpoint in the settings file.
        """
        if cursor is not None:
            self._check_stored(cursor, team_id)
        declared = self._declared if team_id is None and cursor is None else {}
        with self._database.connection() as connection:
            stored, next_cursor = read_page_by(
                attrgetter("name"),
                lambda most: store.find(connection, team_id=team_id, after=cursor, limit=most),
                limit,
            )
            return self._details(connection, *store.of_file(connection, declared), *stored), next_cursor

    @contextmanager
    def locked(
        self, endpoint: str, *, team_id: str | None = None, connection: Connection | None = None
    ) -> Iterator[tuple[EndpointDetails, Connection]]:
        """Lock an endpoint inside the block; yield the endpoint and the connection that holds the lock.

        An endpoint of the settings file is not locked.

        Raises:
            UnknownEndpoint: No endpoint has that id or name.
        """
        with self._changing(connection) as lent:
            if is_id(endpoint):
                store.lock(lent, endpoint, team_id=team_id)
            yield self._get(lent, endpoint, team_id), lent

    def update(
        self, endpoint: str, *, team_id: str | None = None, connection: Connection | None = None,
        **changes: Any,  # noqa: ANN401 - each is checked by its name
    ) -> EndpointDetails:  # fmt: skip
        """Change the given settings of an endpoint; return the endpoint.

        `enabled=True` also clears the recorded failures of the endpoint, and enables it if they had disabled it. An
        endpoint of the settings file accepts no other change.

        Args:
            endpoint: The id of the endpoint, or its name in the settings file.
            team_id: Only an endpoint of this team; None: any endpoint.
            connection: Joins the caller's transaction; None: a new transaction.
            changes: `url`, and the `settings` of `create`; omitted settings keep their values.

        Raises:
            UnknownEndpoint: No endpoint has that id or name.
            EndpointDeclaredInFile: The endpoint is declared in the settings file, and a change is not `enabled=True`.
            RequestError: A value is invalid; nothing was changed.
            NotConfigured: `headers` are given, but no valid key to encrypt them is configured.
            ExtraMissing: `headers` are given, but `cryptography` is not installed.
        """
        is_declared = endpoint in self._declared and team_id is None
        if is_declared and changes != {"enabled": True}:
            raise EndpointDeclaredInFile(endpoint)
        changed = {} if is_declared else self._checked(changes)
        with self._changing(connection) as lent:
            if changed:
                self._check_stored(endpoint, team_id)
                store.update(lent, endpoint, changed, team_id=team_id)
            if changes.get("enabled") is True:
                store.forget_failures(lent, endpoint, enable=True)
            return self._get(lent, endpoint, team_id)

    def rotate(
        self, endpoint: str, *, team_id: str | None = None, secret: str | None = None,
        grace_period: timedelta = GRACE_PERIOD, connection: Connection | None = None,
    ) -> tuple[EndpointDetails, str]:  # fmt: skip
        """Replace the secret of an endpoint; return the endpoint and the new secret, which cannot be read later.

        Args:
            endpoint: The id of the endpoint.
            team_id: Only an endpoint of this team; None: any endpoint.
            secret: `whsec_…`; None: generate a secret.
            grace_period: How long the previous secret stays valid; zero revokes it immediately.
            connection: Joins the caller's transaction; None: a new transaction.

        Raises:
            UnknownEndpoint: No endpoint has that id.
            EndpointDeclaredInFile: The endpoint is declared in the settings file; its secret is in the environment.
            InvalidArgument: The given secret is invalid.
            NotConfigured: No valid key to encrypt the secret is configured.
            ExtraMissing: `cryptography` is not installed.
        """
        secret = new_secret() if secret is None else check_secret(secret)
        sealed, seconds = self._box.seal(secret), grace_period.total_seconds()
        self._check_stored(endpoint, team_id)
        with self._changing(connection) as lent:
            store.rotate(lent, endpoint, sealed, grace_seconds=seconds, team_id=team_id)
            return self._get(lent, endpoint, team_id), secret

    def delete(self, endpoint: str, *, team_id: str | None = None, connection: Connection | None = None) -> None:
        """Delete an endpoint; its pending deliveries are skipped when they are due.

        Raises:
            UnknownEndpoint: No endpoint has that id.
            EndpointDeclaredInFile: The endpoint is declared in the settings file.
        """
        self._check_stored(endpoint, team_id)
        with self._changing(connection) as lent:
            store.delete(lent, endpoint, team_id=team_id)

    def test(
        self, endpoint: str, *, team_id: str | None = None, by: str | None = None, connection: Connection | None = None
    ) -> Scheduled:
        """Schedule the delivery of a test event to an endpoint; return the action.

        The patterns and the filter of the endpoint are ignored. A disabled endpoint does not receive the event.

        Args:
            endpoint: The id of the endpoint, or its name in the settings file.
            team_id: Only an endpoint of this team; None: any endpoint.
            by: The creator, stored with the action.
            connection: Joins the caller's transaction; None: a new transaction.

        Raises:
            UnknownEndpoint: No endpoint has that id or name.
        """
        with borrowed_connection(self._database, connection) as lent:
            found = self._get(lent, endpoint, team_id)
            payload = {
                "event": TEST_EVENT,
                "entity_type": "webhook",
                "entity_id": found.id,
                "data": {"message": "This is a test."},
                "endpoint": found.id,
            }
            scheduled = store.schedule_event(lent, payload, team_id=found.team_id, created_by=by)
        announce(self._wake, connection)
        return scheduled

    def reseal(self) -> int:
        """Encrypt all secrets and custom headers again with the first key; return the number of endpoints.

        Afterwards the other keys can be removed.

        Raises:
            SecretUnreadable: A secret or the headers of an endpoint were encrypted with a key that is not configured;
                that endpoint and the endpoints after it are unchanged.
            NotConfigured: No valid key is configured.
            ExtraMissing: `cryptography` is not installed.
        """
        count, after = 0, None
        while True:
            with self._database.connection() as connection:
                rows = store.find(connection, after=after, limit=100)
                for row in rows:
                    store.reseal(connection, row, self._resealed(row))
            if not rows:
                self._directory.forget()
                return count
            count, after = count + len(rows), rows[-1].name

    def events(self, *, team_id: str | None = None) -> list[EventTypeSummary]:
        """Return the event types that are declared, emitted by watched tables, or known from earlier events, by name.

        With `team_id`, only earlier events of that team count.
        """
        with self._database.connection() as connection:
            seen = store.event_types(connection, team_id=team_id)
            watched = watches.watched(connection)
        declared = self._config.settings.webhooks.events
        return [
            EventTypeSummary(
                event,
                declared.get(event, ""),
                tuple(one.table for one in watched if event in one.events) if team_id is None else (),
                *seen.get(event, (None, None)),
            )
            for event in sorted({*declared, *seen, *(event for one in watched for event in one.events)})
        ]

    # -- helpers -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self, connection: Connection | None) -> Iterator[Connection]:
        """Open a transaction, or join the caller's; clear the cached endpoints of this process afterwards."""
        with borrowed_connection(self._database, connection) as lent, lent.transaction():
            yield lent
        self._directory.forget()

    def _resealed(self, row: EndpointRow) -> dict[str, str | None]:
        what = f'a secret of endpoint "{row.name}"'
        sealed = {"secret": row.secret, "previous_secret": row.previous_secret, "headers": row.sealed_headers}
        return {name: text and self._box.seal(self._box.open(text, what=what)) for name, text in sealed.items()}

    def _check_stored(self, endpoint: str, team_id: str | None) -> None:
        """Check that a name can be the id of an endpoint in the database; whether the endpoint exists is not checked.

        Raises:
            EndpointDeclaredInFile: The endpoint is declared in the settings file.
            UnknownEndpoint: The name is not an id.
        """
        # Teams cannot see the endpoints of the settings file.
        if team_id is None and endpoint in self._declared:
            raise EndpointDeclaredInFile(endpoint)
        if not is_id(endpoint):
            raise UnknownEndpoint(endpoint)

    def _get(self, connection: Connection, endpoint: str, team_id: str | None) -> EndpointDetails:
        if team_id is None and endpoint in self._declared:
            return self._details(connection, *store.of_file(connection, {endpoint: self._declared[endpoint]}))[0]
        stored = store.get(connection, endpoint, team_id=team_id) if is_id(endpoint) else None
        if stored is None:
            raise UnknownEndpoint(endpoint)
        return self._details(connection, stored)[0]

    def _details(self, connection: Connection, *rows: EndpointRow) -> list[EndpointDetails]:
        queues = store.queues(connection, [row.name for row in rows], concurrency=self._config.settings.concurrency)
        return [details_of(row, queues[row.name], url=self._url(row), exposure=self._exposure(row)) for row in rows]

    def _exposure(self, row: EndpointRow) -> str | None:
        return None if row.source == "database" else self._directory.exposure(row.name)

    def _url(self, row: EndpointRow) -> str | None:
        return row.url if row.source == "database" else self._config.endpoint_url(self._declared[row.name])

    def _checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Validate settings; return them as they are stored, with encrypted headers."""
        values = check_settings(given)
        if (headers := values.get("headers")) is not None:
            sealed = self._box.seal(json.dumps(headers)) if headers else None
            values |= {"header_names": sorted(headers), "headers": sealed}
        return values


def details_of(
    row: EndpointRow, queue: EndpointQueue, *, url: str | None, exposure: str | None = None
) -> EndpointDetails:
    """Convert an endpoint to the form that the API returns.

    Args:
        row: The stored or declared endpoint.
        queue: The queue of the endpoint.
        url: The URL of the row or, for an endpoint of the settings file, from the environment; None: unset.
        exposure: Why production disables the endpoint; None if it does not.
    """
    settings = {name: getattr(row, name) for name in EndpointSettings.__dataclass_fields__} | {
        "enabled": row.enabled and row.disabled_at is None and exposure is None,
        "disabled_reason": exposure or row.disabled_reason,
        "previous_secret_until": None if row.previous_secret is None else row.previous_secret_until,
    }
    place = None
    with suppress(UrlInvalid):
        place = url and delivery.check_url(url)
    return EndpointDetails(
        **settings,
        id=row.name,
        source=row.source,
        place=place,
        auto_disable_at=auto_disable_at(row.clock_started_at) if row.disabled_at is None else None,
        queue=queue,
    )


def new_secret() -> str:
    """Generate a Standard Webhooks secret of 32 random bytes."""
    return f"whsec_{base64.b64encode(os.urandom(32)).decode()}"


def check_event(database: Database, payload: dict[str, Any], requester: Requester) -> dict[str, Any]:
    """Check that a requester may schedule `webhook:send` with this payload over HTTP; return the payload.

    Raises:
        ActionTypeForbidden: The event is reserved for failing endpoints, or the endpoint does not belong to the
            requester's team.
    """
    if payload.get("event") in {store.DISABLED_EVENT, store.FAILING_EVENT}:
        raise ActionTypeForbidden(
            "webhook:send",
            "does not accept this event over HTTP: it is emitted when an endpoint fails",
            where="payload.event",
        )
    name = payload.get("endpoint")
    if requester.team_id is None or name is None:
        return payload
    # The error is the same for endpoints of the settings file, of other teams, and for unknown endpoints.
    if is_id(str(name)):
        with database.connection() as connection:
            if store.get(connection, str(name), team_id=requester.team_id) is not None:
                return payload
    raise ActionTypeForbidden(
        "webhook:send",
        "with a team token accepts only a payload without an endpoint, or with the id of an endpoint of the team",
        where="payload.endpoint",
    )
