"""A tick's connection, its row, what there is to do, and the watch over what comes due."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import psycopg

from scheduled_actions.actions.claims import TickRow
from scheduled_actions.core.errors import DatabaseUnavailable
from scheduled_actions.database.connection import Loan
from scheduled_actions.database.statements import Statements, uuids

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from uuid import UUID

    from scheduled_actions.database.connection import Connection, Database
    from scheduled_actions.ticks.report import Tally

sql = Statements(__file__)


class Found(NamedTuple):
    """What there may be for a tick to do."""

    may_have_due: bool
    has_expired: bool
    has_lost_ticks: bool
    has_old_holds: bool
    #: Actions that waited for a handler which this build has.
    has_unhandled: bool
    has_prunable: bool
    #: Something has changed that actions may wait for.
    has_wakes: bool
    #: There is nothing, and the tick has its row, begun and ended at once.
    is_noted: bool


def look(connection: Connection, **parameters: Any) -> Found:  # noqa: ANN401 - named in the statement
    """Return what there may be for a tick to do, as `look_and_note.sql` says; nothing is locked.

    Args:
        connection: In autocommit mode: a tick that found nothing has its row then.
        parameters: Those of the statement.
    """
    row = sql.run(connection, "look_and_note", parameters).fetchone()
    assert row is not None  # noqa: S101 - a select of one row
    return Found._make(row)


def begin_tick(
    connection: Connection, tick_id: UUID, *, lease_seconds: float, caller: str, budget: Mapping[str, float]
) -> TickRow:
    """Give the tick its row; repeating it changes nothing."""
    row = sql.run(
        connection,
        "begin_tick",
        {"tick_id": tick_id, "lease_seconds": lease_seconds, "caller": caller, "budget": json.dumps(budget)},
    ).fetchone()
    assert row is not None  # noqa: S101 - insert or update, one row either way
    return TickRow(tick_id, *row)


def cancel_requests(connection: Connection, ids: Collection[UUID]) -> set[UUID]:
    """Return which of these running actions somebody asked to stop."""
    return {row[0] for row in sql.run(connection, "cancel_requests", {"ids": uuids(ids)})}


def take_watch(connection: Connection, holder: str) -> bool:
    """Take the watch over what comes due, or renew it; False when a listener keeps it."""
    return sql.run(connection, "take_watch", {"holder": holder}).fetchone() is not None


def look_ahead(connection: Connection, holder: str, *, window_seconds: float) -> tuple[bool, bool, float | None, bool]:
    """Look at what comes due.

    Returns:
        Whether this holder still keeps the watch, whether anything is due, and the seconds until the next action comes
        due; None when none does within the window. And whether something has changed that actions may wait for.
    """
    row = sql.run(connection, "look_ahead", {"holder": holder, "window_seconds": window_seconds}).fetchone()
    assert row is not None  # noqa: S101 - a select of one row
    return row[0], row[1], row[2], row[3]


def finish_tick(
    connection: Connection,
    tick: TickRow,
    *,
    outcome: str,
    counts: Mapping[str, Any],
    tally: Tally | None = None,
    announcement: int = 0,
) -> None:
    """Write how the tick ended, and add what it tallied; nothing where it has announced more since."""
    ended = {"tick_id": tick.id, "outcome": outcome, "counts": json.dumps(counts), "announcement": announcement}
    if tally is None:
        sql.run(connection, "finish_tick", ended)
        return
    metrics, subjects, parts, values = tally.rows()
    counted = {"tally": tally.number, "metrics": metrics, "subjects": subjects, "parts": parts, "values": values}
    sql.run(connection, "finish_tick_counted", ended | counted)


def due(connection: Connection) -> int:
    """Return how many actions are due, counted to 10,000."""
    row = sql.run(connection, "remaining").fetchone()
    return int(row[0]) if row else 0


#: How often a tick tries to reach a database that has gone away under it.
_RECONNECT_SECONDS = 0.25

Result = TypeVar("Result")


class Line:
    """The tick's connection, made anew when the database goes away under it, until the tick's time is up."""

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

        The steps of a tick may be repeated: outcomes are fenced, rows of ticks upserted, and what a lost claim took
        returns with its lease.
        """
        while True:
            try:
                with self._database.connection() as connection, Loan(connection) as self._loan:
                    result = step(connection)
            except psycopg.errors.QueryCanceled as error:
                if self._loan is not None and self._loan.is_cut:
                    raise DatabaseUnavailable("it did not answer before the tick's time was up") from error
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


class Watchdog:
    """One thread for all ticks of a process, made when first needed: a thread for each costs as much as the tick.

    Args:
        monotonic: Seconds that never go back.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition(threading.Lock())
        self._thread: threading.Thread | None = None
        #: When what has to be done, by who asked for it.
        self._asked: dict[object, tuple[float, Callable[[], None]]] = {}
        #: Until when the thread sleeps.
        self._sleeps_until = math.inf

    @contextmanager
    def guards(self, until: float, act: Callable[[], None]) -> Iterator[None]:
        """Do `act`, once, in the watchdog's thread if the block lasts longer than `until`.

        Args:
            until: In monotonic seconds.
            act: Must not raise.
        """
        me = object()
        if self._pid != os.getpid():
            # A fork leaves its child without the thread, and perhaps with its lock held for ever.
            self._begin()
        with self._changed:
            self._asked[me] = until, act
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name="scheduled-actions-watchdog", daemon=True)
                self._thread.start()
            elif until < self._sleeps_until:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._asked.pop(me, None)

    def close(self) -> None:
        """Let the thread end; the next that asks gets a new one."""
        with self._changed:
            self._thread = None
            self._changed.notify_all()

    def _watch(self) -> None:
        with self._changed:
            while self._thread is threading.current_thread():
                now = self._monotonic()
                over = [who for who, (until, _) in self._asked.items() if until <= now]
                acts = [self._asked.pop(who)[1] for who in over]
                for act in acts:
                    self._changed.release()
                    try:
                        act()
                    finally:
                        self._changed.acquire()
                if not acts:
                    self._sleep(now)

    def _sleep(self, now: float) -> None:
        self._sleeps_until = min((until for until, _ in self._asked.values()), default=math.inf)
        self._changed.wait(None if math.isinf(self._sleeps_until) else self._sleeps_until - now)
