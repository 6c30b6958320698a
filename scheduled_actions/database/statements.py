"""Load and run SQL statements, one per file in the folder `sql` next to the calling module; format array parameters.

Text that several statements share, such as a list of columns, is in a file `NAME.inc.sql` of such a folder. A line
`-- include: FEATURE/NAME` of a statement is replaced with that text when the statement is read; a comma after it is
kept. Arrays are formatted as literals or in the binary format of Postgres, in a tenth of the time that psycopg takes
for a list.
"""

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import psycopg.postgres
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.rows import tuple_row
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.json import set_json_loads

from scheduled_actions.core import json_text

#: Two days after the first and before the last datetime, so that both exist in every time zone.
_FIRST = datetime.min.replace(tzinfo=UTC) + timedelta(days=2)
_LAST = datetime.max.replace(tzinfo=UTC) - timedelta(days=2)

#: Parts of an array in the binary format: number of dimensions, whether it has nulls, type; the bounds of a dimension;
#: the length of an id, before each id.
_ARRAY, _BOUNDS, _LENGTH = struct.Struct("!iiI"), struct.Struct("!ii"), struct.pack("!i", 16)
_UUID_OID = psycopg.postgres.types["uuid"].oid

_PACKAGE = Path(__file__).parents[1]
_INCLUDE = re.compile(r"^(?P<indent> *)-- include: (?P<feature>[a-z_/]+)/(?P<name>[a-z_]+)(?P<comma>,?)$", re.MULTILINE)
_PARAMETER = re.compile(r"%\((\w+)\)s")
#: Maximum number of texts of statements kept without some of their lines.
_MOST_PARTIAL = 256


