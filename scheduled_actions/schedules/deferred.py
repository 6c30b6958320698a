"""Plan schedules whose rules call project functions or take many steps, after the commit and without holding locks."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

import psycopg

from scheduled_actions.actions.hooks import SWEEP_SECONDS
from scheduled_actions.core.errors import FunctionTimedOut, ScheduledActionsError
from scheduled_actions.core.log import log
from scheduled_actions.database.boundary import contain, reason_of
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.transactions import limit_lock_waits
from scheduled_actions.registry.project_functions import total_time_limit
from scheduled_actions.schedules import store
from scheduled_actions.schedules.model import has_same_plan
from scheduled_actions.schedules.planner import (
    COLLISIONS_MOST,
    Planner,
    UnplannedSchedule,
    pause_refused,
)

#: The time limit of planning one occurrence, as a multiple of the time limit of one call.
PLANNING_CALLS = 4


@dataclass(frozen=True, slots=True)
class DeferredPlanning:
    """Plans schedules that transactions left unplanned.

    Args:
        planner: Finds the next occurrence, and holds the schedules to plan.
    """

    planner: Planner

    @property
    def _seconds(self) -> float:
        return PLANNING_CALLS * self.planner.rules.registry.calls.timeout_seconds

    def plan_deferred(self) -> None:
        """Plan the schedules that this thread's transactions left unplanned; never raises.

        All of them together have the time limit of planning one schedule.
        """
        with total_time_limit(self._seconds):
            for left in self.planner.unplanned.take():
                self.plan(left)

    def plan(self, left: UnplannedSchedule) -> None:
        """Plan a schedule; never raises.

        If its update is refused, the schedule is paused with the reason. After a temporary error, or if the database
        cannot be reached, the schedule is left to the sweep.
        """

        def refused(error: BaseException) -> None:
            with self.planner.rules.database.connection() as connection:
                pause_refused(connection, left.schedule_id, error)

        try:
            contain(partial(self._plan, left.schedule_id, is_explicit=left.is_explicit), refused)
        except (psycopg.Error, ScheduledActionsError) as error:
            log.warning("schedule.unplanned id=%s error=%s", left.schedule_id, reason_of(error))

    def _plan(self, schedule_id: UUID, *, is_explicit: bool) -> None:
        """Plan the next occurrence of an active schedule that has none.

        The occurrence is written only if the schedule has not changed since it was read; otherwise planning starts
        again. If a function exceeds its time limit, the reason is stored, and the next sweep tries again.

        Raises:
            psycopg.errors.LockNotAvailable: Another transaction has the schedule locked; the next sweep plans it.
        """
        collided_at: datetime | None = None
        for _ in range(COLLISIONS_MOST):
            with self.planner.rules.database.connection() as connection, connection.transaction():
                snapshot = _lock(connection, schedule_id)
            if snapshot is None or snapshot.schedule.status != "active" or snapshot.schedule.next_action_id is not None:
                return
            update = self._complete(snapshot, collided_at=collided_at, is_explicit=is_explicit)
            collided_at = None
            with self.planner.rules.database.connection() as connection, connection.transaction() as transaction:
                current = _lock(connection, schedule_id)
                if current is None or not has_same_plan(current.schedule, snapshot.schedule):
                    continue
                if not store.advance(connection, [update]):
                    return
                collided_at = update.occurrence_at
                raise psycopg.Rollback(transaction)

    def _complete(
        self, snapshot: store.ScheduleSnapshot, *, collided_at: datetime | None, is_explicit: bool
    ) -> store.ScheduleUpdate:
        schedule, now = snapshot
        # An active schedule has a status reason only while its planning is deferred: clear the reason.
        update = store.ScheduleUpdate(
            schedule.id,
            status="active" if schedule.status_reason else None,
            is_past=schedule.recurrence_type == "rolling" and schedule.last_action_id is not None,
        )
        try:
            with total_time_limit(self._seconds):
                completed = self.planner.complete(
                    update,
                    schedule,
                    now,
                    after=None if is_explicit else schedule.last_occurrence_at,
                    collided_at=collided_at,
                    is_explicit=is_explicit,
                )
        except FunctionTimedOut as error:
            log.warning("schedule.deferred id=%s error=%s", schedule.id, error)
            reason = f"the next occurrence is not planned yet: {error}; planning is retried every {SWEEP_SECONDS:g} s"
            return store.ScheduleUpdate(schedule.id, status="active", reason=reason, keeps_pointer=True)
        return completed._replace(is_past=False)


def _lock(connection: Connection, schedule_id: UUID) -> store.ScheduleSnapshot | None:
    """Lock and return a schedule, waiting briefly for a transaction that is about to commit; None if it was deleted."""
    limit_lock_waits(connection)
    return next(iter(store.lock(connection, [schedule_id])), None)


class PlanningThreads:
    """Plans on separate threads the schedules that the transactions of a tick leave unplanned.

    Each set of project functions has one thread while there are schedules to plan, so that a function that hangs delays
    only the schedules that call it. If the process ends first, the sweep plans the remaining schedules.

    Args:
        deferred: Plans a schedule.
        on_planned: Called on the planning thread after each schedule; must not raise.
    """

    def __init__(self, deferred: DeferredPlanning, on_planned: Callable[[], None]) -> None:
        self._deferred = deferred
        self._on_planned = on_planned
        self._lock = threading.Lock()
        self._has_planned = False
        #: By set of functions; a thread removes its queue when it is empty.
        self._queues: dict[tuple[str, ...], deque[UnplannedSchedule]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether schedules are queued or being planned."""
        return bool(self._queues)

    def takes_finished(self) -> bool:
        """Return whether planning of a schedule has ended, even with an error, since the last call of this method."""
        has_planned, self._has_planned = self._has_planned, False
        return has_planned

    def start(self) -> None:
        """Start planning the schedules left unplanned since the last call; must be called outside any transaction."""
        self._deferred.planner.unplanned.release()
        for left in self._deferred.planner.unplanned.take(is_released=True):
            with self._lock:
                if queue := self._queues.get(left.functions):
                    queue.append(left)
                    continue
                self._queues[left.functions] = deque([left])
            try:
                threading.Thread(
                    target=self._serve,
                    args=[left.functions],
                    name=f"scheduled-actions-planning-{next(iter(left.functions), 'rules')}",
                    daemon=True,
                ).start()
            except BaseException:
                # The thread did not start, and the tick would wait for its queue without end: remove the queue. The
                # sweep plans its schedules.
                del self._queues[left.functions]
                raise

    def _serve(self, functions: tuple[str, ...]) -> None:
        is_done = False
        while not is_done:
            with self._lock:
                # The schedule stays in the queue until it is planned, because the tick waits for empty queues.
                left = self._queues[functions][0]
            self._deferred.plan(left)
            self._has_planned = True
            with self._lock:
                self._queues[functions].popleft()
                is_done = not self._queues[functions]
                if is_done:
                    del self._queues[functions]
            self._on_planned()
