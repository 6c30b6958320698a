"""A long-lived process that runs each action at its instant, or has it run, where a server can have such a process."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg

from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.ticks import store as tick_store
from scheduled_actions.ticks.linger_lease import LISTENER, LOOK_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.database.connection import Connection, Database
    from scheduled_actions.ticks import Processor
    from scheduled_actions.ticks.report import Report
    from scheduled_actions.ticks.wake import Wake

log = logging.getLogger("scheduled_actions")

CHANNEL = "scheduled_actions"
#: A notification that takes longer to come back does not come: a pooler stands between.
_ECHO_SECONDS = 2.0
#: How long to wait for a database that is away: at first, and at most.
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 1.0, 30.0
#: How far a listener that only pings looks ahead.
_WINDOW_SECONDS = 60.0


class Listener:
    """Keeps the watch until it is stopped; of several, one does, and the next takes over within seconds.

    Args:
        database: Whose notifications it hears.
        tell: Says what happens, a line at a time.
    """

    def __init__(self, database: Database, tell: Callable[[str], None]) -> None:
        self._database = database
        self._tell = tell
        self._holder = f"{LISTENER}{uuid4()}"
        self._is_stopping = threading.Event()
        #: Set when something may have come due.
        self._is_called = threading.Event()
        self._on_call: Callable[[], object] = self._is_called.set

    def stop(self) -> None:
        """End as soon as what is at work allows."""
        self._is_stopping.set()
        self._is_called.set()

    def process(self, processor: Processor, *, on_report: Callable[[Report], None]) -> None:
        """Run what comes due in this process, until it is stopped.

        Args:
            processor: Its settings say how long each tick keeps the watch.
            on_report: Gets what each tick did.
        """
        self._on_call = processor.process.turn.ask
        self._serve(lambda: on_report(processor.tick(caller="listen", watch_as=self._holder)))

    def ping(self, wake: Wake) -> None:
        """Have a tick elsewhere look whenever something comes due, until it is stopped."""
        self._serve(lambda: self._wait_and_ping(wake))

    def _serve(self, step: Callable[[], None]) -> None:
        ears = threading.Thread(target=self._hear, name="scheduled-actions-listen", daemon=True)
        ears.start()
        pause = _FIRST_PAUSE_SECONDS
        was_mine = True
        while not self._is_stopping.is_set():
            try:
                with self._database.connection() as connection:
                    is_mine = tick_store.take_watch(connection, self._holder)
                if is_mine:
                    step()
                elif was_mine:
                    self._tell("another listener keeps the watch: standing by")
                was_mine, pause = is_mine, _FIRST_PAUSE_SECONDS
            except (psycopg.Error, ScheduledActionsError) as error:
                self._tell(f"{error}; trying again in {pause:g} s")
                self._is_stopping.wait(pause)
                pause = min(2 * pause, _LAST_PAUSE_SECONDS)
                continue
            if not is_mine:
                self._is_stopping.wait(LOOK_SECONDS)

    def _wait_and_ping(self, wake: Wake) -> None:
        with self._database.connection() as connection:
            _, is_due, seconds, has_wakes = tick_store.look_ahead(
                connection, self._holder, window_seconds=_WINDOW_SECONDS
            )
        if is_due or has_wakes:
            wake.committed()
        self._is_called.wait(LOOK_SECONDS if seconds is None else min(seconds, LOOK_SECONDS))
        self._is_called.clear()

    # -- hearing -------------------------------------------------------------------------------------------------------

    def _hear(self) -> None:
        """Pass notifications on; behind a pooler there are none, and the watch looks every second."""
        is_told = False
        while not self._is_stopping.is_set():
            try:
                connection = self._database.connect()
                with connection:
                    if not self._is_heard(connection):
                        self._tell("no notifications come through (a pooler?): looking every second instead")
                        return
                    if not is_told:
                        self._tell("listening")
                        is_told = True
                    self._pass_on(connection)
            except (psycopg.Error, ScheduledActionsError) as error:
                log.debug("listen.lost error=%s", type(error).__name__)
                self._is_stopping.wait(_FIRST_PAUSE_SECONDS)

    def _is_heard(self, connection: Connection) -> bool:
        """Whether a notification of our own comes back."""
        connection.execute(f"listen {CHANNEL}")
        echo = f"echo {self._holder}"
        with self._database.connection() as other:
            other.execute("select pg_notify(%s, %s)", [CHANNEL, echo])
        until = time.monotonic() + _ECHO_SECONDS
        while (left := until - time.monotonic()) > 0:
            for notification in connection.notifies(timeout=left, stop_after=1):
                if notification.payload == echo:
                    return True
        return False

    def _pass_on(self, connection: Connection) -> None:
        while not self._is_stopping.is_set():
            for notification in connection.notifies(timeout=LOOK_SECONDS, stop_after=1):
                if not notification.payload:
                    self._on_call()
