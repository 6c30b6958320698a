"""Provide connections with time limits for their statements, independent of the defaults of the database.

A connection with its own session sets its limits and the isolation level once. A transaction-mode pooler shares
sessions, so the settings of one client would affect others. Behind a pooler, both are therefore set in each
transaction, and a single statement in autocommit mode gets its own transaction.
"""

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Any, Self, TypeVar

import psycopg
from psycopg import sql
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

_T = TypeVar("_T")
_Row = TypeVar("_Row")

#: Sets parameters for the session, unless a pooler shares the session: behind a pooler, the id of the server process
#: differs from the id received at login.
_SET = """
select set_config(p.name, p.value, false)
from unnest(%(names)s::text[], %(values)s::text[]) p (name, value)
where pg_backend_pid() = %(backend_pid)s
"""
_SET_LOCAL = sql.SQL("set local lock_timeout = {}; set local statement_timeout = {}")
_BEGIN = sql.SQL("begin isolation level read committed; {}")
#: The client waits this much longer than the server's own limit, because the response needs time on the network.
_GRACE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class StatementLimits:
    """The time limits of one statement in seconds, for each wait for a lock and in total; 0: unlimited."""

    #: If another statement is already waiting for the row, the wait is up to twice as long: first for its place in the
    #: queue, then for the holder.
    lock_seconds: float = 0.75
    statement_seconds: float = 10.0

    @property
    def settings(self) -> dict[str, str]:
        """The limits as parameters of the server, in milliseconds."""
        return {
            "lock_timeout": str(ceil(self.lock_seconds * 1000)),
            "statement_timeout": str(ceil(self.statement_seconds * 1000)),
        }


#: For migrations, and for code that sets its own limits.
UNLIMITED = StatementLimits(lock_seconds=0, statement_seconds=0)


class NoAnswer(psycopg.OperationalError):
    """The server did not answer within the limit of a statement."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"timed out: no answer in {seconds:g} s")


class BoundedConnection(psycopg.Connection[_Row]):
    """A connection in autocommit mode with limits for its statements and fixed session settings.

    Every transaction runs at the isolation level read committed: a statement that has waited for a row's lock sees the
    current version of the row.
    """

    #: The limits of each statement; changed by `limit`.
    limits = UNLIMITED
    #: False if a pooler may run each transaction in another session.
    has_own_session = False

    @classmethod
    def open(cls, conninfo: str, *, limits: StatementLimits, prepare_threshold: int | None) -> "BoundedConnection[Any]":
        """Open a connection, which the caller closes.

        Args:
            conninfo: A connection string, or a `postgresql://` address.
            limits: The limits of each statement.
            prepare_threshold: How often a statement must run before it is prepared by name; None: never.

        Raises:
            psycopg.OperationalError: The server cannot be reached or refuses the login.
            psycopg.ProgrammingError: `conninfo` is malformed; the message contains it.
        """
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

    def restore(self, limits: StatementLimits) -> None:
        """Set the session settings that statements rely on, if no pooler shares the session.

        Called after connecting and after a reset.
        """
        self.limits = limits
        self.has_own_session = self._set({"default_transaction_isolation": "read committed", **limits.settings})
        if not (self.info.parameter_status("DateStyle") or "").startswith("ISO"):
            # psycopg reads no other style. Transaction-mode poolers keep this parameter for each client.
            psycopg.Cursor(self).execute("set datestyle to 'ISO'")

    def limit(self, limits: StatementLimits) -> None:
        """Set the limits of the following statements."""
        is_changed, self.limits = limits != self.limits, limits
        if is_changed and self.has_own_session:
            self._set(limits.settings)

    def _set(self, parameters: dict[str, str]) -> bool:
        """Set parameters for the session, unless a pooler shares it; return whether they were set."""
        given = {"names": list(parameters), "values": list(parameters.values()), "backend_pid": self.info.backend_pid}
        return psycopg.Cursor(self, row_factory=tuple_row).execute(_SET, given).rowcount > 0

    @property
    def limits_each_transaction(self) -> bool:
        """Whether each transaction has to set the limits."""
        return not self.has_own_session and self.limits != UNLIMITED

    @contextmanager
    def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002 - psycopg's signature
    ) -> Iterator[psycopg.Transaction]:
        """Begin a transaction with limited statements, or a savepoint inside a transaction."""
        sets_limits = self.limits_each_transaction and self.info.transaction_status == TransactionStatus.IDLE
        with super().transaction(savepoint_name, force_rollback) as transaction:
            if sets_limits:
                self.execute(_set_local(self.limits))
            yield transaction

    def wait(self, gen: PQGen[_T], *args: Any, **options: Any) -> _T:  # noqa: ANN401 - psycopg's own arguments
        """Wait for the server as psycopg does, but at most one second longer than a statement may take.

        Raises:
            NoAnswer: The time has passed; the connection is closed, because its state is unknown.
        """
        seconds = self.limits.statement_seconds
        try:
            return super().wait(_limit_wait(gen, seconds + _GRACE_SECONDS) if seconds else gen, *args, **options)
        except NoAnswer:
            self.close()
            raise


class BoundedCursor(psycopg.Cursor[_Row]):
    """A cursor that, behind a pooler, wraps each statement outside a transaction in a limited transaction."""

    def execute(self, *given: Any, **options: Any) -> Self:  # noqa: ANN401 - psycopg's own arguments
        """Run a statement as psycopg does, within the limits."""
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
                # Does nothing after the commit.
                connection.rollback()
        return self


def _set_local(limits: StatementLimits) -> sql.Composed:
    return _SET_LOCAL.format(*limits.settings.values())


def _limit_wait(gen: PQGen[_T], seconds: float) -> Generator[Any, Any, _T]:
    """Wrap a generator of psycopg, so that it raises `NoAnswer` after `seconds`."""
    until = time.monotonic() + seconds
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            # psycopg resumes the generator ten times a second if nothing is ready.
            if not ready and time.monotonic() >= until:
                raise NoAnswer(seconds)
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # what `gen` returned
