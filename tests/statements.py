"""The texts of the statements that tests run or explain by themselves."""

from __future__ import annotations

from pathlib import Path

import scheduled_actions
from scheduled_actions.database.statements import expand


def statement(name: str) -> str:
    """Return the text of a statement as it is sent, whichever feature's it is: their names are unique."""
    (path,) = Path(scheduled_actions.__file__).parent.rglob(f"sql/{name}.sql")
    return expand(path.read_text(encoding="utf-8"))
