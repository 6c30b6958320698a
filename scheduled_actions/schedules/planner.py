"""The planning of occurrences: which one comes next, and the step that its schedule takes in the table."""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from scheduled_actions.actions.rules import settlement
from scheduled_actions.core.errors import BudgetExceeded, FunctionTimedOut, ScheduledActionsError
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.database.boundary import CONTAINED, LATER, concerns_all, contain, reason_of
from scheduled_actions.recurrence.model import COUNTED_FROM_RUN
from scheduled_actions.schedules import store
from scheduled_actions.schedules.model import project_functions
from scheduled_actions.schedules.rule_lookup import put_off
from scheduled_actions.schedules.rules import series

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.recurrence import Recurrence
    from scheduled_actions.schedules.model import Course, Schedule
    from scheduled_actions.schedules.rule_lookup import ScheduleRules

log = logging.getLogger("scheduled_actions")

#: How often a wanted occurrence may turn out to have been created before, until the sweep is left to find another.
COLLISIONS_MOST = 100
#: What the rules of one transaction may use, a tenth of a second: the rest is planned after the commit.
_TRANSACTION_STEPS = 20_000
#: Schedules that one thread may leave unplanned until it plans them.
_UNPLANNED_MOST = 10_000


class Unplanned(NamedTuple):
    """A schedule whose next occurrence functions of the project find after the commit that left it unplanned."""

    schedule_id: UUID
    #: Their keys: schedules with the same keys are planned one after the other.
    functions: tuple[str, ...]
    #: Its start was named in the call that left it: it may be a moment ago.
    is_explicit: bool = False


class UnplannedSchedules:
    """The schedules that transactions left to be planned after their commit, by the thread whose transaction it was.

    The sweep finds what is lost of it: with the process, or because there is too much.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Under None, of the transactions that have ended.
        self.by_thread: dict[int | None, deque[Unplanned]] = {}

    def leave(self, schedule: Course | Schedule, functions: tuple[str, ...], *, is_explicit: bool = False) -> None:
        """Leave a schedule unplanned in a transaction of this thread: its functions are called after the commit."""
        self._add(threading.get_ident(), [Unplanned(schedule.id, functions, is_explicit)])

    def release(self) -> None:
        """Let any thread plan what this thread's transactions have left: they have ended.

        Before their end another thread would find their schedules locked, or not there yet.
        """
        if left := self.take():
            self._add(None, left)

    def take(self) -> Collection[Unplanned]:
        """Return what this thread's transactions have left."""
        return self._take(threading.get_ident())

    def take_released(self) -> Collection[Unplanned]:
        """Return, once each, the schedules that may be planned by any thread."""
        return self._take(None)

    def _add(self, thread: int | None, left: Iterable[Unplanned]) -> None:
        with self._lock:
            self.by_thread.setdefault(thread, deque(maxlen=_UNPLANNED_MOST)).extend(left)

    def _take(self, thread: int | None) -> Collection[Unplanned]:
        with self._lock:
            return self.by_thread.pop(thread, ())


