"""Which events, and deliveries to which endpoints, a token may schedule over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from scheduled_actions.core.errors import TypeNotOpen
from scheduled_actions.webhooks.endpoints import store
from scheduled_actions.webhooks.endpoints.health import DISABLED_EVENT, FAILING_EVENT

if TYPE_CHECKING:
    from scheduled_actions.core.requester import Requester
    from scheduled_actions.database.connection import Database

_TYPE = "webhook:send"
_NOT_OWN = "is open to tokens of a team only without an endpoint, or with the id of an endpoint of that team"
#: Events that cause a mail to the operator.
_OWN_EVENTS = frozenset({DISABLED_EVENT, FAILING_EVENT})
_OWN_EVENT = "does not take this event over HTTP: it is emitted when an endpoint fails"


def check_event(database: Database, payload: dict[str, Any], requester: Requester) -> dict[str, Any]:
    """Return the payload of `webhook:send` if a requester may schedule it.

    Raises:
        TypeNotOpen: It is an event that mails the operator, or a delivery to an endpoint that is not the team's.
    """
    if payload.get("event") in _OWN_EVENTS:
        raise TypeNotOpen(_TYPE, _OWN_EVENT, where="payload.event")
    if requester.team_id is not None and payload.get("endpoint") is not None:
        _check_endpoint(database, payload["endpoint"], requester.team_id)
    return payload


def _check_endpoint(database: Database, name: object, team_id: str) -> None:
    """Refuse a delivery to an endpoint of the settings, of another team, or of none: all in the same words."""
    refused = TypeNotOpen(_TYPE, _NOT_OWN, where="payload.endpoint")
    try:
        endpoint_id = UUID(str(name))
    except ValueError:
        raise refused from None
    with database.connection() as connection:
        found = store.get(connection, endpoint_id, team_id=team_id)
    if found is None:
        raise refused
