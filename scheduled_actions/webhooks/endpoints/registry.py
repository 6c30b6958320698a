"""Which webhook endpoints there are, as routing and delivering need them: those of the file and of the database as one.

What the database says is believed for a second: at a thousand deliveries a second, asking each time would cost more
than delivering.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

import psycopg

from scheduled_actions.core import retry, signing
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
from scheduled_actions.database.boundary import contain, reason_of
from scheduled_actions.outbound import delivery
from scheduled_actions.outbound.reach import reach_of
from scheduled_actions.webhooks.endpoints import store
from scheduled_actions.webhooks.endpoints.health import write_failure
from scheduled_actions.webhooks.endpoints.model import Endpoint
from scheduled_actions.webhooks.gate import Gate
from scheduled_actions.webhooks.rules import filters, routing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from scheduled_actions.core.config import Config, Webhooks
    from scheduled_actions.database.connection import Connection, Database
    from scheduled_actions.outbound.reach import Reach
    from scheduled_actions.webhooks.endpoints.store import EndpointRow, State

Read = TypeVar("Read")

log = logging.getLogger("scheduled_actions")

#: How long what the database said is believed.
_BELIEVED_SECONDS = 1.0
#: A further failure so soon after one that was written is not written.
_WRITE_SECONDS = 60.0
#: A type of event is written down again after this.
_SEEN_AGAIN_SECONDS = 3600.0
#: Entries of each memory; beyond it everything is forgotten at once.
_REMEMBERED = 5000


@dataclass(frozen=True, slots=True)
class Target:
    """Where a delivery goes and what proves where it comes from."""

    url: str
    #: None: it is sent unsigned.
    keys: tuple[bytes, ...]
    headers: Mapping[str, str]
    reach: Reach


class Wanting(NamedTuple):
    """An endpoint that gets an event."""

    endpoint: Endpoint
    #: The steps within which its filter could not be evaluated; None where it wants the event.
    undecided_within: int | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    endpoint: Endpoint
    row: EndpointRow | None = None


class EndpointBook:
    """The endpoints of one project.

    Args:
        config: The file's endpoints, and the key of the database's secrets.
        database: Those of the database; None: there are none, and nothing is remembered of any.
        monotonic: Seconds that never go back.
    """

    def __init__(
        self, config: Config, database: Database | None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._config = config
        self._database = database
        self._monotonic = monotonic
        self._box = SecretBox(config.encryption_keys)
        #: Keeps endpoints that hang from holding up the others.
        self.gate = Gate(config.settings.concurrency, monotonic=monotonic)
        self._by_name: dict[str, tuple[float, _Known | None]] = {}
        self._by_team: dict[str | None, tuple[float, list[_Known]]] = {}
        self._targets: dict[tuple[UUID, datetime, bool], Target] = {}
        self._failure_written: dict[str, float] = {}
        self._seen: dict[tuple[str | None, str], float] = {}

    @property
    def _settings(self) -> Webhooks:
        return self._config.settings.webhooks

    def forget(self) -> None:
        """Believe nothing that the database said before, nor that it knows of anything already."""
        self._by_name.clear()
        self._by_team.clear()
        self._failure_written.clear()

    def wanting(self, event: str, *, team_id: str | None, body: Mapping[str, Any]) -> list[Wanting]:
        """Return the endpoints that get an event: the file's as it routes them, then the database's that want it.

        Those that are disabled in the database are among them: what comes for them is kept, to be recovered. So are
        those whose filter takes more steps than its share: their deliveries end with that.

        Args:
            event: `entity:verb`.
            team_id: The team that it belongs to.
            body: What is delivered, for filters.

        Raises:
            InvalidArgument: The event or a pattern of the file has no such shape.
            DatabaseUnavailable: The database's endpoints cannot be read.
        """
        of_team = self._of_team(team_id)
        # Each has the same share, so that none loses an event to the filter of another.
        steps = min(filters.FILTER_STEPS, STEPS // max(1, len(of_team)))
        tenants = [
            wanting
            for known in of_team
            if (endpoint := known.endpoint).belongs_to(team_id)
            and any(routing.matches(event, pattern) for pattern in endpoint.patterns)
            and (wanting := _filtered(body, endpoint, steps)) is not None
        ]
        declared = self._settings.endpoints
        names = routing.route(
            event,
            endpoints=declared,
            routing=self._settings.routing,
            default_endpoint=None if tenants else self._settings.default_endpoint,
        )
        return [*(Wanting(self._of_file(name, None)) for name in names), *tenants]

    def find(self, name: str, *, team_id: str | None) -> Endpoint | None:
        """Return the endpoint of that name or id; None when there is none, or it is another team's."""
        known = self._known(name)
        return known.endpoint if known is not None and known.endpoint.belongs_to(team_id) else None

    def any(self, name: str) -> Endpoint | None:
        """Return the endpoint of that name or id, whosever it is."""
        known = self._known(name)
        return None if known is None else known.endpoint

    def names(self) -> list[str]:
        """Return the names of the file's endpoints."""
        return list(self._settings.endpoints)

    def target(self, endpoint: Endpoint) -> Target:
        """Return where an endpoint's deliveries go.

        Raises:
            NotConfigured: Its URL or its secret is unset or unusable; the message repeats neither.
            SecretUnreadable: Its secret was encrypted with another key.
            UnknownEndpoint: It has just been deleted.
        """
        if not endpoint.is_tenants:
            return self._target_of_file(endpoint.name)
        known = self._known(endpoint.name)
        if known is None or known.row is None:
            raise UnknownEndpoint(endpoint.name)
        row = known.row
        version = (row.id, row.updated_at, row.previous_secret is not None)
        kept = self._targets.get(version)
        if kept is None:
            if len(self._targets) >= _REMEMBERED:
                self._targets.clear()
            kept = self._targets[version] = self._target_of_row(row)
        return kept

    # -- reading ---------------------------------------------------------------------------------------------------

    def _known(self, name: str) -> _Known | None:
        now = self._monotonic()
        until, known = self._by_name.get(name, (0.0, None))
        if now < until:
            return known
        known = self._read(name)
        if len(self._by_name) >= _REMEMBERED:
            self._by_name.clear()
        self._by_name[name] = (now + _BELIEVED_SECONDS, known)
        return known

    def _read(self, name: str) -> _Known | None:
        if name in self._settings.endpoints:
            if self._database is None:
                return _Known(self._of_file(name, None))
            with self._database.connection() as connection:
                return _Known(self._of_file(name, store.states(connection, [name]).get(name)))
        endpoint_id = id_of(name)
        if endpoint_id is None or self._database is None:
            return None
        with self._database.connection() as connection:
            row = store.get(connection, endpoint_id)
        return None if row is None else _Known(of_row(row), row)

    def _of_team(self, team_id: str | None) -> list[_Known]:
        if self._database is None:
            return []
        now = self._monotonic()
        until, found = self._by_team.get(team_id, (0.0, []))
        if now >= until:
            with self._database.connection() as connection:
                found = [_Known(of_row(row), row) for row in store.of_team(connection, team_id)]
            if len(self._by_team) >= _REMEMBERED:
                self._by_team.clear()
            self._by_team[team_id] = (now + _BELIEVED_SECONDS, found)
        return found

    def _of_file(self, name: str, state: State | None) -> Endpoint:
        declared = self._settings.endpoints[name]
        return Endpoint(
            name=name,
            patterns=declared.patterns,
            is_tenants=False,
            enabled=declared.enabled,
            ordering=declared.ordering,
            rate_limit=declared.rate_limit,
            retry=None if declared.retry is None else retry.Delays(declared.retry),
            failing_since=state.failing_since if state else None,
            disabled_reason=state.disabled_reason if state and state.disabled_at else None,
        )

    def _target_of_file(self, name: str) -> Target:
        declared = self._settings.endpoints[name]
        expected = f'the http or https URL of endpoint "{name}"'
        url = self._config.endpoint_url(declared)
        if url is None:
            raise NotConfigured(declared.env_var, expected)
        try:
            delivery.check_url(url)
        except UrlInvalid as error:
            raise NotConfigured(declared.env_var, f"{expected}: what is there {error.problem}") from None
        return Target(url, self._config.endpoint_keys(declared), {}, reach_of(self._settings, is_tenants=False))

    def _target_of_row(self, row: EndpointRow) -> Target:
        what = f'the secret of endpoint "{row.id}"'
        sealed = [row.secret, *([row.previous_secret] if row.previous_secret else [])]
        keys = tuple(key for one in sealed for key in signing.keys_of(self._box.open(one, what=what)))
        headers: Any = {}
        if row.headers is not None:
            headers = decode(self._box.open(row.headers, what=f'the headers of endpoint "{row.id}"'))
        return Target(row.url, keys, headers, reach_of(self._settings, is_tenants=True))

    # -- what has become of deliveries -----------------------------------------------------------------------------

    def take_place(self, endpoint: Endpoint, *, patience: float) -> tuple[bool, float]:
        """Return whether a delivery may go within `patience` seconds, and how long it is to wait for it, or else."""
        if endpoint.rate_limit is None or self._database is None:
            return True, 0.0
        with self._database.connection() as connection:
            return store.take_place(connection, endpoint.name, rate=endpoint.rate_limit, patience=patience)

    def saw(self, event: str, *, team_id: str | None) -> None:
        """Remember that there was such an event."""
        now, key = self._monotonic(), (team_id, event)
        if self._database is None or now < self._seen.get(key, 0.0):
            return
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        with self._database.connection() as connection:
            store.see_event(connection, event, team_id=team_id)
        self._seen[key] = now + _SEEN_AGAIN_SECONDS

    def succeeded(self, endpoint: Endpoint) -> None:
        """Hold nothing against an endpoint any more."""
        if endpoint.failing_since is None and endpoint.name not in self._failure_written:
            return
        self._record(endpoint, lambda connection: store.forget_failures(connection, endpoint.name, enable=False))
        self._failure_written.pop(endpoint.name, None)

    def failed(self, endpoint: Endpoint, fact: str, *, disables: bool = False) -> None:
        """Remember a failure; warn of an endpoint that keeps failing, disable one that failed for too long.

        Args:
            endpoint: Which.
            fact: What happened, for the one who reads why it was disabled.
            disables: The receiver wants nothing more: it is disabled at once.
        """
        now = self._monotonic()
        if not disables and now < self._failure_written.get(endpoint.name, 0.0):
            return
        self._record(endpoint, lambda connection: write_failure(connection, endpoint, fact, disables=disables))
        self._failure_written[endpoint.name] = now + _WRITE_SECONDS

    def _record(self, endpoint: Endpoint, write: Callable[[Connection], None]) -> None:
        """Write what became of a delivery; failing to do so must not make it fail, and be made again, itself."""
        if self._database is None:
            return
        try:
            with self._database.connection() as connection, connection.transaction():
                write(connection)
        except (psycopg.Error, ScheduledActionsError) as error:
            log.warning("webhook.unrecorded endpoint=%s error=%s", endpoint.name, type(error).__name__)
        self._by_name.pop(endpoint.name, None)
        self._by_team.clear()


