"""Statements on a caller's connection: a refusal leaves the caller's transaction usable."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import psycopg

from scheduled_actions.core.errors import RefusedByDatabase
from scheduled_actions.database.connection import whole

if TYPE_CHECKING:
    from scheduled_actions.database.connection import Connection


def savepoint(connection: Connection) -> AbstractContextManager[object]:
    """Return what keeps a refusal from spoiling the caller's transaction, also one that this statement would begin."""
    if connection.autocommit and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        return nullcontext()
    return whole(connection)


def refused(error: psycopg.Error) -> RefusedByDatabase:
    """Return the database's refusal of an argument as our own error, without the statement around it."""
    return RefusedByDatabase(error.diag.message_primary or "the database refused an argument")
