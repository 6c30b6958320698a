"""Writing what came of a tick's attempts, each outcome counted and told once."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg

from scheduled_actions import settlement
from scheduled_actions.action import Status
from scheduled_actions.processor.attempt import began
from scheduled_actions.processor.calling import Ended, describe
from scheduled_actions.store import claims
from scheduled_actions.store.connection import PASSING

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from scheduled_actions.action import Claimed
    from scheduled_actions.processor.attempt import Attempt, Attempts
    from scheduled_actions.processor.line import Line
    from scheduled_actions.processor.process import Process
    from scheduled_actions.processor.report import Report
    from scheduled_actions.store import waits
    from scheduled_actions.store.connection import Connection

log = logging.getLogger("scheduled_actions")

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


class Settling:
    """Writes the outcomes of one tick."""

    def __init__(self, process: Process, line: Line, row: claims.TickRow, attempts: Attempts, report: Report) -> None:
        self._occurrences = process.occurrences
        self._pace = process.pace
        self._line = line
        self._row = row
        self._attempts = attempts
        self._report = report
        self._tally = process.tally
        self._is_tick_tallied = False
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

    def tally_is_written(self) -> None:
        """Begin a new tally."""
        if self._tally is not None:
            self._tally.clear()

    def settle(self, ended: list[tuple[Attempt, Ended]], *, running: list[UUID]) -> Written:
        """Write what has ended and announce what is in flight from now on, in one statement where that is possible."""
        completions = self._attempts.completions(ended)
        if completions is None and any(one.waits for _, one in ended):
            return self._settle_apart(ended, running)
        kept_back: list[tuple[Attempt, Ended]] = []
        try:
            if completions:
                return self._complete(ended, completions, running)
            settled = self._settle_together(ended, running)
        except psycopg.Error as error:
            if all(one.is_settled for _, one in ended):
                raise
            settled, kept_back = self._settle_one_by_one(ended, running, error)
        written = self._written(Written(settled.announced, kept_back), running)
        for attempt, one in ended:
            if (attempt, one) in kept_back:
                continue
            decided = self._attempts.settle_as(attempt, one) if one.is_settled else None
            status = decided.settlement.status if decided else settled.statuses.get(attempt.claimed.id)
            self._count(attempt, one, status)
            is_due_again = status is Status.PENDING and not isinstance(one.outcome, settlement.Unstarted)
            may_free_another = bool(attempt.claimed.lock_group) or attempt.is_awaited
            written.may_have_freed_more |= may_free_another or bool(one.follow_ups) or is_due_again
        return written

    def _complete(
        self, ended: list[tuple[Attempt, Ended]], completions: list[claims.Completion], running: list[UUID]
    ) -> Written:
        """Write what is nothing but completed by the statement that can do no more, and takes less."""
        done: claims.Completed = self._line.do(
            lambda connection: claims.complete(connection, self._row, completions, running=running)
        )
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

    def _settle_together(self, ended: list[tuple[Attempt, Ended]], running: list[UUID]) -> claims.Settled:
        outcomes = [
            self._attempts.settle_as(attempt, one) for attempt, one in ended if not (one.is_settled or one.waits)
        ]
        return self._line.do(
            lambda connection: self._occurrences.settle(connection, self._row, outcomes, running=running)
        )

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
        try:
            settled = self._settle_waiting(waiting)
        except PASSING:
            written.kept_back += waiting
            return written
        for attempt, one in waiting:
            self._count(attempt, one, settled.statuses.get(attempt.claimed.id))
        written.may_have_freed_more |= settled.has_woken or any(one.claimed.lock_group for one, _ in waiting)
        return written

    def _settle_waiting(self, waiting: list[tuple[Attempt, Ended]]) -> waits.Settled:
        from scheduled_actions.store import waits  # noqa: PLC0415 - most projects have no conditions

        unmet = [
            waits.Unmet(
                action_id=attempt.claimed.id,
                token=attempt.claimed.token,
                check_seconds=one.outcome.check_seconds,
                changes_at=one.outcome.changes_at,
                reason=settlement.clean(one.outcome.reason),
                hold="keep" if attempt.claimed.lock_group_blocks else "free",
            )
            for attempt, one in waiting
            if isinstance(one.outcome, settlement.Waited)
        ]
        recurring = {one.claimed.id: one.claimed.schedule_id for one, _ in waiting if one.claimed.schedule_id}
        return self._line.do(lambda connection: self._settle_unmet(connection, unmet, recurring))

    def _settle_unmet(
        self, connection: Connection, unmet: list[waits.Unmet], recurring: dict[UUID, UUID]
    ) -> waits.Settled:
        from scheduled_actions.store import schedules, waits  # noqa: PLC0415 - most projects have no conditions

        if not recurring:
            return waits.settle(connection, self._row.id, unmet)
        with connection.transaction():
            # Schedules are locked before actions wherever both are: nobody waits in a circle.
            schedules.lock_those_that_watch(connection, set(recurring.values()), recurring)
            settled = waits.settle(connection, self._row.id, unmet)
            # Cancelled while it was looked at: of a rolling schedule, the next is planned with its end.
            ended = {one: recurring[one] for one in recurring if settled.statuses.get(one) is Status.CANCELLED}
            if ended:
                self._occurrences.conclude(connection, ended, settled.statuses)
        return settled

    def _settle_one_by_one(
        self, ended: list[tuple[Attempt, Ended]], running: list[UUID], error: psycopg.Error
    ) -> tuple[claims.Settled, list[tuple[Attempt, Ended]]]:
        """Settle each on its own: what the database refuses of one outcome, or keeps locked, harms no other."""
        log.warning("tick.group_refused tick_id=%s error=%s", self._row.id, describe(error))
        statuses: dict[UUID, Status] = {}
        kept_back: list[tuple[Attempt, Ended]] = []
        for attempt, one in ended:
            if one.is_settled:
                continue
            try:
                settled = self._settle_one(attempt, one)
            except PASSING:
                kept_back.append((attempt, one))
            except psycopg.Error as refusal:
                # What the database says, without the statement around it.
                said = refusal.diag.message_primary
                told = describe(refusal) if said is None else f"{type(refusal).__name__}: {said}"
                reason = f"the outcome cannot be stored: {told}"
                statuses.update(self._settle_one(attempt, Ended(settlement.Failed(reason, is_final=True))))
            else:
                statuses.update(settled)
        # Of those whose handlers have started: until that is written, it is announced, so that a rescue charges it.
        unwritten = [attempt.claimed.id for attempt, one in kept_back if began(attempt, one) is not None]
        still = [*running, *unwritten]
        announced = self._line.do(lambda connection: claims.settle(connection, self._row, [], running=still)).announced
        return claims.Settled(statuses, announced), kept_back

    def _settle_one(self, attempt: Attempt, ended: Ended) -> dict[UUID, Status]:
        outcome = self._attempts.settle_as(attempt, ended)
        return self._line.do(
            lambda connection: self._occurrences.settle(connection, self._row, [outcome], running=None)
        ).statuses

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
