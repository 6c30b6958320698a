"""Connections on which no statement waits without a limit, whatever the database's own defaults are.

On a session of its own, a connection sets its limits and the isolation level once. A transaction-mode pooler shares
sessions, and what one client sets there leaks to others: behind one, both are part of each transaction, and a single
statement in autocommit mode gets a transaction of its own.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from typing import Self

    from psycopg.abc import PQGen

_T = TypeVar("_T")
_Row = TypeVar("_Row")

#: Sets parameters for the session, unless a pooler serves the client with a session that is not the client's own: then
#: the number of the server's process is not the one that was given at login.
_SET = """
select set_config(p.name, p.value, false)
from unnest(%(names)s::text[], %(values)s::text[]) p (name, value)
where pg_backend_pid() = %(backend_pid)s
"""
_SET_LOCAL = sql.SQL("set local lock_timeout = {}; set local statement_timeout = {}")
_BEGIN = sql.SQL("begin isolation level read committed; {}")
#: How much longer than the server's own limit this side waits: the answer has to travel.
_GRACE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How long one statement may wait for a lock, and take altogether, in seconds; 0: without a limit."""

    #: Who waits behind another waiter for the same row waits up to twice as long: for its place, then for the holder.
    lock_seconds: float = 0.75
    statement_seconds: float = 10.0

    @property
    def settings(self) -> dict[str, str]:
        """The server's parameters, in milliseconds."""
        return {
            "lock_timeout": str(ceil(self.lock_seconds * 1000)),
            "statement_timeout": str(ceil(self.statement_seconds * 1000)),
        }


#: For migrations, and for code that has a limit of its own.
UNLIMITED = Limits(lock_seconds=0, statement_seconds=0)


class NoAnswer(psycopg.OperationalError):
    """The server, or the network to it, gave no answer within the limit of a statement."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"timed out: no answer in {seconds:g} s")


class BoundedConnection(psycopg.Connection[_Row]):
    """A connection in autocommit mode that limits its statements and fixes what they rely on.

    Every transaction runs at read committed: rows are judged as they are once their locks are held, not as of a
    snapshot.
    """

    #: Of each statement; changed by `limit`.
    limits = UNLIMITED
    #: False where a pooler may serve each transaction with another session.
    has_own_session = False

    @classmethod
    def open(cls, conninfo: str, *, limits: Limits, prepare_threshold: int | None) -> BoundedConnection[Any]:
        """Connect; the caller closes it."""
        connection: BoundedConnection[Any] = BoundedConnection.connect(
            conninfo, autocommit=True, prepare_threshold=prepare_threshold, cursor_factory=BoundedCursor
        )
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        try:
            connection.restore(limits)
        except BaseException:
            connection.close()
            raise
        return connection

    def restore(self, limits: Limits) -> None:
        """Set everything that statements rely on, for the first time or after it was reset."""
        self.limits = limits
        self.has_own_session = self._set({"default_transaction_isolation": "read committed", **limits.settings})
        if not (self.info.parameter_status("DateStyle") or "").startswith("ISO"):
            # The driver reads no other. Transaction-mode poolers keep this parameter for each of their clients.
            psycopg.Cursor(self).execute("set datestyle to 'ISO'")

    def limit(self, limits: Limits) -> None:
        """Limit the statements from now on."""
        is_changed, self.limits = limits != self.limits, limits
        if is_changed and self.has_own_session:
            self._set(limits.settings)

    def _set(self, parameters: dict[str, str]) -> bool:
        """Set parameters for the session; return whether this connection has one of its own."""
        given = {
            "names": list(parameters),
            "values": list(parameters.values()),
            "backend_pid": self.info.backend_pid,
        }
        return psycopg.Cursor(self, row_factory=tuple_row).execute(_SET, given).rowcount > 0

    @property
    def limits_each_transaction(self) -> bool:
        """Whether each transaction has to set the limits itself."""
        return not self.has_own_session and self.limits != UNLIMITED

    @contextmanager
    def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002 - psycopg's signature
    ) -> Iterator[psycopg.Transaction]:
        """Start a transaction under the limits, or a savepoint within one."""
        sets_limits = self.limits_each_transaction and self.info.transaction_status == TransactionStatus.IDLE
        with super().transaction(savepoint_name, force_rollback) as transaction:
            if sets_limits:
                self.execute(_set_local(self.limits))
            yield transaction

    def wait(self, gen: PQGen[_T], *args: Any, **options: Any) -> _T:  # noqa: ANN401 - psycopg's own, as they are
        """Wait for the server as psycopg does, but no longer than the limit.

        Raises:
            NoAnswer: The limit has passed; the connection is closed, for its state is unknown.
        """
        if not self.limits.statement_seconds:
            return super().wait(gen, *args, **options)
        try:
            return super().wait(_ended_by(gen, self.limits.statement_seconds + _GRACE_SECONDS), *args, **options)
        except NoAnswer:
            self.close()
            raise


class BoundedCursor(psycopg.Cursor[_Row]):
    """Runs a statement outside of any transaction in a limited one of its own, where the session is not limited."""

    def execute(self, *given: Any, **options: Any) -> Self:  # noqa: ANN401 - psycopg's own, as they are
        """Run a statement as psycopg does."""
        connection = self.connection
        if (
            not isinstance(connection, BoundedConnection)
            or not connection.limits_each_transaction
            or connection.info.transaction_status != TransactionStatus.IDLE
        ):
            return super().execute(*given, **options)
        own = psycopg.Cursor(connection)
        try:
            own.execute(_BEGIN.format(_set_local(connection.limits)))
            super().execute(*given, **options)
            own.execute("commit")
        finally:
            if not connection.closed:
                # Nothing where it was committed.
                connection.rollback()
        return self


def _set_local(limits: Limits) -> sql.Composed:
    return _SET_LOCAL.format(*limits.settings.values())


def _ended_by(gen: PQGen[_T], seconds: float) -> Generator[Any, Any, _T]:
    """Pass everything on between psycopg and what it waits for, until the time is up."""
    until = time.monotonic() + seconds
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            # psycopg looks up ten times a second while nothing is ready.
            if not ready and time.monotonic() >= until:
                raise NoAnswer(seconds)
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # what `gen` returned
