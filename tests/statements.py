"""Access to the package's SQL statements for tests that run or explain them directly."""

from __future__ import annotations

from pathlib import Path

import scheduled_actions
from scheduled_actions.database.statements import expand


def statement(name: str) -> str:
    """Return the SQL of a statement as it is sent to Postgres; names are unique across folders."""
    (path,) = Path(scheduled_actions.__file__).parent.rglob(f"sql/{name}.sql")
    return expand(path.read_text(encoding="utf-8"))
