"""Planning after the commit: of schedules whose rules call functions of the project, or take many steps."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import psycopg

from scheduled_actions.actions.hooks import SWEEP_SECONDS
from scheduled_actions.core.errors import FunctionTimedOut, ScheduledActionsError
from scheduled_actions.database.boundary import contain, reason_of
from scheduled_actions.database.transactions import wait_shortly
from scheduled_actions.registry.function_calls import all_within
from scheduled_actions.schedules import store
from scheduled_actions.schedules.model import is_planned_alike
from scheduled_actions.schedules.planner import COLLISIONS_MOST, pause_refused
from scheduled_actions.schedules.rules import series

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.database.connection import Database
    from scheduled_actions.registry import Registry
    from scheduled_actions.schedules.model import Schedule
    from scheduled_actions.schedules.planner import Planner, Unplanned, UnplannedSchedules

log = logging.getLogger("scheduled_actions")

#: How many times the limit of one call all calls may take together that one planning needs.
PLANNING_CALLS = 4


class DeferredPlanning:
    """Plans what transactions left unplanned, calling functions of the project under no lock.

    Args:
        database: Where the tables are.
        registry: Has the functions, and their time limit.
        planner: Finds the next occurrence.
        unplanned: What is left to be planned.
    """

    def __init__(self, database: Database, registry: Registry, planner: Planner, unplanned: UnplannedSchedules) -> None:
        self._database = database
        self._registry = registry
        self._planner = planner
        self._unplanned = unplanned

    def plan_left(self) -> None:
        """Plan what this thread's transactions have left, within the time of one planning; nothing is raised."""
        with all_within(PLANNING_CALLS * self._registry.calls.timeout_seconds):
            for left in self._unplanned.take():
                self.plan_outside(left)

    def plan_outside(self, left: Unplanned) -> None:
        """Plan a schedule that was left unplanned; nothing is raised.

        One whose step is refused is paused with the reason. One that cannot be reached is left to the sweep.
        """
        try:
            contain(
                partial(self._plan_outside, left.schedule_id, is_explicit=left.is_explicit),
                partial(self._refused_outside, left.schedule_id),
            )
        except (psycopg.Error, ScheduledActionsError) as error:
            log.warning("schedule.unplanned id=%s error=%s", left.schedule_id, reason_of(error))

    def _refused_outside(self, schedule_id: UUID, error: BaseException) -> None:
        with self._database.connection() as connection:
            pause_refused(connection, schedule_id, error)

    def _plan_outside(self, schedule_id: UUID, *, is_explicit: bool) -> None:
        """Plan the next occurrence of an active schedule that has none, calling its functions under no lock.

        The answer is written only while the schedule is as it was read; else they are called again. A function that
        outlives its time limit defers the series: the reason is stored, and the next sweep plans it.

        Raises:
            psycopg.errors.LockNotAvailable: Another transaction keeps the schedule locked; the next sweep plans it.
        """
        after = None
        for _ in range(COLLISIONS_MOST):
            found = self._read_patiently(schedule_id)
            if found is None or found.schedule.status != "active" or found.schedule.next_action_id is not None:
                return
            try:
                step = self._found_outside(*found, after=after, is_explicit=is_explicit)
            except FunctionTimedOut as error:
                log.warning("schedule.deferred id=%s error=%s", schedule_id, error)
                note = f"the next occurrence is not planned yet: {error}; it is tried again every {SWEEP_SECONDS:g} s"
                step = store.Step(schedule_id, status="active", note=note, keeps_pointer=True)
            is_written, after = self._write_outside(found.schedule, step)
            if is_written:
                return

    def _read_patiently(self, schedule_id: UUID) -> store.Found | None:
        """Read a schedule as the last transaction left it: one that commits at this moment is waited for."""
        with self._database.connection() as connection, connection.transaction():
            wait_shortly(connection)
            return next(iter(store.lock(connection, [schedule_id])), None)

    def _found_outside(
        self, schedule: Schedule, now: datetime, *, after: datetime | None, is_explicit: bool
    ) -> store.Step:
        # A note on an active schedule is that of a planning that was deferred.
        status = "active" if schedule.status_note else None
        step = store.Step(schedule.id, status=status)
        last = None if is_explicit else schedule.last_occurrence_at
        find = self._planner.finder(schedule, now, last, is_explicit=is_explicit)
        if after is not None:
            # The wanted occurrence had been created before.
            find = lambda rule: series.Next(series.instant(rule.next_after(after)))  # noqa: E731 - one of two finders
        has_begun = schedule.recurrence_type == "rolling" and schedule.last_action_id is not None
        with all_within(PLANNING_CALLS * self._registry.calls.timeout_seconds):
            return self._planner.found_step(step._replace(is_past=has_begun), schedule, now, find)._replace(
                is_past=False
            )

    def _write_outside(self, schedule: Schedule, step: store.Step) -> tuple[bool, datetime | None]:
        """Write a step of a schedule that is as it was read.

        Returns:
            Whether it is written. Where its occurrence had been created before, also that occurrence: one after it is
            to be found. None where the schedule was changed meanwhile.

        Raises:
            psycopg.errors.LockNotAvailable: Another transaction keeps it locked.
        """
        with self._database.connection() as connection, connection.transaction() as transaction:
            wait_shortly(connection)
            found = next(iter(store.lock(connection, [schedule.id])), None)
            if found is None or not is_planned_alike(found.schedule, schedule):
                return False, None
            if store.advance(connection, [step]):
                raise psycopg.Rollback(transaction)
            return True, None
        return False, step.occurrence_at
