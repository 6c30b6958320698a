"""What statements within a transaction need: savepoints, refusals as errors, limits of lock waits."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import psycopg

from scheduled_actions.core.errors import RefusedByDatabase
from scheduled_actions.database.connection import whole
from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)

#: How long a statement that writes outcomes waits for a lock, in milliseconds.
PATIENCE_MS = "250"


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
