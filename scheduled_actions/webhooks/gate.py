"""The gate of lanes: the threads of this process ask here before they wait for a stranger."""

from __future__ import annotations

import random
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scheduled_actions.webhooks.rules.throttle import Lanes, PutOff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: With so many threads, one of them may wait on behind one that is slow, where what waits is otherwise put off: a tick
#: that has nothing in flight ends, and it should not just before a slow endpoint answers for the first time.
_SPARE_A_THREAD_OF = 4
#: A thread that waits for room asks again so often, whatever is told.
_ASKED_AGAIN_SECONDS = 0.05


class Gate:
    """Lets threads through by lanes.

    Args:
        threads: How many there are.
        monotonic: Seconds that never go back.
    """

    def __init__(self, threads: int, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._lanes = Lanes(threads)
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._spares = 1 if threads >= _SPARE_A_THREAD_OF else 0

    @contextmanager
    def through(self, lane: str, *, patience: float, team: str | None = None) -> Iterator[PutOff | None]:
        """Go through as the block: None, or when to come back instead.

        Args:
            lane: Which.
            patience: Seconds to wait for room at most.
            team: Whose it is, where it is to share threads with the other lanes of its team.
        """
        began = self._entered(lane, patience, team)
        if isinstance(began, PutOff):
            yield began
            return
        try:
            yield None
        finally:
            with self._changed:
                self._lanes.end(lane, began, self._monotonic())
                self._changed.notify_all()

    def closed(self, lane: str) -> PutOff | None:
        """Return when to come back to a lane that is closed because one before hung; None where it is open."""
        with self._changed:
            verdict = self._lanes.ask(lane, self._monotonic(), draw=random.random())  # noqa: S311 - as below
        return verdict if isinstance(verdict, PutOff) and verdict.reason == "hung" else None

    def _entered(self, lane: str, patience: float, team: str | None) -> float | PutOff:
        until = self._monotonic() + patience
        is_spare = False
        with self._changed:
            try:
                while True:
                    now = self._monotonic()
                    draw = random.random()  # noqa: S311 - spreads load, no secret
                    verdict = self._lanes.ask(lane, now, draw=draw, team=team)
                    if verdict == "go":
                        self._lanes.begin(lane, now, team=team)
                        return now
                    if isinstance(verdict, PutOff):
                        if verdict.reason == "slow" and self._spares and not is_spare:
                            self._spares -= 1
                            is_spare = True
                        if verdict.reason != "slow" or not is_spare or now >= until:
                            return verdict
                    elif now >= until:
                        return PutOff(_ASKED_AGAIN_SECONDS, "full")
                    self._changed.wait(_ASKED_AGAIN_SECONDS)
            finally:
                self._spares += is_spare