class Statements:
    """The statements of one folder; each file is read once.

    Args:
        module_file: `__file__` of a module; its statements are in the folder `sql` next to it.
    """

    def __init__(self, module_file: str) -> None:
        self._folder = Path(module_file).parent / "sql"
        self._texts: dict[str, LiteralString] = {}
        #: Texts without some lines, by name and parameters.
        self._partial: dict[tuple[str, frozenset[str]], LiteralString] = {}

    def text(self, name: str) -> LiteralString:
        """Return the text of `<name>.sql` with its comments, which identify the statement in the server's log."""
        if name not in self._texts:
            self._texts[name] = expand((self._folder / f"{name}.sql").read_text(encoding="utf-8"))
        return self._texts[name]

    def run(
        self,
        connection: psycopg.Connection[Any],
        name: str,
        parameters: Mapping[str, Any] | None = None,
        /,
        **more: Any,  # noqa: ANN401 - by name
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run the statement in `<name>.sql` with its parameters, as a mapping or by name; return its cursor.

        Rows are tuples, regardless of the connection's row factory.
        """
        return connection.cursor(row_factory=tuple_row).execute(self.text(name), _joined(parameters, more))

    def run_one(
        self,
        connection: psycopg.Connection[Any],
        name: str,
        parameters: Mapping[str, Any] | None = None,
        /,
        **more: Any,  # noqa: ANN401 - by name
    ) -> tuple[Any, ...]:
        """Run a statement that always returns one row; return that row."""
        row = self.run(connection, name, parameters, **more).fetchone()
        assert row is not None, f"{name}.sql returned no row"  # noqa: S101 - a mistake in the statement
        return row

    def run_given(
        self, connection: psycopg.Connection[Any], name: str, parameters: Mapping[str, Any], /
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a statement without the lines whose parameters are missing or None; return its cursor.

        For a call of an SQL function with many optional arguments, one per line: without named prepared statements, the
        server parses and plans each argument in each call.
        """
        given = {name: value for name, value in parameters.items() if value is not None}
        return connection.cursor(row_factory=tuple_row).execute(self._text_for(name, frozenset(given)), given)

    def _text_for(self, name: str, given: frozenset[str]) -> LiteralString:
        if (text := self._partial.get((name, given))) is None:
            lines = self.text(name).splitlines()
            text = "\n".join([line for line in lines if given.issuperset(_PARAMETER.findall(line))])
            if len(self._partial) >= _MOST_PARTIAL:
                self._partial.clear()
            self._partial[name, given] = text
        return text

    def run_leniently(
        self,
        connection: psycopg.Connection[Any],
        name: str,
        parameters: Mapping[str, Any] | None = None,
        /,
        **more: Any,  # noqa: ANN401 - by name
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a statement whose rows may contain values that Python cannot represent; return its cursor.

        Such an instant becomes one at the start of the year 1 or at the end of the year 9999. Such JSON becomes an
        object with the key "unreadable". Instants are in UTC.
        """
        cursor = connection.cursor(row_factory=tuple_row)
        cursor.adapters.register_loader("timestamptz", _LenientInstantLoader)
        set_json_loads(_load_leniently, cursor)
        return cursor.execute(self.text(name), _joined(parameters, more))


def _joined(parameters: Mapping[str, Any] | None, more: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return {**(parameters or {}), **more} if more else parameters


class UuidArray(bytes):
    """An array of ids in the binary format of Postgres."""


class _UuidArrayDumper(Dumper):
    format = Format.BINARY
    oid = psycopg.postgres.types["uuid"].array_oid

    def dump(self, obj: UuidArray) -> Buffer:
        return obj


psycopg.adapters.register_dumper(UuidArray, _UuidArrayDumper)


def uuids(ids: Iterable[UUID]) -> str:
    """Format ids as an array literal of Postgres."""
    # Without hyphens, which Postgres does not need. `bytes.hex` takes a quarter of the time of `UUID.hex`.
    return f"{{{','.join([one.bytes.hex() for one in ids])}}}"


def binary_uuids(ids: Iterable[UUID]) -> UuidArray:
    """Format ids as an array in the binary format of Postgres, for the connections of this package.

    A caller's connection that was opened before this module was imported cannot send it. The binary format takes a
    sixth of the time of a literal, here and in the server, which parses text digit by digit.
    """
    return uuid_array([one.int.to_bytes(16, "big") for one in ids])


def uuid_array(values: Sequence[bytes]) -> UuidArray:
    """Format ids of 16 bytes each as `binary_uuids` does."""
    if not values:
        return UuidArray(_ARRAY.pack(0, 0, _UUID_OID))
    return UuidArray(_ARRAY.pack(1, 0, _UUID_OID) + _BOUNDS.pack(len(values), 1) + _LENGTH + _LENGTH.join(values))


def numbers(values: Iterable[float]) -> str:
    """Format numbers as an array literal of Postgres."""
    return f"{{{','.join(map(str, values))}}}"


def instants(values: Iterable[datetime | None]) -> str:
    """Format aware instants as an array literal of Postgres, with null for None."""
    return f"{{{','.join(['NULL' if one is None else one.isoformat() for one in values])}}}"


def texts(values: Iterable[str | None]) -> str:
    """Format strings, in quotes, so that "null" remains a string, as an array literal of Postgres; null for None."""
    values = list(values)
    given = [one for one in values if one is not None]
    if given and len(given) == len(values):
        # All at once, which takes a third of the time. A text that contains the separator, which Postgres refuses, is
        # not joined with others.
        joined = "\0".join(given)
        if joined.count("\0") == len(given) - 1:
            escaped = joined.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
            return f'{{"{escaped}"}}'
    quoted = ["NULL" if one is None else '"' + one.replace("\\", "\\\\").replace('"', '\\"') + '"' for one in values]
    return f"{{{','.join(quoted)}}}"


def expand(text: str) -> LiteralString:
    """Replace each line `-- include: FEATURE/NAME` with the text of `FEATURE/sql/NAME.inc.sql`.

    The included lines get the indentation of that line; comment lines are omitted. A comma after the line is kept.
    """
    return _INCLUDE.sub(_included, text)


def _included(line: re.Match[str]) -> str:
    lines = (_PACKAGE / line["feature"] / "sql" / f"{line['name']}.inc.sql").read_text(encoding="utf-8").splitlines()
    return "\n".join(line["indent"] + one for one in lines if not one.startswith("--")) + line["comma"]


class _LenientInstantLoader(TimestamptzLoader):
    """Loads instants that a datetime cannot represent, such as `-infinity`, as `_FIRST` or `_LAST`."""

    def load(self, data: Buffer) -> datetime:
        # Most servers write ISO 8601, in their own time zone; psycopg's loader reads the other styles.
        text = bytes(data)
        try:
            moment = datetime.fromisoformat(text.decode()).astimezone(UTC)
        except (ValueError, OverflowError):
            return self._load_other(data)
        return moment if _FIRST <= moment <= _LAST else _clamped(moment)

    def _load_other(self, data: Buffer) -> datetime:
        with suppress(ValueError, OverflowError, psycopg.DataError):
            return _clamped(super().load(data).astimezone(UTC))
        return _FIRST if bytes(data).startswith(b"-") or bytes(data).endswith(b"BC") else _LAST


def _clamped(moment: datetime) -> datetime:
    return min(max(moment, _FIRST), _LAST)


def _load_leniently(text: str | bytes) -> object:
    try:
        return json_text.decode_stored(text)
    except (ValueError, RecursionError) as error:
        return {"unreadable": f"{type(error).__name__}: stored JSON that Python cannot read"}
