"""Choose the connection and transaction in which a call writes, and prepare that transaction.

A call from application code writes on the connection that it is given, on the connection of the transactional handler
that makes the call, or on a connection of this package. The connection of a transactional handler is restored before
the tick continues to use it.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, LiteralString, Self
from uuid import UUID

import psycopg
from psycopg.adapt import AdaptersMap

from scheduled_actions.core.errors import InvalidArgument, RefusedByDatabase
from scheduled_actions.core.wake import Wake
from scheduled_actions.database.boundary import temporary_refusal
from scheduled_actions.database.bounded import BoundedConnection
from scheduled_actions.database.connection import Connection, Database, atomic
from scheduled_actions.database.statements import Statements

sql = Statements(__file__)

#: How long a statement that writes outcomes waits for a lock, in milliseconds.
LOCK_WAIT_MS = "250"

#: The connection of the transactional handler that runs in this context; actions it schedules join its transaction.
joined_connection: ContextVar[Connection | None] = ContextVar("joined_connection", default=None)
#: The action whose handler runs in this context; actions that it schedules store this id as their parent.
running_action: ContextVar[UUID | None] = ContextVar("running_action", default=None)


@contextmanager
def borrowed_connection(database: Database, connection: psycopg.Connection[Any] | None) -> Iterator[Connection]:
    """Yield the caller's connection, that of the running transactional handler, or a connection of `database`.

    Errors of psycopg are converted only for a connection of `database`; on another one they are raised unchanged.

    Raises:
        InvalidArgument: The caller's object is not a psycopg connection.
        DatabaseUnavailable: The database cannot be reached.
        DatabaseBusy: A statement exceeded its time limit.
        RowLocked: Another session is changing the same rows.
        SchemaOutdated, SchemaUnreleased: As for `Database.connection`.
    """
    if connection is not None and not isinstance(connection, psycopg.Connection):
        raise InvalidArgument("connection", problem=f"is a {type(connection).__name__}; use a psycopg 3 Connection")
    given = connection or joined_connection.get()
    if given is not None:
        yield given
        return
    try:
        with database.connection() as own:
            yield own
    except psycopg.Error as error:
        if (refusal := temporary_refusal(error)) is None:
            raise
        raise refusal from error


def commits_itself(connection: psycopg.Connection[Any] | None) -> bool:
    """Return whether a call with this connection commits its own transaction instead of joining an existing one."""
    return connection is None and joined_connection.get() is None


def announce(wake: Wake | None, connection: psycopg.Connection[Any] | None, *, has_changed: bool = False) -> None:
    """Wake a tick for a change that is committed; a change in the caller's open transaction is left to the cron.

    Args:
        wake: Starts the tick; None: leave the change to the cron.
        connection: The one that was given to the call.
        has_changed: Whether actions may be waiting for the change; False: something may be due.
    """
    if wake is not None and commits_itself(connection):
        wake.notify(has_changed=has_changed)


def savepoint(connection: Connection) -> AbstractContextManager[object]:
    """Return a context manager for statements whose failure must not abort the caller's transaction.

    It sets a savepoint if a transaction is open or `connection` is not in autocommit mode; otherwise it does nothing.
    """
    if connection.autocommit and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        return nullcontext()
    return atomic(connection)


def database_refusal(error: psycopg.Error) -> RefusedByDatabase:
    """Convert an error for a refused argument to a request error with the primary message only."""
    return RefusedByDatabase(error.diag.message_primary or "the database refused an argument")


def limit_lock_waits(connection: Connection, milliseconds: str = LOCK_WAIT_MS) -> None:
    """For the rest of the transaction, limit each wait for a lock; the default is the limit of settlements."""
    sql.run(connection, "limit_lock_waits", {"milliseconds": milliseconds})


#: Set before the handler is called. The savepoint no longer exists if the handler ends the transaction.
_SAVEPOINT = "savepoint scheduled_actions_attempt"
#: Run inside the transaction, because behind a pooler the next statement may reach another server process.
_RESTORE = f"release {_SAVEPOINT}; reset all; reset session authorization; reset role; select pg_advisory_unlock_all()"
_UNDO = f"rollback to {_SAVEPOINT}; reset session authorization; reset role; select pg_advisory_unlock_all()"
_ATTRIBUTES = ("row_factory", "cursor_factory", "server_cursor_factory", "prepare_threshold", "prepared_max")


class TransactionEnded(Exception):
    """The handler has ended the transaction of the attempt, or has begun another one."""


@dataclass(frozen=True, slots=True)
class SavedConnectionState:
    """The state of a connection before the call of a transactional handler, which may change it."""

    connection: Connection
    attributes: dict[str, Any]
    adapters: AdaptersMap
    notice_handlers: list[Any]
    notify_handlers: list[Any]

    @classmethod
    def save(cls, connection: Connection) -> Self:
        """Save the state of the connection, set a savepoint, and give the connection its own copy of the adapters."""
        connection.execute(_SAVEPOINT)
        saved = cls(
            connection,
            {name: getattr(connection, name) for name in _ATTRIBUTES},
            connection.adapters,
            list(connection._notice_handlers),  # noqa: SLF001 - there is no public way to list them
            list(connection._notify_handlers),  # noqa: SLF001 - likewise
        )
        connection._adapters = AdaptersMap(saved.adapters)  # noqa: SLF001 - there is no public way to replace it
        return saved

    def restore(self) -> None:
        """Restore the connection, including the settings of its session; the transaction continues.

        Raises:
            TransactionEnded: The handler ended the transaction; the connection is closed.
            psycopg.Error: The transaction is in a failed state.
        """
        self._finish(_RESTORE)
        if isinstance(self.connection, BoundedConnection):
            self.connection.restore(self.connection.limits)

    def undo(self) -> None:
        """Roll back the handler's changes, including settings, and restore the connection; the transaction continues.

        If that fails, for example because the handler has ended the transaction, close the connection.
        """
        try:
            self._finish(_UNDO)
        except (TransactionEnded, psycopg.Error):
            self.connection.close()

    def _finish(self, statement: LiteralString) -> None:
        connection = self.connection
        for name, value in self.attributes.items():
            setattr(connection, name, value)
        connection._adapters = self.adapters  # noqa: SLF001 - as above
        connection._notice_handlers[:] = self.notice_handlers  # noqa: SLF001 - as above
        connection._notify_handlers[:] = self.notify_handlers  # noqa: SLF001 - as above
        try:
            connection.execute(statement)
        except (psycopg.errors.InvalidSavepointSpecification, psycopg.errors.NoActiveSqlTransaction) as error:
            connection.close()
            raise TransactionEnded from error
