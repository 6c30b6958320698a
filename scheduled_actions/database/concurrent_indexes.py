"""Run the index statements of migrations outside a transaction, so that they do not block writers.

A migration contains them as `create [unique] index concurrently NAME on TABLE …;` or `drop index concurrently NAME;`,
each at the beginning of a line. They run after the transactions of all migrations. The last statement with an index's
name decides whether the index exists, so every run of `migrate` builds indexes that an earlier run left missing or
invalid. A changed index needs a new name.
"""

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import psycopg

from scheduled_actions.core.errors.families import DeploymentError, error_class
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements

sql = Statements(__file__)

_STATEMENT = re.compile(
    r"^(?P<verb>create(?: unique)? index|drop index) concurrently"
    r" (?P<name>\w+)(?: on (?P<definition>\w[^;]*))?;[ ]*\n?",
    re.MULTILINE,
)
#: Pause between two checks of another session's build.
_POLL_SECONDS = 0.2
#: Maximum number of retries after collisions with another session.
_MAX_COLLISIONS = 10


@error_class
class IndexNotBuilt(DeploymentError):
    """The server did not build or drop an index, for example because of a timeout or duplicates."""

    message = (
        "index {name} could not be built or dropped: {reason}; the tables are up to date: fix the cause, then run "
        "`scheduled-actions migrate` again"
    )
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class IndexStatement:
    """The wanted state of one index, as the migrations define it."""

    name: str
    #: The part after `on`: `scheduled_actions (created_by)`; None if the index is to be dropped.
    definition: str | None
    is_unique: bool = False

    @property
    def wanted_state(self) -> str:
        """The state of an index that needs no change."""
        return "missing" if self.definition is None else "valid"


class _IndexState(NamedTuple):
    """The state of an index in the database."""

    #: `missing`, `invalid` or `valid`.
    state: str
    #: The schema of the package's tables, quoted if necessary.
    schema: str
    #: Whether another session is building an index (any index of the database).
    is_busy: bool


def split(migration: str) -> tuple[str, list[IndexStatement]]:
    """Split a migration into the text for its transaction and its concurrent index statements."""
    return _STATEMENT.sub("", migration), [
        IndexStatement(found["name"], found["definition"], is_unique="unique" in found["verb"])
        for found in _STATEMENT.finditer(migration)
    ]


def reconcile(
    connection: Connection, statements: Iterable[IndexStatement], *, report: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Build missing and invalid indexes, and drop unwanted ones; return `index NAME` for each index changed.

    Waits for open transactions, as every concurrent build does, and for builds of other sessions.

    Args:
        connection: In autocommit mode.
        statements: The wanted states, at most one for each index.
        report: Called with `index NAME` before each change, and with a longer text before waiting for another session.

    Raises:
        IndexNotBuilt: The server aborted a statement; the next call resumes there.
    """
    return [f"index {one.name}" for one in statements if _apply(connection, one, report)]


def unfinished(connection: Connection, statements: Iterable[IndexStatement]) -> list[str]:
    """Return the names of the indexes that `reconcile` would change."""
    return [one.name for one in statements if _find(connection, one.name).state != one.wanted_state]


def _apply(connection: Connection, wanted: IndexStatement, report: Callable[[str], None]) -> bool:
    """Bring one index into its wanted state; return whether this session changed it."""
    is_changed = False
    collisions = 0
    while (found := _wait_for_builds(connection, wanted, report)).state != wanted.wanted_state:
        if not is_changed:
            report(f"index {wanted.name}")
        is_changed = True
        try:
            if found.state == "invalid" or wanted.definition is None:
                connection.execute(f"drop index concurrently if exists {found.schema}.{wanted.name}")
            if wanted.definition is not None:
                # The schema is given, so that the search path does not matter. Fails if the index's name is taken.
                verb = "create unique index" if wanted.is_unique else "create index"
                connection.execute(f"{verb} concurrently {wanted.name} on {found.schema}.{wanted.definition}")
        except psycopg.Error as error:
            # Another session began at the same moment. Pauses of different lengths let one of the two finish first.
            collisions += _is_collision(error)
            if not _is_collision(error) or collisions == _MAX_COLLISIONS:
                raise IndexNotBuilt(wanted.name, error.diag.message_primary or type(error).__name__) from error
            time.sleep(_POLL_SECONDS * (1 + connection.info.backend_pid % 5))
    return is_changed


def _is_collision(error: psycopg.Error) -> bool:
    """Return whether a statement failed because another session was changing the same index or table."""
    if isinstance(error, psycopg.errors.UniqueViolation):
        return error.diag.schema_name == "pg_catalog"  # Two indexes of one name; not duplicates under a unique index.
    # InternalError_: both sessions changed the same row of the catalog.
    return isinstance(
        error, psycopg.errors.DeadlockDetected | psycopg.errors.DuplicateTable | psycopg.errors.InternalError_
    )


def _wait_for_builds(connection: Connection, wanted: IndexStatement, report: Callable[[str], None]) -> _IndexState:
    """Wait until the index has the wanted state or no other session is building an index; return the state found."""
    was_reported = False
    while True:
        found = _find(connection, wanted.name)
        # Read twice: a build may have ended between the reads of the catalog and of the builds in progress.
        if found.state == wanted.wanted_state or (not found.is_busy and _find(connection, wanted.name) == found):
            return found
        if found.is_busy and not was_reported:
            report(f"index {wanted.name} (waiting: another session is building an index)")
            was_reported = True
        time.sleep(_POLL_SECONDS)


def _find(connection: Connection, name: str) -> _IndexState:
    return _IndexState(*sql.run_one(connection, "index_state", {"name": name}))
