"""Connections: a few kept open, each handed to one user at a time.

A pool with threads of its own would be frozen with a serverless function and would sleep through a database's return;
this one connects when asked, so that the first call after an outage already succeeds.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row

from scheduled_actions.core.errors import DatabaseUnavailable, SchemaOutdated
from scheduled_actions.database import versions
from scheduled_actions.database.bounded import BoundedConnection, Limits
from scheduled_actions.database.failures import is_connection_failure, unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

log = logging.getLogger("scheduled_actions")

Result = TypeVar("Result")

#: A kept connection that has been idle longer is tested before it is used, within these limits.
_TRUSTED_IDLE_SECONDS = 30.0
_TEST_LIMITS = Limits(statement_seconds=4.0)
_MALFORMED = (
    "DATABASE_URL is not a valid connection string: postgresql://user:password@host:5432/name, where an @ in the "
    "password is written %40, a : %3A, a / %2F, a ? %3F, a # %23 and a % %25"
)

#: How often a database that has gone away is tried again.
_RECONNECT_SECONDS = 0.25

#: What makes a vanished server an error within seconds instead of a wait without end. The caller's own values win.
_CONNECT_DEFAULTS = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "client_encoding": "UTF8",
}


class Database:
    """The way to one database.

    Args:
        find_dsn: Gives the data source name; asked when the first connection is made, in the process that makes it.
        keep: How many idle connections are kept; more may be open at once.
        is_direct: No pooler stands between, so statements may be prepared by name.
        limits: How long each statement may wait for a lock, and take.
    """

    def __init__(
        self,
        find_dsn: Callable[[], str],
        *,
        keep: int = 4,
        is_direct: bool = False,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        self._find_dsn = find_dsn
        self._limits = limits
        self._keep = keep
        self._is_direct = is_direct
        self._lock = threading.Lock()
        self._idle: list[tuple[BoundedConnection[tuple[Any, ...]], float]] = []
        self._pid = os.getpid()

    def connect(self) -> BoundedConnection[tuple[Any, ...]]:
        """Return a new connection in autocommit mode; the caller closes it.

        Raises:
            DatabaseUnavailable: The server cannot be reached or refuses the login.
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
    def connection(self, limits: Limits | None = None) -> Iterator[Connection]:
        """Lend a connection in autocommit mode; it is kept for the next user unless it broke.

        Every transaction on it, and every statement outside of one, runs at read committed and within limits.

        Args:
            limits: Of each statement; None: those of the database.

        Raises:
            DatabaseUnavailable: The server cannot be reached, or the connection was lost while it was used.
            SchemaOutdated: A table, column or function is missing, and the schema is older than this code.
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
            # The name may be a project's own: then the schema is to blame only where it is older than this code.
            is_ours = isinstance(error, psycopg.errors.UndefinedTable) and "scheduled_action" in str(error)
            if (problem := self._schema_problem(lacks_table=is_ours)) is not None:
                raise problem from error
            raise
        finally:
            self._give_back(connection)

    def _schema_problem(self, *, lacks_table: bool) -> SchemaOutdated | None:
        with closing(self.connect()) as connection:
            return versions.problem(connection, lacks_table=lacks_table)

    def close(self) -> None:
        """Close the idle connections, and every lent one when it is returned; none is kept from now on."""
        with self._lock:
            self._keep = 0
        self._close_idle()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def _take(self) -> BoundedConnection[tuple[Any, ...]]:
        while True:
            with self._lock:
                if self._pid != os.getpid():
                    # After a fork the sockets belong to the parent: forget them without saying goodbye to the server.
                    self._idle, self._pid = [], os.getpid()
                kept = self._idle.pop() if self._idle else None
            if kept is None:
                return self.connect()
            connection, since = kept
            if _is_alive(connection, idle_seconds=time.monotonic() - since):
                return connection
            connection.close()
            # What took this one away has probably taken the others, too: one test is enough to find out.
            self._close_idle()

    def _give_back(self, connection: BoundedConnection[tuple[Any, ...]]) -> None:
        if connection.closed or connection.broken:
            connection.close()
            return
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.close()
            return
        # A handler in a transaction of its own may have asked for dicts.
        connection.row_factory = tuple_row
        with self._lock:
            if len(self._idle) < self._keep and self._pid == os.getpid():
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()


@contextmanager
def whole(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Do everything inside or nothing of it; within the caller's transaction, where there is one, that one decides.

    On a caller's connection that has begun nothing yet, psycopg's own `transaction()` would commit.
    """
    if not connection.autocommit and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        connection.execute("select")
    with connection.transaction():
        yield


