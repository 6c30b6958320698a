"""Read the facts for `doctor`: the server, its clock and sessions, the latest pings, and work that needs attention."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg

from scheduled_actions.core.errors import DatabaseUnavailable, SchemaShadowed, SchemaUnreleased
from scheduled_actions.database import versions
from scheduled_actions.database.boundary import is_connection_failure
from scheduled_actions.database.connection import Connection, abort_connection
from scheduled_actions.database.statements import Statements
from scheduled_actions.operations.doctor.rules.database import OLD_TRANSACTION, MigrationState
from scheduled_actions.operations.doctor.rules.ticks import Ping, anonymous, recent

sql = Statements(__file__)

#: The fastest of these round trips measures the clock best.
_ROUND_TRIPS = 3
#: Number of connections held at once to find out whether two share a session: poolers keep a few sessions idle.
_SESSIONS = 3
#: Time limit, because a pooler without a free session lets a client wait for minutes.
_PATIENCE_SECONDS = 5.0
#: Maximum number of pings that are read: two per minute for an hour, and a margin.
_PINGS_MOST = 150


def migration_state(connection: Connection) -> MigrationState:
    """Return the migrations and functions of the database compared with those of this code."""
    schema = versions.read_files()
    try:
        versions.check_visible(connection, schema)
        found = versions.read_released(connection, schema)
    except (SchemaShadowed, SchemaUnreleased) as error:
        return MigrationState(found=0, wanted=schema.latest, unusable=error)
    return MigrationState(
        found=found.applied,
        wanted=schema.latest,
        stale_functions=(*(one.name for one in found.stale_functions(schema)), *found.removed_functions(schema)),
    )


def clock_lead(connection: Connection, *, now: Callable[[], float] = time.time) -> timedelta:
    """Return how far this machine's clock is ahead of the server's (negative: behind), to within half a round trip.

    Args:
        connection: In autocommit mode.
        now: This machine's clock, in seconds since 1970.
    """
    measured: list[tuple[float, float]] = []
    for _ in range(_ROUND_TRIPS):
        asked = now()
        (server_now,) = sql.run_one(connection, "doctor_clock")
        answered = now()
        measured.append((answered - asked, (asked + answered) / 2 - server_now))
    return timedelta(seconds=min(measured)[1])


def old_transactions(connection: Connection, *, older_than: timedelta = OLD_TRANSACTION) -> list[tuple[int, timedelta]]:
    """Return the process ids and ages of visible transactions older than `older_than`, the oldest first, at most 20."""
    return [
        (pid, timedelta(seconds=age))
        for pid, age in sql.run(connection, "doctor_transactions", seconds=older_than.total_seconds())
    ]


def detect_pooler(connect: Callable[[], Connection]) -> tuple[bool, bool]:
    """Return whether a session is shared between clients, and whether a pooler or proxy answers the login.

    A server gives each client its own session, and announces the session's process id at login. A pooler in
    transaction mode lends a session to one client after another: while one client is idle, another client gets its
    session, or the first client gets another session afterwards.
    """
    with ExitStack() as held:
        first = held.enter_context(closing(connect()))
        opened = [first]
        (own,) = sql.run_one(first, "doctor_session")
        is_relayed = first.info.backend_pid != own
        held.enter_context(ended_after(_PATIENCE_SECONDS, opened))
        try:
            for _ in range(_SESSIONS):
                other = held.enter_context(closing(connect()))
                opened.append(other)
                held.enter_context(other.transaction(force_rollback=True))
                if sql.run_one(other, "doctor_session") == (own,):
                    return True, is_relayed
            return sql.run_one(first, "doctor_session") != (own,), is_relayed
        except (psycopg.Error, DatabaseUnavailable) as error:
            if isinstance(error, psycopg.Error) and not is_connection_failure(error):
                raise
            # A further connection was refused, or not served in time. A server serves every connection that it accepts,
            # so behind a pooler or proxy, this counts as a shared session.
            return is_relayed, is_relayed


def pings(connection: Connection, *, names_callers: bool = True) -> list[Ping]:
    """Return the pings of the last hour that became ticks, at most 150 and at least the last one, the latest first.

    Args:
        connection: To the database with the tables.
        names_callers: Whether to return the names of callers; otherwise, only the kind of each caller.
    """
    name_of = str if names_callers else anonymous
    found = [
        Ping(
            ago=timedelta(seconds=ago),
            duration=None if duration is None or is_lost else timedelta(seconds=duration),
            caller=name_of(caller or ""),
            is_lost=bool(is_lost),
            is_at_work=is_at_work,
            hung_up_after=timedelta(seconds=hung_up) if isinstance(hung_up, int | float) else None,
            joined=tuple(name_of(str(one)) for one in joined) if isinstance(joined, list) else (),
            heartbeat=heartbeat,
        )
        for ago, duration, caller, is_lost, is_at_work, hung_up, joined, heartbeat in sql.run(
            connection, "doctor_ticks", {"limit": _PINGS_MOST}
        )
    ]
    return found[:1] + recent(found[1:])


def refused_pings(connection: Connection) -> dict[str, Any]:
    """Return the counts of refused pings as arguments of the rule `refused_pings`; empty if there were none."""
    row = sql.run(connection, "doctor_refusals").fetchone()
    if row is None:
        return {}
    return {name: row[0][name] for name in ("wrong", "without", "callers")} | {"last_ago": timedelta(seconds=row[1])}


def internals(connection: Connection, action_id: UUID) -> dict[str, Any]:
    """Return the internal columns of an action by name; empty if the action does not exist."""
    cursor = sql.run(connection, "action_internals", {"id": action_id})
    names = [column.name for column in cursor.description or ()]
    return next((dict(zip(names, row, strict=True)) for row in cursor), {})


@contextmanager
def ended_after(seconds: float, connections: list[Connection]) -> Iterator[threading.Event]:
    """Abort and close the connections if the block takes longer than `seconds`; the yielded event is then set."""
    is_over, lock = threading.Event(), threading.Lock()

    def abort_all() -> None:
        with lock:
            # The block may have ended just before the time limit.
            if watchdog.finished.is_set():
                return
            is_over.set()
            for connection in list(connections):
                abort_connection(connection)

    watchdog = threading.Timer(seconds, abort_all)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield is_over
    finally:
        with lock:
            watchdog.cancel()
        if is_over.is_set():
            for connection in connections:
                connection.close()
