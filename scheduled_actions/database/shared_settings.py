"""What processes share of a project's settings: copied into the database, for its functions and for one another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)

_SYNCED = "declared_schedules"


def copy_settings(connection: Connection, *, dedup_window: Mapping[str, Any]) -> None:
    """Copy into the database what its functions need of the settings; unchanged settings write nothing."""
    sql.run(connection, "copy_settings", {"dedup_window": json.dumps(dedup_window)})


def share_fifo(connection: Connection, names: Sequence[str]) -> None:
    """Let the database know which of the file's endpoints keep order."""
    _write(connection, "webhook_fifo", sorted(names))


def share_open_types(connection: Connection, action_types: Sequence[str]) -> None:
    """Let the database know which types the database roles of a team may schedule."""
    _write(connection, "types_open_to_teams", sorted(action_types))


def synced(connection: Connection) -> str | None:
    """Return the digest of the declared schedules that were brought up to date last; None before the first."""
    row = sql.run(connection, "setting", {"name": _SYNCED}).fetchone()
    return None if row is None else row[0]


def write_synced(connection: Connection, digest: str) -> None:
    """Keep the digest of the declared schedules that have just been brought up to date."""
    _write(connection, _SYNCED, digest)


def _write(connection: Connection, name: str, value: object) -> None:
    sql.run(connection, "write_setting", {"name": name, "value": json.dumps(value)})
