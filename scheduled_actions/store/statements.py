"""The statements of `queries/`, read once."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.rows import tuple_row

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

_FOLDER = Path(__file__).parent / "queries"


@cache
def statement(name: str) -> LiteralString:
    """Return the statement of `queries/<name>.sql`; its comments stay, so that they show in the server's log."""
    return (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")


def run(
    connection: psycopg.Connection[Any], name: str, parameters: Mapping[str, Any] | None = None
) -> psycopg.Cursor[tuple[Any, ...]]:
    """Run the statement of `queries/<name>.sql`; return its cursor.

    Rows are tuples whatever the connection's own row factory: it may be the caller's.
    """
    return connection.cursor(row_factory=tuple_row).execute(statement(name), parameters)
