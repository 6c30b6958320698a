"""Action types and payloads as callers name them: who may schedule the type, and whether the payload is valid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from scheduled_actions.core import json_text
from scheduled_actions.core.action import PAYLOAD_LIMIT
from scheduled_actions.core.errors import TypeNotOpen
from scheduled_actions.registry.handler import INTERNAL_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduled_actions.core.requester import Requester
    from scheduled_actions.registry import Registry
    from scheduled_actions.registry.handler import HandlerOptions
    from scheduled_actions.registry.resolution import Handler

_INTERNAL = "is internal: it cannot be scheduled over HTTP"
_CLOSED = (
    "is not open to tokens of a team: declare it with @action(…, open_to_teams=True), or use a token without a team"
)

#: Returns a payload as a requester may give it, the same object where nothing is to be changed.
#: Raises TypeNotOpen where the requester may not schedule its type with it.
PayloadCheck: TypeAlias = "Callable[[dict[str, Any], Requester], dict[str, Any]]"


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
        checks: By action type, what checks the payloads of requesters over HTTP.
    """

    def __init__(self, registry: Registry, checks: Mapping[str, PayloadCheck]) -> None:
        self._registry = registry
        self._checks = checks

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
        """Return a payload as a requester may give it."""
        check = self._checks.get(action_type)
        payload = None if check is None else json_text.decode(text)
        if check is None or not isinstance(payload, dict):
            return text
        checked = check(payload, requester)
        return text if checked is payload else json_text.encode("payload", checked, limit=PAYLOAD_LIMIT)
