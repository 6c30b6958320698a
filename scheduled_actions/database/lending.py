"""The connection of a transactional handler: lent within a transaction of ours, restored before we go on with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.adapt import AdaptersMap

from scheduled_actions.database.bounded import BoundedConnection

if TYPE_CHECKING:
    from typing import LiteralString, Self

    from scheduled_actions.database.connection import Connection

#: Stands while the handler runs; what ends the transaction ends it.
_MARK = "savepoint scheduled_actions_attempt"
#: In the transaction itself: behind a pooler the next statement may reach another server process.
_RESTORE = f"release {_MARK}; reset all; reset session authorization; reset role; select pg_advisory_unlock_all()"
_UNDO = f"rollback to {_MARK}; reset session authorization; reset role; select pg_advisory_unlock_all()"


class TransactionEnded(Exception):
    """The handler has ended the transaction that the attempt began, or begun another one."""


@dataclass(frozen=True, slots=True)
class Lent:
    """What a handler may change of a connection in Python, as it was before."""

    connection: Connection
    attributes: dict[str, Any]
    adapters: AdaptersMap
    notice_handlers: list[Any]
    notify_handlers: list[Any]

    @classmethod
    def begin(cls, connection: Connection) -> Self:
        """Mark the present transaction, and give the connection adapters of its own."""
        connection.execute(_MARK)
        lent = cls(
            connection,
            {name: getattr(connection, name) for name in _ATTRIBUTES},
            connection.adapters,
            list(connection._notice_handlers),  # noqa: SLF001 - there is no public way to list them
            list(connection._notify_handlers),  # noqa: SLF001 - likewise
        )
        connection._adapters = AdaptersMap(lent.adapters)  # noqa: SLF001 - there is no public way to replace it
        return lent

    def restore(self) -> None:
        """Restore the connection, its session's settings included; its transaction goes on.

        Raises:
            TransactionEnded: It is another transaction, or none: the connection must not be used any more.
            psycopg.Error: The transaction has failed.
        """
        self._finish(_RESTORE)
        if isinstance(self.connection, BoundedConnection):
            self.connection.restore(self.connection.limits)

    def undo(self) -> None:
        """Roll back what the handler did, its settings included, and restore the connection; its transaction goes on.

        One that the handler ended by itself is closed: nothing says what else it left there.
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
            raise TransactionEnded from error


_ATTRIBUTES = ("row_factory", "cursor_factory", "server_cursor_factory", "prepare_threshold", "prepared_max")
