"""Index statements of migrations that run outside a transaction, so that writers are never blocked.

A migration contains them as `create [unique] index concurrently NAME on TABLE …;` or `drop index concurrently NAME;`,
each at the beginning of a line. They run after the transactions of all migrations. The last statement that names an
index decides whether it exists, so every run of `migrate` finishes what an earlier one left missing or invalid.
A change of an index takes a new name.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from scheduled_actions.core.errors import DeploymentError
from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)

_STATEMENT = re.compile(
    r"^(?P<verb>create(?: unique)? index|drop index) concurrently"
    r" (?P<name>\w+)(?: on (?P<definition>\w[^;]*))?;[ ]*\n?",
    re.MULTILINE,
)
#: How often the progress of another session's build is looked at.
_POLL_SECONDS = 0.2
#: So often a statement that met one of another session is begun again.
_COLLISIONS_MOST = 10


class IndexNotBuilt(DeploymentError):
    """The server ended the build of an index: a timeout, a full disk, duplicates under a unique index."""

    code = "index_not_built"

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(
            f"index {name} was not built: {reason}; the tables are up to date, and nothing else was undone: "
            "remove the cause and run `scheduled-actions migrate` again"
        )


@dataclass(frozen=True, slots=True)
class IndexStatement:
    """What is to hold of one index."""

    name: str
    #: What a migration says of it after `on`: `scheduled_actions (created_by)`; None: it is to be gone.
    definition: str | None
    is_unique: bool = False

    @property
    def is_dropped(self) -> bool:
        """Whether the index is to be gone."""
        return self.definition is None

    @property
    def wanted_state(self) -> str:
        """The state of an index for which nothing is to be done."""
        return "missing" if self.is_dropped else "valid"

    def building(self, schema: str) -> str:
        """Return the statement that builds it on our table, whatever the search path; it fails where the name is taken.

        Args:
            schema: Of the table, in quotes.
        """
        verb = "create unique index" if self.is_unique else "create index"
        return f"{verb} concurrently {self.name} on {schema}.{self.definition}"


class _Found(NamedTuple):
    """One index as the database has it."""

    #: `missing`, `invalid` or `valid`.
    state: str
    #: That of our tables, in quotes.
    schema: str
    #: Another session builds an index, this or another.
    is_busy: bool


def split(migration: str) -> tuple[str, list[IndexStatement]]:
    """Split the text of a migration into what its transaction runs and its concurrent index statements."""
    return _STATEMENT.sub("", migration), [_statement(found) for found in _STATEMENT.finditer(migration)]


def reconcile(
    connection: Connection, statements: Iterable[IndexStatement], *, report: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Build what is missing or invalid, drop what is to be gone; return `index NAME` for each index changed.

    Waits for transactions that are open now, as every concurrent build does, and for builds of other sessions.

    Args:
        connection: In autocommit mode.
        statements: In the order of their migrations; the last one of each name holds.
        report: Called before each change.

    Raises:
        IndexNotBuilt: The server ended the statement. The next call begins where this one stopped.
    """
    return [f"index {one.name}" for one in _final(statements) if _apply(connection, one, report)]


def unfinished(connection: Connection, statements: Iterable[IndexStatement]) -> list[str]:
    """Return the names of the indexes that `reconcile` would change."""
    return [one.name for one in _final(statements) if _find(connection, one.name).state != one.wanted_state]


def _final(statements: Iterable[IndexStatement]) -> Iterable[IndexStatement]:
    return {one.name: one for one in statements}.values()


def _apply(connection: Connection, wanted: IndexStatement, report: Callable[[str], None]) -> bool:
    """Change one index until it is as wanted; return whether this session changed it."""
    is_changed = False
    collisions = 0
    while (found := _settled(connection, wanted, report)).state != wanted.wanted_state:
        if not is_changed:
            report(f"index {wanted.name}")
        is_changed = True
        try:
            if found.state == "invalid" or wanted.is_dropped:
                connection.execute(f"drop index concurrently if exists {found.schema}.{wanted.name}")
            if not wanted.is_dropped:
                connection.execute(wanted.building(found.schema))
        except psycopg.Error as error:
            # Another session began at the same moment: one of the two goes first, by unequal waits.
            collisions += _is_collision(error)
            if not _is_collision(error) or collisions == _COLLISIONS_MOST:
                reason = error.diag.message_primary or type(error).__name__
                raise IndexNotBuilt(wanted.name, reason) from error
            time.sleep(_POLL_SECONDS * (1 + connection.info.backend_pid % 5))
    return is_changed


def _is_collision(error: psycopg.Error) -> bool:
    """Return whether a statement met one of another session on the same index or table."""
    if isinstance(error, psycopg.errors.UniqueViolation):
        return error.diag.schema_name == "pg_catalog"  # Two of one name; not duplicates under a unique index.
    # The internal error: a row of the catalog that both changed.
    return isinstance(
        error, psycopg.errors.DeadlockDetected | psycopg.errors.DuplicateTable | psycopg.errors.InternalError_
    )


def _settled(connection: Connection, wanted: IndexStatement, report: Callable[[str], None]) -> _Found:
    """Return the index in the state that is wanted, or in another once no other session builds any index."""
    is_told = False
    while True:
        found = _find(connection, wanted.name)
        if found.state == wanted.wanted_state:
            return found
        # Seen twice: a build may have ended between the looks at the catalog and at the builds in progress.
        if not found.is_busy and _find(connection, wanted.name) == found:
            return found
        if found.is_busy and not is_told:
            report(f"index {wanted.name} (waiting: another session is building an index)")
            is_told = True
        time.sleep(_POLL_SECONDS)


def _find(connection: Connection, name: str) -> _Found:
    row = sql.run(connection, "index_state", {"name": name}).fetchone()
    assert row is not None  # noqa: S101 - the tables are there
    return _Found(*row)


def _statement(found: re.Match[str]) -> IndexStatement:
    return IndexStatement(found["name"], found["definition"], is_unique="unique" in found["verb"])
