"""Index statements of migrations that run outside a transaction, so that writers are never blocked.

A migration contains them as `create [unique] index concurrently NAME …;` or `drop index concurrently NAME;`, each at
the beginning of a line. They run after the transactions of all migrations. The last statement that names an index
decides whether it exists, so every run of `migrate` finishes what an earlier one left missing or invalid.
A change of an index takes a new name.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from scheduled_actions.errors import DeploymentError
from scheduled_actions.store.statements import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scheduled_actions.store.connection import Connection

_STATEMENT = re.compile(
    r"^(?P<verb>create(?: unique)? index|drop index) concurrently"
    r"(?: if (?:not )?exists)? (?P<name>\w+)(?P<rest>[^;]*);[ ]*\n?",
    re.MULTILINE,
)
#: How often the progress of another session's build is looked at.
_POLL_SECONDS = 0.2
#: So often a build that met another one is begun again.
_DEADLOCKS_MOST = 10


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
    #: Without its semicolon; harmless where the index is as it should be.
    statement: str
    is_dropped: bool

    @property
    def wanted_state(self) -> str:
        """The state of an index for which nothing is to be done."""
        return "missing" if self.is_dropped else "valid"


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
    return [one.name for one in _final(statements) if _state(connection, one.name)[0] != one.wanted_state]


def _final(statements: Iterable[IndexStatement]) -> Iterable[IndexStatement]:
    return {one.name: one for one in statements}.values()


def _apply(connection: Connection, wanted: IndexStatement, report: Callable[[str], None]) -> bool:
    """Change one index until it is as wanted; return whether this session changed it."""
    is_changed = False
    deadlocks = 0
    while (state := _settled_state(connection, wanted, report)) != wanted.wanted_state:
        if not is_changed:
            report(f"index {wanted.name}")
        is_changed = True
        try:
            if state == "invalid" or wanted.is_dropped:
                connection.execute(f'drop index concurrently if exists "{wanted.name}"')
            if not wanted.is_dropped:
                connection.execute(wanted.statement)
        except psycopg.errors.DeadlockDetected as error:
            # Another session began at the same moment. One of the two goes first, by unequal waits.
            deadlocks += 1
            if deadlocks == _DEADLOCKS_MOST:
                raise _not_built(wanted, error) from error
            time.sleep(_POLL_SECONDS * (1 + connection.info.backend_pid % 5))
        except psycopg.Error as error:
            raise _not_built(wanted, error) from error
    return is_changed


def _not_built(wanted: IndexStatement, error: psycopg.Error) -> IndexNotBuilt:
    return IndexNotBuilt(wanted.name, error.diag.message_primary or type(error).__name__)


def _settled_state(connection: Connection, wanted: IndexStatement, report: Callable[[str], None]) -> str:
    """Return the state of an index: the one wanted, or another once no other session builds any index."""
    is_told = False
    while True:
        state, is_busy = _state(connection, wanted.name)
        if state == wanted.wanted_state or not is_busy:
            return state
        if not is_told:
            report(f"index {wanted.name} (waiting: another session is building an index)")
        is_told = True
        time.sleep(_POLL_SECONDS)


def _state(connection: Connection, name: str) -> tuple[str, bool]:
    row = run(connection, "index_state", {"name": name}).fetchone()
    assert row is not None  # noqa: S101 - a select from one row of values
    return row[0], row[1]


def _statement(found: re.Match[str]) -> IndexStatement:
    is_dropped = found["verb"].startswith("drop")
    guard = "if exists" if is_dropped else "if not exists"
    statement = f"{found['verb']} concurrently {guard} {found['name']}{found['rest']}"
    return IndexStatement(found["name"], statement, is_dropped)
