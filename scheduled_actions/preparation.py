"""New actions as callers describe them, made what the SQL functions take: checked against the project's handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions import action_row, follow_ups, tracing
from scheduled_actions.new_action import arguments_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduled_actions.conditions import Outside
    from scheduled_actions.config import Settings
    from scheduled_actions.new_action import NewAction
    from scheduled_actions.registry import Registry
    from scheduled_actions.store.connection import Database


class Preparation:
    """Checks what one project's callers ask for.

    Args:
        database: What conditions may ask.
        registry: Validates payloads at the caller's desk.
        settings: The dedup window where neither call nor handler says one.
    """

    def __init__(self, database: Database, registry: Registry, settings: Settings) -> None:
        self._database = database
        self._registry = registry
        self._settings = settings

    def row(self, new: NewAction | Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
        """Return the arguments given of the SQL function: each checked, documents as JSON text.

        Raises:
            RequestError: Unknown type, payload refused, or an argument out of range.
        """
        return self._row(tracing.with_trace(arguments_of(new)), self.row, depth)

    def element(self, position: int, new: NewAction | Mapping[str, Any]) -> dict[str, Any]:
        """Return one of many as `row` does; what is raised says which one it is."""
        try:
            return self.row(new)
        except Exception as error:
            error.add_note(f"in new_actions[{position}]")
            raise

    def extras(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return a condition and follow-ups as the columns of what brings actions with them, or is there already.

        Raises:
            RequestError: One cannot be what it is; `FollowUpInvalid` says which follow-up.
        """
        # What a series brings years later is no part of the trace in which it was asked for.
        return self._extras(given, self._untraced_row)

    def _untraced_row(self, new: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
        return self._row(arguments_of(new), self._untraced_row, depth)

    def _row(
        self, given: dict[str, Any], row_of: Callable[[Mapping[str, Any], int], dict[str, Any]], depth: int
    ) -> dict[str, Any]:
        extras = {name: given.pop(name) for name in given.keys() & follow_ups.NAMES}
        action_type, payload = given.pop("action_type"), given.pop("payload")
        handler = self._registry.resolve(action_type)
        is_gathered = given.get("dedup_mode") == "append"
        row = {"action_type": action_type, "payload": handler.payload.prepare(payload, gathered=is_gathered)}
        row |= action_row.columns_of(given)
        if extras:
            row |= self._extras(extras, row_of, depth)
        # Said here, the window need not be looked up by the SQL function; without a key none matters.
        if "dedup_window" not in given and ("dedup_key" in given or '"entity_id"' in row["payload"]):
            window = handler.options.dedup_window
            row["dedup_window"] = self._settings.deduplication.window_seconds if window is None else window
        return row

    def _extras(
        self, given: Mapping[str, Any], row_of: Callable[[Mapping[str, Any], int], dict[str, Any]], depth: int = 0
    ) -> dict[str, Any]:
        columns = follow_ups.extras_of(given, row_of, depth=depth)
        if "condition" in columns:
            follow_ups.check_outsides(columns["condition"], self._check_outside)
        return columns

    def _check_outside(self, outside: Outside) -> None:
        from scheduled_actions.asking import Asker  # noqa: PLC0415 - most projects ask nothing

        Asker(self._database, self._registry, self._settings).check(outside)