class Loan:
    """A connection in the hands of one thread, which another one may cut off until it is given back.

    Used as a context manager by the borrower. One that was cut off is closed by its end: nobody else is given it.
    """

    def __init__(self, connection: Connection) -> None:
        self._lock = threading.Lock()
        self._connection: Connection | None = connection
        #: Whether the other thread has cut it off.
        self.is_cut = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self.is_cut and self._connection is not None:
                self._connection.close()
            self._connection = None

    def cut(self) -> None:
        """End what the borrower is doing, from another thread; nothing once the connection is given back."""
        with self._lock:
            if self._connection is not None:
                self.is_cut = True
                cut_off(self._connection)


class Line:
    """A connection that is made again when the database goes away under it, until a time is up.

    Args:
        database: Lends the connections.
        monotonic: Seconds that never go back.
        until: When the time is up.
    """

    def __init__(self, database: Database, monotonic: Callable[[], float], until: float) -> None:
        self._database = database
        self._monotonic = monotonic
        self._until = until
        self._loan: Loan | None = None
        #: Whether anything had to be done a second time: then an outcome may have been written by the first.
        self.was_repeated = False
        self._has_worked = False

    def do(self, step: Callable[[Connection], Result]) -> Result:
        """Do one step on the connection; do it again on a new one when the connection was lost.

        So a step has to be one that may be repeated: what the lost connection was told last may have been committed.
        """
        while True:
            try:
                with self._database.connection() as connection, Loan(connection) as self._loan:
                    result = step(connection)
            except psycopg.errors.QueryCanceled as error:
                if self._loan is not None and self._loan.is_cut:
                    raise DatabaseUnavailable("it did not answer before the time for it was up") from error
                raise
            except DatabaseUnavailable:
                if not self._has_worked or self._monotonic() + _RECONNECT_SECONDS >= self._until:
                    raise
                self.was_repeated = True
                time.sleep(_RECONNECT_SECONDS)
            else:
                self._has_worked = True
                return result

    def cut(self) -> None:
        """End the wait of the step that is being done, from another thread."""
        loan = self._loan
        if loan is not None:
            loan.cut()


def cut_off(connection: Connection) -> None:
    """End another thread's connection: its statement fails, the server rolls its transaction back.

    The socket is shut down rather than closed: its number must not be reused while the other thread waits on it.
    """
    try:
        connection.cancel_safe(timeout=1.0)
    except psycopg.Error:
        log.debug("connection.cancel_failed", exc_info=True)
    try:
        duplicate = socket.socket(fileno=os.dup(connection.fileno()))
    except (psycopg.Error, OSError):
        return
    with duplicate:
        try:
            duplicate.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.DefaultSelector)


def _is_alive(connection: BoundedConnection[tuple[Any, ...]], *, idle_seconds: float) -> bool:
    if connection.closed:
        return False
    # An idle connection has nothing to say: something to read is the server's goodbye.
    if _has_something_to_read(connection):
        return False
    if idle_seconds < _TRUSTED_IDLE_SECONDS:
        return True
    try:
        connection.limit(_TEST_LIMITS)
        connection.execute("select 1")
    except psycopg.Error:
        return False
    return True


def _has_something_to_read(connection: Connection) -> bool:
    # Not select(): it takes no file numbers above 1023. Not epoll: making one takes longer than some statements.
    with _Selector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return bool(selector.select(timeout=0))
