"""What a doctor asks a database: what it is, what time it has, what stands before it, what is open for too long."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from scheduled_actions.actions import management_store as management
from scheduled_actions.core.errors import DatabaseUnavailable, SchemaHidden, SchemaUnreleased
from scheduled_actions.database import migrate, versions
from scheduled_actions.database.connection import cut_off
from scheduled_actions.database.failures import is_connection_failure
from scheduled_actions.database.schema import files
from scheduled_actions.database.statements import Statements
from scheduled_actions.operations.doctor.rules.database import (
    OLD_TRANSACTION,
    ClocksFound,
    DefaultsFound,
    FunctionsInUseFound,
    IndexesFound,
    LineFound,
    MigrationsFound,
    SchemaFound,
    ServerFound,
    TransactionsFound,
)
from scheduled_actions.operations.doctor.rules.work import (
    COUNTED,
    BacklogFound,
    DisabledEndpointsFound,
    FailuresFound,
    StoppedSchedulesFound,
    UnhandledFound,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.operations.doctor.rules import Fact

sql = Statements(__file__)

#: The quickest of so many round trips measures the clock best.
_ROUND_TRIPS = 3
#: So many sessions are held at once to see whether one of them is handed out twice: poolers keep a few idle.
_SESSIONS = 3
#: A pooler without a session to spare lets a client wait for minutes.
_PATIENCE_SECONDS = 5.0
#: So many names of what waits for a person are asked for.
_NAMES_MOST = 20


def server(connection: Connection) -> ServerFound:
    """Return what the server is."""
    major, encoding, _ = _one(connection, "doctor_server")
    return ServerFound(major=major, encoding=encoding)


def defaults(connection: Connection) -> DefaultsFound:
    """Return what sessions begin with."""
    found = dict(sql.run(connection, "doctor_defaults").fetchall())
    return DefaultsFound(
        found["DateStyle"],
        found["default_transaction_isolation"],
        is_read_only=found["default_transaction_read_only"] == "on",
    )


def migrations(connection: Connection) -> MigrationsFound:
    """Return which migrations and functions the database has, compared with those of this code."""
    schema = files.read()
    try:
        versions.check_visible(connection, schema)
        found = versions.read_released(connection, schema)
    except (SchemaHidden, SchemaUnreleased) as error:
        return MigrationsFound(found=0, wanted=schema.latest, unusable=error)
    return MigrationsFound(
        found=found.applied,
        wanted=schema.latest,
        stale_functions=(*(one.name for one in found.stale_functions(schema)), *found.removed_functions(schema)),
    )


def indexes(connection: Connection) -> IndexesFound:
    """Return which indexes of the migrations are not finished; every migration must have been applied."""
    return IndexesFound(tuple(migrate.unfinished_indexes(connection)))


def functions_in_use(connection: Connection) -> FunctionsInUseFound:
    """Return which functions of earlier releases something uses; every migration must have been applied."""
    return FunctionsInUseFound({one.signature: one.users for one in migrate.removed_functions(connection) if one.users})


def schema(connection: Connection) -> SchemaFound:
    """Return who else may create in the schema of the tables, which must be there."""
    name, creators = _one(connection, "doctor_schema")
    return SchemaFound(name=name, creators=tuple(creators))


def clocks(connection: Connection, *, now: Callable[[], float] = time.time) -> ClocksFound:
    """Return how far this machine's clock is from the server's, to within half a round trip.

    Args:
        connection: In autocommit mode.
        now: This machine's clock, in seconds since 1970.
    """
    measured: list[tuple[float, float]] = []
    for _ in range(_ROUND_TRIPS):
        asked = now()
        (theirs,) = _one(connection, "doctor_clock")
        answered = now()
        measured.append((answered - asked, (asked + answered) / 2 - theirs))
    return ClocksFound(timedelta(seconds=min(measured)[1]))


def transactions(connection: Connection, *, older_than: timedelta = OLD_TRANSACTION) -> TransactionsFound:
    """Return the transactions that have been open for longer, as far as this role sees them."""
    *_, sees_all = _one(connection, "doctor_server")
    rows = sql.run(connection, "doctor_transactions", {"seconds": older_than.total_seconds()}).fetchall()
    return TransactionsFound(old=tuple((pid, timedelta(seconds=age)) for pid, age in rows), sees_all=sees_all)


def sealed_secrets(connection: Connection) -> tuple[int, tuple[str, ...]]:
    """Return how many endpoints the database holds, and the encrypted secrets of the newest hundred."""
    rows = sql.run(connection, "doctor_sealed_secrets").fetchall()
    return (rows[0][1] if rows else 0), tuple(secret for secret, _ in rows)


def line(connect: Callable[[], Connection], *, is_declared_direct: bool) -> LineFound:
    """Return what stands between this process and the server, seen from a few connections made for it.

    A server gives each client a session of its own, whose number it also tells at login. A pooler in transaction mode
    lends a session to one client after the other: while one client does nothing, another one meets its session, or the
    first is served by another one afterwards.
    """
    with ExitStack() as held:
        opened: list[Connection] = []

        def another() -> Connection:
            opened.append(held.enter_context(closing(connect())))
            return opened[-1]

        first = another()
        own = _session(first)
        is_relayed = first.info.backend_pid != own
        held.enter_context(ended_after(_PATIENCE_SECONDS, opened))
        try:
            is_shared = _is_lent(own, first, another, held)
        except (psycopg.Error, DatabaseUnavailable) as error:
            if isinstance(error, psycopg.Error) and not is_connection_failure(error):
                raise
            # No further connection, or no session for it: a server that gave one would have served it.
            is_shared = is_relayed
        return LineFound(is_shared=is_shared, is_relayed=is_relayed, is_declared_direct=is_declared_direct)


def work(connection: Connection, *, is_missing: bool) -> Iterator[Fact]:
    """Give what waits for a person, and whether ticks keep up; every migration must have been applied.

    Args:
        connection: Where the tables are.
        is_missing: Whether no cron seems to ping.
    """
    due, _, oldest = management.due(connection, overdue_seconds=0, most=COUNTED)
    waits = None if oldest is None else timedelta(seconds=oldest)
    yield BacklogFound(due=due, oldest=waits, is_missing=is_missing)
    row = sql.run(connection, "doctor_work", {"most": COUNTED, "most_names": _NAMES_MOST}).fetchone()
    assert row is not None  # noqa: S101 - a select without a table
    failed, unhandled, schedules, endpoints = row
    yield FailuresFound(failed)
    yield UnhandledFound(tuple(unhandled))
    yield StoppedSchedulesFound(tuple(schedules))
    yield DisabledEndpointsFound(tuple(endpoints))


def internals(connection: Connection, action_id: UUID) -> dict[str, Any]:
    """Return the columns of an action that are no part of its value, by name; empty when it is not there."""
    cursor = sql.run(connection, "action_internals", {"id": action_id})
    row = cursor.fetchone()
    names = [column.name for column in cursor.description or ()]
    return {} if row is None else dict(zip(names, row, strict=True))


@contextmanager
def ended_after(seconds: float, connections: list[Connection]) -> Iterator[threading.Event]:
    """End the connections of the list once the time is up, and set the event; after the block none is ended.

    Those that were ended are closed: no pool lends them again.
    """
    is_over, has_left, lock = threading.Event(), threading.Event(), threading.Lock()

    def end() -> None:
        with lock:
            if has_left.is_set():
                return
            is_over.set()
            for connection in list(connections):
                cut_off(connection)

    watchdog = threading.Timer(seconds, end)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield is_over
    finally:
        watchdog.cancel()
        with lock:
            has_left.set()
        if is_over.is_set():
            for connection in connections:
                connection.close()


def _one(connection: Connection, name: str) -> tuple[Any, ...]:
    row = sql.run(connection, name).fetchone()
    assert row is not None  # noqa: S101 - a select without a table
    return row


def _session(connection: Connection) -> int:
    (number,) = _one(connection, "doctor_session")
    return int(number)


def _is_lent(own: int, first: Connection, another: Callable[[], Connection], held: ExitStack) -> bool:
    for _ in range(_SESSIONS):
        other = another()
        held.enter_context(other.transaction(force_rollback=True))
        if _session(other) == own:
            return True
    return _session(first) != own
