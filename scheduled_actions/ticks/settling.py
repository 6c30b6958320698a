"""Write the results of a tick's attempts; count and log each result once."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from uuid import UUID

from scheduled_actions.actions import settling
from scheduled_actions.actions.hooks import SettledAction
from scheduled_actions.actions.rules.settlement import (
    AttemptResult,
    ConditionFailed,
    ConditionPending,
    Failed,
    NoHandler,
    Released,
    Snoozed,
    TimedOut,
    clean,
)
from scheduled_actions.core.action import Claimed, Status
from scheduled_actions.core.log import log
from scheduled_actions.database.boundary import TEMPORARY_ERRORS, Result, contain, isolate, reason_of
from scheduled_actions.ticks.attempts.attempt import Attempt, RunningTick, outcome_name
from scheduled_actions.ticks.maintenance import fail_action

#: Outcomes of actions whose handlers were not started; most expired actions have not advanced a rate.
_UNSTARTED = (Released, ConditionFailed, ConditionPending, NoHandler)
#: After waiting for this number of locked rows, one by one, the remaining results are left for the next settlement.
_MAX_LOCKED = 8


@dataclass(slots=True)
class WriteResult:
    """The attempts whose results were written or kept back, and whether the tick may start or claim more."""

    #: Whether the announced attempts may start.
    is_announced: bool = False
    #: Attempts whose results could not be written because of another transaction; they are written later.
    kept_back: list[Attempt] = field(default_factory=list)
    #: Whether further actions may have become due: a lock group is free, a follow-up exists, or an action is due again.
    may_have_freed_more: bool = False
    #: The attempts whose results were processed.
    tried: list[Attempt] = field(default_factory=list)
    #: The new status of each action settled here; a lost claim has none, and plain completions are not listed.
    statuses: dict[UUID, Status] = field(default_factory=dict)

    def add(self, other: "WriteResult") -> None:
        """Add the results of another statement."""
        self.statuses |= other.statuses
        self.tried += other.tried
        self.kept_back += other.kept_back
        self.may_have_freed_more |= other.may_have_freed_more


class ResultWriter:
    """Writes the results of one tick."""

    def __init__(self, tick: RunningTick) -> None:
        self._tick = tick
        self._settler = tick.state.settler
        self._metrics = tick.state.metrics
        #: The database's time when the monotonic clock was zero, in epoch seconds.
        self._epoch = tick.row.started_at.timestamp() - tick.begun
        #: The numbers of announcements. If one reaches the database late, after its connection was lost, its number is
        #: lower than that in the tick's row, and it is ignored.
        self.announcements = count(1)
        #: The ids announced last; None if they are unknown.
        self._announced: list[UUID] | None = None
        #: Actions with limit keys that were claimed but not started, since the last `give_back_rates`.
        self._unstarted: list[Claimed] = []

    def are_completions(self, attempts: Sequence[Attempt]) -> bool:
        """Return whether `settle` writes these results by the faster statement, which can only complete actions."""
        return self._tick.completions(attempts) is not None

    def settle(self, attempts: list[Attempt], *, running: list[UUID]) -> WriteResult:
        """Write results, and announce the attempts in flight, in one statement if possible.

        Args:
            attempts: The attempts whose results are written.
            running: The ids of all actions that are then in flight; an empty list at the end of the tick.
        """
        completions = self._tick.completions(attempts)
        if completions is None and any(attempt.is_waiting for attempt in attempts):
            return self._settle_apart(attempts, running)
        settle_each = partial(self._settle_one_by_one, attempts, running)
        if completions:
            # This statement is faster, but can only complete actions.
            complete: Callable[[], settling.CompletionResult | BaseException] = partial(
                self._announcing, self._settler.complete, running, completions=completions
            )
            done = contain(complete, lambda error: error)
            if isinstance(done, settling.CompletionResult):
                return self._count_completions(attempts, done, running)
            written = settle_each(done)
        else:
            written = contain(partial(self._settle_together, attempts, running), settle_each)
        self._announced = running if written.is_announced else None
        for attempt in written.tried:
            status = written.statuses.get(attempt.claimed.id)
            if attempt.is_settled:
                status = self._tick.settlement_of(attempt).settlement.status
            self._count(attempt, status)
            written.may_have_freed_more |= (
                bool(attempt.claimed.lock_group or attempt.result.follow_ups)
                or attempt.is_awaited
                or (status is Status.PENDING and not isinstance(attempt.result.outcome, Released))
            )
        return written

    def _count_completions(
        self, attempts: list[Attempt], done: settling.CompletionResult, running: list[UUID]
    ) -> WriteResult:
        """Count completed actions; settle those whose schedule was changed meanwhile and now waits for their end."""
        self._announced = running if done.announced else None
        written = WriteResult(done.announced)
        if done.lost:
            for attempt in attempts:
                # Either the claim was lost, or the schedule was changed while the action ran and now waits for its end.
                attempt.is_awaited = attempt.claimed.schedule_id is not None and attempt.claimed.id in done.lost
            if changed := [attempt for attempt in attempts if attempt.is_awaited]:
                written = self.settle(changed, running=running)
                attempts = [attempt for attempt in attempts if not attempt.is_awaited]
        if done.lost or log.isEnabledFor(logging.INFO):
            for attempt in attempts:
                self._count(attempt, None if attempt.claimed.id in done.lost else Status.COMPLETED)
            return written
        # The same as `_count` for each attempt, if all have completed and nothing is logged.
        self._tick.report.succeeded += len(attempts)
        self._record_durations(attempts)
        if self._metrics is not None:
            self._metrics.completed([attempt.claimed for attempt in attempts])
        return written

    def _settle_together(self, attempts: list[Attempt], running: list[UUID]) -> WriteResult:
        unwritten = [one for one in attempts if not (one.is_settled or one.is_waiting)]
        outcomes = [self._tick.settlement_of(one) for one in unwritten]
        settled = self._announcing(self._settler.settle, running, outcomes=outcomes)
        return WriteResult(settled.announced, statuses=settled.statuses, tried=attempts)

    def _announcing(self, write: Callable[..., Result], running: list[UUID], **results: object) -> Result:
        """Write results, and announce the running attempts, with a method of the settler."""
        # Taken once, so that a repetition after a lost connection has the same number.
        announcement = next(self.announcements)
        return self._tick.connection.do(
            partial(write, tick=self._tick.row, running=running, announcement=announcement, **results)
        )

    def _settle_apart(self, attempts: list[Attempt], running: list[UUID]) -> WriteResult:
        """Write unmet conditions with a separate statement, which considers changes made since their evaluation."""
        others = [attempt for attempt in attempts if not attempt.is_waiting]
        waiting = [attempt for attempt in attempts if attempt.is_waiting]
        # Most evaluations find only unmet conditions: then nothing else has to be written.
        is_same = not others and running == self._announced
        written = WriteResult(is_announced=True) if is_same else self.settle(others, running=running)
        for settled in isolate(waiting, self._settle_waiting, lambda attempt, _: self._settle_alone(attempt)):
            written.add(settled)
            for attempt in settled.tried:
                self._count(attempt, settled.statuses.get(attempt.claimed.id))
                written.may_have_freed_more |= bool(attempt.claimed.lock_group)
        return written

    def _settle_waiting(self, waiting: Sequence[Attempt]) -> WriteResult:
        from scheduled_actions.actions import waits  # noqa: PLC0415 - most projects have no conditions

        unmet = [
            waits.WaitSettlement(
                action_id=attempt.claimed.id,
                token=attempt.claimed.token,
                check_seconds=outcome.check_seconds,
                changes_at=outcome.changes_at,
                reason=clean(outcome.reason),
                hold="keep" if attempt.claimed.lock_group_blocks else "free",
                schedule_id=attempt.claimed.schedule_id,
            )
            for attempt in waiting
            if isinstance(outcome := attempt.result.outcome, ConditionPending)
        ]
        tick = self._tick
        write = partial(self._settler.settle_waiting, tick_id=tick.tick_id, settlements=unmet, worker_id=tick.worker_id)
        try:
            settled = self._tick.connection.do(write)
        except TEMPORARY_ERRORS:
            return WriteResult(kept_back=list(waiting))
        return WriteResult(may_have_freed_more=settled.has_woken, statuses=settled.statuses, tried=list(waiting))

    def _settle_one_by_one(self, attempts: list[Attempt], running: list[UUID], error: BaseException) -> WriteResult:
        """Settle each result separately, so that a refused outcome or a locked row does not affect the others."""
        log.warning("tick.group_refused tick_id=%s error=%s", self._tick.row.id, reason_of(error))
        written = WriteResult()
        # In a series, the locked row may be that of the schedule: the outcome can be written without it, and the
        # schedule's step is deferred.
        was_waited_for = (
            len(attempts) == 1 and attempts[0].claimed.schedule_id is None and isinstance(error, TEMPORARY_ERRORS)
        )
        for tried, attempt in enumerate(attempts):
            if was_waited_for or len(written.kept_back) == _MAX_LOCKED:
                # Waiting for more locks would take too long. The results not tried here come first in the next batch.
                written.kept_back = attempts[tried:] + written.kept_back
                break
            written.add(self._settle_alone(attempt))
        written.is_announced = self.announce(running, unwritten=written.kept_back)
        return written

    def announce(self, running: list[UUID], *, unwritten: Sequence[Attempt]) -> bool:
        """Announce the attempts in flight without writing results; return whether they may start.

        Args:
            running: The ids of the actions in flight.
            unwritten: The attempts whose results are written later. Those whose handlers have started stay announced,
                so that a rescue charges them.
        """
        started = [attempt.claimed.id for attempt in unwritten if attempt.handler_started is not None]
        announced = [*running, *started]
        announce = partial(self._announcing, self._settler.settle, announced, outcomes=[])
        is_announced = contain(lambda: announce().announced, self._log_unannounced)
        self._announced = announced if is_announced else None
        return is_announced

    def _log_unannounced(self, error: BaseException) -> bool:
        """Log the error; return False, so that no handler starts: a crash would not be charged to its attempt."""
        log.warning("tick.unannounced tick_id=%s error=%s", self._tick.row.id, reason_of(error))
        return False

    def _settle_alone(self, attempt: Attempt) -> WriteResult:
        """Settle one result; keep it back after a temporary error, and fail the action after any other error."""
        if attempt.is_settled:
            return WriteResult(tried=[attempt])
        return contain(partial(self._settle_one, attempt), partial(self._keep_back_or_fail, attempt))

    def _settle_one(self, attempt: Attempt) -> WriteResult:
        if attempt.is_waiting:
            return self._settle_waiting([attempt])
        outcome = self._tick.settlement_of(attempt)
        settled = self._tick.connection.do(partial(self._settler.settle_alone, tick=self._tick.row, outcome=outcome))
        return WriteResult(statuses=settled.statuses, tried=[attempt])

    def _keep_back_or_fail(self, attempt: Attempt, error: BaseException) -> WriteResult:
        if isinstance(error, TEMPORARY_ERRORS):
            return WriteResult(kept_back=[attempt])
        reason = f"the outcome cannot be stored: {reason_of(error)}"
        attempt.result = AttemptResult(Failed(reason, is_final=True))
        return contain(partial(self._settle_one, attempt), lambda _: self._fail(attempt, reason))

    def _fail(self, attempt: Attempt, reason: str) -> WriteResult:
        """Set the action to failed without any other change; if that is refused or the claim was lost, report it."""
        claimed = attempt.claimed
        if not fail_action(self._tick.connection.do, claimed, reason):
            self._tick.report.add_error(claimed.id, claimed.action_type, reason)
            return WriteResult()
        statuses = {claimed.id: Status.FAILED}
        self._tick.connection.do(
            partial(
                self._settler.settled_apart,
                endings=[SettledAction(claimed.id, claimed.schedule_id)],
                statuses=statuses,
                was_refused=True,
            )
        )
        return WriteResult(statuses=statuses, tried=[attempt])

    def give_back_rates(self) -> None:
        """Move the rates of limit keys back for the settled actions whose handlers were not started."""
        unstarted, self._unstarted = self._unstarted, []
        if unstarted:
            from scheduled_actions.limits import claims  # noqa: PLC0415 - most projects have no limits

            give_back = partial(self._tick.connection.do, partial(claims.give_back, claimed=unstarted))
            contain(give_back, lambda error: log.warning("limits.not_given_back error=%s", reason_of(error)))

    # -- counting --------------------------------------------------------------------------------------------------

    def count_skipped(self, claimed: Claimed, reason: str) -> None:
        """Count and log an action that was skipped in the transaction that claimed it."""
        self._tick.report.skipped += 1
        self._count_settled(claimed, "skipped")
        log.info("action.skipped id=%s action_type=%s reason=%r", claimed.id, claimed.action_type, reason)

    def count_waiting(self, actions: Sequence[tuple[UUID, str]]) -> None:
        """Count and log actions (id and type) that wait for their condition, and were settled without a claim."""
        self._tick.report.snoozed += len(actions)
        if self._metrics is not None:
            self._metrics.waited(action_type for _, action_type in actions)
        if log.isEnabledFor(logging.INFO):
            for one in actions:
                log.info("action.settled id=%s action_type=%s outcome=conditionpending status=pending", *one)

    def _count(self, attempt: Attempt, status: Status | None) -> None:
        """Count and log a settlement; a status of None means that the claim was lost and nothing was written."""
        claimed, outcome = attempt.claimed, attempt.result.outcome
        self._record_durations([attempt])
        name = outcome_name(outcome)
        if status is None:
            # After a lost connection, the first try may have written the result, so that it is not stale.
            if not self._tick.connection.was_repeated:
                log.warning("action.stale id=%s action_type=%s outcome=%s", claimed.id, claimed.action_type, name)
            return
        if attempt.has_returned and (claimed.lock_group or claimed.limit_keys):
            # The abandoned handler has returned, so its lock group and slots can be freed before the lease ends.
            self._tick.connection.do(partial(settling.end_linger, action_id=claimed.id, token=claimed.token))
        if claimed.limit_keys is not None and isinstance(outcome, _UNSTARTED):
            self._unstarted.append(claimed)
        if isinstance(outcome, Released):
            return
        self._tick.report.count(claimed, outcome, status)
        again = "snoozed" if isinstance(outcome, Snoozed | ConditionPending) else "retried"
        self._count_settled(claimed, again if status is Status.PENDING else str(status))
        log.log(
            logging.WARNING if isinstance(outcome, Failed | TimedOut) or status is Status.FAILED else logging.INFO,
            "action.settled id=%s action_type=%s attempt=%d outcome=%s status=%s duration_ms=%.1f",
            claimed.id, claimed.action_type, claimed.attempts + 1, name, status, 1000 * (attempt.took_seconds or 0.0),
        )  # fmt: skip

    def _count_settled(self, claimed: Claimed, outcome: str) -> None:
        if self._metrics is not None:
            self._metrics.settled(claimed.action_type, outcome, payload_text=claimed.payload_text)

    def _record_durations(self, attempts: Iterable[Attempt]) -> None:
        """Record the durations of the handlers that have started and ended, and how late they started."""
        by_type: defaultdict[str, list[Attempt]] = defaultdict(list)
        for attempt in attempts:
            if attempt.handler_started is not None and attempt.ended is not None:
                by_type[attempt.claimed.action_type].append(attempt)
        for action_type, ran in by_type.items():
            seconds = [attempt.ended - attempt.started for attempt in ran]  # type: ignore[operator]  # not None, see above
            self._tick.state.duration_stats.record(action_type, seconds)
            if self._metrics is not None:
                self._metrics.ran(action_type, seconds=seconds, lateness_seconds=map(self._lateness, ran))

    def _lateness(self, attempt: Attempt) -> float:
        """Return how late an attempt started, in seconds; the action was due as `Action.due_since` defines it."""
        claimed, started = attempt.claimed, attempt.started
        assert started is not None  # noqa: S101 - called for attempts that have started
        return self._epoch + started - max(claimed.scheduled_epoch, claimed.created_epoch)
