"""What the SQL functions that schedule need of a project: windows of merging, and which types are open to teams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduled_actions.database import shared_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.registry import Registry


def share(connection: Connection, registry: Registry, *, window_seconds: float) -> None:
    """Copy it into the database.

    Args:
        connection: In autocommit mode.
        registry: The handlers, and what they declare.
        window_seconds: Within which the same intent is merged where neither call nor handler says otherwise.
    """
    options = {action_type: registry.options(action_type) for action_type in sorted(registry.types)}
    windows = {name: one.dedup_window for name, one in options.items() if one.dedup_window is not None}
    share_windows(connection, default=window_seconds, by_type=windows)
    share_open_types(connection, (name for name, one in options.items() if one.open_to_teams))


def share_windows(connection: Connection, *, default: float, by_type: Mapping[str, float]) -> None:
    """Copy the windows of merging, in seconds."""
    shared_settings.write(connection, "dedup_window", {"default": default, "by_type": dict(by_type)})


def share_open_types(connection: Connection, action_types: Iterable[str]) -> None:
    """Copy which types the database roles of a team may schedule."""
    shared_settings.write(connection, "types_open_to_teams", sorted(action_types))
