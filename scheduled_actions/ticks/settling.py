"""Writing what came of a tick's attempts, each outcome counted and told once."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from scheduled_actions.actions import claims, settling
from scheduled_actions.actions.hooks import SettledAction
from scheduled_actions.actions.rules import settlement
from scheduled_actions.core.action import Status
from scheduled_actions.database.boundary import CONTAINED, LATER, concerns_all, contain, describe, isolate, reason_of
from scheduled_actions.ticks.attempts.attempt import Ended, began

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from uuid import UUID

    from scheduled_actions.core.action import Claimed
    from scheduled_actions.database.connection import Line
    from scheduled_actions.ticks.attempts.attempt import Attempt
    from scheduled_actions.ticks.attempts.attempt_runner import Attempts
    from scheduled_actions.ticks.report import Report
    from scheduled_actions.ticks.worker_state import Process

log = logging.getLogger("scheduled_actions")

#: Locked rows that are waited for one by one, until the rest of a batch is left for the next settlement.
_LOCKED_MOST = 8
#: What an action that is pending again is counted as, by whether it was snoozed.
_AGAIN = ("retried", "snoozed")


@dataclass(slots=True)
class Written:
    """What was written, and what it means for the tick."""

    #: Whether what was announced may start.
    is_announced: bool
    #: Outcomes that somebody's open transaction kept from being written; they wait.
    kept_back: list[tuple[Attempt, Ended]] = field(default_factory=list)
    #: Whether something due may have appeared: a group is free, a follow-up is there, an action is due again.
    may_have_freed_more: bool = False


@dataclass(slots=True)
class _Settled:
    """What statements of settling did."""

    #: The status each action ended in; an action that is missing had lost its claim.
    statuses: dict[UUID, Status] = field(default_factory=dict)
    #: What was tried, each with the outcome that it was written as.
    ended: list[tuple[Attempt, Ended]] = field(default_factory=list)
    #: What other transactions keep locked; it waits.
    kept_back: list[tuple[Attempt, Ended]] = field(default_factory=list)
    announced: bool = False
    #: Whether an action whose condition did not hold is due again.
    has_woken: bool = False

    def add(self, other: _Settled) -> None:
        """Add what another statement did."""
        self.statuses |= other.statuses
        self.ended += other.ended
        self.kept_back += other.kept_back
        self.has_woken |= other.has_woken


class Settling:
    """Writes the outcomes of one tick."""

    def __init__(self, process: Process, line: Line, row: claims.TickRow, attempts: Attempts, report: Report) -> None:
        self._settler = process.settler
        self._pace = process.pace
        self._line = line
        self._row = row
        self._attempts = attempts
        self._report = report
        self._tally = process.tally
        self._is_tick_tallied = False
        #: How many announcements were made: a late one, of a backend whose connection was lost, has a lower number.
        self._announcements = 0
        #: What was announced last; None: nothing stands announced.
        self._announced: list[UUID] | None = None

    def skipped(self, claimed: Claimed, reason: str) -> None:
        """Count and log an action that was skipped as it was claimed."""
        self._report.skipped += 1
        if self._tally is not None:
            self._tally.settled(claimed.action_type, "skipped", payload_text=claimed.payload_text)
        log.info("action.skipped id=%s action_type=%s reason=%r", claimed.id, claimed.action_type, reason)

    def tally_tick(self, seconds: float) -> None:
        """Tally how long the tick took, the first time that it ends; one that is asked again goes on."""
        if self._tally is not None and not self._is_tick_tallied:
            self._tally.ticked(seconds)
        self._is_tick_tallied = True

    def next_announcement(self) -> int:
        """Return the number of the next announcement; a repetition after a lost connection has the same."""
        self._announcements += 1
        return self._announcements

    def tally_is_written(self) -> None:
        """Begin a new tally."""
        if self._tally is not None:
            self._tally.clear()

    def settle(self, ended: list[tuple[Attempt, Ended]], *, running: list[UUID]) -> Written:
        """Write what has ended and announce what is in flight from now on, in one statement where that is possible."""
        completions = self._attempts.completions(ended)
        if completions is None and any(one.waits for _, one in ended):
            return self._settle_apart(ended, running)
        if completions:
            done = contain(partial(self._complete_together, completions, running), lambda error: error)
            if isinstance(done, settling.Completed):
                return self._completed(ended, done, running)
            settled = self._settle_one_by_one(ended, running, done)
        else:
            settled = contain(
                lambda: self._settle_together(ended, running),
                lambda error: self._settle_one_by_one(ended, running, error),
            )
        written = self._written(Written(settled.announced, settled.kept_back), running)
        for attempt, one in settled.ended:
            decided = self._attempts.settle_as(attempt, one) if one.is_settled else None
            status = decided.settlement.status if decided else settled.statuses.get(attempt.claimed.id)
            self._count(attempt, one, status)
            is_due_again = status is Status.PENDING and not isinstance(one.outcome, settlement.Unstarted)
            may_free_another = bool(attempt.claimed.lock_group) or attempt.is_awaited
            written.may_have_freed_more |= may_free_another or bool(one.follow_ups) or is_due_again
        return written

    def _complete_together(
        self, completions: list[settling.Completion], running: list[UUID]
    ) -> settling.Completed | BaseException:
        """Write what is nothing but completed by the statement that can do no more, and takes less."""
        return self._line.do(
            partial(
                self._settler.complete,
                tick=self._row,
                completions=completions,
                running=running,
                announcement=self.next_announcement(),
            )
        )

    def _completed(self, ended: list[tuple[Attempt, Ended]], done: settling.Completed, running: list[UUID]) -> Written:
        """Count what has completed; settle occurrences whose schedules turned out to wait for their end."""
        written = self._written(Written(done.announced), running)
        if done.lost and (changed := [(attempt, one) for attempt, one in ended if _is_changed(attempt, done.lost)]):
            # Their schedules were changed while they ran, and wait for their end now.
            for attempt, _ in changed:
                attempt.is_awaited = True
            written = self.settle(changed, running=running)
            ended = [(attempt, one) for attempt, one in ended if not attempt.is_awaited]
        if done.lost or log.isEnabledFor(logging.INFO):
            for attempt, one in ended:
                self._count(attempt, one, None if attempt.claimed.id in done.lost else Status.COMPLETED)
        else:
            self._count_completed([attempt for attempt, _ in ended])
        return written

    def _settle_together(self, ended: list[tuple[Attempt, Ended]], running: list[UUID]) -> _Settled:
        outcomes = [
            self._attempts.settle_as(attempt, one) for attempt, one in ended if not (one.is_settled or one.waits)
        ]
        number = self.next_announcement()
        settled = self._line.do(
            lambda connection: self._settler.settle(
                connection, self._row, outcomes, running=running, announcement=number
            )
        )
        return _Settled(settled.statuses, ended, announced=settled.announced)

    def _written(self, written: Written, running: list[UUID]) -> Written:
        self._announced = running if written.is_announced else None
        return written

    def _settle_apart(self, ended: list[tuple[Attempt, Ended]], running: list[UUID]) -> Written:
        """Write those whose conditions do not hold yet by a statement that minds what has changed meanwhile."""
        others = [(attempt, one) for attempt, one in ended if not one.waits]
        waiting = [(attempt, one) for attempt, one in ended if one.waits]
        # Most looks are of nothing but waiting ones: then there is nothing else to be written.
        is_same = not others and running == self._announced
        written = Written(is_announced=True) if is_same else self.settle(others, running=running)
        for settled in isolate(waiting, self._settle_waiting, lambda pair, _: self._settle_alone(*pair)):
            written.kept_back += settled.kept_back
            written.may_have_freed_more |= settled.has_woken
            for attempt, one in settled.ended:
                self._count(attempt, one, settled.statuses.get(attempt.claimed.id))
                written.may_have_freed_more |= bool(attempt.claimed.lock_group)
        return written

    def _settle_waiting(self, waiting: Sequence[tuple[Attempt, Ended]]) -> _Settled:
        from scheduled_actions.actions import waits  # noqa: PLC0415 - most projects have no conditions

        unmet = [
            waits.Unmet(
                action_id=attempt.claimed.id,
                token=attempt.claimed.token,
                check_seconds=one.outcome.check_seconds,
                changes_at=one.outcome.changes_at,
                reason=settlement.clean(one.outcome.reason),
                hold="keep" if attempt.claimed.lock_group_blocks else "free",
                schedule_id=attempt.claimed.schedule_id,
            )
            for attempt, one in waiting
            if isinstance(one.outcome, settlement.Waited)
        ]
        try:
            settled = self._line.do(lambda connection: self._settler.settle_waiting(connection, self._row.id, unmet))
        except LATER:
            return _Settled(kept_back=list(waiting))
        return _Settled(settled.statuses, list(waiting), has_woken=settled.has_woken)

    def _settle_one_by_one(
        self, ended: list[tuple[Attempt, Ended]], running: list[UUID], error: BaseException
    ) -> _Settled:
        """Settle each on its own: what the database refuses of one outcome, or keeps locked, harms no other."""
        log.warning("tick.group_refused tick_id=%s error=%s", self._row.id, reason_of(error))
        settled = _Settled()
        # Of a series, its schedule may be what is locked: then the outcome is written, and the schedule's step put off.
        was_alone = len(ended) == 1 and isinstance(error, LATER) and ended[0][0].claimed.schedule_id is None
        for tried, pair in enumerate(ended):
            if was_alone or len(settled.kept_back) == _LOCKED_MOST:
                # Each lock was waited for. Those behind come first the next time.
                settled.kept_back = ended[tried:] + settled.kept_back
                break
            settled.add(self._settle_alone(*pair))
        # Of those whose handlers have started: until that is written, it is announced, so that a rescue charges it.
        unwritten = [attempt.claimed.id for attempt, one in settled.kept_back if began(attempt, one) is not None]
        settled.announced = contain(lambda: self._announce([*running, *unwritten]), self._unannounced)
        return settled

    def _announce(self, running: list[UUID]) -> bool:
        number = self.next_announcement()
        return self._line.do(
            lambda connection: self._settler.settle(connection, self._row, [], running=running, announcement=number)
        ).announced

    def _unannounced(self, error: BaseException) -> bool:
        """Start nothing more: a crash would not be charged to what was not announced."""
        log.warning("tick.unannounced tick_id=%s error=%s", self._row.id, reason_of(error))
        return False

    def _settle_alone(self, attempt: Attempt, ended: Ended) -> _Settled:
        """Settle one; where its outcome is refused, as failed with the reason."""
        if ended.is_settled:
            return _Settled(ended=[(attempt, ended)])
        try:
            return self._settle_one(attempt, ended)
        except LATER:
            return _Settled(kept_back=[(attempt, ended)])
        except CONTAINED as error:
            if concerns_all(error):
                raise
            reason = f"the outcome cannot be stored: {reason_of(error)}"
        failed = Ended(settlement.Failed(reason, is_final=True))
        return contain(lambda: self._settle_one(attempt, failed), lambda _: self._fail(attempt, failed, reason))

    def _settle_one(self, attempt: Attempt, ended: Ended) -> _Settled:
        if ended.waits:
            return self._settle_waiting([(attempt, ended)])
        outcome = self._attempts.settle_as(attempt, ended)
        settled = self._line.do(lambda connection: self._settler.settle_alone(connection, self._row, outcome))
        return _Settled(settled.statuses, [(attempt, ended)])

    def _fail(self, attempt: Attempt, ended: Ended, reason: str) -> _Settled:
        """Write no more than that it has failed; leave it to its lease where even that is refused."""
        claimed = attempt.claimed

        def unwritten(error: BaseException) -> bool:
            log.error(
                "action.unwritten id=%s action_type=%s error=%s", claimed.id, claimed.action_type, describe(error)
            )
            self._report.add_error(claimed.id, claimed.action_type, reason)
            return False

        fail = partial(settling.fail, action_id=claimed.id, token=claimed.token, reason=reason)
        if not contain(lambda: self._line.do(fail), unwritten):
            return _Settled()
        statuses = {claimed.id: Status.FAILED}
        apart = partial(
            self._settler.settled_apart,
            endings=[SettledAction(claimed.id, claimed.schedule_id)],
            statuses=statuses,
            one_by_one=True,
        )
        self._line.do(apart)
        return _Settled(statuses, [(attempt, ended)])

    def _count(self, attempt: Attempt, ended: Ended, status: Status | None) -> None:
        """Count and log a settlement; without a status its claim had been lost, and nothing was written."""
        claimed, outcome = attempt.claimed, ended.outcome
        self._record(attempt)
        name = type(outcome).__name__.lower()
        if status is None:
            # After a lost connection the first try may have written it: then nothing is stale.
            if not self._line.was_repeated:
                log.warning("action.stale id=%s action_type=%s outcome=%s", claimed.id, claimed.action_type, name)
            return
        if attempt.has_returned and claimed.lock_group is not None:
            # It came back before this was written: the hold that lingers for it lingers for nothing.
            self._line.do(partial(settling.end_linger, action_id=claimed.id))
        if isinstance(outcome, settlement.Unstarted):
            return
        self._report.count(claimed, outcome, status)
        is_snoozed = isinstance(outcome, settlement.Snoozed | settlement.Waited)
        self._count_settled(attempt, str(status) if status is not Status.PENDING else _AGAIN[is_snoozed])
        level = logging.WARNING if isinstance(outcome, settlement.Failed | settlement.TimedOut) else logging.INFO
        if log.isEnabledFor(level):
            took = 1000 * (attempt.took_seconds or 0.0)
            log.log(
                level, "action.settled id=%s action_type=%s attempt=%d outcome=%s status=%s duration_ms=%.1f",
                claimed.id, claimed.action_type, claimed.attempts + 1, name, status, took,
            )  # fmt: skip

    def _count_completed(self, attempts: list[Attempt]) -> None:
        """Count as `_count` would, where all have completed and nobody is told of it."""
        self._report.succeeded += len(attempts)
        for attempt in attempts:
            self._record(attempt)
        if self._tally is not None:
            self._tally.completed([attempt.claimed for attempt in attempts])

    def _count_settled(self, attempt: Attempt, outcome: str) -> None:
        if self._tally is not None:
            self._tally.settled(attempt.claimed.action_type, outcome, payload_text=attempt.claimed.payload_text)

    def _record(self, attempt: Attempt) -> None:
        seconds = attempt.took_seconds
        if seconds is not None:
            self._pace.record(attempt.claimed.action_type, seconds)
            if self._tally is not None:
                lateness = self._attempts.lateness(attempt)
                self._tally.ran(attempt.claimed.action_type, seconds=seconds, lateness_seconds=lateness)


def _is_changed(attempt: Attempt, lost: Collection[UUID]) -> bool:
    """Whether an occurrence was not completed by the statement that completes those whose end nobody waits for."""
    return attempt.claimed.schedule_id is not None and attempt.claimed.id in lost
