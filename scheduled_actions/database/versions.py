"""Compare the schema's files (`migrations/NUMBER_NAME.sql`, `functions/NAME.sql`) with the record in a database."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from scheduled_actions.core.errors import SchemaOutdated, SchemaShadowed, SchemaUnreleased
from scheduled_actions.database.statements import Statements, expand

sql = Statements(__file__)

MIGRATIONS = Path(__file__).parent / "schema/migrations"
FUNCTIONS = Path(__file__).parent / "schema/functions"
_NUMBER = re.compile(r"(\d{4})_")
_COMMENT = re.compile(r"--[^\n]*")
_TABLE = re.compile(r"^create (?:table|view) (\w+)", re.MULTILINE)
_CALL = re.compile(r"\b(\w+)\(")


@dataclass(frozen=True, slots=True)
class Migration:
    """A numbered change of the schema: edited in place before release 0.1.0, and never changed after its release."""

    number: int
    #: The file name without its extension.
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """The SHA-256 of the statements, in hexadecimal; comments, indentation and line breaks do not change it."""
        return hashlib.sha256(" ".join(_COMMENT.sub("", self.text).split()).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Function:
    """The current version of one SQL function: the SQL text that creates or replaces it."""

    name: str
    text: str

    @property
    def checksum(self) -> str:
        """The SHA-256 of the text, in hexadecimal. Comments change it, because the server stores those of the body."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema that this code needs."""

    #: In the order of their numbers.
    migrations: tuple[Migration, ...]
    #: In the order of their names.
    functions: tuple[Function, ...]

    @property
    def latest(self) -> int:
        """The number of the newest migration."""
        return max((one.number for one in self.migrations), default=0)

    @property
    def function_names(self) -> list[str]:
        """The names of the functions."""
        return [one.name for one in self.functions]

    @property
    def tables(self) -> set[str]:
        """The names of the tables and views that the migrations create."""
        return {name for one in self.migrations for name in _TABLE.findall(one.text)}

    def called_in(self, text: str) -> set[str]:
        """Return the names of the functions that an SQL text calls, directly and indirectly."""
        texts = {function.name: function.text for function in self.functions}
        found: set[str] = set()
        to_read = [text]
        while to_read:
            names = texts.keys() & set(_CALL.findall(_COMMENT.sub("", to_read.pop())))
            to_read += [texts[name] for name in names - found]
            found |= names
        return found


def read_files() -> Schema:
    """Return the schema that the files define."""
    migrations = [(_NUMBER.match(path.name), path) for path in sorted(MIGRATIONS.glob("*.sql"))]
    return Schema(
        tuple(Migration(int(match[1]), path.stem, path.read_text("utf-8")) for match, path in migrations if match),
        tuple(Function(path.stem, expand(path.read_text("utf-8"))) for path in sorted(FUNCTIONS.glob("*.sql"))),
    )


@dataclass(frozen=True, slots=True)
class SchemaVersions:
    """The migrations and functions that a database has recorded."""

    #: Name and checksum of each applied migration, by number; builds before the baseline recorded no checksums.
    migrations: dict[int, tuple[str, str | None]]
    #: Checksum of each function, by name.
    functions: dict[str, str]

    @property
    def applied(self) -> int:
        """The number of the newest migration; 0 without any."""
        return max(self.migrations, default=0)

    def is_later_than(self, schema: Schema) -> bool:
        """Return whether a later release than that of `schema` migrated the database."""
        return self.applied > schema.latest

    def unreleased(self, schema: Schema) -> str | None:
        """Return the name of the first recorded migration that differs from `schema`; None if there is none.

        An unreleased build applied that migration. Migrations after the latest of `schema` are not compared.
        """
        ours = {(one.name, one.checksum) for one in schema.migrations}
        recorded = [self.migrations[number] for number in sorted(self.migrations) if number <= schema.latest]
        return next((one[0] for one in recorded if one not in ours), None)

    def stale_functions(self, schema: Schema) -> list[Function]:
        """Return the functions missing or outdated in the database; none if a later release migrated the database."""
        ours = () if self.is_later_than(schema) else schema.functions
        return [one for one in ours if self.functions.get(one.name) != one.checksum]

    def removed_functions(self, schema: Schema) -> list[str]:
        """Return the names of recorded functions not in `schema`; none if a later release migrated the database."""
        return [] if self.is_later_than(schema) else sorted(self.functions.keys() - set(schema.function_names))


def read(connection: psycopg.Connection[Any]) -> SchemaVersions:
    """Return the migrations and functions that the database has recorded; both are empty without the tables."""
    has_migrations, has_functions = sql.run_one(connection, "version_tables")
    migrations = sql.run(connection, "migrations_applied") if has_migrations else ()
    return SchemaVersions(
        {number: (name, checksum) for number, name, checksum in migrations},
        dict(sql.run(connection, "functions_applied").fetchall() if has_functions else ()),
    )


def check_visible(connection: psycopg.Connection[Any], schema: Schema) -> None:
    """Check that the search path finds the tables and functions of this package in their own schema.

    Raises:
        SchemaShadowed: An earlier schema of the search path has an object of the same name.
    """
    if found := sql.run(
        connection, "hidden_objects", tables=list(schema.tables), functions=schema.function_names
    ).fetchall():
        raise SchemaShadowed(tuple(hiding for hiding, _ in found), found[0][1])


def read_released(connection: psycopg.Connection[Any], schema: Schema) -> SchemaVersions:
    """Return the migrations and functions that the database has recorded.

    Raises:
        SchemaUnreleased: An unreleased build created the tables.
    """
    found = read(connection)
    if (migration := found.unreleased(schema)) is not None:
        raise SchemaUnreleased(migration)
    return found


def problem(connection: psycopg.Connection[Any], *, lacks_table: bool) -> SchemaOutdated | SchemaUnreleased | None:
    """Return the error that prevents this code from using the schema of the database; None if there is none.

    Args:
        connection: In autocommit mode.
        lacks_table: Whether a statement did not find a table of this package.
    """
    schema = read_files()
    try:
        found = read_released(connection, schema)
    except SchemaUnreleased as error:
        return error
    if not lacks_table and found.applied >= schema.latest and not found.stale_functions(schema):
        return None
    return SchemaOutdated(0 if lacks_table else found.applied, schema.latest)
