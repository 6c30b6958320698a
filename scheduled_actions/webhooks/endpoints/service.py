"""Webhook endpoints that are made and changed while the application runs; the file's are listed beside them."""

from __future__ import annotations

import base64
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from scheduled_actions.actions import store as actions
from scheduled_actions.core import checks as arguments
from scheduled_actions.core.action import PAYLOAD_LIMIT
from scheduled_actions.core.encryption import SecretBox
from scheduled_actions.core.errors import EndpointOfTheFile, TooManyEndpoints, UnknownEndpoint
from scheduled_actions.core.json_text import encode
from scheduled_actions.core.pages import page_by
from scheduled_actions.database.transactions import borrowed_connection
from scheduled_actions.webhooks import watches
from scheduled_actions.webhooks.endpoints import store
from scheduled_actions.webhooks.endpoints import views as shown
from scheduled_actions.webhooks.endpoints.checks import check_secret, check_settings
from scheduled_actions.webhooks.endpoints.registry import id_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.core.action import Scheduled
    from scheduled_actions.core.config import Config
    from scheduled_actions.core.config import Endpoint as Declared
    from scheduled_actions.database.connection import Connection, Database
    from scheduled_actions.webhooks.endpoints.registry import EndpointBook
    from scheduled_actions.webhooks.endpoints.views import Shown

#: How long the secret before signs beside a new one.
BESIDE = timedelta(days=1)
#: What a test delivers.
TEST_EVENT = "webhook:test"

