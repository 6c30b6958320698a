"""A heartbeat: after each good tick an address is told, so that somebody outside notices when ticks stop."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from scheduled_actions.core.errors import UrlInvalid
from scheduled_actions.operations.doctor.rules.heartbeat import ANSWERED, UNSENT
from scheduled_actions.outbound import delivery

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.outbound.reach import Reach

log = logging.getLogger("scheduled_actions")

#: Seconds for one beat, from dialling to the answer.
_BEAT_SECONDS = 10.0
#: A host that freezes the process once it has answered, and the end of a process, wait no longer for the beat.
_WAIT_SECONDS = 2.0
#: Good ticks that end sooner after a beat send none: pings right after an action may come many a second.
_APART_SECONDS = 10.0


class Heartbeat:
    """Tells an address of good ticks, in the background, one beat at a time; it never delays or fails a tick.

    Args:
        url: In the manner of healthchecks.io: posted to after a good tick, with `/fail` behind its path after one that
            broke. Whoever has it can fake a beat: it is told nowhere.
        reach: How far a post may go.
        waits: Whether the process may be frozen as soon as the tick has answered: then the beat is waited for, two
            seconds at most.
        monotonic: Seconds that never go back.
    """

    def __init__(
        self, url: str, *, reach: Reach, waits: bool = False, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._url = url
        self._reach = reach
        self.waits = waits
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        #: How the last beat went, for the rows of ticks: "answered", or why it was not.
        self.outcome = UNSENT
        #: When the last beat was sent that told of a good tick; None after one that told of a broken one.
        self._good_at: float | None = None

    @property
    def is_sending(self) -> bool:
        """Whether a beat is on its way."""
        return self._thread is not None and self._thread.is_alive()

    def beat(self, *, has_failed: bool = False) -> None:
        """Tell that a tick has ended; nothing where a beat is on its way, or a good one has just been."""
        with self._lock:
            now = self._monotonic()
            is_told = not has_failed and self._good_at is not None and now - self._good_at < _APART_SECONDS
            if is_told or self.is_sending:
                return
            self._good_at = None if has_failed else now
            if self._thread is None:
                atexit.register(self._wait)
            url = _failing(self._url) if has_failed else self._url
            self._thread = threading.Thread(
                target=self._send, args=(url,), name="scheduled-actions-heartbeat", daemon=True
            )
            self._thread.start()
        if self.waits:
            self._wait()

    def _send(self, url: str) -> None:
        try:
            seconds = _WAIT_SECONDS if self.waits else _BEAT_SECONDS
            answer = delivery.post(url, body=b"", headers={}, reach=self._reach, total_timeout=seconds)
        except UrlInvalid:
            log.warning("heartbeat.failed error=SCHEDULED_ACTIONS_HEARTBEAT_URL is no address that can be posted to")
            self.outcome = "could not be sent: the address is none that can be posted to"
            return
        if answer.error is not None:
            log.warning("heartbeat.failed error=%s", answer.error)
            self.outcome = f"got no answer: {answer.error}"
        elif answer.status is None or not 200 <= answer.status < 300:  # noqa: PLR2004 - the classes of HTTP
            log.warning("heartbeat.refused status=%s", answer.status)
            self.outcome = f"was refused: HTTP {answer.status}"
        else:
            self.outcome = ANSWERED

    def _wait(self) -> None:
        thread = self._thread
        if thread is not None:
            thread.join(_WAIT_SECONDS)


def _failing(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/fail"))
