"""The files of the schema: `migrations/NUMBER_NAME.sql` and `functions/NAME.sql`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from scheduled_actions.database.statements import expand

MIGRATIONS = Path(__file__).parent / "migrations"
FUNCTIONS = Path(__file__).parent / "functions"
_NUMBER = re.compile(r"(\d{4})_")
_COMMENT = re.compile(r"--[^\n]*")
_TABLE = re.compile(r"^create (?:table|view) (\w+)", re.MULTILINE)
_CALL = re.compile(r"\b(\w+)\(")


@dataclass(frozen=True, slots=True)
class Migration:
    """A numbered change of the schema. Until 0.1.0 it is edited in place; once released, it never changes."""

    number: int
    #: The file name without its extension.
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of its statements: comments and white space may change."""
        return _checksum(" ".join(_COMMENT.sub("", self.text).split()))


@dataclass(frozen=True, slots=True)
class Function:
    """The present version of one SQL function: a `create or replace function` statement."""

    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Return the SHA-256 of its file: the server keeps the comments of a body, too."""
        return _checksum(self.text)


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema that this code needs."""

    #: In the order of their numbers.
    migrations: tuple[Migration, ...]
    #: In the order of their names.
    functions: tuple[Function, ...]

    @property
    def latest(self) -> int:
        """Return the number of the newest migration."""
        return max((one.number for one in self.migrations), default=0)

    @property
    def tables(self) -> set[str]:
        """Return the names of the tables and views that the migrations create."""
        return {name for one in self.migrations for name in _TABLE.findall(one.text)}

    def called_in(self, text: str) -> set[str]:
        """Return the names of the functions that a text calls, and of those that they call in turn."""
        texts = {function.name: function.text for function in self.functions}
        found: set[str] = set()
        to_read = [text]
        while to_read:
            names = texts.keys() & set(_CALL.findall(_COMMENT.sub("", to_read.pop())))
            to_read += [texts[name] for name in names - found]
            found |= names
        return found


def read() -> Schema:
    """Return the schema as its files have it."""
    migrations = [(_NUMBER.match(path.name), path) for path in sorted(MIGRATIONS.glob("*.sql"))]
    return Schema(
        tuple(Migration(int(match[1]), path.stem, _text(path)) for match, path in migrations if match),
        tuple(Function(path.stem, expand(_text(path))) for path in sorted(FUNCTIONS.glob("*.sql"))),
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
