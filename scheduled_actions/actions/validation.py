"""Check new actions: who may schedule the type, whether its handler takes the payload, and every argument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from scheduled_actions.actions import dependencies as follow_ups
from scheduled_actions.actions.model import arguments_of, columns_of
from scheduled_actions.core import json_text, tracing
from scheduled_actions.core.action import PAYLOAD_LIMIT
from scheduled_actions.core.errors import TypeNotOpen
from scheduled_actions.registry.handler import INTERNAL_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduled_actions.actions.model import NewAction
    from scheduled_actions.conditions.rules.model import Outside
    from scheduled_actions.core.config import Settings
    from scheduled_actions.core.requester import Requester
    from scheduled_actions.database.connection import Database
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    """Where an action and its follow-ups come from."""

    #: None: application code.
    requester: Requester | None
    #: Of the action; its follow-ups belong to the same team.
    team_id: str | None
    #: Whether it carries the present trace. What a series brings years later is no part of it.
    is_traced: bool


class Preparation:
    """Checks what one project's callers ask for.

    Args:
        database: What conditions may ask.
        registry: Has the functions that conditions may ask.
        settings: The dedup window where neither call nor handler says one.
        payloads: Validates types and payloads.
    """

    def __init__(self, database: Database, registry: Registry, settings: Settings, payloads: PayloadAccess) -> None:
        self._database = database
        self._registry = registry
        self._settings = settings
        self._payloads = payloads

    def row(self, new: NewAction | Mapping[str, Any], *, requester: Requester | None = None) -> dict[str, Any]:
        """Return the arguments given of the SQL function: each checked, documents as JSON text.

        Args:
            new: The action.
            requester: The token that asks over HTTP; None: application code.

        Raises:
            RequestError: Unknown type, payload refused, an argument out of range, or a type that the requester may
                not schedule.
        """
        given = arguments_of(new)
        return self._row(given, 0, _Origin(requester=requester, team_id=given.get("team_id"), is_traced=True))

    def element(
        self, position: int, new: NewAction | Mapping[str, Any], *, requester: Requester | None = None
    ) -> dict[str, Any]:
        """Return one of many as `row` does; what is raised says which one it is."""
        try:
            return self.row(new, requester=requester)
        except Exception as error:
            error.add_note(f"in new_actions[{position}]")
            raise

    def extras(
        self, given: Mapping[str, Any], *, requester: Requester | None = None, team_id: str | None = None
    ) -> dict[str, Any]:
        """Return a condition and follow-ups as the columns of what brings actions with them, or is there already.

        Args:
            given: `condition`, `after`, `on_success`, `on_failure`.
            requester: As for `row`.
            team_id: Of what they belong to.

        Raises:
            RequestError: One cannot be what it is; `FollowUpInvalid` says which follow-up.
        """
        return self._extras(given, 0, _Origin(requester=requester, team_id=team_id, is_traced=False))

    def _row(self, given: dict[str, Any], depth: int, origin: _Origin) -> dict[str, Any]:
        if origin.is_traced:
            given = tracing.with_trace(given)
        extras = {name: given.pop(name) for name in given.keys() & follow_ups.NAMES}
        prepared = self._payloads.prepare(
            given.pop("action_type"),
            given.pop("payload"),
            requester=origin.requester,
            is_gathered=given.get("dedup_mode") == "append",
        )
        row: dict[str, Any] = {"action_type": prepared.handler.action_type, "payload": prepared.text}
        row |= columns_of(given)
        if extras:
            row |= self._extras(extras, depth, origin)
        # Said here, the window need not be looked up by the SQL function; without a key none matters.
        if "dedup_window" not in given and ("dedup_key" in given or '"entity_id"' in row["payload"]):
            window = prepared.handler.options.dedup_window
            row["dedup_window"] = self._settings.deduplication.window_seconds if window is None else window
        return row

    def _extras(self, given: Mapping[str, Any], depth: int, origin: _Origin) -> dict[str, Any]:
        def follow_up(new: Mapping[str, Any], depth: int) -> dict[str, Any]:
            return self._row(arguments_of(new), depth, origin)

        columns = follow_ups.extras_of(given, follow_up, depth=depth)
        if "condition" in columns:
            if origin.requester is not None:
                columns["condition"] = follow_ups.with_public_reach(columns["condition"])
            follow_ups.check_outsides(columns["condition"], lambda outside: self._check_outside(outside, origin))
        return columns

    def _check_outside(self, outside: Outside, origin: _Origin) -> None:
        from scheduled_actions.conditions.external_checks import Asker  # noqa: PLC0415 - most projects ask nothing

        Asker(self._database, self._registry, self._settings).check(outside, team_id=origin.team_id)
