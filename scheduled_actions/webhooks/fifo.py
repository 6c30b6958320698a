"""Endpoints that keep order: the database has those of its table; the first tick writes those of the settings file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduled_actions.database import shared_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.core.config import Endpoint
    from scheduled_actions.database.connection import Connection


def share(connection: Connection, endpoints: Mapping[str, Endpoint]) -> None:
    """Copy the names of those that keep order into the database."""
    names = sorted(name for name, one in endpoints.items() if one.ordering == "fifo")
    shared_settings.write(connection, "webhook_fifo", names)
