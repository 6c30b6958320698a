"""Make the threads of this process wait for a free slot before they deliver to an endpoint."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scheduled_actions.webhooks.rules.throttle import Deferral, ThrottleState

#: With this number of threads or more, one thread may wait behind a slow delivery instead of deferring its own. If all
#: deliveries were deferred, the tick could end just before a slow endpoint responds for the first time.
_SPARE_FROM_THREADS = 4
#: The longest wait before a thread checks again.
_CHECK_SECONDS = 0.05


class EndpointThrottle:
    """Limits the deliveries in flight per endpoint.

    Args:
        threads: Number of threads that deliver.
        monotonic: A monotonic clock, in seconds.
    """

    def __init__(self, threads: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._state = ThrottleState(threads)
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._spares = 1 if threads >= _SPARE_FROM_THREADS else 0

    @contextmanager
    def slot(self, endpoint: str, *, patience: float, team: str | None = None) -> Iterator[Deferral | None]:
        """Hold a slot for one delivery inside the block; yield None, or a deferral if there is none in time.

        Args:
            endpoint: Name or id of the endpoint.
            patience: Maximum wait for a slot, in seconds.
            team: The endpoint's team, whose endpoints share threads until they have responded; None: no such limit.
        """
        began = self._wait_for_slot(endpoint, patience, team)
        if isinstance(began, Deferral):
            yield began
            return
        try:
            yield None
        finally:
            with self._changed:
                self._state.end(endpoint, began, self._monotonic())
                self._changed.notify_all()

    def hung(self, endpoint: str) -> Deferral | None:
        """Return the deferral if an endpoint is closed after a hung delivery; None if it is not."""
        with self._changed:
            decision = self._state.check(endpoint, self._monotonic(), draw=random.random())  # noqa: S311 - spreads load
        return decision if isinstance(decision, Deferral) and decision.reason == "hung" else None

    def _wait_for_slot(self, endpoint: str, patience: float, team: str | None) -> float | Deferral:
        until = self._monotonic() + patience
        is_spare = False
        with self._changed:
            try:
                while True:
                    now = self._monotonic()
                    decision = self._state.check(endpoint, now, draw=random.random(), team=team)  # noqa: S311 - spreads load
                    if decision == "go":
                        self._state.begin(endpoint, now, team=team)
                        return now
                    if isinstance(decision, Deferral):
                        if decision.reason == "slow" and self._spares and not is_spare:
                            self._spares -= 1
                            is_spare = True
                        if decision.reason != "slow" or not is_spare or now >= until:
                            return decision
                    elif now >= until:
                        return Deferral(_CHECK_SECONDS, "full")
                    self._changed.wait(_CHECK_SECONDS)
            finally:
                self._spares += is_spare
