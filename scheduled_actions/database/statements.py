"""SQL statements: one in a file, in the folder `sql` next to the module that runs them; and arrays as parameters.

What several statements share, such as a list of columns, is in a file `NAME.inc.sql` of such a folder. A line
`-- include: FEATURE/NAME` of a statement is replaced with it when the statement is read; a comma there follows it.
Arrays are written as Postgres reads them, in a tenth of the time that a list takes.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
from psycopg.rows import tuple_row
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.json import set_json_loads

from scheduled_actions.core import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from psycopg.abc import Buffer

#: Two days from the ends of the calendar: every time zone can show them.
_FIRST = datetime.min.replace(tzinfo=UTC) + timedelta(days=2)
_LAST = datetime.max.replace(tzinfo=UTC) - timedelta(days=2)

_PACKAGE = Path(__file__).parents[1]
_INCLUDE = re.compile(r"^(?P<indent> *)-- include: (?P<feature>[a-z_/]+)/(?P<name>[a-z_]+)(?P<comma>,?)$", re.MULTILINE)


class Statements:
    """The statements of one folder, each read once.

    Args:
        module_file: `__file__` of a module; its statements are in the folder `sql` next to it.
    """

    def __init__(self, module_file: str) -> None:
        self._folder = Path(module_file).parent / "sql"
        self._texts: dict[str, LiteralString] = {}

    def text(self, name: str) -> LiteralString:
        """Return the statement of `<name>.sql`; its comments stay, so that they show in the server's log."""
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = expand((self._folder / f"{name}.sql").read_text(encoding="utf-8"))
        return text

    def run(
        self, connection: psycopg.Connection[Any], name: str, parameters: Mapping[str, Any] | None = None
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run the statement of `<name>.sql`; return its cursor.

        Rows are tuples whatever the connection's own row factory: it may be the caller's.
        """
        return connection.cursor(row_factory=tuple_row).execute(self.text(name), parameters)

    def run_leniently(
        self, connection: psycopg.Connection[Any], name: str, parameters: Mapping[str, Any] | None = None
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a statement that returns whole rows, of which no unreadable value hides the rest; instants are in UTC."""
        cursor = connection.cursor(row_factory=tuple_row)
        cursor.adapters.register_loader("timestamptz", _AnyInstant)
        set_json_loads(_any_document, cursor)
        return cursor.execute(self.text(name), parameters)


def uuids(ids: Iterable[UUID]) -> str:
    """Return ids as an array."""
    # Postgres needs no hyphens, and Python takes four times as long to put them in.
    return f"{{{','.join([one.hex for one in ids])}}}"


def numbers(values: Iterable[float]) -> str:
    """Return numbers as an array."""
    return f"{{{','.join(map(str, values))}}}"


def instants(values: Iterable[datetime | None]) -> str:
    """Return instants as an array, null for None."""
    return f"{{{','.join(['NULL' if one is None else one.isoformat() for one in values])}}}"


def texts(values: Iterable[str]) -> str:
    """Return texts as an array, each in quotes: whatever it holds is text."""
    quoted = [one.replace("\\", "\\\\").replace('"', '\\"') for one in values]
    return '{"' + '","'.join(quoted) + '"}' if quoted else "{}"


def expand(text: str) -> LiteralString:
    """Return the text with each line `-- include: FEATURE/NAME` replaced with `FEATURE/sql/NAME.inc.sql`.

    The lines of the include are indented as that line is; its comments are left out. A comma at the end stays.
    """
    return _INCLUDE.sub(_included, text)


def _included(line: re.Match[str]) -> str:
    path = _PACKAGE / line["feature"] / "sql" / f"{line['name']}.inc.sql"
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line["indent"] + one for one in lines if not one.startswith("--")) + line["comma"]


class _AnyInstant(TimestamptzLoader):
    """Reads `-infinity` and `infinity`, which SQL can hold and a datetime cannot, as the first and the last instant."""

    def load(self, data: Buffer) -> datetime:
        try:
            # As servers write it by default, in the session's time zone, which is the server's own business.
            return _bounded(datetime.fromisoformat(bytes(data).decode()).astimezone(UTC))
        except (ValueError, OverflowError):
            return self._load_otherwise(data)

    def _load_otherwise(self, data: Buffer) -> datetime:
        try:
            return _bounded(super().load(data).astimezone(UTC))
        except (psycopg.DataError, OverflowError):
            return _FIRST if bytes(data).startswith(b"-") or bytes(data).endswith(b"BC") else _LAST


def _bounded(moment: datetime) -> datetime:
    return min(max(moment, _FIRST), _LAST)


def _any_document(text: str | bytes) -> object:
    try:
        return json_text.decode_stored(text)
    except (ValueError, RecursionError) as error:
        return {"unreadable": f"{type(error).__name__}: stored JSON that Python cannot read"}