class Planner:
    """Plans the occurrences of one project's schedules.

    Args:
        rules: Compiles the rules of schedules.
        unplanned: Takes the schedules that are to be planned after the commit.
    """

    def __init__(self, rules: ScheduleRules, unplanned: UnplannedSchedules) -> None:
        self.rules = rules
        self._unplanned = unplanned
        #: By schedule that catches up: what was planned last, and until when all after it is selected. A selection is
        #: made once; one that is lost with the process is made again.
        self._selected: dict[UUID, tuple[datetime, datetime]] = {}

    def plan(
        self,
        connection: Connection,
        schedule: Schedule,
        now: datetime,
        *,
        is_explicit: bool = False,
        may_leave: bool = False,
    ) -> None:
        """Plan an occurrence of a schedule that has none planned; without one to come, it has ended.

        Args:
            connection: In the transaction that locked the schedule.
            schedule: As it stands in the table.
            now: The database's.
            is_explicit: Its start was named in this very call: it may be a moment ago.
            may_leave: `plan_left` is called after the commit: functions of the project need not be called before it.
        """
        functions = project_functions(schedule)
        if functions and may_leave:
            self._unplanned.leave(schedule, functions, is_explicit=is_explicit)
            return
        found = self.found_step(
            store.Step(schedule_id=schedule.id),
            schedule,
            now,
            lambda rule: series.Next(_first(schedule, rule, now, is_explicit=is_explicit)),
        )
        self.advance(connection, [found])

    def next_step(
        self,
        step: store.Step,
        schedule: Course | Schedule,
        now: datetime,
        budget: EvaluationBudget,
        *,
        after: datetime | None = None,
    ) -> store.Step:
        """Return the step with the next occurrence: counted from now if it is rolling, else as its policies have it.

        A rule that calls functions of the project, or takes more steps than the budget of a transaction has for it, is
        left to be planned after the commit.
        """
        functions = project_functions(schedule)
        if not functions:
            try:
                return self.found_step(step, schedule, now, self.finder(schedule, now, after), budget=_part(budget))
            except BudgetExceeded:
                log.info("schedule.left id=%s action_type=%s", schedule.id, schedule.action_type)
        self._unplanned.leave(schedule, functions)
        return step

    def finder(
        self, schedule: Course | Schedule, now: datetime, after: datetime | None, *, is_explicit: bool = False
    ) -> Callable[[Recurrence], series.Next]:
        """Return what finds the next occurrence: counted from now if it is rolling, else as its policies say."""
        if schedule.recurrence_type == "rolling" or after is None:
            return lambda rule: series.Next(_first(schedule, rule, now, is_explicit=is_explicit))
        selected_at, selected_until = self._selected.get(schedule.id, (None, None))
        if selected_at != after:
            selected_until = None

        def find(rule: Recurrence) -> series.Next:
            found = series.following(schedule, rule, after=after, now=now, selected_until=selected_until)
            if found.at is not None and found.selected_until is not None:
                self._selected[schedule.id] = (found.at, found.selected_until)
            else:
                self._selected.pop(schedule.id, None)
            return found

        return find

    def found_step(
        self,
        step: store.Step,
        schedule: Course | Schedule,
        now: datetime,
        find: Callable[[Recurrence], series.Next],
        *,
        budget: EvaluationBudget | None = None,
    ) -> store.Step:
        """Return the step with what `find` found; a rule that cannot be followed pauses its schedule, and no other.

        Raises:
            BudgetExceeded: There is not enough of a budget that was given; one of its own pauses the schedule.
            FunctionTimedOut: A function of the project outlived its time limit.
        """
        # Its first run is at its start; from then on an interval counts from the end of the run before.
        has_begun = schedule.recurrence_type == "rolling" and step.is_past
        is_counted_from_now = has_begun and schedule.kind in COUNTED_FROM_RUN
        try:
            rule = self.rules.rule_of(
                schedule,
                anchor=now if is_counted_from_now else None,
                budget=budget or EvaluationBudget("the recurrence"),
            )
            found = find(rule)
            due_at = put_off(schedule, found.at) if found.at is not None and schedule.jitter_seconds else None
        except FunctionTimedOut:
            raise
        except CONTAINED as error:
            if concerns_all(error) or (isinstance(error, BudgetExceeded) and budget is not None):
                raise
            reason = str(error) if isinstance(error, ScheduledActionsError) else reason_of(error)
            log.warning("schedule.broken id=%s action_type=%s error=%s", schedule.id, schedule.action_type, reason)
            note = settlement.clean(f"the next occurrence could not be found: {reason}")
            return step._replace(status="paused", note=note)
        if found.at is None:
            return step._replace(missed=found.missed, status="ended", note="its rule names no further occurrence")
        return step._replace(missed=found.missed, occurrence_at=found.at, scheduled_at=due_at)

    def advance(self, connection: Connection, steps: Sequence[store.Step]) -> None:
        """Write steps; where the wanted occurrence had been created before, plan the one after it."""
        wanted = {step.schedule_id: step for step in steps}
        budget = budget_of_a_transaction()
        for _ in range(COLLISIONS_MOST):
            if not wanted:
                return
            collided = store.advance(connection, list(wanted.values()))
            found = {one.schedule.id: one for one in store.lock(connection, collided)} if collided else {}
            wanted = {
                schedule_id: self._planned_after(found[schedule_id], wanted[schedule_id], budget)
                for schedule_id in collided
            }

    def _planned_after(self, found: store.Found, collided: store.Step, budget: EvaluationBudget) -> store.Step:
        after = collided.occurrence_at
        step = store.Step(schedule_id=collided.schedule_id)
        functions = project_functions(found.schedule)
        if not functions:
            with suppress(BudgetExceeded):
                return self.found_step(
                    step,
                    found.schedule,
                    found.now,
                    lambda rule: series.Next(None if after is None else series.instant(rule.next_after(after))),
                    budget=_part(budget),
                )
        self._unplanned.leave(found.schedule, functions)
        return step


def pause_refused(connection: Connection, schedule_id: UUID, error: BaseException) -> bool:
    """Pause a schedule whose step was refused, with the reason; return whether it was changed."""
    reason = reason_of(error)
    if isinstance(error, LATER):
        log.info("schedules.put_off id=%s error=%s", schedule_id, reason)
        return False
    log.warning("schedule.refused id=%s error=%s", schedule_id, reason)
    step = store.Step(schedule_id, status="paused", note=settlement.clean(f"its next step was refused: {reason}"))

    def unwritten(refusal: BaseException) -> bool:
        log.error("schedule.unwritten id=%s error=%s", schedule_id, reason_of(refusal))
        return False

    return contain(lambda: _write_pause(connection, step), unwritten)


def _write_pause(connection: Connection, step: store.Step) -> bool:
    with connection.transaction():
        store.lock(connection, [step.schedule_id])
        # Nothing of a paused schedule is waiting.
        store.drop_planned(connection, step.schedule_id)
        store.advance(connection, [step])
    return True


def budget_of_a_transaction() -> EvaluationBudget:
    """Return the budget of all that one transaction plans, which holds locks for as long as that takes."""
    return EvaluationBudget("the recurrences of one transaction", steps=_TRANSACTION_STEPS)


def _part(budget: EvaluationBudget) -> EvaluationBudget:
    """Return what one schedule may use of the budget of a transaction."""
    return EvaluationBudget("the recurrence", steps=_TRANSACTION_STEPS // 10, within=budget)


def _first(
    schedule: Course | Schedule, rule: Recurrence, now: datetime, *, is_explicit: bool = False
) -> datetime | None:
    return series.first(rule, anchor=schedule.anchor_at, is_explicit=is_explicit, now=now)
