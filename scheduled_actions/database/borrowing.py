"""Whose connection a call of the application's code uses: its own, that of the handler around it, or one of ours.

And which action's handler is around it, if one is.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import psycopg

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.database.connection import refusal_of_the_moment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from scheduled_actions.database.connection import Connection, Database

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
