"""Series in the transactions of a tick: the next occurrence is planned where the one before is claimed or settled."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, cast

from scheduled_actions.actions.claims import ClaimResult
from scheduled_actions.actions.hooks import SWEEP_SECONDS
from scheduled_actions.core.action import Status
from scheduled_actions.database.boundary import LATER, contain, reason_of
from scheduled_actions.database.transactions import wait_shortly
from scheduled_actions.schedules import store
from scheduled_actions.schedules.model import project_functions
from scheduled_actions.schedules.planner import budget_of_a_transaction, pause_refused
from scheduled_actions.schedules.rules import series

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.actions.hooks import Ending
    from scheduled_actions.core.action import Claimed
    from scheduled_actions.core.evaluation_budget import EvaluationBudget
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.schedules.deferred import DeferredPlanning
    from scheduled_actions.schedules.model import Course, Schedule
    from scheduled_actions.schedules.planner import Planner, UnplannedSchedules

log = logging.getLogger("scheduled_actions")

#: Failures in a row are counted no further: the largest integer of Postgres.
_COUNTED_MOST = 2**31 - 1
#: Schedules that the sweep plans with one statement.
_BATCH = 500
#: How long a lock is waited for that was waited for before, in milliseconds.
_HARDLY_MS = "5"
_RUN = series.Judgement("run")
_RAN = frozenset({Status.COMPLETED, Status.FAILED})
_CONCLUDED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.SKIPPED})


class Series:
    """The series of one project: the hook of schedules in claims, settlements and cancellations.

    Args:
        planner: Finds the next occurrence.
        deferred: Plans after the commit what a transaction left.
        unplanned: What is left.
    """

    column = "schedule_id"

    def __init__(self, planner: Planner, deferred: DeferredPlanning, unplanned: UnplannedSchedules) -> None:
        self.planner = planner
        self._deferred = deferred
        self._unplanned = unplanned
        self.left = unplanned.by_thread

    # -- claiming ------------------------------------------------------------------------------------------------------

    def after_claim(self, connection: Connection, claimed: list[Claimed]) -> ClaimResult:
        """Judge the planned occurrences among what was just claimed, and plan the one after each.

        Args:
            connection: In the transaction that claimed them.
            claimed: Of any kind; those outside a series, and retries, are kept as they are.
        """
        by_id = {one.id: one for one in claimed if one.schedule_id is not None}
        steps: list[store.Step] = []
        reasons: dict[UUID, str] = {}
        unawaited: set[UUID] = set()
        planned, waiting = store.take(connection, by_id.values())
        budget = budget_of_a_transaction()
        for taken in planned:
            judgement = self._judge(taken, by_id[taken.action_id])
            if judgement.verdict == "wait":
                waiting.add(taken.action_id)
                continue
            if judgement.verdict == "skip":
                reasons[taken.action_id] = judgement.reason or ""
            step = self._step_at_claim(taken.course, taken.now, budget, is_skipped=judgement.verdict == "skip")
            if step is not None:
                steps.append(step)
                if _ends_alone(taken, step):
                    unawaited.add(taken.action_id)
        if waiting:
            store.unclaim(connection, waiting)
        if reasons:
            store.skip_claimed(connection, reasons)
        self.planner.advance(connection, steps)
        skipped = [(by_id[action_id], reason) for action_id, reason in reasons.items()]
        gone = waiting | reasons.keys()
        return ClaimResult([one for one in claimed if one.id not in gone], skipped, frozenset(unawaited))

    def _judge(self, taken: store.Taken, claimed: Claimed) -> series.Judgement:
        course = taken.course
        if course.recurrence_type == "rolling" and (claimed.attempts or claimed.last_outcome):
            return _RUN
        return series.judge(
            course,
            due_at=claimed.scheduled_instant,
            now=taken.now,
            running_since=taken.running_since,
            waiting_since=taken.waiting_since,
            has_unhandled=taken.has_unhandled,
        )

    def _step_at_claim(
        self, course: Course, now: datetime, budget: EvaluationBudget, *, is_skipped: bool
    ) -> store.Step | None:
        at = course.next_occurrence_at
        if at is None:
            return None
        step = store.Step(course.id, is_past=True, skipped=int(is_skipped), executed=int(not is_skipped))
        if course.recurrence_type == "rolling":
            # Its next is planned, and its run counted, when this one has ended.
            return self.planner.next_step(step, course, now, budget) if is_skipped else None
        if course.remaining == 1 and not is_skipped:
            return step._replace(status="ended", note="all its executions have been started")
        return self.planner.next_step(step, course, now, budget, after=at)

    def claim_refused(self, connection: Connection, claimed: Claimed, error: BaseException) -> ClaimResult:
        """Pause the series of an occurrence whose schedule cannot be followed; it fails with the reason."""
        schedule_id = claimed.schedule_id
        if isinstance(error, LATER) or (
            # The claim has locked actions: it waits for no schedule.
            schedule_id is not None and not store.lock_unless_locked(connection, schedule_id)
        ):
            # Another session is changing its schedule.
            store.unclaim(connection, [claimed.id])
            return ClaimResult([])
        if schedule_id is not None:
            pause_refused(connection, schedule_id, error)
        return ClaimResult([], refused=[(claimed, f"its schedule cannot be followed: {reason_of(error)}")])

    # -- settling ------------------------------------------------------------------------------------------------------

    def lock_before_settle(self, connection: Connection, endings: Sequence[Ending]) -> list[store.Found]:
        """Lock the schedules that wait for the end of one of these actions."""
        return self._lock(connection, _schedule_ids(endings))

    @staticmethod
    def _lock(connection: Connection, schedule_ids: Mapping[UUID, UUID]) -> list[store.Found]:
        return store.lock_those_that_watch(connection, set(schedule_ids.values()), schedule_ids)

    def after_settle(
        self, connection: Connection, locked: object, endings: Sequence[Ending], statuses: Mapping[UUID, Status]
    ) -> None:
        """Take the step of every schedule that waited for one of these actions."""
        self._conclude(connection, cast("list[store.Found]", locked), _schedule_ids(endings), statuses)

    def settled_apart(
        self, connection: Connection, endings: Sequence[Ending], statuses: Mapping[UUID, Status], *, one_by_one: bool
    ) -> None:
        """Take the steps in transactions of their own.

        A schedule whose step is refused is paused, one that is locked put off: the sweep plans it. However many are
        locked, they are waited for once.
        """
        schedule_ids = _schedule_ids(endings)

        def each(_: BaseException | None = None) -> None:
            self._conclude_each(connection, schedule_ids, statuses)

        if one_by_one:
            each()
        else:
            contain(partial(self.conclude, connection, schedule_ids, statuses), each)

    def lock_before_cancel(self, connection: Connection, action_id: UUID) -> UUID | None:
        """Lock the schedule of an action; return its id, None for an action that is no occurrence."""
        return store.lock_schedule_of(connection, action_id)

    def after_cancel(self, connection: Connection, locked: object, action_id: UUID, status: Status) -> None:
        """Plan the next occurrence where the planned one was cancelled; pause the schedule where that is refused."""
        schedule_id = cast("UUID", locked)
        contain(
            partial(self.conclude, connection, {action_id: schedule_id}, {action_id: status}),
            partial(pause_refused, connection, schedule_id),
        )

    def finish_left(self) -> None:
        """Plan what this thread's transactions have left unplanned."""
        self._deferred.plan_left()

    def release_left(self) -> None:
        """Let any thread plan it."""
        self._unplanned.release()

    def _conclude_each(
        self, connection: Connection, schedule_ids: Mapping[UUID, UUID], statuses: Mapping[UUID, Status]
    ) -> None:
        """Take each step on its own; hardly wait for a schedule that is locked."""
        for action_id, schedule_id in schedule_ids.items():
            contain(
                partial(self.conclude, connection, {action_id: schedule_id}, statuses, patience_ms=_HARDLY_MS),
                partial(pause_refused, connection, schedule_id),
            )

    def conclude(
        self,
        connection: Connection,
        schedule_ids: Mapping[UUID, UUID],
        statuses: Mapping[UUID, Status],
        *,
        patience_ms: str | None = None,
    ) -> None:
        """Take the step of every schedule that waited for one of these actions, which have been settled before.

        Args:
            connection: In a transaction or not.
            schedule_ids: By action.
            statuses: In which each action ended, by action.
            patience_ms: How long the transaction waits for a lock, in milliseconds; None: as the connection does.
        """
        with connection.transaction():
            if patience_ms is not None:
                wait_shortly(connection, patience_ms)
            self._conclude(connection, self._lock(connection, schedule_ids), schedule_ids, statuses)

    def _conclude(
        self,
        connection: Connection,
        watching: Sequence[store.Found],
        schedule_ids: Mapping[UUID, UUID],
        statuses: Mapping[UUID, Status],
    ) -> None:
        steps: list[store.Step] = []
        budget = budget_of_a_transaction()
        for schedule, now in watching:
            ended = {
                action_id: status
                for action_id, status in statuses.items()
                if schedule_ids.get(action_id) == schedule.id and status in _CONCLUDED
            }
            if ended:
                steps += self._steps_at_end(connection, schedule, now, ended, budget)
        self.planner.advance(connection, steps)

    def _steps_at_end(
        self,
        connection: Connection,
        schedule: Schedule,
        now: datetime,
        ended: Mapping[UUID, Status],
        budget: EvaluationBudget,
    ) -> list[store.Step]:
        failures = schedule.consecutive_failures
        for status in ended.values():
            if status is Status.COMPLETED:
                failures = 0
            elif status is Status.FAILED:
                failures = min(failures + 1, _COUNTED_MOST)
        step = store.Step(schedule_id=schedule.id, failures=failures, keeps_pointer=True)
        if schedule.status != "active":
            # Of a rolling one that was paused while it ran, the run still counts.
            ran = sum(status in _RAN for status in ended.values()) if schedule.recurrence_type == "rolling" else 0
            return [step._replace(executed=ran)]
        pointed = ended.get(schedule.next_action_id) if schedule.next_action_id else None
        if pointed is not None:
            step = _past(step, schedule, pointed)
        if schedule.pause_after_failures is not None and failures >= schedule.pause_after_failures:
            store.drop_planned(connection, schedule.id)
            note = f"paused after {failures} final failures in a row"
            log.warning("schedule.paused id=%s action_type=%s failures=%d", schedule.id, schedule.action_type, failures)
            return [step._replace(keeps_pointer=False, status="paused", note=note)]
        if pointed is None:
            return [step]
        if schedule.remaining is not None and schedule.remaining <= step.executed:
            return [step._replace(status="ended", note="all its executions have been started")]
        return [self.planner.next_step(step, schedule, now, budget, after=schedule.next_occurrence_at)]

    # -- the sweep -----------------------------------------------------------------------------------------------------

    def sweep(self, connection: Connection, *, every_seconds: float = SWEEP_SECONDS) -> int:
        """Plan an occurrence for every live schedule that has none; return how many were mended.

        Nothing is done when another sweep ran within `every_seconds`.
        """
        if not store.is_due_for_a_sweep(connection, every_seconds=every_seconds):
            return 0
        mended, after = 0, None
        while True:
            met = contain(
                partial(self._mend, connection, after=after), partial(self._mend_each, connection, after=after)
            )
            mended += len(met)
            if len(met) < _BATCH:
                return mended
            # Those that are planned after the commit, or that a refusal leaves, are met once.
            after = met[-1]

    def _mend(
        self, connection: Connection, schedule_id: UUID | None = None, *, after: UUID | None = None
    ) -> list[UUID]:
        """Plan an occurrence for schedules that have none, at most a bite of them; return their ids in order."""
        with connection.transaction():
            broken = store.broken(connection, limit=_BATCH, schedule_id=schedule_id, after=after)
            budget = budget_of_a_transaction()
            steps = [self._mended(schedule, now, budget) for schedule, now in broken]
            self.planner.advance(connection, steps)
        for schedule, _ in broken:
            log.warning("schedule.mended id=%s action_type=%s", schedule.id, schedule.action_type)
        return [schedule.id for schedule, _ in broken]

    def _mend_each(self, connection: Connection, error: BaseException, *, after: UUID | None) -> list[UUID]:
        """Plan the occurrence of each schedule on its own; pause those where that is refused."""
        log.warning("schedules.refused error=%s", reason_of(error))
        with connection.transaction():
            ids = [schedule.id for schedule, _ in store.broken(connection, limit=_BATCH, after=after)]
        for schedule_id in ids:
            contain(partial(self._is_mended, connection, schedule_id), partial(pause_refused, connection, schedule_id))
        return ids

    def _is_mended(self, connection: Connection, schedule_id: UUID) -> bool:
        return bool(self._mend(connection, schedule_id))

    def _mended(self, schedule: Schedule, now: datetime, budget: EvaluationBudget) -> store.Step:
        after = schedule.next_occurrence_at or schedule.last_occurrence_at
        # Of one that is planned after the commit, what the pointer names has had its turn.
        is_past = bool(project_functions(schedule)) and schedule.next_occurrence_at is not None
        return self.planner.next_step(
            store.Step(schedule_id=schedule.id, is_past=is_past), schedule, now, budget, after=after
        )


def _schedule_ids(endings: Sequence[Ending]) -> dict[UUID, UUID]:
    """Return the schedules of occurrences, by action."""
    return {one.action_id: one.schedule_id for one in endings if one.schedule_id is not None}


def _past(step: store.Step, schedule: Schedule, status: Status) -> store.Step:
    """Return the step with the end of the planned occurrence itself: of a fixed schedule nobody had started it."""
    has_run = schedule.recurrence_type == "rolling" and status in _RAN
    return step._replace(keeps_pointer=False, is_past=True, executed=int(has_run), skipped=int(not has_run))


def _ends_alone(taken: store.Taken, step: store.Step) -> bool:
    """Whether nothing has to be done about its series when this occurrence ends."""
    course, due_at = taken.course, step.due_at
    if course.recurrence_type == "rolling" or course.pause_after_failures is not None:
        return False
    if step.occurrence_at is None and step.status is None:
        # What comes next is found after the commit, and may be due already.
        return False
    # One that is due already may be claimed beside it, and put back until it has ended.
    return due_at is None or due_at > taken.now
