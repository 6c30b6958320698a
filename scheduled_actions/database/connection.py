"""Manage connections: keep a few open, and lend each to one caller at a time.

The threads of an ordinary pool would be frozen with a serverless function, and would reconnect too late after an
outage. This pool has no threads and connects on demand, so that the first call after an outage succeeds.
"""

import os
import select
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Self, TypeAlias, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row

from scheduled_actions.core.errors import DatabaseUnavailable
from scheduled_actions.core.log import log
from scheduled_actions.database import versions
from scheduled_actions.database.boundary import ESCAPES_IN_URL, is_connection_failure, unavailable
from scheduled_actions.database.bounded import BoundedConnection, StatementLimits

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
_Bounded: TypeAlias = BoundedConnection[tuple[Any, ...]]


Result = TypeVar("Result")

#: A connection that has been idle for longer is tested before it is lent, within these limits.
_TRUSTED_IDLE_SECONDS = 30.0
_TEST_LIMITS = StatementLimits(statement_seconds=4.0)
#: A connection that was returned this recently is lent without any test: a tick borrows its connection for each step,
#: and the system call of a test would let the handler threads run before the step's statement is sent.
_JUST_USED_SECONDS = 0.002
_MALFORMED = (
    f"DATABASE_URL is not a valid connection string such as postgresql://user:password@host:5432/name; {ESCAPES_IN_URL}"
)

#: Pause before a lost connection is opened again.
_RECONNECT_SECONDS = 0.25

#: Connection parameters that report a lost server within seconds. Values in `DATABASE_URL` take precedence.
_CONNECT_DEFAULTS = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "client_encoding": "UTF8",
}


class Database:
    """The connections to one database.

    Args:
        find_dsn: Returns the data source name; called for each new connection, in the process that opens it.
        keep: Maximum number of idle connections to keep; more may be open at once.
        is_direct: Whether there is no pooler, so that statements may be prepared by name.
        limits: The time limits of each statement.
    """

    def __init__(
        self,
        find_dsn: Callable[[], str],
        *,
        keep: int = 4,
        is_direct: bool = False,
        limits: StatementLimits = StatementLimits(),  # noqa: B008 - frozen
    ) -> None:
        self._find_dsn = find_dsn
        self._limits = limits
        self._keep = keep
        self._is_direct = is_direct
        self._lock = threading.Lock()
        self._idle: list[tuple[_Bounded, float]] = []
        self._pid = os.getpid()

    def connect(self) -> _Bounded:
        """Return a new connection in autocommit mode, which the caller closes.

        Exceptions of `find_dsn` are raised unchanged.

        Raises:
            DatabaseUnavailable: The server cannot be reached or refuses the login, or `DATABASE_URL` is malformed.
        """
        try:
            conninfo = make_conninfo(**{**_CONNECT_DEFAULTS, **conninfo_to_dict(self._find_dsn())})  # type: ignore[arg-type]  # conninfo_to_dict gives int | str | None
            return BoundedConnection.open(
                conninfo, limits=self._limits, prepare_threshold=5 if self._is_direct else None
            )
        except psycopg.ProgrammingError:
            # psycopg repeats the data source name, password and all, in this message.
            raise DatabaseUnavailable(_MALFORMED) from None
        except psycopg.OperationalError as error:
            raise unavailable(error) from None

    @contextmanager
    def connection(self, limits: StatementLimits | None = None) -> Iterator[Connection]:
        """Lend a connection in autocommit mode inside the block; then keep it for the next caller, or close it.

        Every transaction on it, and every statement outside a transaction, runs at read committed and within limits.

        Args:
            limits: The time limits of each statement; None: those of this `Database`.

        Raises:
            DatabaseUnavailable: The server cannot be reached, or the connection was lost while it was used.
            SchemaOutdated: A table, column or function is missing, and the schema does not match this code.
            SchemaUnreleased: A table, column or function is missing, and an unreleased build created the tables.
        """
        connection = self._take()
        try:
            connection.limit(limits or self._limits)
            yield connection
        except psycopg.OperationalError as error:
            if is_connection_failure(error):
                connection.close()
                raise unavailable(error) from error
            raise
        except (
            psycopg.errors.UndefinedTable,
            psycopg.errors.UndefinedFunction,
            psycopg.errors.UndefinedColumn,
        ) as error:
            # A project's own name may be missing: the error is converted only if the schema is older than this code.
            is_ours = isinstance(error, psycopg.errors.UndefinedTable) and "scheduled_action" in str(error)
            with closing(self.connect()) as other:
                problem = versions.problem(other, lacks_table=is_ours)
            if problem is not None:
                raise problem from error
            raise
        finally:
            self._give_back(connection)

    def do(self, step: Callable[[Connection], Result], limits: StatementLimits | None = None) -> Result:
        """Run a step on a connection lent for it; return its result.

        Raises:
            DatabaseUnavailable: The server cannot be reached, or the connection was lost during the step.
            SchemaOutdated: A table, column or function is missing, and the schema does not match this code.
            SchemaUnreleased: A table, column or function is missing, and an unreleased build created the tables.
        """
        with self.connection(limits) as connection:
            return step(connection)

    def close(self) -> None:
        """Close idle connections now, and lent connections when they are returned; keep none from now on."""
        with self._lock:
            self._keep = 0
        self._close_idle()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def _take(self) -> _Bounded:
        while True:
            with self._lock:
                if self._pid != os.getpid():
                    # After a fork the sockets belong to the parent: drop them without a message to the server.
                    self._idle, self._pid = [], os.getpid()
                kept = self._idle.pop() if self._idle else None
            if kept is None:
                return self.connect()
            connection, since = kept
            if _is_alive(connection, idle_seconds=time.monotonic() - since):
                return connection
            connection.close()
            # The other idle connections have probably been lost as well, so they are closed without a test.
            self._close_idle()

    def _give_back(self, connection: _Bounded) -> None:
        if not connection.closed and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            # A transactional handler may have changed the row factory.
            connection.row_factory = tuple_row
            with self._lock:
                if len(self._idle) < self._keep and self._pid == os.getpid():
                    self._idle.append((connection, time.monotonic()))
                    return
        connection.close()


