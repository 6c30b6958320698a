"""Which migrations and functions a database has, compared with those of this code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.errors import SchemaHidden, SchemaOutdated, SchemaUnreleased
from scheduled_actions.database.schema import files
from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    import psycopg

sql = Statements(__file__)


@dataclass(frozen=True, slots=True)
class Versions:
    """What a database records of itself."""

    #: Name and checksum of each applied migration, by number; a build before the baseline recorded no checksums.
    migrations: dict[int, tuple[str, str | None]]
    #: Checksum of each function that is there, by name.
    functions: dict[str, str]

    @property
    def applied(self) -> int:
        """Return the number of the newest migration; 0: none."""
        return max(self.migrations, default=0)

    def is_later_than(self, schema: files.Schema) -> bool:
        """Return whether a later release than that of `schema` migrated the database."""
        return self.applied > schema.latest

    def unreleased(self, schema: files.Schema) -> str | None:
        """Return the name of a migration that is another one in `schema`: a build that was never released made it."""
        known = {one.number: (one.name, one.checksum) for one in schema.migrations}
        differing = (
            name
            for number, (name, checksum) in sorted(self.migrations.items())
            if number <= schema.latest and known.get(number) != (name, checksum)
        )
        return next(differing, None)

    def stale_functions(self, schema: files.Schema) -> list[files.Function]:
        """Return the functions that the database has in another version; none where a later release migrated it."""
        if self.is_later_than(schema):
            return []
        return [one for one in schema.functions if self.functions.get(one.name) != one.checksum]

    def unrecorded_functions(self, schema: files.Schema) -> list[str]:
        """Return the names of the functions of `schema` that the database does not have."""
        return [one.name for one in schema.functions if one.name not in self.functions]

    def removed_functions(self, schema: files.Schema) -> list[str]:
        """Return the names of the functions that `schema` has no more; none where a later release migrated it."""
        if self.is_later_than(schema):
            return []
        return sorted(self.functions.keys() - {one.name for one in schema.functions})


def read(connection: psycopg.Connection[Any]) -> Versions:
    """Return what the database has, in the schemas of the search path; nothing where the tables are not there."""
    migrations, functions = sql.run(connection, "version_tables").fetchone() or (False, False)
    return Versions(
        {number: (name, checksum) for number, name, checksum in sql.run(connection, "migrations_applied").fetchall()}
        if migrations
        else {},
        dict(sql.run(connection, "functions_applied").fetchall()) if functions else {},
    )


def check_visible(connection: psycopg.Connection[Any], schema: files.Schema) -> None:
    """Check that the search path finds our tables and functions where they are; anything goes where there are none.

    Raises:
        SchemaHidden: Another schema has the name of one.
    """
    parameters = {"tables": list(schema.tables), "functions": [one.name for one in schema.functions]}
    found = sql.run(connection, "hidden_objects", parameters).fetchall()
    if found:
        raise SchemaHidden(tuple(hiding for hiding, _ in found), found[0][1])


def read_released(connection: psycopg.Connection[Any], schema: files.Schema) -> Versions:
    """Return what the database has.

    Raises:
        SchemaUnreleased: A build that was never released made its tables.
    """
    found = read(connection)
    if (migration := found.unreleased(schema)) is not None:
        raise SchemaUnreleased(migration)
    return found


def problem(connection: psycopg.Connection[Any], *, lacks_table: bool) -> SchemaOutdated | None:
    """Return why this code cannot use the database's schema; None: it can.

    Args:
        connection: In autocommit mode.
        lacks_table: A table of this package was not found.
    """
    schema = files.read()
    try:
        found = read_released(connection, schema)
    except SchemaUnreleased as error:
        return error
    if lacks_table:
        return SchemaOutdated(0, schema.latest)
    if found.applied < schema.latest or found.stale_functions(schema):
        return SchemaOutdated(found.applied, schema.latest)
    return None
