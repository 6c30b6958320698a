"""New actions as callers describe them, made what the SQL functions take: checked against the project's handlers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduled_actions.actions import dependencies as follow_ups
from scheduled_actions.actions.model import arguments_of
from scheduled_actions.actions.rules import row as action_row
from scheduled_actions.core import tracing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.actions.access import PayloadAccess
    from scheduled_actions.actions.model import NewAction
    from scheduled_actions.conditions.rules import Outside
    from scheduled_actions.core.config import Settings
    from scheduled_actions.core.requester import Requester
    from scheduled_actions.database.connection import Database
    from scheduled_actions.registry import Registry


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
        row |= action_row.columns_of(given)
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
