"""Find the paths in filters of webhook endpoints that none of the recent events has."""

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.messages import nearest
from scheduled_actions.database.connection import Connection
from scheduled_actions.operations.doctor import store
from scheduled_actions.operations.doctor.rules.project import MissingPath
from scheduled_actions.webhooks.endpoints.directory import read_endpoint
from scheduled_actions.webhooks.endpoints.model import Endpoint, EndpointRow
from scheduled_actions.webhooks.rules import filters, routing
from scheduled_actions.webhooks.sending import event_content

#: Maximum number of events and deliveries, of events among them, of endpoints, and of paths per endpoint that are read.
_ROWS_MOST = 1000
_EVENTS_MOST = 100
_ENDPOINTS_MOST = 100
_PATHS_MOST = 20
#: Maximum number of paths per event that are compared with a missing path.
_KNOWN_MOST = 200


def missing_paths(connection: Connection) -> list[MissingPath]:
    """Return the paths in filters that none of the recent events has, of those that the endpoint's patterns match."""
    rows = store.sql.run_leniently(connection, "doctor_filters", most=_ENDPOINTS_MOST).fetchall()
    if not rows:
        return []
    events = store.sql.run_leniently(connection, "doctor_events", most=_ROWS_MOST, most_events=_EVENTS_MOST)
    bodies = [event_content(payload, team_id) for payload, team_id in events if isinstance(payload, Mapping)]
    return [one for row in rows for one in _missing_paths(read_endpoint(EndpointRow(*row)), bodies)]


def _missing_paths(endpoint: Endpoint, bodies: list[dict[str, Any]]) -> list[MissingPath]:
    matching = [body for body in bodies if endpoint.belongs_to(body["team_id"]) and _matches(endpoint, body["event"])]
    if not matching or endpoint.filter is None:
        return []
    missing = [
        path
        for path in islice(filters.required_paths(endpoint.filter), _PATHS_MOST)
        if not any(filters.has_path(body, path) for body in matching)
    ]
    known = {path for body in matching for path in islice(filters.paths_of(body), _KNOWN_MOST)} if missing else ()
    return [
        MissingPath(endpoint=endpoint.name, path=path, events=len(matching), near=nearest(path, known))
        for path in dict.fromkeys(missing)
    ]


def _matches(endpoint: Endpoint, event: Any) -> bool:  # noqa: ANN401 - any stored JSON
    with suppress(InvalidArgument):
        return any(routing.matches(event, pattern) for pattern in endpoint.patterns)
    return False
