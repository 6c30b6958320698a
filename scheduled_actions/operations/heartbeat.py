"""Send heartbeats: requests to a monitoring service after ticks. The service reports failed and missing ticks."""

import atexit
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

from scheduled_actions.core.errors import UrlInvalid
from scheduled_actions.core.log import log
from scheduled_actions.operations.doctor.rules.ticks import ANSWERED, UNSENT
from scheduled_actions.outbound import delivery
from scheduled_actions.outbound.reach import Reach

#: Time limit of one heartbeat.
_TIMEOUT_SECONDS = 10.0
#: Maximum wait for a heartbeat if the process may be frozen after the response, or is about to end.
_WAIT_SECONDS = 2.0
#: Minimum interval between two heartbeats of successful ticks: wake-up pings can arrive many times a second.
_INTERVAL_SECONDS = 10.0


class Heartbeat:
    """Sends heartbeats in the background, one at a time; a failed heartbeat does not fail the tick.

    Args:
        url: Address as given by healthchecks.io. After a successful tick, the request goes to this address; after a
            failed tick, `/fail` is appended to its path. The address is never logged: everyone who has it can send
            heartbeats.
        reach: Which networks the address may be in.
        waits: Whether to wait for each heartbeat, for at most two seconds; needed on hosts that freeze the process
            after a response.
        monotonic: Returns seconds of a monotonic clock.
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
        #: The result of the last heartbeat, for the rows of ticks: `UNSENT`, `ANSWERED`, or the error.
        self.outcome = UNSENT
        #: When the last heartbeat was sent, if its tick was successful.
        self._good_at: float | None = None

    @property
    def is_sending(self) -> bool:
        """Whether a heartbeat is being sent."""
        return self._thread is not None and self._thread.is_alive()

    def beat(self, *, has_failed: bool = False) -> None:
        """Report the end of a tick, unless another heartbeat is being sent.

        A successful tick is not reported if a success was reported in the last ten seconds, and no failure since.
        """
        with self._lock:
            now = self._monotonic()
            is_recent = not has_failed and self._good_at is not None and now - self._good_at < _INTERVAL_SECONDS
            if is_recent or self.is_sending:
                return
            self._good_at = None if has_failed else now
            if self._thread is None:
                atexit.register(self._wait)
            self._thread = threading.Thread(
                target=self._send,
                args=(_failure_url(self._url) if has_failed else self._url,),
                name="scheduled-actions-heartbeat",
                daemon=True,
            )
            self._thread.start()
        if self.waits:
            self._wait()

    def _send(self, url: str) -> None:
        try:
            answer = delivery.post(
                url,
                body=b"",
                headers={},
                reach=self._reach,
                total_timeout=_WAIT_SECONDS if self.waits else _TIMEOUT_SECONDS,
            )
        except UrlInvalid:
            log.warning("heartbeat.failed error=SCHEDULED_ACTIONS_HEARTBEAT_URL is not a valid address")
            self.outcome = "could not be sent: the address is invalid"
            return
        if answer.error is not None:
            log.warning("heartbeat.failed error=%s", answer.error)
            self.outcome = f"got no answer: {answer.error}"
        elif answer.status is None or not 200 <= answer.status < 300:  # noqa: PLR2004 - success in HTTP
            log.warning("heartbeat.refused status=%s", answer.status)
            self.outcome = f"was refused: HTTP {answer.status}"
        else:
            self.outcome = ANSWERED

    def _wait(self) -> None:
        if self._thread is not None:
            self._thread.join(_WAIT_SECONDS)


def _failure_url(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/fail"))
