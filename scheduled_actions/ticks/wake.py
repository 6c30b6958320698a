"""Run ticks when actions become due: ping `/cron/process` in the background after a commit, or listen.

A listener is a long-lived process that runs each action when it becomes due, or pings `/cron/process` for it.
"""

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import psycopg

from scheduled_actions.actions import store
from scheduled_actions.core import signing
from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.core.log import log
from scheduled_actions.core.secret import Secret
from scheduled_actions.database.connection import Connection, Database
from scheduled_actions.ticks import Processor, store as tick_store
from scheduled_actions.ticks.report import TickReport
from scheduled_actions.ticks.worker_state import LISTENER, LOOK_SECONDS

#: Header of a ping for actions that are due now; the tick that it starts does not linger.
HEADER = "x-scheduled-actions-wake"
#: The headers by which such a ping differs from that of a cron.
HEADERS = {"user-agent": "scheduled-actions-wake", HEADER: "1"}
#: Timeout of a ping: it is answered when its tick has ended, and only the thread that sends pings waits for the answer.
_ANSWER_SECONDS = 90.0
#: An action that the caller's transaction has not committed within this time is left to the cron job.
_COMMIT_SECONDS = 60.0
#: Maximum number of uncommitted actions; further ones are left to the tick that these wake, or to the cron job.
_MAX_UNCOMMITTED = 1_000
#: Pause between two checks for uncommitted actions: initial and maximum value.
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.02, 1.0
#: An idle thread ends after this time.
_IDLE_SECONDS = 5.0
#: How long a process that exits waits for the last ping to be sent.
_EXIT_SECONDS = 2.0
#: The channel of the Postgres notifications.
CHANNEL = "scheduled_actions"
#: If its own notification does not arrive within this time, the listener assumes a pooler that drops notifications.
_ECHO_SECONDS = 2.0
#: Pause between two tries to reach the database: initial and maximum value.
_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS = 1.0, 30.0
#: How far a listener that only pings looks ahead.
_WINDOW_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PingTarget:
    """Where pings are sent."""

    #: The base URL of `/cron/process`.
    url: str
    #: Signs the pings, and is not sent; usable.
    secret: Secret
    #: Whether a failed ping is logged as a warning; `dev` may stop at any time, which is no reason for one.
    is_expected: bool


