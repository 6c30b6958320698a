"""Connections on which no statement waits without a limit, whatever the database's own defaults are.

A transaction-mode pooler drops or shares what a session sets. So limits and the isolation level are part of each
transaction; a single statement in autocommit mode gets one of its own, in the same round trip.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from typing import Self

    from psycopg.abc import PQGen

_T = TypeVar("_T")
_Row = TypeVar("_Row")

_BEGIN = "begin isolation level read committed"
_LIMIT = "select set_config('lock_timeout', %s, true), set_config('statement_timeout', %s, true)"
#: How much longer than the server's own limit this side waits: the answer has to travel.
_GRACE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How long one statement may wait for a lock, and take altogether, in seconds; 0: without a limit."""

    lock_seconds: float = 1.0
    statement_seconds: float = 10.0

    @property
    def milliseconds(self) -> tuple[str, str]:
        """The values of `lock_timeout` and `statement_timeout`."""
        return str(ceil(self.lock_seconds * 1000)), str(ceil(self.statement_seconds * 1000))


#: For migrations, and for code that has a limit of its own: statements run as the session has them.
UNLIMITED = Limits(lock_seconds=0, statement_seconds=0)


class NoAnswer(psycopg.OperationalError):
    """The server, or the network to it, gave no answer within the limit of a statement."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"timed out: no answer in {seconds:g} s")


class BoundedConnection(psycopg.Connection[_Row]):
    """A connection in autocommit mode that limits its statements and fixes what they rely on.

    Every transaction runs at read committed; rows and their locks are judged as they are now, not as of a snapshot.
    """

    #: Of each statement.
    limits: Limits = UNLIMITED

    @classmethod
    def open(cls, conninfo: str, *, prepare_threshold: int | None) -> BoundedConnection[tuple[Any, ...]]:
        """Connect; the caller closes it."""
        connection = BoundedConnection[tuple[Any, ...]].connect(
            conninfo, autocommit=True, prepare_threshold=prepare_threshold, cursor_factory=BoundedCursor
        )
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        if not (connection.info.parameter_status("DateStyle") or "").startswith("ISO"):
            # The driver reads no other. A transaction-mode pooler tracks this one for each of its clients.
            connection.execute("set datestyle to 'ISO'")
        return connection

    @contextmanager
    def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002 - psycopg's signature
    ) -> Iterator[psycopg.Transaction]:
        """Start a transaction under the limits, or a savepoint within one."""
        is_outermost = self.info.transaction_status == TransactionStatus.IDLE
        if not is_outermost or self.limits == UNLIMITED:
            with super().transaction(savepoint_name, force_rollback) as transaction:
                yield transaction
            return
        with ExitStack() as stack:
            with self.pipeline():
                transaction = stack.enter_context(super().transaction(savepoint_name, force_rollback))
                psycopg.Cursor(self).execute(_LIMIT, self.limits.milliseconds)
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
    """Runs a statement outside of any transaction in one of its own: begun, limited and committed in one round trip."""

    def execute(self, *given: Any, **options: Any) -> Self:  # noqa: ANN401 - psycopg's own, as they are
        """Run a statement as psycopg does."""
        connection = self.connection
        limits = connection.limits if isinstance(connection, BoundedConnection) else UNLIMITED
        if limits == UNLIMITED or connection.info.transaction_status != TransactionStatus.IDLE:
            return super().execute(*given, **options)
        own = psycopg.Cursor(connection)
        try:
            with connection.pipeline():
                own.execute(_BEGIN)
                own.execute(_LIMIT, limits.milliseconds)
                super().execute(*given, **options)
                own.execute("commit")
        finally:
            if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
                connection.rollback()
        return self


def _ended_by(gen: PQGen[_T], seconds: float) -> Generator[Any, Any, _T]:
    """Pass everything on between psycopg and what it waits for, until the time is up."""
    until = time.monotonic() + seconds
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            # Asked ten times a second, with nothing ready.
            if not ready and time.monotonic() >= until:
                raise NoAnswer(seconds)
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # what `gen` returned
