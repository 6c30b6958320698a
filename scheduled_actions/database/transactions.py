"""Which connection and transaction a call writes in, and what its statements need there.

A call of the application's code writes on the caller's connection, on that of the transactional handler around it, or
on one of ours. Within the transaction: savepoints, refusals as errors, limits of lock waits.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import psycopg

from scheduled_actions.core.errors import InvalidArgument, RefusedByDatabase
from scheduled_actions.database.connection import whole
from scheduled_actions.database.failures import refusal_of_the_moment
from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from scheduled_actions.database.connection import Connection, Database

sql = Statements(__file__)

#: How long a statement that writes outcomes waits for a lock, in milliseconds.
PATIENCE_MS = "250"

#: The connection of the transactional handler that is running in this context: what it schedules joins its transaction.
joined_connection: ContextVar[Connection | None] = ContextVar("joined_connection", default=None)
#: The action whose handler is running in this context: what it schedules by itself keeps that as its parent.
running_action: ContextVar[UUID | None] = ContextVar("running_action", default=None)


@contextmanager
def borrowed_connection(database: Database, connection: psycopg.Connection[Any] | None) -> Iterator[Connection]:
    """Lend the caller's connection, the one of the transactional handler that is running, or one of our own.

    Raises:
        InvalidArgument: What the caller gave is no connection.
        DatabaseUnavailable: The database cannot be reached, or a statement took too long.
        RowLocked: On a connection of our own: another session changes the same rows.
    """
    if connection is not None:
        if not isinstance(connection, psycopg.Connection):
            raise InvalidArgument("connection", type(connection).__name__, "a psycopg 3 Connection")
        yield connection
        return
    joined = joined_connection.get()
    if joined is not None:
        yield joined
        return
    try:
        with database.connection() as own:
            yield own
    except psycopg.Error as error:
        refusal = refusal_of_the_moment(error)
        if refusal is None:
            raise
        raise refusal from error


def is_own(connection: psycopg.Connection[Any] | None) -> bool:
    """Whether a call with this connection commits by itself, rather than join a caller's or a handler's transaction."""
    return connection is None and joined_connection.get() is None


def savepoint(connection: Connection) -> AbstractContextManager[object]:
    """Return what keeps a refusal from spoiling the caller's transaction, also one that this statement would begin."""
    if connection.autocommit and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        return nullcontext()
    return whole(connection)


def refused(error: psycopg.Error) -> RefusedByDatabase:
    """Return the database's refusal of an argument as our own error, without the statement around it."""
    return RefusedByDatabase(error.diag.message_primary or "the database refused an argument")


def wait_shortly(connection: Connection, patience_ms: str = PATIENCE_MS) -> None:
    """Let no lock be waited for longer than so, by default as a settlement waits, until the transaction ends."""
    sql.run(connection, "patient", {"patience_ms": patience_ms})