_DEFAULTS: dict[str, Any] = {
    "description": "", "patterns": ["*:*"], "filter": None, "enabled": True, "ordering": "none", "rate_limit": None,
    "retry": None, "header_names": [], "headers": None,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class EventKind:
    """An event type that was declared, or seen."""

    event: str
    #: What it tells; empty where nobody said.
    description: str = ""
    #: Tables whose changes it tells of.
    tables: tuple[str, ...] = ()
    first_seen_at: datetime | None = None
    last_seen_at: datetime | None = None


class Endpoints:
    """The webhook endpoints of one project.

    In every method `team_id` narrows what there is to one team: another team's endpoint answers as an unknown one.
    """

    def __init__(self, database: Database, config: Config, book: EndpointBook) -> None:
        self._database = database
        self._config = config
        self._book = book
        self._box = SecretBox(config.encryption_keys)

    def create(
        self, *, url: str, team_id: str | None = None, secret: str | None = None, created_by: str | None = None,
        connection: Connection | None = None, **settings: Any,  # noqa: ANN401 - each is checked by its name
    ) -> tuple[Shown, str]:  # fmt: skip
        """Put an endpoint in the database; return it and its secret, which is shown this once.

        Args:
            url: https, on the public internet.
            team_id: Gets this team's events alone; None: those of every team.
            secret: `whsec_…`, brought from elsewhere; None: a new one.
            created_by: Who asks for it.
            connection: Its transaction decides; None: one of its own.
            settings: `patterns`, `filter`, `description`, `enabled`, `rate_limit`, `headers`, `ordering`, `retry`.

        Raises:
            RequestError: A value cannot be; the message names it.
            NotConfigured: There is no key to encrypt the secret with.
            TooManyEndpoints: The team has as many as it may have.
        """
        secret = new_secret() if secret is None else check_secret(secret)
        values = {**_DEFAULTS, **self._checked({"url": url, **settings})}
        values |= {
            "team_id": arguments.check_text("team_id", team_id, longest=255),
            "secret": self._box.seal(secret),
            "created_by": arguments.check_text("created_by", created_by, longest=255),
        }
        with borrowed_connection(self._database, connection) as lent, lent.transaction():
            endpoint_id = store.create(lent, values)
            if endpoint_id is None:
                raise TooManyEndpoints(store.ENDPOINTS_MOST)
            made = self._get(lent, str(endpoint_id), None)
        self._book.forget()
        return made, secret

    def get(self, endpoint: str, *, team_id: str | None = None) -> Shown:
        """Return one endpoint.

        Raises:
            UnknownEndpoint: There is none of that id or name.
        """
        with self._database.connection() as connection:
            return self._get(connection, endpoint, team_id)

    def find(self, *, team_id: str | None = None, cursor: str | None = None, limit: int = 100) -> list[Shown]:
        """Return endpoints of the database, the oldest first; before the first page the file's, which are no team's.

        Args:
            team_id: Of this team only.
            cursor: The id of the last endpoint of the page before.
            limit: Endpoints of the database on this page.
        """
        after = None if cursor is None else self._id(cursor, team_id)
        with self._database.connection() as connection:
            rows = store.find(connection, team_id=team_id, after=after, limit=limit)
            named = {} if team_id is not None or after is not None else self._config.settings.webhooks.endpoints
            states = store.states(connection, list(named)) if named else {}
            lanes = self._lanes(connection, [*named, *(str(row.id) for row in rows)])
        of_file = [self._declared(name, one, states.get(name), lanes[name]) for name, one in named.items()]
        return [*of_file, *(shown.of_row(row, lanes[str(row.id)]) for row in rows)]

    def page(
        self, *, team_id: str | None = None, cursor: str | None = None, limit: int = 100
    ) -> tuple[list[Shown], str | None]:
        """Return a page of what `find` returns, and the cursor of the next one; None on the last page."""
        of_file: list[Shown] = []

        def read(most: int) -> list[Shown]:
            found = self.find(team_id=team_id, cursor=cursor, limit=most)
            of_file.extend(one for one in found if one.source == "file")
            return [one for one in found if one.source == "database"]

        of_database, next_cursor = page_by(lambda one: one.id, read, limit)
        return [*of_file, *of_database], next_cursor

    @contextmanager
    def locked(
        self, endpoint: str, *, team_id: str | None = None, connection: Connection | None = None
    ) -> Iterator[tuple[Shown, Connection]]:
        """Give an endpoint that stays as it is until the block ends, and the connection whose transaction keeps it so.

        Raises:
            UnknownEndpoint: There is none of that id or name.
        """
        with borrowed_connection(self._database, connection) as lent, lent.transaction():
            if (endpoint_id := id_of(endpoint)) is not None:
                store.lock(lent, endpoint_id, team_id=team_id)
            yield self._get(lent, endpoint, team_id), lent
        self._book.forget()

    def update(
        self, endpoint: str, *, team_id: str | None = None, connection: Connection | None = None,
        **changes: Any,  # noqa: ANN401 - each is checked by its name
    ) -> Shown:  # fmt: skip
        """Change what is given of an endpoint; return it as it is now.

        `enabled=True` also forgives the failures that disabled it: for an endpoint of the file that is all there is.

        Raises:
            UnknownEndpoint: There is none of that id.
            EndpointOfTheFile: It is declared in the file, and changed there.
            RequestError: A value cannot be; nothing was changed.
        """
        enables = changes.get("enabled") is True
        if endpoint in self._config.settings.webhooks.endpoints and team_id is None:
            if changes != {"enabled": True}:
                raise EndpointOfTheFile(endpoint)
            changed: dict[str, Any] = {}
        else:
            changed = self._checked(changes)
        with borrowed_connection(self._database, connection) as lent, lent.transaction():
            if changed and not store.update(lent, self._id(endpoint, team_id), changed, team_id=team_id):
                raise UnknownEndpoint(endpoint)
            if enables:
                store.forget_failures(lent, endpoint, enable=True)
            shown = self._get(lent, endpoint, team_id)
        self._book.forget()
        return shown

    def rotate(
        self, endpoint: str, *, team_id: str | None = None, secret: str | None = None, beside: timedelta = BESIDE,
        connection: Connection | None = None,
    ) -> tuple[Shown, str]:  # fmt: skip
        """Give an endpoint a new secret; return it, and the secret, which is shown this once.

        Args:
            endpoint: Its id.
            team_id: Only within this team.
            secret: `whsec_…`; None: a new one.
            beside: For how long the one before signs, too; zero: no longer, as when it was stolen.
            connection: Its transaction decides; None: one of its own.

        Raises:
            UnknownEndpoint: There is none of that id.
            EndpointOfTheFile: Its secret is in the environment, and rotated there.
            NotConfigured: There is no key to encrypt the secret with.
        """
        secret = new_secret() if secret is None else check_secret(secret)
        sealed = self._box.seal(secret)
        with borrowed_connection(self._database, connection) as lent:
            found = store.rotate(
                lent, self._id(endpoint, team_id), sealed, beside_seconds=beside.total_seconds(), team_id=team_id
            )
            if not found:
                raise UnknownEndpoint(endpoint)
            shown = self._get(lent, endpoint, team_id)
        self._book.forget()
        return shown, secret

    def delete(self, endpoint: str, *, team_id: str | None = None, connection: Connection | None = None) -> None:
        """Remove an endpoint; deliveries that wait for it are skipped when they are due.

        Raises:
            UnknownEndpoint: There is none of that id.
            EndpointOfTheFile: It is declared in the file.
        """
        with borrowed_connection(self._database, connection) as lent:
            if not store.delete(lent, self._id(endpoint, team_id), team_id=team_id):
                raise UnknownEndpoint(endpoint)
        self._book.forget()

    def test(
        self, endpoint: str, *, team_id: str | None = None, by: str | None = None, connection: Connection | None = None
    ) -> Scheduled:
        """Schedule the delivery of a test event to an endpoint, whatever its patterns; return it.

        Raises:
            UnknownEndpoint: There is none of that id or name.
        """
        with borrowed_connection(self._database, connection) as lent:
            shown = self._get(lent, endpoint, team_id)
            payload = {
                "event": TEST_EVENT,
                "entity_type": "webhook",
                "entity_id": shown.id,
                "data": {"message": "This is a test."},
                "endpoint": shown.id,
            }
            new = {
                "action_type": "webhook:send",
                "payload": encode("payload", payload, limit=PAYLOAD_LIMIT),
                "team_id": shown.team_id,
                "dedup_window": 0,
                "created_by": by,
            }
            return actions.schedule(lent, new)

    def reseal(self) -> int:
        """Encrypt every secret with the first key, so that the others can go; return how many endpoints there are.

        Raises:
            SecretUnreadable: One was encrypted with a key that is not there; those before it are done.
        """
        count, after = 0, None
        while True:
            with self._database.connection() as connection:
                rows = store.find(connection, after=after, limit=100)
                for row in rows:
                    store.reseal(connection, row, **self._sealed_anew(row))
            if not rows:
                self._book.forget()
                return count
            count, after = count + len(rows), rows[-1].id

    def events(self, *, team_id: str | None = None) -> list[EventKind]:
        """Return the event types that the settings declare, that watched tables tell, and that were seen, by name."""
        with self._database.connection() as connection:
            seen = {one.event: one for one in store.event_types(connection, team_id=team_id)}
            watched = watches.watched(connection)
        tables: dict[str, list[str]] = {}
        for one in watched:
            for verb in one.on:
                tables.setdefault(f"{one.entity}:{verb}", []).append(one.table)
        declared = self._config.settings.webhooks.events
        return [
            EventKind(
                event=event,
                description=declared.get(event, ""),
                # What the installation's tables are called concerns no team.
                tables=tuple(tables.get(event, ())) if team_id is None else (),
                first_seen_at=seen[event].first_seen_at if event in seen else None,
                last_seen_at=seen[event].last_seen_at if event in seen else None,
            )
            for event in sorted({*declared, *tables, *seen})
        ]

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _sealed_anew(self, row: store.EndpointRow) -> dict[str, Any]:
        sealed = {"secret": row.secret, "previous_secret": row.previous_secret, "headers": row.headers}
        return {
            name: None if one is None else self._box.seal(self._box.open(one, what=f'a secret of endpoint "{row.id}"'))
            for name, one in sealed.items()
        }

    def _id(self, endpoint: str, team_id: str | None) -> UUID:
        # To a team the file's endpoints are as unknown ones.
        if team_id is None and endpoint in self._config.settings.webhooks.endpoints:
            raise EndpointOfTheFile(endpoint)
        found = id_of(endpoint)
        if found is None:
            raise UnknownEndpoint(endpoint)
        return found

    def _get(self, connection: Connection, endpoint: str, team_id: str | None) -> Shown:
        declared = self._config.settings.webhooks.endpoints.get(endpoint) if team_id is None else None
        if declared is not None:
            state = store.states(connection, [endpoint]).get(endpoint)
            return self._declared(endpoint, declared, state, self._lanes(connection, [endpoint])[endpoint])
        endpoint_id = id_of(endpoint)
        row = None if endpoint_id is None else store.get(connection, endpoint_id, team_id=team_id)
        if row is None:
            raise UnknownEndpoint(endpoint)
        return shown.of_row(row, self._lanes(connection, [endpoint])[endpoint])

    def _lanes(self, connection: Connection, endpoints: list[str]) -> dict[str, store.Lane]:
        return store.lanes(connection, endpoints, concurrency=self._config.settings.concurrency)

    def _declared(self, name: str, declared: Declared, state: store.State | None, lane: store.Lane) -> Shown:
        return shown.of_file(name, declared, state, lane, url=self._config.endpoint_url(declared))

    def _checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings as the table takes them."""
        values = check_settings(given)
        if "headers" in values:
            kept = values["headers"]
            values["header_names"] = sorted(kept)
            values["headers"] = self._box.seal(json.dumps(kept)) if kept else None
        return values


def new_secret() -> str:
    """Return a secret as Standard Webhooks writes it, of 32 random bytes."""
    return f"whsec_{base64.b64encode(os.urandom(32)).decode()}"