def _filtered(body: Mapping[str, Any], endpoint: Endpoint, steps: int) -> Wanting | None:
    """Return that an endpoint's filter wants a body, or takes too many steps to say; None where it does not want it."""
    try:
        return Wanting(endpoint) if fits(endpoint, body, steps=steps) else None
    except BudgetExceeded:
        return Wanting(endpoint, undecided_within=steps)


def fits(endpoint: Endpoint, body: Mapping[str, Any], *, steps: int) -> bool:
    """Return whether an endpoint's filter wants a body.

    Raises:
        BudgetExceeded: It takes more steps than these to say.
    """
    budget = EvaluationBudget(f'the filter of endpoint "{endpoint.name}"', steps=steps)
    return filters.fits(body, endpoint.filter, budget)


def id_of(name: str) -> UUID | None:
    """Return the id that a name is; None when it is none, and so no endpoint of the database."""
    try:
        found = UUID(name)
    except ValueError:
        return None
    return found if str(found) == name else None


def of_row(row: EndpointRow) -> Endpoint:
    """Return an endpoint of the database as routing needs it.

    One whose row cannot be read is disabled, and says why: what matches its readable patterns is kept, to be recovered.
    """
    reasons: dict[str, str] = {}

    def read(name: str, reading: Callable[[], Read], default: Read) -> Read:
        def refused(error: BaseException) -> Read:
            reasons[name] = f"its {name} cannot be read: {reason_of(error)}"
            return default

        return contain(reading, refused)

    patterns = [read("patterns", partial(_pattern, one), None) for one in row.patterns]
    wanted = read("filter", lambda: filters.check(row.filter), None)
    policy = read("retry", lambda: None if row.retry is None else retry.parse(row.retry), None)
    if row.disabled_at:
        reasons["state"] = row.disabled_reason or "disabled"
    return Endpoint(
        name=str(row.id),
        patterns=tuple(one for one in patterns if one is not None),
        is_tenants=True,
        team_id=row.team_id,
        enabled=row.enabled,
        filter=wanted,
        ordering="fifo" if row.ordering == "fifo" else "none",
        rate_limit=row.rate_limit,
        retry=policy,
        failing_since=row.failing_since,
        disabled_reason="; ".join(reasons.values()) or None,
    )


def _pattern(stored: str) -> str | None:
    routing.split_pattern(stored)
    return stored