@contextmanager
def atomic(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Commit or roll back the block as a whole; within a caller's transaction, the caller commits.

    On a caller's connection without autocommit and without a transaction, psycopg's `transaction()` would commit, so a
    transaction is begun first.
    """
    if not connection.autocommit and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        connection.execute("select")
    with connection.transaction():
        yield


class CancellableConnection:
    """A connection that one thread uses inside a block, and that another thread may abort.

    An aborted connection is closed at the end of the block, so that it is not lent again.
    """

    def __init__(self, connection: Connection) -> None:
        self._lock = threading.Lock()
        self._connection: Connection | None = connection
        #: Whether another thread has aborted the connection.
        self.is_cancelled = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self.is_cancelled and self._connection is not None:
                self._connection.close()
            self._connection = None

    def cancel(self) -> None:
        """Abort the connection from another thread; do nothing after the block has ended."""
        with self._lock:
            if self._connection is not None:
                self.is_cancelled = True
                abort_connection(self._connection)


class RetryingConnection:
    """Runs steps on a connection, and reconnects until a time limit if the connection is lost.

    Args:
        database: Lends the connections.
        monotonic: A monotonic clock, in seconds.
        until: The time limit, on the monotonic clock.
    """

    def __init__(self, database: Database, monotonic: Callable[[], float], until: float) -> None:
        self._database = database
        self._monotonic = monotonic
        #: The time limit; may be moved between two steps.
        self.until = until
        self._current: CancellableConnection | None = None
        #: Whether a step was repeated: its first run may have been committed.
        self.was_repeated = False
        self._has_worked = False

    def do(self, step: Callable[[Connection], Result]) -> Result:
        """Run a step; repeat it on a new connection if the connection is lost and an earlier step has succeeded.

        The step must be repeatable, because the last statement on the lost connection may have been committed.

        Raises:
            DatabaseUnavailable: The database cannot be reached, and no earlier step has succeeded or the time limit has
                passed; or another thread aborted the step.
        """
        while True:
            try:
                with self._database.connection() as connection, CancellableConnection(connection) as self._current:
                    result = step(connection)
            except psycopg.errors.QueryCanceled as error:
                if self._current is not None and self._current.is_cancelled:
                    raise DatabaseUnavailable("it did not answer within the time limit of the tick") from error
                raise
            except DatabaseUnavailable:
                if not self._has_worked or self._monotonic() + _RECONNECT_SECONDS >= self.until:
                    raise
                self.was_repeated = True
                time.sleep(_RECONNECT_SECONDS)
            else:
                self._has_worked = True
                return result

    def cancel(self) -> None:
        """Abort the current step from another thread."""
        if (current := self._current) is not None:
            current.cancel()


def abort_connection(connection: Connection) -> None:
    """Abort a connection that another thread uses: its statement fails, and the server rolls its transaction back.

    The socket is shut down instead of closed, because its file descriptor must not be reused while the other thread
    uses it.
    """
    try:
        connection.cancel_safe(timeout=1.0)
    except psycopg.Error:
        log.debug("connection.cancel_failed", exc_info=True)
    with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)


def _is_alive(connection: _Bounded, *, idle_seconds: float) -> bool:
    if connection.closed:
        return False
    if idle_seconds < _JUST_USED_SECONDS:
        return True
    # An idle connection has data to read only after a message of the server, usually that it closes the connection.
    if _has_something_to_read(connection):
        return False
    try:
        if idle_seconds >= _TRUSTED_IDLE_SECONDS:
            connection.limit(_TEST_LIMITS)
            connection.execute("select 1")
    except psycopg.Error:
        return False
    return True


def _has_something_to_read(connection: Connection) -> bool:
    # Not select(), which does not support file descriptors above 1023; not epoll, whose creation is too slow.
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return bool(poll.poll(0))
    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return bool(selector.select(timeout=0))
