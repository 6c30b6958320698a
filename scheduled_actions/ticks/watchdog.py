"""The thread that ends a tick's wait for the database when its time is up."""

from __future__ import annotations

import math
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
