"""Action types and payloads as callers name them: who may schedule the type, and whether the payload is valid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from scheduled_actions.actions.for_each import check_options
from scheduled_actions.conditions.queries import check_team
from scheduled_actions.core import json_text
from scheduled_actions.core.action import PAYLOAD_LIMIT
from scheduled_actions.core.errors import TypeNotOpen
from scheduled_actions.registry.handler import INTERNAL_TYPES
from scheduled_actions.webhooks.endpoints import store as endpoints
from scheduled_actions.webhooks.endpoints.health import DISABLED_EVENT, FAILING_EVENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduled_actions.core.config import Settings
    from scheduled_actions.core.requester import Requester
    from scheduled_actions.database.connection import Database
    from scheduled_actions.registry import Registry
    from scheduled_actions.registry.handler import HandlerOptions
    from scheduled_actions.registry.resolution import Handler

_EVENT, _FOR_EACH = "webhook:send", "for_each:run"
_INTERNAL = "is internal: it cannot be scheduled over HTTP"
_CLOSED = (
    "is not open to tokens of a team: declare it with @action(…, open_to_teams=True), or use a token without a team"
)
_NOT_OWN = "is open to tokens of a team only without an endpoint, or with the id of an endpoint of that team"
#: Events that cause a mail to the operator.
_OWN_EVENTS = frozenset({DISABLED_EVENT, FAILING_EVENT})
_OWN_EVENT = "does not take this event over HTTP: it is emitted when an endpoint fails"
_NESTED = "cannot be scheduled for each row over HTTP"


def refusal_of(action_type: str, options: HandlerOptions, requester: Requester | None) -> str | None:
    """Return why a requester may not schedule a type, whatever its payload; None: it may."""
    if requester is None:
        return None
    if action_type in INTERNAL_TYPES:
        return _INTERNAL
    return _CLOSED if requester.team_id is not None and not options.open_to_teams else None


class PreparedPayload(NamedTuple):
    """A payload that its handler takes."""

    handler: Handler
    #: JSON, as the table holds it.
    text: str


class PayloadAccess:
    """Resolves action types and validates payloads for one project.

    Every path on which a caller names a type, or gives a payload for one, ends here.

    Args:
        registry: The handlers.
        database: The endpoints.
        settings: The named queries.
        check_follow_ups: Validates a condition and follow-ups for a requester, and raises what is wrong with them.
    """

    def __init__(
        self,
        registry: Registry,
        database: Database,
        settings: Settings,
        check_follow_ups: Callable[[Mapping[str, Any], Requester], object],
    ) -> None:
        self._registry = registry
        self._database = database
        self._settings = settings
        self._check_follow_ups = check_follow_ups

    def prepare(
        self,
        action_type: str,
        payload: Any,  # noqa: ANN401 - any model
        *,
        requester: Requester | None = None,
        where: str = "action_type",
        is_gathered: bool = False,
    ) -> PreparedPayload:
        """Return the handler of a type, and the payload as JSON.

        Args:
            action_type: Names the handler.
            payload: What its model takes.
            requester: The token that asks over HTTP; None: application code, which may schedule everything.
            where: The field of the request that is refused where the type is not open.
            is_gathered: The payload is one item of the list that the handler takes.

        Raises:
            UnknownActionType: This build has no such handler.
            TypeNotOpen: The requester may not schedule the type, or not with this payload.
            PayloadInvalid: The handler's model refuses the payload.
            HandlerBroken: The handler cannot be loaded.
        """
        handler = self.handler(action_type, requester=requester, where=where)
        text = handler.payload.prepare(payload, gathered=is_gathered)
        if requester is not None:
            text = self._checked(action_type, text, requester)
        return PreparedPayload(handler, text)

    def handler(self, action_type: str, *, requester: Requester | None, where: str = "action_type") -> Handler:
        """Return the handler of a type that the requester may schedule; see `prepare` for the errors."""
        handler = self._registry.resolve(action_type)
        refusal = refusal_of(action_type, handler.options, requester)
        if refusal is not None:
            raise TypeNotOpen(action_type, refusal, where=where)
        return handler

    def _checked(self, action_type: str, text: str, requester: Requester) -> str:
        """Return a payload as a requester may give it: what makes actions later says how far they reach."""
        payload = json_text.decode(text) if action_type in {_EVENT, _FOR_EACH} else None
        if not isinstance(payload, dict):
            return text
        if action_type == _FOR_EACH:
            self._check_rows(payload, requester)
            return json_text.encode("payload", {**payload, "reach": requester.reach}, limit=PAYLOAD_LIMIT)
        if payload.get("event") in _OWN_EVENTS:
            raise TypeNotOpen(_EVENT, _OWN_EVENT, where="payload.event")
        if requester.team_id is not None and payload.get("endpoint") is not None:
            self._check_endpoint(payload["endpoint"], requester.team_id)
        return text

    def _check_endpoint(self, name: object, team_id: str) -> None:
        """Refuse a delivery to an endpoint of the settings, of another team, or of none: all in the same words."""
        refused = TypeNotOpen(_EVENT, _NOT_OWN, where="payload.endpoint")
        try:
            endpoint_id = UUID(str(name))
        except ValueError:
            raise refused from None
        with self._database.connection() as connection:
            found = endpoints.get(connection, endpoint_id, team_id=team_id)
        if found is None:
            raise refused

    def _check_rows(self, payload: Mapping[str, Any], requester: Requester) -> None:
        """Check the actions that `for_each:run` will schedule; their payloads are rows that are not known yet."""
        inner = str(payload.get("action_type"))
        self.handler(inner, requester=requester, where="payload.action_type")
        if inner == _FOR_EACH:
            raise TypeNotOpen(inner, _NESTED, where="payload.action_type")
        options = payload.get("options") or {}
        check_options(options, name="payload.options")
        try:
            self._check_follow_ups(options, requester)
        except TypeNotOpen as error:
            raise error.inside("payload.options") from None
        query = self._settings.queries.get(str(payload.get("query")))
        if query is not None:
            check_team(query, requester.team_id, name="payload.query")
