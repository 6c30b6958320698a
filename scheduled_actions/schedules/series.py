"""Plan the next occurrence of a schedule when the previous one is claimed, settled or cancelled."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import cast
from uuid import UUID

from scheduled_actions.actions.claims import ClaimResult
from scheduled_actions.actions.hooks import SWEEP_SECONDS, EndingAction
from scheduled_actions.core.action import Claimed, Status
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.core.log import log
from scheduled_actions.database.boundary import TEMPORARY_ERRORS, contain, isolate, reason_of
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.transactions import limit_lock_waits
from scheduled_actions.schedules import store
from scheduled_actions.schedules.deferred import DeferredPlanning
from scheduled_actions.schedules.model import Schedule, project_functions
from scheduled_actions.schedules.planner import pause_refused, transaction_budget
from scheduled_actions.schedules.rules import series

#: Failures in a row are counted up to the largest integer of PostgreSQL.
_COUNTED_MOST = 2**31 - 1
#: Maximum number of schedules that the sweep plans in one transaction.
_BATCH = 500
#: The lock timeout in milliseconds for schedules that were locked before.
_RETRY_PATIENCE_MS = "5"
_RAN = frozenset({Status.COMPLETED, Status.FAILED})
_CONCLUDED = _RAN | {Status.CANCELLED, Status.SKIPPED}
_ALL_STARTED = "all its executions have been started"


class ScheduleHook:
    """The claim hook and settle hook of schedules.

    Args:
        deferred: Plans, after the commit, the schedules that a transaction left unplanned.
    """

    column = "schedule_id"

    def __init__(self, deferred: DeferredPlanning) -> None:
        self.planner = deferred.planner
        self.deferred = deferred.planner.unplanned.by_thread
        self.run_deferred = deferred.plan_deferred
        self.release_deferred = deferred.planner.unplanned.release

    # -- claiming ------------------------------------------------------------------------------------------------------

    def after_claim(self, connection: Connection, claimed: list[Claimed]) -> ClaimResult:
        """Decide which planned occurrences among the claimed actions run, and plan the one after each.

        After a run of a rolling schedule, the next occurrence is planned when the run ends. An occurrence whose
        schedule another transaction has locked returns to pending.

        Args:
            connection: In the claiming transaction.
            claimed: The claimed actions; those that are not planned occurrences, such as manual runs, are kept.
        """
        updates: list[store.ScheduleUpdate] = []
        skipped: list[tuple[Claimed, str]] = []
        unawaited: list[UUID] = []
        occurrences, waiting, first_id = store.take(connection, [one for one in claimed if one.schedule_id is not None])
        budget = transaction_budget()
        for occurrence in occurrences:
            one = occurrence.claimed
            decision = _decide(occurrence)
            if decision.verdict == "wait":
                waiting.add(one.id)
                continue
            if decision.verdict == "skip":
                skipped.append((one, decision.reason or ""))
            # An expired occurrence ends without an attempt. A rolling schedule counts it when it ends.
            is_expired = one.expired_while is not None and occurrence.state.recurrence_type != "rolling"
            is_skipped = decision.verdict == "skip" or is_expired
            update = self._update_at_claim(occurrence, budget, is_skipped=is_skipped)
            if update is not None:
                updates.append(update)
                if _ends_alone(occurrence, update):
                    unawaited.append(one.id)
        if waiting:
            store.unclaim(connection, waiting)
        if skipped:
            store.skip_claimed(connection, {one.id: reason for one, reason in skipped})
        self.planner.advance(connection, updates, first_id=first_id)
        kept = claimed
        if waiting or skipped:
            gone = waiting.union([one.id for one, _ in skipped])
            kept = [one for one in claimed if one.id not in gone]
            _give_back_rates(connection, [one for one in claimed if one.id in gone])
        return ClaimResult(kept, skipped, frozenset(unawaited))

    def _update_at_claim(
        self, occurrence: store.ClaimedOccurrence, budget: EvaluationBudget, *, is_skipped: bool
    ) -> store.ScheduleUpdate | None:
        state, at = occurrence.state, occurrence.state.next_occurrence_at
        if at is None:
            return None
        update = store.ScheduleUpdate(state.id, is_past=True, skipped=int(is_skipped), executed=int(not is_skipped))
        if state.recurrence_type == "rolling":
            # When this occurrence ends, its run is counted and the next one is planned.
            return self.planner.complete_or_leave(update, state, occurrence.now, budget) if is_skipped else None
        if state.remaining == 1 and not is_skipped:
            return update._replace(status="ended", reason=_ALL_STARTED)
        return self.planner.complete_or_leave(update, state, occurrence.now, budget, after=at)

    def claim_refused(self, connection: Connection, claimed: Claimed, error: BaseException) -> ClaimResult:
        """Fail an occurrence whose schedule cannot be planned, and pause the schedule, with the reason.

        After a temporary error, or if the schedule is locked, the occurrence returns to pending instead.
        """
        schedule_id = claimed.schedule_id
        if isinstance(error, TEMPORARY_ERRORS) or (
            # The claim has actions locked: it must not wait for a schedule that another session changes.
            schedule_id is not None
            and store.sql.run(connection, "lock_unless_locked", {"schedule_id": schedule_id}).fetchone() is None
        ):
            store.unclaim(connection, [claimed.id])
            _give_back_rates(connection, [claimed])
            return ClaimResult([])
        if schedule_id is not None:
            pause_refused(connection, schedule_id, error)
        return ClaimResult([], refused=[(claimed, f"its schedule cannot be planned: {reason_of(error)}")])

    # -- settling ------------------------------------------------------------------------------------------------------

    def lock_before_settle(
        self, connection: Connection, endings: Sequence[EndingAction]
    ) -> list[store.ScheduleSnapshot]:
        """Lock and return the schedules that wait for the end of one of these actions."""
        schedule_ids = _schedule_ids(endings)
        return store.lock_those_that_watch(connection, set(schedule_ids.values()), schedule_ids)

    def after_settle(
        self, connection: Connection, locked: object, endings: Sequence[EndingAction], statuses: Mapping[UUID, Status]
    ) -> None:
        """Update every schedule that waited for the end of one of these actions.

        Args:
            connection: In the settling transaction.
            locked: The result of `lock_before_settle`.
            endings: The settled actions.
            statuses: The new status of each action; an action that lost its claim is missing.
        """
        self._conclude(connection, cast("list[store.ScheduleSnapshot]", locked), _schedule_ids(endings), statuses)

    def settled_apart(
        self,
        connection: Connection,
        endings: Sequence[EndingAction],
        statuses: Mapping[UUID, Status],
        *,
        was_refused: bool,
    ) -> None:
        """Update the schedules of actions whose settlement is already committed, in separate transactions.

        A schedule whose update is refused is paused; a locked one is left to the sweep. The full lock timeout applies
        only once, even if many schedules are locked.

        Args:
            connection: In autocommit mode.
            endings: The settled actions.
            statuses: The new status of each action; an action that lost its claim is missing.
            was_refused: Whether the database rejected the batch of these actions; it has already waited for the locks,
                so the short lock timeout applies.
        """
        pairs = list(_schedule_ids(endings).items())

        def conclude(some: Sequence[tuple[UUID, UUID]]) -> None:
            patience_ms = None if len(some) == len(pairs) and not was_refused else _RETRY_PATIENCE_MS
            self.conclude(connection, dict(some), statuses, patience_ms=patience_ms)

        isolate(pairs, conclude, lambda pair, error: pause_refused(connection, pair[1], error))

    def lock_before_cancel(self, connection: Connection, action_id: UUID, *, team_id: str | None) -> UUID | None:
        """Lock the schedule of an action; return its id, or None if the action has no schedule (in that team)."""
        row = store.sql.run(connection, "schedule_of_action", {"action_id": action_id, "team_id": team_id}).fetchone()
        return None if row is None else row[0]

    def after_cancel(self, connection: Connection, locked: object, action_id: UUID, status: Status) -> None:
        """Plan the next occurrence if the planned one was cancelled; pause the schedule if planning is refused.

        Args:
            connection: In the cancelling transaction.
            locked: The id that `lock_before_cancel` returned.
            action_id: The cancelled action.
            status: The new status of the action.
        """
        schedule_id = cast("UUID", locked)
        contain(
            partial(self.conclude, connection, {action_id: schedule_id}, {action_id: status}),
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
        """Update every schedule that waited for the end of one of these settled actions.

        Args:
            connection: Inside or outside a transaction.
            schedule_ids: The schedule of each action.
            statuses: The new status of each action; those that have not ended are ignored.
            patience_ms: The lock timeout in milliseconds; None: that of the connection.
        """
        with connection.transaction():
            if patience_ms is not None:
                limit_lock_waits(connection, patience_ms)
            self._conclude(
                connection,
                store.lock_those_that_watch(connection, set(schedule_ids.values()), schedule_ids),
                schedule_ids,
                statuses,
            )

    def _conclude(
        self,
        connection: Connection,
        watching: Sequence[store.ScheduleSnapshot],
        schedule_ids: Mapping[UUID, UUID],
        statuses: Mapping[UUID, Status],
    ) -> None:
        ended: defaultdict[UUID, dict[UUID, Status]] = defaultdict(dict)
        for action_id, status in statuses.items():
            if status in _CONCLUDED and action_id in schedule_ids:
                ended[schedule_ids[action_id]][action_id] = status
        budget = transaction_budget()
        updates = [
            self._update_at_end(connection, schedule, now, ended[schedule.id], budget)
            for schedule, now in watching
            if schedule.id in ended
        ]
        self.planner.advance(connection, updates)

    def _update_at_end(
        self,
        connection: Connection,
        schedule: Schedule,
        now: datetime,
        ended: Mapping[UUID, Status],
        budget: EvaluationBudget,
    ) -> store.ScheduleUpdate:
        failures = schedule.consecutive_failures
        for status in ended.values():
            if status in _RAN:
                failures = 0 if status is Status.COMPLETED else min(failures + 1, _COUNTED_MOST)
        update = store.ScheduleUpdate(schedule_id=schedule.id, failures=failures, keeps_pointer=True)
        is_rolling = schedule.recurrence_type == "rolling"
        if schedule.status != "active":
            # The run of a rolling schedule still counts if the schedule was paused during the run.
            return update._replace(executed=sum(status in _RAN for status in ended.values()) if is_rolling else 0)
        pointed = ended.get(schedule.next_action_id) if schedule.next_action_id else None
        if pointed is not None:
            # The planned occurrence has ended. That of a fixed schedule ended without having started.
            has_run = is_rolling and pointed in _RAN
            update = update._replace(keeps_pointer=False, is_past=True, executed=int(has_run), skipped=int(not has_run))
        if schedule.pause_after_failures is not None and failures >= schedule.pause_after_failures:
            store.drop_planned(connection, schedule.id)
            log.warning("schedule.paused id=%s action_type=%s failures=%d", schedule.id, schedule.action_type, failures)
            return update._replace(
                keeps_pointer=False, status="paused", reason=f"paused after {failures} final failures in a row"
            )
        if pointed is None:
            return update
        if schedule.remaining is not None and schedule.remaining <= update.executed:
            return update._replace(status="ended", reason=_ALL_STARTED)
        return self.planner.complete_or_leave(update, schedule, now, budget, after=schedule.next_occurrence_at)

    # -- the sweep -----------------------------------------------------------------------------------------------------

    def sweep(self, connection: Connection, *, every_seconds: float = SWEEP_SECONDS) -> int:
        """Plan an occurrence for every active, unlocked schedule without one; return the number of these schedules.

        The number includes schedules that are planned after the commit, or paused because planning is refused. Does
        nothing if another sweep ran within `every_seconds`.
        """
        if store.sql.run(connection, "due_for_a_sweep", {"every_seconds": every_seconds}).fetchone() is None:
            return 0
        repaired, after = 0, None
        while True:
            met = contain(
                partial(self._repair, connection, after=after), partial(self._repair_each, connection, after=after)
            )
            repaired += len(met)
            if len(met) < _BATCH:
                return repaired
            # Continue by id, so that schedules that are planned after the commit, or refused, are processed only once.
            after = met[-1]

    def _repair(
        self, connection: Connection, schedule_id: UUID | None = None, *, after: UUID | None = None
    ) -> list[UUID]:
        """Plan an occurrence for one batch of schedules without one; return their ids in order."""
        with connection.transaction():
            broken = store.broken(connection, limit=_BATCH, schedule_id=schedule_id, after=after)
            budget = transaction_budget()
            self.planner.advance(
                connection, [self._update_of_broken(schedule, now, budget) for schedule, now in broken]
            )
        for schedule, _ in broken:
            log.warning("schedule.repaired id=%s action_type=%s", schedule.id, schedule.action_type)
        return [schedule.id for schedule, _ in broken]

    def _repair_each(self, connection: Connection, error: BaseException, *, after: UUID | None) -> list[UUID]:
        """Plan the occurrence of each schedule separately; pause those for which planning is refused."""
        log.warning("schedules.refused error=%s", reason_of(error))
        with connection.transaction():
            ids = [schedule.id for schedule, _ in store.broken(connection, limit=_BATCH, after=after)]
        for schedule_id in ids:
            contain(
                partial[object](self._repair, connection, schedule_id), partial(pause_refused, connection, schedule_id)
            )
        return ids

    def _update_of_broken(self, schedule: Schedule, now: datetime, budget: EvaluationBudget) -> store.ScheduleUpdate:
        after = schedule.next_occurrence_at or schedule.last_occurrence_at
        # If planning was deferred, the schedule still references the past occurrence.
        is_past = bool(project_functions(schedule)) and schedule.next_occurrence_at is not None
        return self.planner.complete_or_leave(
            store.ScheduleUpdate(schedule_id=schedule.id, is_past=is_past), schedule, now, budget, after=after
        )


def _give_back_rates(connection: Connection, unstarted: Sequence[Claimed]) -> None:
    """Move the rates of the limit keys of claimed actions back, because the actions do not start."""
    if limited := [one for one in unstarted if one.limit_keys is not None]:
        from scheduled_actions.limits import claims  # noqa: PLC0415 - most projects have no limits

        claims.give_back(connection, limited)


def _schedule_ids(endings: Sequence[EndingAction]) -> dict[UUID, UUID]:
    """Return the id of the schedule of each action that has one, by the id of the action."""
    return {one.action_id: one.schedule_id for one in endings if one.schedule_id is not None}


def _decide(occurrence: store.ClaimedOccurrence) -> series.OccurrenceDecision:
    claimed = occurrence.claimed
    if claimed.expired_while is not None:
        # It ends without an attempt, so it waits for nothing.
        return series.RUN
    if occurrence.state.recurrence_type == "rolling" and (claimed.attempts or claimed.last_outcome):
        return series.RUN
    return series.decide(
        occurrence.state,
        due_at=claimed.scheduled_instant,
        now=occurrence.now,
        running_since=occurrence.running_since,
        waiting_since=occurrence.waiting_since,
        has_unhandled=occurrence.has_unhandled,
        previous=occurrence.previous,
    )


def _ends_alone(occurrence: store.ClaimedOccurrence, update: store.ScheduleUpdate) -> bool:
    """Whether the end of this occurrence requires no update of its schedule."""
    state = occurrence.state
    if state.recurrence_type == "rolling" or state.pause_after_failures is not None:
        return False
    if update.due_at is None:
        # Without a status, the next occurrence is found after the commit, and may be due already.
        return update.status is not None
    # An occurrence that is due already may be claimed, and returned to pending until this one has ended.
    return update.due_at > occurrence.now
