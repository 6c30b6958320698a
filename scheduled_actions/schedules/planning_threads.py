"""Planning of series whose rules call functions of the project or take many steps, on threads of their own."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.schedules.deferred import DeferredPlanning
    from scheduled_actions.schedules.planner import Unplanned, UnplannedSchedules


class PlanningThreads:
    """Plans what the transactions of a tick leave unplanned.

    One thread for each set of functions, while there is something to plan with them: a function that hangs delays only
    the series that call it. The sweep plans what is lost with the process.

    Args:
        deferred: Plans what is left unplanned.
        unplanned: Keeps it.
        on_planned: Called in the planning thread after each schedule; must not raise.
    """

    def __init__(
        self, deferred: DeferredPlanning, unplanned: UnplannedSchedules, on_planned: Callable[[], None]
    ) -> None:
        self._deferred = deferred
        self._unplanned = unplanned
        self._on_planned = on_planned
        self._lock = threading.Lock()
        self._has_planned = False
        #: What is left to plan, by the functions that it takes; one is removed by the thread that finds it empty.
        self._queues: dict[tuple[str, ...], deque[Unplanned]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether anything is being planned."""
        return bool(self._queues)

    def takes_finished(self) -> bool:
        """Whether anything has been planned since the last call."""
        has_planned, self._has_planned = self._has_planned, False
        return has_planned

    def start(self) -> None:
        """Start to plan what has been left unplanned since the last call; outside any transaction."""
        self._unplanned.release()
        for left in self._unplanned.take_released():
            with self._lock:
                if queue := self._queues.get(left.functions):
                    queue.append(left)
                    continue
                self._queues[left.functions] = deque([left])
            self._start_thread(left.functions)

    def _start_thread(self, functions: tuple[str, ...]) -> None:
        name = f"scheduled-actions-planning-{next(iter(functions), 'rules')}"
        try:
            threading.Thread(target=self._serve, args=[functions], name=name, daemon=True).start()
        except BaseException:
            # No thread serves the queue: the tick must not wait for it, and the sweep plans what is in it.
            del self._queues[functions]
            raise

    def _serve(self, functions: tuple[str, ...]) -> None:
        while True:
            with self._lock:
                # Taken from the queue once it is planned: until then the tick waits.
                left = self._queues[functions][0]
            self._deferred.plan_outside(left)
            self._has_planned = True
            with self._lock:
                queue = self._queues[functions]
                queue.popleft()
                is_done = not queue
                if is_done:
                    del self._queues[functions]
            self._on_planned()
            if is_done:
                return
