"""Validate new actions: the permission to schedule the type, the payload, and every argument."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from scheduled_actions.actions import dependencies
from scheduled_actions.actions.model import NewAction, arguments_of, columns_of
from scheduled_actions.core import json_text, tracing
from scheduled_actions.core.action import PAYLOAD_LIMIT
from scheduled_actions.core.config import Settings
from scheduled_actions.core.errors import ActionTypeForbidden, UnknownActionType
from scheduled_actions.core.requester import Requester
from scheduled_actions.database.connection import Database
from scheduled_actions.registry import Registry, limit_keys
from scheduled_actions.registry.handler import INTERNAL_TYPES, HandlerOptions
from scheduled_actions.registry.resolution import Handler

#: Checks a payload that a requester schedules; returns the payload to store, which is the same object if unchanged.
#: Raises ActionTypeForbidden if the requester may not schedule the type with this payload.
PayloadCheck: TypeAlias = "Callable[[dict[str, Any], Requester], dict[str, Any]]"


def refusal_of(action_type: str, options: HandlerOptions, requester: Requester | None) -> str | None:
    """Return why a requester may not schedule an action type, whatever the payload; None if it may."""
    if requester is None:
        return None
    if action_type in INTERNAL_TYPES:
        return "is internal: it cannot be scheduled over HTTP"
    if requester.team_id is None or options.open_to_teams:
        return None
    return (
        "is not open to tokens of a team: declare it with @action(…, open_to_teams=True), or use a token without a team"
    )


@dataclass(frozen=True, slots=True)
class PayloadValidator:
    """Resolves action types and validates payloads, for every caller that gives an action type.

    Args:
        registry: The handlers.
        checks: By action type, a further check of payloads that come over HTTP.
    """

    registry: Registry
    checks: Mapping[str, PayloadCheck]

    def prepare(
        self,
        action_type: str,
        payload: Any,  # noqa: ANN401 - any model
        *,
        requester: Requester | None = None,
        where: str = "action_type",
        is_list_item: bool = False,
    ) -> tuple[Handler, str]:
        """Validate an action type and a payload; return the handler, and the payload as JSON text to store.

        Args:
            action_type: Selects the handler.
            payload: A value that the handler's model accepts.
            requester: The API token; None: application code, which may schedule every type.
            where: The request field that names the type, for errors.
            is_list_item: Whether the payload is one item of the list that the handler takes.

        Raises:
            UnknownActionType: This build has no handler for the type.
            ActionTypeForbidden: The requester may not schedule the type, or not with this payload.
            PayloadInvalid: The payload does not match the handler's model.
            InvalidArgument: The payload is not a JSON object, or contains a value that cannot be stored as JSON; or it
                is a list item, and the handler does not take a list.
            TooLarge: The payload exceeds 256 KiB.
            HandlerBroken: The handler cannot be loaded.
        """
        handler = self.handler(action_type, requester=requester, where=where)
        text = handler.payload.prepare(payload, is_list_item=is_list_item)
        if requester is not None and (check := self.checks.get(action_type)) is not None:
            decoded = json_text.decode(text)
            checked = check(decoded, requester) if isinstance(decoded, dict) else decoded
            if checked is not decoded:
                text = json_text.encode("payload", checked, limit=PAYLOAD_LIMIT)
        return handler, text

    def handler(self, action_type: str, *, requester: Requester | None, where: str = "action_type") -> Handler:
        """Return the handler of a type that the requester may schedule.

        Raises:
            UnknownActionType: This build has no handler for the type.
            ActionTypeForbidden: The requester may not schedule the type.
            HandlerBroken: The handler cannot be loaded.
        """
        try:
            handler = self.registry.resolve(action_type)
        except UnknownActionType as error:
            if requester is not None:
                raise
            # The registry may be older than a module with a mistake, which declares the type.
            raise replace(error, build_problem=self.registry.build_problem()) from None
        refusal = refusal_of(action_type, handler.options, requester)
        if refusal is not None:
            raise ActionTypeForbidden(action_type, refusal, where=where)
        return handler


class _Origin(NamedTuple):
    """The origin of an action and its follow-ups."""

    #: None: application code.
    requester: Requester | None
    #: The team of the action and of its follow-ups.
    team_id: str | None
    #: Whether the action continues the current trace; occurrences of schedules, which may run years later, do not.
    is_traced: bool


#: The origin of most actions.
_NO_TEAM = _Origin(requester=None, team_id=None, is_traced=True)


@dataclass(frozen=True, slots=True)
class ActionValidator:
    """Validates the new actions of one project.

    Args:
        database: For the external checks of conditions, which are validated but not run.
        settings: Contains the default dedup window.
        payloads: Validates types and payloads.
    """

    database: Database
    settings: Settings
    payloads: PayloadValidator

    def row(self, new: NewAction | Mapping[str, Any], *, requester: Requester | None = None) -> dict[str, Any]:
        """Validate a new action; return the arguments of the SQL function, documents as JSON text.

        Args:
            new: The action.
            requester: The API token; None: application code.

        Raises:
            RequestError: The type is unknown or not open to the requester, or the payload or an argument is invalid.
            HandlerBroken: The handler, or that of a follow-up, cannot be loaded.
        """
        given = arguments_of(new)
        if requester is None and "team_id" not in given:
            return self._row(given, 0, _NO_TEAM)
        return self._row(given, 0, _Origin(requester=requester, team_id=given.get("team_id"), is_traced=True))

    def dependencies(
        self, given: Mapping[str, Any], *, requester: Requester | None = None, team_id: str | None = None
    ) -> dict[str, Any]:
        """Validate the dependencies of an existing action, or of the actions of a schedule; return their columns.

        Args:
            given: The dependencies, by name: `condition`, `after`, `on_success`, `on_failure`.
            requester: As for `row`.
            team_id: The team of the actions.

        Raises:
            RequestError: A value is invalid; `FollowUpInvalid` names the follow-up.
            HandlerBroken: The handler of a follow-up cannot be loaded.
        """
        return self._dependencies(given, 0, _Origin(requester=requester, team_id=team_id, is_traced=False))

    def check_limit(self, limit: str | Sequence[str] | None) -> list[str] | None:
        """Return the limit keys of an action as a list; None for None.

        Raises:
            InvalidArgument: The value is neither a key nor a list of one to three keys, or a key matches no
                pattern of `[limits]`.
        """
        if limit is None:
            return None
        keys = limit_keys.check(limit)
        limit_keys.check_known(keys, self.settings.limits)
        return keys

    def _row(self, given: dict[str, Any], depth: int, origin: _Origin) -> dict[str, Any]:
        if origin.is_traced:
            given = tracing.with_trace(given)
        own = (
            {}
            if dependencies.NAMES.isdisjoint(given)
            else {name: given.pop(name) for name in given.keys() & dependencies.NAMES}
        )
        handler, text = self.payloads.prepare(
            given.pop("action_type"),
            given.pop("payload"),
            requester=origin.requester,
            is_list_item=given.get("dedup_mode") == "append",
        )
        row = {"action_type": handler.action_type, "payload": text, **columns_of(given)}
        if "limit" not in row and (templates := handler.options.limit):
            row["limit"] = limit_keys.fill_in(
                templates, json_text.decode(text), team_id=origin.team_id, user_id=row.get("user_id")
            )
        if "limit" in row:
            limit_keys.check_known(row["limit"], self.settings.limits)
        if own:
            row |= self._dependencies(own, depth, origin)
        # With the window given here, the SQL function need not look it up; without a dedup key it has no effect.
        if "dedup_window" not in given and ("dedup_key" in given or '"entity_id"' in text):
            window = handler.options.dedup_window
            row["dedup_window"] = self.settings.deduplication.window_seconds if window is None else window
        return row

    def _dependencies(self, given: Mapping[str, Any], depth: int, origin: _Origin) -> dict[str, Any]:
        columns = dependencies.dependency_columns(
            given, lambda new, depth: self._row(arguments_of(new), depth, origin), depth=depth
        )
        if "condition" not in columns:
            return columns
        if origin.requester is not None:
            columns["condition"] = dependencies.restrict_to_public(columns["condition"])
        if checks := dependencies.external_checks(columns["condition"]):
            from scheduled_actions.conditions.external_checks import ExternalChecker  # noqa: PLC0415 - most have none

            checker = ExternalChecker(self.database, self.payloads.registry, self.settings)
            for check in checks:
                checker.validate(check, team_id=origin.team_id)
        return columns
