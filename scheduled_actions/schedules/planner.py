"""Plan the next occurrences of schedules, in the transactions that claim, settle or change them."""

import threading
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from scheduled_actions.actions.rules import settlement
from scheduled_actions.core.errors import BudgetExceeded, FunctionTimedOut, ScheduledActionsError
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.core.log import log
from scheduled_actions.database.boundary import CONTAINED, TEMPORARY_ERRORS, contain, is_outage, reason_of
from scheduled_actions.database.connection import Connection
from scheduled_actions.schedules import store
from scheduled_actions.schedules.model import PlanningState, Schedule, project_functions
from scheduled_actions.schedules.rule_lookup import ScheduleRules, apply_jitter
from scheduled_actions.schedules.rules import series

#: Maximum number of collisions with existing occurrences before planning is left to the sweep.
COLLISIONS_MOST = 100
#: Steps for the rules of one transaction, about 0.1 s; schedules beyond this limit are planned after the commit.
_TRANSACTION_STEPS = 20_000
#: Maximum number of schedules that one thread may leave unplanned.
_UNPLANNED_MOST = 10_000


class UnplannedSchedule(NamedTuple):
    """A schedule whose next occurrence is found after the commit of the transaction that left it unplanned."""

    schedule_id: UUID
    #: Keys of the project functions to call; schedules with the same keys are planned one after the other.
    functions: tuple[str, ...]
    #: Whether the caller gave the start, which may then be up to `START_TOLERANCE` in the past.
    is_explicit: bool = False


class UnplannedSchedules:
    """Schedules to plan after a commit, grouped by the thread of their transaction.

    At most 10,000 are kept per thread. The sweep plans those that are dropped, or lost when the process ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By thread; under None, the schedules of transactions that have ended.
        self.by_thread: dict[int | None, deque[UnplannedSchedule]] = {}

    def leave(self, schedule: PlanningState, functions: tuple[str, ...], *, is_explicit: bool = False) -> None:
        """Record that a transaction of this thread leaves a schedule unplanned."""
        self._add(threading.get_ident(), [UnplannedSchedule(schedule.id, functions, is_explicit)])

    def release(self) -> None:
        """Allow any thread to plan this thread's schedules, because its transactions have ended.

        Before that, another thread would find them locked or not yet visible.
        """
        if left := self.take():
            self._add(None, left)

    def take(self, *, is_released: bool = False) -> Collection[UnplannedSchedule]:
        """Remove and return this thread's schedules or, with `is_released`, those that any thread may plan."""
        with self._lock:
            return self.by_thread.pop(None if is_released else threading.get_ident(), ())

    def _add(self, thread: int | None, left: Iterable[UnplannedSchedule]) -> None:
        with self._lock:
            self.by_thread.setdefault(thread, deque(maxlen=_UNPLANNED_MOST)).extend(left)