class TickWaker:
    """Sends pings in the background, one at a time, without delaying the caller or raising errors.

    Args:
        find_target: Returns where to send a ping, or None: no pings. Called for each ping, because a server may have
            started since the last one.
        database: Queried for actions of callers' transactions that may have committed.
        notify_tick: Called with `has_changed`; notifies the running tick of this process, which makes a ping
            unnecessary, or returns False if no tick is running.
    """

    def __init__(
        self, find_target: Callable[[], PingTarget | None], database: Database, notify_tick: Callable[..., bool]
    ) -> None:
        self._find_target = find_target
        self._database = database
        self._notify_tick = notify_tick
        self._changed = threading.Condition()
        #: Where the wanted ping is sent.
        self._target: PingTarget | None = None
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._is_wanted = False
        self._is_sending = False
        #: Actions that may not be committed yet, each with the time on the monotonic clock after which it is forgotten.
        self.uncommitted: dict[UUID, float] = {}

    @property
    def is_on(self) -> bool:
        """Whether pings can be sent."""
        return self._find_target() is not None

    def notify(self, *, has_changed: bool = False) -> None:
        """Notify the running tick of this process; without one, send a ping in the background if `is_on`.

        Args:
            has_changed: Whether a change that actions wait for was committed, not only a due action.
        """
        if self._notify_tick(has_changed=has_changed) or (target := self._find_target()) is None:
            return
        with self._changed:
            self._target, self._is_wanted = target, True
            self._start()

    def notify_after_commit(self, action_ids: Iterable[UUID]) -> None:
        """Wake a tick once the caller's transaction has committed one of these actions; do nothing unless `is_on`.

        Later ticks find the actions that are not committed within a minute, and those passed while a thousand others,
        from all calls, are still uncommitted.
        """
        if not self.is_on:
            return
        with self._changed:
            added = islice(action_ids, max(0, _MAX_UNCOMMITTED - len(self.uncommitted)))
            self.uncommitted |= dict.fromkeys(added, time.monotonic() + _COMMIT_SECONDS)
            self._start()

    def _start(self) -> None:
        if self._pid != os.getpid():
            # A forked child has no such thread: threads exist only in the parent.
            self._pid, self._thread = os.getpid(), None
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="scheduled-actions-wake", daemon=True)
            self._thread.start()
            atexit.register(self._wait_for_ping)
        self._changed.notify_all()

    def _run(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            with self._changed:
                if not self._changed.wait_for(self._has_work, _IDLE_SECONDS):
                    self._thread = None
                    atexit.unregister(self._wait_for_ping)
                    return
                self._is_sending, self._is_wanted = self._is_wanted, False
                target = self._target
            if self._is_sending and target is not None:
                self._ping(target)
                self._end_sending()
                pause = _FIRST_PAUSE_SECONDS
            elif self._has_committed():
                self.notify()
            else:
                time.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    def _has_work(self) -> bool:
        return self._is_wanted or bool(self.uncommitted)

    def _has_committed(self) -> bool:
        """Return whether any of the uncommitted actions is now committed; forget committed and expired ones."""
        with self._changed:
            now = time.monotonic()
            self.uncommitted = {one: until for one, until in self.uncommitted.items() if until > now}
            wanted = list(self.uncommitted)
        try:
            seen = set(self._database.do(partial(store.visible, ids=wanted))) if wanted else set()
        except (psycopg.Error, ScheduledActionsError) as error:
            log.debug("wake.database_away error=%s", type(error).__name__)
            return False
        with self._changed:
            self.uncommitted = {one: until for one, until in self.uncommitted.items() if one not in seen}
        return bool(seen)

    def _ping(self, target: PingTarget) -> None:
        """Ping once; only log an error, because the cron job pings anyway."""
        from http import HTTPStatus, client  # noqa: PLC0415 - loaded with the first ping, not with the package

        level = logging.WARNING if target.is_expected else logging.DEBUG
        address = urlsplit(target.url)
        connection_class = client.HTTPSConnection if address.scheme == "https" else client.HTTPConnection
        connection = connection_class(address.hostname or "", address.port, timeout=_ANSWER_SECONDS)
        try:
            connection.request("POST", f"{address.path.rstrip('/')}/cron/process", body=b"", headers=_headers(target))
            self._end_sending()
            response = connection.getresponse()
            response.read(64 * 1024)
            if response.status != HTTPStatus.OK:
                log.log(level, "wake.refused status=%d", response.status)
        except (OSError, client.HTTPException) as error:
            log.log(level, "wake.failed error=%s", type(error).__name__)
        finally:
            connection.close()

    def _end_sending(self) -> None:
        with self._changed:
            self._is_sending = False
            self._changed.notify_all()

    def _wait_for_ping(self) -> None:
        """Wait at most `_EXIT_SECONDS`, so that a short-lived script does not exit before its last ping is sent."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._has_work() or self._is_sending), _EXIT_SECONDS)


def _headers(target: PingTarget) -> dict[str, str]:
    message_id, timestamp = f"wake_{uuid4().hex}", int(time.time())
    return {
        signing.ID_HEADER: message_id,
        signing.TIMESTAMP_HEADER: str(timestamp),
        # Signed with each accepted secret: during a rotation the receiver may have only one of them.
        signing.SIGNATURE_HEADER: signing.sign(
            target.secret.accepted, message_id=message_id, timestamp=timestamp, body=b""
        ),
        **HEADERS,
    }


class Listener:
    """Runs or wakes ticks as actions become due, unless another listener is active.

    The active listener holds the linger lease. When it stops, another one takes over within seconds.

    Args:
        database: The database that sends the notifications.
        report: Called with a line of text for each change of state and each error that delays ticks; thread-safe.
    """

    def __init__(self, database: Database, report: Callable[[str], None]) -> None:
        self._database = database
        self._report = report
        self._holder = f"{LISTENER}{uuid4()}"
        self._is_stopping = threading.Event()
        #: Set when actions may have become due.
        self._is_notified = threading.Event()
        self._on_notification: Callable[[], object] = self._is_notified.set

    def stop(self) -> None:
        """Stop listening after the current tick."""
        self._is_stopping.set()
        self._is_notified.set()

    def process(self, processor: Processor, *, on_report: Callable[[TickReport], None]) -> None:
        """Run actions in this process as they become due, until the listener is stopped.

        Args:
            processor: Runs the ticks; its settings define how long each tick lingers.
            on_report: Called with the report of each tick.
        """
        self._on_notification = processor.state.single_flight.notify
        self._serve(lambda: on_report(processor.tick(caller="listen", linger_holder=self._holder)))

    def ping(self, waker: TickWaker) -> None:
        """Wake ticks whenever actions are due or have expired, or changes have to be processed, until it is stopped."""

        def wait_and_ping() -> None:
            found = self._database.do(look)
            if found.is_due or found.has_wakes or found.has_late:
                waker.notify()
            self._is_notified.wait(LOOK_SECONDS if found.seconds is None else min(found.seconds, LOOK_SECONDS))
            self._is_notified.clear()

        look = partial(tick_store.find_upcoming, holder=self._holder, window_seconds=_WINDOW_SECONDS)
        self._serve(wait_and_ping)

    def receive(self, on_notification: Callable[[], object]) -> None:
        """Call a function on each notification, from a thread, until the listener is stopped."""
        self._on_notification = on_notification
        threading.Thread(target=self._listen, name="scheduled-actions-listen", daemon=True).start()

    def _serve(self, step: Callable[[], None]) -> None:
        self.receive(self._on_notification)
        pause = _FIRST_RETRY_SECONDS
        was_holder = True
        while not self._is_stopping.is_set():
            try:
                is_holder = self._database.do(partial(tick_store.acquire_linger_lease, holder=self._holder))
                if is_holder:
                    step()
                elif was_holder:
                    self._report("standing by: another listener is active")
                was_holder, pause = is_holder, _FIRST_RETRY_SECONDS
                if not is_holder:
                    self._is_stopping.wait(LOOK_SECONDS)
            except (psycopg.Error, ScheduledActionsError) as error:
                self._report(f"{error}; trying again in {pause:g} s")
                self._is_stopping.wait(pause)
                pause = min(2 * pause, _MAX_RETRY_SECONDS)

    def _listen(self) -> None:
        """Receive notifications and pass them on; return if a test notification does not arrive, as behind a pooler."""
        was_reported = False
        while not self._is_stopping.is_set():
            try:
                with self._database.connect() as connection:
                    if not self._is_heard(connection):
                        self._report(
                            "no notifications arrive, perhaps because of a pooler; looking for due actions every second"
                        )
                        return
                    if not was_reported:
                        self._report("listening")
                        was_reported = True
                    while not self._is_stopping.is_set():
                        for notification in connection.notifies(timeout=LOOK_SECONDS, stop_after=1):
                            if not notification.payload:
                                self._on_notification()
            except (psycopg.Error, ScheduledActionsError) as error:
                log.debug("listen.lost error=%s", type(error).__name__)
                self._is_stopping.wait(_FIRST_RETRY_SECONDS)

    def _is_heard(self, connection: Connection) -> bool:
        """Send a notification through another connection; return whether it arrives."""
        connection.execute(f"listen {CHANNEL}")
        echo = f"echo {self._holder}"
        with self._database.connection() as other:
            other.execute("select pg_notify(%s, %s)", [CHANNEL, echo])
        until = time.monotonic() + _ECHO_SECONDS
        while (left := until - time.monotonic()) > 0:
            if any(one.payload == echo for one in connection.notifies(timeout=left, stop_after=1)):
                return True
        return False
