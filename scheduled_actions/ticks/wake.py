"""Waking a tick: after the commit of an action that is due now, `/cron/process` is pinged in the background."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from itertools import islice
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg

from scheduled_actions.actions import store
from scheduled_actions.core import signing
from scheduled_actions.core.errors import ScheduledActionsError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from scheduled_actions.core.secret import Secret
    from scheduled_actions.database.connection import Database

log = logging.getLogger("scheduled_actions")

#: Marks a ping that wants what is due now and keeps no watch.
HEADER = "x-scheduled-actions-wake"
#: How long a ping waits for its answer: a tick takes up to `max_duration_seconds`, and nobody waits for this one.
_ANSWER_SECONDS = 90.0
#: An action that a caller's own transaction has not committed by then is left to the cron.
_COMMIT_SECONDS = 60.0
#: Actions that are looked for at once; what comes beyond them is left to the tick that these wake, or to the cron.
_LOOKED_FOR_MOST = 1_000
#: How often such an action is looked for: at first, and at most.
_FIRST_LOOK_SECONDS, _LAST_LOOK_SECONDS = 0.02, 1.0
#: A thread without anything to do ends after it.
_IDLE_SECONDS = 5.0
#: The end of the process waits no longer than this for the last ping to be sent.
_EXIT_SECONDS = 2.0


class AskHere(Protocol):
    """Tells the tick at work in this very process that something may have come due."""

    def __call__(self, *, has_changed: bool) -> bool:
        """Return whether there is one."""


class Wake:
    """Pings in the background: one at a time, however many ask; it never delays or fails the caller.

    Args:
        url: Where the routes of this project are; None pings nobody.
        secret: `CRON_SECRET`; signs the ping and does not travel.
        database: To see whether a caller's own transaction has committed.
        ask_here: Tells the tick at work in this very process, also that something has changed; whether there is one.
    """

    def __init__(self, url: str | None, secret: Secret, database: Database, ask_here: AskHere) -> None:
        self._url = url
        self._secret = secret
        self._database = database
        self._ask_here = ask_here
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._is_wanted = False
        #: Actions that may not be committed yet, until when each is looked for.
        self._uncommitted: dict[UUID, float] = {}
        self._is_sending = False

    @property
    def is_on(self) -> bool:
        """Whether anybody can be pinged."""
        return self._url is not None and self._secret.is_usable

    @property
    def looked_for(self) -> int:
        """How many actions are looked for that may not be committed yet."""
        return len(self._uncommitted)

    def committed(self, *, has_changed: bool = False) -> None:
        """Have a tick look at once: something due has been committed, or a change that actions wait for."""
        if self._ask_here(has_changed=has_changed) or not self.is_on:
            return
        with self._changed:
            self._is_wanted = True
            self._start()

    def uncommitted(self, action_ids: Iterable[UUID]) -> None:
        """Have a tick look once one of these is committed, by a transaction that is not ours."""
        if not self.is_on:
            return
        until = time.monotonic() + _COMMIT_SECONDS
        with self._changed:
            room = max(0, _LOOKED_FOR_MOST - len(self._uncommitted))
            self._uncommitted.update(dict.fromkeys(islice(action_ids, room), until))
            self._start()

    def _start(self) -> None:
        if self._pid != os.getpid():
            # After a fork the thread is the parent's.
            self._pid, self._thread = os.getpid(), None
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="scheduled-actions-wake", daemon=True)
            self._thread.start()
            atexit.register(self._end)
        self._changed.notify_all()

    def _run(self) -> None:
        pause = _FIRST_LOOK_SECONDS
        while True:
            with self._changed:
                if not self._changed.wait_for(self._has_work, _IDLE_SECONDS):
                    self._thread = None
                    atexit.unregister(self._end)
                    return
                self._is_sending, self._is_wanted = self._is_wanted, False
            if self._is_sending:
                self._ping()
                self._has_sent()
                pause = _FIRST_LOOK_SECONDS
            elif self._has_committed():
                self.committed()
            else:
                time.sleep(pause)
                pause = min(2 * pause, _LAST_LOOK_SECONDS)

    def _has_work(self) -> bool:
        return self._is_wanted or bool(self._uncommitted)

    def _has_committed(self) -> bool:
        """Whether one of the actions can be seen; those seen, and those never committed in time, are forgotten."""
        with self._changed:
            now = time.monotonic()
            self._uncommitted = {one: until for one, until in self._uncommitted.items() if until > now}
            looked_for = list(self._uncommitted)
        if not looked_for:
            return False
        try:
            with self._database.connection() as connection:
                seen = store.visible(connection, looked_for)
        except (psycopg.Error, ScheduledActionsError) as error:
            log.debug("wake.database_away error=%s", type(error).__name__)
            return False
        with self._changed:
            for action_id in seen:
                self._uncommitted.pop(action_id, None)
        return bool(seen)

    def _ping(self) -> None:
        """Ping once; whatever comes of it, the cron comes anyway."""
        from http import HTTPStatus, client  # noqa: PLC0415 - a cold tick does without

        address = urlsplit(self._url or "")
        kind = client.HTTPSConnection if address.scheme == "https" else client.HTTPConnection
        connection = kind(address.hostname or "", address.port, timeout=_ANSWER_SECONDS)
        try:
            connection.request("POST", f"{address.path.rstrip('/')}/cron/process", body=b"", headers=self._headers())
            self._has_sent()
            response = connection.getresponse()
            response.read(64 * 1024)
            if response.status != HTTPStatus.OK:
                log.warning("wake.refused status=%d", response.status)
        except (OSError, client.HTTPException) as error:
            log.warning("wake.failed error=%s", type(error).__name__)
        finally:
            connection.close()

    def _has_sent(self) -> None:
        with self._changed:
            self._is_sending = False
            self._changed.notify_all()

    def _headers(self) -> dict[str, str]:
        message_id, timestamp = f"wake_{uuid4().hex}", int(time.time())
        # During a rotation the receiver may know either half.
        keys = self._secret.accepted
        return {
            signing.ID_HEADER: message_id,
            signing.TIMESTAMP_HEADER: str(timestamp),
            signing.SIGNATURE_HEADER: signing.sign(keys, message_id=message_id, timestamp=timestamp, body=b""),
            "user-agent": "scheduled-actions-wake",
            HEADER: "1",
        }

    def _end(self) -> None:
        """Wait a moment for the last ping: a short-lived script is not to end before it is sent."""
        with self._changed:
            self._changed.wait_for(lambda: not (self._has_work() or self._is_sending), _EXIT_SECONDS)