class Planner:
    """Plans the occurrences of one project's schedules.

    Args:
        rules: Compiles the rules of schedules.
    """

    def __init__(self, rules: ScheduleRules) -> None:
        self.rules = rules
        #: The schedules to plan after the commit.
        self.unplanned = UnplannedSchedules()
        #: For each schedule that catches up: the occurrence planned last, and the instant up to which the occurrences
        #: after it are selected. A selection that is lost when the process ends is repeated.
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
        """Plan the first occurrence of a schedule that has none planned.

        The schedule ends if its rule has no occurrence, and is paused if the rule cannot be evaluated.

        Args:
            connection: In the transaction that locked the schedule.
            schedule: As stored.
            now: The database's time.
            is_explicit: Whether the caller gave the start, which may then be up to `START_TOLERANCE` in the past.
            may_leave: Whether the caller calls `plan_deferred` after the commit; if so, project functions run only
                then.

        Raises:
            FunctionTimedOut: A project function exceeded its time limit.
        """
        functions = project_functions(schedule)
        if functions and may_leave:
            self.unplanned.leave(schedule, functions, is_explicit=is_explicit)
        else:
            self.advance(
                connection, [self.complete(store.ScheduleUpdate(schedule.id), schedule, now, is_explicit=is_explicit)]
            )

    def complete_or_leave(
        self,
        update: store.ScheduleUpdate,
        schedule: PlanningState,
        now: datetime,
        budget: EvaluationBudget,
        *,
        after: datetime | None = None,
        collided_at: datetime | None = None,
    ) -> store.ScheduleUpdate:
        """Add the next occurrence to an update, as `complete` does, or leave the schedule unplanned until the commit.

        A rule that calls project functions, or exceeds its part of the transaction's budget, is planned after the
        commit.
        """
        functions = project_functions(schedule)
        if not functions:
            steps = min(_TRANSACTION_STEPS // 10, budget.steps_left)
            part = EvaluationBudget("the recurrence", steps=steps)
            try:
                return self.complete(update, schedule, now, after=after, collided_at=collided_at, budget=part)
            except BudgetExceeded:
                log.info("schedule.left id=%s action_type=%s", schedule.id, schedule.action_type)
            finally:
                # Subtracted once, instead of with each step.
                budget.spend(steps - max(part.steps_left, 0))
        self.unplanned.leave(schedule, functions)
        return update

    def complete(
        self,
        update: store.ScheduleUpdate,
        schedule: PlanningState,
        now: datetime,
        *,
        after: datetime | None = None,
        collided_at: datetime | None = None,
        is_explicit: bool = False,
        budget: EvaluationBudget | None = None,
    ) -> store.ScheduleUpdate:
        """Return an update with the next occurrence added.

        If the rule has no further occurrence, the update ends the schedule instead; if the rule cannot be evaluated, it
        pauses the schedule.

        Args:
            update: The update of the schedule.
            schedule: The schedule to plan.
            now: The database's time; a rolling schedule counts from it.
            after: The previous occurrence; None: plan the first one.
            collided_at: An occurrence that already exists; the one after it is planned.
            is_explicit: Whether the caller gave the start, which may then be up to `START_TOLERANCE` in the past.
            budget: The budget of the rule; None: a new one, and a rule that exceeds it pauses the schedule.

        Raises:
            BudgetExceeded: The given budget is exceeded.
            FunctionTimedOut: A project function exceeded its time limit.
        """
        # A rolling schedule runs first at its start; then intervals count from the end of the previous run.
        is_restarted = schedule.recurrence_type == "rolling" and update.is_past and schedule.kind == "interval"
        try:
            rule = self.rules.stored_rule_of(
                schedule,
                anchor=now if is_restarted else None,
                budget=budget or EvaluationBudget("the recurrence"),
            )
            if collided_at is not None:
                found = series.NextOccurrence(series.instant(rule.next_after(collided_at)))
            elif schedule.recurrence_type == "rolling" or after is None:
                found = series.NextOccurrence(
                    series.first(rule, anchor=schedule.anchor_at, is_explicit=is_explicit, now=now)
                )
            else:
                found = self._following(rule, schedule, after, now)
            due_at = None if found.at is None or not schedule.jitter_seconds else apply_jitter(schedule, found.at)
        except FunctionTimedOut:
            raise
        except CONTAINED as error:
            if is_outage(error) or (isinstance(error, BudgetExceeded) and budget is not None):
                raise
            reason = str(error) if isinstance(error, ScheduledActionsError) else reason_of(error)
            log.warning("schedule.broken id=%s action_type=%s error=%s", schedule.id, schedule.action_type, reason)
            reason = settlement.clean(f"the next occurrence could not be found: {reason}")
            return update._replace(status="paused", reason=reason)
        if found.at is None:
            return update._replace(missed=found.missed, status="ended", reason="the rule has no further occurrence")
        return update.with_occurrence(found.at, due_at=due_at, missed=found.missed)

    def _following(
        self, rule: series.OccurrenceSource, schedule: PlanningState, after: datetime, now: datetime
    ) -> series.NextOccurrence:
        selected_at, selected_until = self._selected.pop(schedule.id, (None, None)) if self._selected else (None, None)
        still_selected = selected_until if selected_at == after else None
        found = series.following(schedule, rule, after=after, now=now, selected_until=still_selected)
        if found.at is not None and found.selected_until is not None:
            self._selected[schedule.id] = (found.at, found.selected_until)
        return found

    def advance(
        self, connection: Connection, updates: Sequence[store.ScheduleUpdate], *, first_id: UUID | None = None
    ) -> None:
        """Write updates, of different schedules; if the occurrence of an update already exists, plan the one after it.

        After 100 occurrences that exist, planning is left to the sweep. `first_id` is that of `store.advance`.
        """
        collided = store.advance(connection, updates, first_id=first_id) if updates else {}
        budget = transaction_budget()
        for _ in range(COLLISIONS_MOST - 1):
            if not collided:
                return
            again = [
                self.complete_or_leave(
                    store.ScheduleUpdate(schedule.id), schedule, now, budget, collided_at=collided[schedule.id]
                )
                for schedule, now in store.lock(connection, collided)
            ]
            collided = store.advance(connection, again) if again else {}


def pause_refused(connection: Connection, schedule_id: UUID, error: BaseException) -> None:
    """Pause a schedule whose update was refused, with the reason; after a temporary error, leave it to the sweep."""
    reason = reason_of(error)
    if isinstance(error, TEMPORARY_ERRORS):
        log.info("schedules.deferred id=%s error=%s", schedule_id, reason)
        return
    log.warning("schedule.refused id=%s error=%s", schedule_id, reason)

    why = settlement.clean(f"the next occurrence could not be planned: {reason}")

    def pause() -> None:
        with connection.transaction():
            store.lock(connection, [schedule_id])
            store.drop_planned(connection, schedule_id)
            store.advance(connection, [store.ScheduleUpdate(schedule_id, status="paused", reason=why)])

    contain(pause, lambda error: log.error("schedule.unwritten id=%s error=%s", schedule_id, reason_of(error)))


def transaction_budget() -> EvaluationBudget:
    """Return the budget for everything that one transaction plans while it holds locks."""
    return EvaluationBudget("the recurrences of one transaction", steps=_TRANSACTION_STEPS)
