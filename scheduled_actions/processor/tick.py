"""One tick: claim what is due, run it, settle it, answer in time."""

from __future__ import annotations

import logging
import queue
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import psycopg

from scheduled_actions import settlement
from scheduled_actions.action import Status
from scheduled_actions.processor.attempt import Attempt, Attempts, Ended, describe
from scheduled_actions.processor.line import Line
from scheduled_actions.processor.report import Report
from scheduled_actions.processor.walk import FRESH_SECONDS, Walk
from scheduled_actions.runner import UNSTARTED
from scheduled_actions.store import actions, claims
from scheduled_actions.store.connection import cut_off
from scheduled_actions.tick_plan import Budget, Candidate, claim_size, expected_seconds, next_wave

if TYPE_CHECKING:
    from scheduled_actions.processor.process import Process
    from scheduled_actions.runner import Job
    from scheduled_actions.store.connection import Connection

log = logging.getLogger("scheduled_actions")

#: How much longer than the tick its leases live: time to settle after a slow commit.
LEASE_MARGIN_SECONDS = 15.0
#: What is kept of `max_duration_seconds` for the last settlement and the answer.
_ANSWER_MARGIN_SECONDS = 1.0
#: An outcome waits no longer than this for others to be settled with.
_GATHER_SECONDS = 0.005
#: As many outcomes are settled without waiting for more.
_GATHER_MOST = 100
#: How often a tick asks whether somebody wants a running action to stop.
_CANCEL_POLL_SECONDS = 1.0
#: Finished actions pruned by one tick: twice what a million a day asks of a tick a minute.
_PRUNE_MOST = 1500


class Tick:
    """The state of one tick; lives as long as the call."""

    def __init__(self, process: Process, started: float, *, caller: str, host_seconds: float | None) -> None:
        self._process = process
        self._settings = process.settings
        self._runner = process.runner
        self._pace = process.pace
        self._monotonic = process.monotonic
        duration = self._settings.max_duration_seconds
        if host_seconds is not None:
            duration = min(duration, host_seconds)
        self._budget = Budget(
            started=started,
            run_until=started + min(self._settings.max_run_seconds, max(0.0, duration - _ANSWER_MARGIN_SECONDS)),
            answer_by=started + max(0.0, duration - _ANSWER_MARGIN_SECONDS),
        )
        self._duration = duration
        self._caller = caller
        self._report = Report()
        self._id = uuid4()
        self._ready: list[Attempt] = []
        self._in_flight: dict[Job, Attempt] = {}
        self._results: queue.SimpleQueue[tuple[Job, Any]] = queue.SimpleQueue()
        self._ended: list[tuple[Attempt, Ended]] = []
        self._too_long: set[str] = set()
        self._may_announce = True
        self._walk = Walk()
        self._next_cancel_poll = started + _CANCEL_POLL_SECONDS

    def run(self) -> Report:
        """Go through the whole tick."""
        # The last settlement begins when the time to answer has come: the line is cut in the middle of the margin.
        cut_at = self._budget.answer_by + _ANSWER_MARGIN_SECONDS / 2
        with Line(self._process.database, self._monotonic, cut_at) as line:
            self._line = line
            self._begin()
            try:
                while self._work_once():
                    pass
            finally:
                self._give_up()
            self._finish()
        return self._report

    # -- the beginning ---------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        budget = {"max_run_seconds": self._settings.max_run_seconds, "max_duration_seconds": self._duration}
        row = self._line.do(
            lambda connection: claims.begin_tick(
                connection,
                self._id,
                lease_seconds=self._duration + LEASE_MARGIN_SECONDS,
                caller=self._caller,
                budget=budget,
            )
        )
        # Read after the answer came, so that no instant derived from it lies before the database's own.
        anchor = self._monotonic()
        self._row = row
        self._report.tick_id = str(row.id)
        self._attempts = Attempts(
            database=self._process.database,
            registry=self._process.registry,
            settings=self._settings,
            prepare=self._process.prepare,
            monotonic=self._monotonic,
            tick=row,
            at=lambda instant: row.started_at + timedelta(seconds=instant - anchor),
            answer_by=self._budget.answer_by,
        )
        self._line.do(self._tidy)

    def _tidy(self, connection: Connection) -> None:
        maintenance = self._process.maintenance
        if not self._process.had_first_tick:
            maintenance.first_tick(connection)
            self._process.had_first_tick = True
        rescued = maintenance.rescue(connection)
        self._report.rescued += rescued.count
        self._report.failed += len(rescued.failed)
        for action_id, action_type, error in rescued.failed:
            self._report.add_error(action_id, action_type, error)
        claims.free_stale_holds(connection)
        claims.release_no_action(connection, self._process.registry.types)
        if self._process.is_exhausted:
            self._report.add_error(
                None,
                None,
                f"all {self._runner.concurrency} handler threads hold handlers that never returned; "
                "this process claims nothing until it is restarted",
            )

    # -- the middle ------------------------------------------------------------------------------------------------

    def _work_once(self) -> bool:
        """Settle what has ended, start what may start, claim ahead, wait for the next end; False when all is done."""
        wave = self._next_wave()
        if self._ended or wave:
            self._settle_and_start(wave)
        if self._wants_more():
            self._claim()
        if self._in_flight:
            self._collect()
        if self._ended and not self._in_flight:
            return self._monotonic() < self._budget.answer_by
        return bool(self._in_flight or self._wants_more() or self._startable())

    def _may_start(self) -> bool:
        return (
            self._may_announce
            and not self._process.is_stopping.is_set()
            and not self._process.is_exhausted
            and self._budget.may_start(self._monotonic())
        )

    def _startable(self) -> list[int]:
        """Return the positions of those ready that may start now."""
        if not self._ready or not self._may_start():
            return []
        return next_wave(
            [self._candidate(attempt) for attempt in self._ready],
            free=self._runner.capacity - sum(1 for job in self._in_flight if job.ended is None),
            in_flight=len(self._in_flight),
            one_runs_alone=any(attempt.runs_alone for attempt in self._in_flight.values()),
            now=self._monotonic(),
            budget=self._budget,
            pace=self._pace,
        )

    def _next_wave(self) -> list[Attempt]:
        chosen = set(self._startable())
        if not chosen:
            return []
        wave = [attempt for position, attempt in enumerate(self._ready) if position in chosen]
        self._ready = [attempt for position, attempt in enumerate(self._ready) if position not in chosen]
        return wave

    @staticmethod
    def _candidate(attempt: Attempt) -> Candidate:
        return Candidate(attempt.claimed.action_type, attempt.timeout_seconds, attempt.is_last, attempt.runs_alone)

    def _settle_and_start(self, wave: list[Attempt]) -> None:
        """Write what has ended and announce what starts, in one statement; then start it."""
        for attempt in wave:
            self._in_flight[attempt.job] = attempt
        ended, self._ended = self._ended, []
        settled = self._settle(ended, running=[one.claimed.id for one in self._in_flight.values()])
        if not settled.announced:
            # The leases have ended under a process that was frozen: what is not yet started must not start.
            self._may_announce = False
            for attempt in wave:
                del self._in_flight[attempt.job]
                self._ended.append((attempt, Ended(settlement.Unstarted())))
            return
        self._runner.submit([attempt.job for attempt in wave], self._results)

    def _settle(self, ended: list[tuple[Attempt, Ended]], *, running: list[UUID]) -> claims.Settled:
        outcomes = [self._attempts.settle_as(attempt, one) for attempt, one in ended if not one.is_settled]
        try:
            settled: claims.Settled = self._line.do(
                lambda connection: claims.settle(connection, self._row, outcomes, running=running)
            )
        except psycopg.Error as error:
            if not outcomes:
                raise
            settled = self._settle_one_by_one(ended, running, error)
        for attempt, one in ended:
            decided = self._attempts.settle_as(attempt, one) if one.is_settled else None
            status = decided.settlement.status if decided else settled.statuses.get(attempt.claimed.id)
            self._count(attempt, one, status)
            is_due_again = status is Status.PENDING and not isinstance(one.outcome, settlement.Unstarted)
            if attempt.claimed.lock_group or one.follow_ups or is_due_again:
                self._walk.look_again()
        return settled

    def _settle_one_by_one(
        self, ended: list[tuple[Attempt, Ended]], running: list[UUID], error: psycopg.Error
    ) -> claims.Settled:
        """Settle each on its own: what the database refuses of one outcome, or keeps locked, harms no other."""
        log.warning("tick.group_refused tick_id=%s error=%s", self._id, describe(error))
        statuses: dict[UUID, Status] = {}
        for attempt, one in list(ended):
            if one.is_settled:
                continue
            try:
                settled = self._settle_one(attempt, one)
            except psycopg.errors.LockNotAvailable:
                # Somebody's open transaction holds the row: its outcome waits, the others do not.
                ended.remove((attempt, one))
                self._ended.append((attempt, one))
            except psycopg.Error as refusal:
                reason = f"the outcome cannot be stored: {describe(refusal)}"
                statuses.update(self._settle_one(attempt, Ended(settlement.Failed(reason, is_final=True))))
            else:
                statuses.update(settled)
        announced = self._line.do(
            lambda connection: claims.settle(connection, self._row, [], running=running)
        ).announced
        return claims.Settled(statuses, announced)

    def _settle_one(self, attempt: Attempt, ended: Ended) -> dict[UUID, Status]:
        outcome = self._attempts.settle_as(attempt, ended)
        return self._line.do(lambda connection: claims.settle(connection, self._row, [outcome], running=None)).statuses

    def _count(self, attempt: Attempt, ended: Ended, status: Status | None) -> None:
        """Count and log a settlement; without a status its claim had been lost, and nothing was written."""
        claimed, outcome, job = attempt.claimed, ended.outcome, attempt.job
        if job.started is not None and job.ended is not None:
            self._pace.record(claimed.action_type, job.ended - job.started)
        name = type(outcome).__name__.lower()
        if status is None:
            # After a lost connection the first try may have written it: then nothing is stale.
            if not self._line.was_repeated:
                log.warning("action.stale id=%s action_type=%s outcome=%s", claimed.id, claimed.action_type, name)
            return
        if isinstance(outcome, settlement.Unstarted):
            return
        self._report.count(claimed, outcome, status)
        level = logging.WARNING if isinstance(outcome, settlement.Failed | settlement.TimedOut) else logging.INFO
        if log.isEnabledFor(level):
            took = 0.0 if job.started is None or job.ended is None else (job.ended - job.started) * 1000
            log.log(
                level, "action.settled id=%s action_type=%s attempt=%d outcome=%s status=%s duration_ms=%.1f",
                claimed.id, claimed.action_type, claimed.attempts + 1, name, status, took,
            )  # fmt: skip

    # -- claiming --------------------------------------------------------------------------------------------------

    def _wants_more(self) -> bool:
        if len(self._ready) > self._claim_size() // 2 or not self._may_start():
            return False
        # Once all is claimed, new work is looked for as long as something runs; then the tick ends.
        return not self._walk.is_done or (bool(self._in_flight) and self._walk.is_stale(self._monotonic()))

    def _claim_size(self) -> int:
        return claim_size(
            batch_size=self._settings.batch_size, concurrency=max(1, self._runner.capacity), pace=self._pace
        )

    def _claim(self) -> None:
        """Claim a batch of one kind, the kinds taking turns; sort out what cannot be started at all."""
        wanted = self._claim_size()
        now = self._monotonic()
        claimed = self._line.do(
            lambda connection: self._walk.step(connection, self._row, wanted=wanted, excluded=self._too_long, now=now)
        )
        types = self._process.registry.types
        for one in claimed:
            attempt = self._attempts.make(one, start_until=self._budget.run_until)
            if one.action_type not in types:
                reason = f'no handler of "{one.action_type}" is in this build'
                self._ended.append((attempt, Ended(settlement.NoHandler(reason))))
            elif not self._budget.could_ever_fit(expected_seconds(self._candidate(attempt), self._pace)):
                self._set_aside(attempt)
            else:
                self._ready.append(attempt)

    def _set_aside(self, attempt: Attempt) -> None:
        """Report a type that could never end within a tick; it is claimed no more by this one."""
        claimed = attempt.claimed
        reason = (
            f"not started: it may take {attempt.timeout_seconds:g} s (its timeout), and a tick has "
            f"{self._duration:g} s; raise max_duration_seconds and the host's limit, or lower timeout_seconds"
        )
        self._ended.append((attempt, Ended(settlement.Unstarted(reason))))
        if claimed.action_type not in self._too_long:
            self._too_long.add(claimed.action_type)
            self._report.add_error(claimed.id, claimed.action_type, reason)
            log.warning("action.too_long id=%s action_type=%s", claimed.id, claimed.action_type)

    # -- waiting ---------------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        """Wait for the next outcome, gather its companions, give up what is over its time."""
        try:
            self._take(*self._results.get(timeout=self._patience()))
        except queue.Empty:
            pass
        else:
            gather_until = self._monotonic() + _GATHER_SECONDS
            while self._in_flight and len(self._ended) < _GATHER_MOST:
                try:
                    self._take(*self._results.get(timeout=max(0.0, gather_until - self._monotonic())))
                except queue.Empty:
                    break
        self._time_out()
        self._poll_cancel_requests()

    def _patience(self) -> float:
        """Return how long to wait for an outcome, in seconds."""
        now = self._monotonic()
        limits = [job.started + one.timeout_seconds for job, one in self._in_flight.items() if job.started is not None]
        wake = min([*limits, self._budget.answer_by, self._next_cancel_poll, now + FRESH_SECONDS])
        return max(0.001, wake - now)

    def _take(self, job: Job, outcome: Any) -> None:  # noqa: ANN401 - an Ended, or the runner's UNSTARTED
        attempt = self._in_flight.pop(job, None)
        if attempt is not None:
            self._ended.append((attempt, Ended(settlement.Unstarted()) if outcome is UNSTARTED else outcome))

    def _time_out(self) -> None:
        now = self._monotonic()
        is_over = now >= self._budget.answer_by
        for job, attempt in list(self._in_flight.items()):
            if job.started is not None and now >= job.started + attempt.timeout_seconds:
                self._abandon(job, attempt, f"timed out after {attempt.timeout_seconds:g} s")
            elif is_over:
                self._abandon(
                    job, attempt, f"given up after {now - (job.started or now):.1f} s: the tick's time was up"
                )

    def _abandon(self, job: Job, attempt: Attempt, reason: str) -> None:
        if not self._runner.abandon(job):
            if attempt.connection is not None and self._monotonic() >= self._budget.answer_by:
                cut_off(attempt.connection)
            return
        if attempt.connection is not None:
            cut_off(attempt.connection)
        del self._in_flight[job]
        job.ended = self._monotonic()
        # Asked now that it can no longer start: a moment ago it might still have been waiting.
        outcome = settlement.Unstarted() if job.started is None else settlement.TimedOut(reason)
        self._ended.append((attempt, Ended(outcome)))

    def _poll_cancel_requests(self) -> None:
        now = self._monotonic()
        if self._process.is_stopping.is_set():
            for job in self._in_flight:
                job.stop()
        if now < self._next_cancel_poll or not self._in_flight:
            return
        self._next_cancel_poll = now + _CANCEL_POLL_SECONDS
        ids = [one.claimed.id for one in self._in_flight.values()]
        wanted = self._line.do(lambda connection: claims.cancel_requests(connection, ids))
        for job, attempt in self._in_flight.items():
            if attempt.claimed.id in wanted:
                job.stop()

    # -- the end ---------------------------------------------------------------------------------------------------

    def _give_up(self) -> None:
        """Whatever happened: no handler of this tick starts any more, and none is left without somebody who knows."""
        for job, attempt in list(self._in_flight.items()):
            self._abandon(job, attempt, "given up: the tick ended early")

    def _finish(self) -> None:
        self._ended.extend((attempt, Ended(settlement.Unstarted())) for attempt in self._ready)
        self._ready.clear()
        if self._ended:
            ended, self._ended = self._ended, []
            self._settle(ended, running=[])
        report = self._report
        report.processed = report.succeeded + report.failed + report.retried + report.snoozed + report.skipped
        self._line.do(self._prune_and_count)
        report.more = report.remaining > 0

    def _prune_and_count(self, connection: Connection) -> None:
        report = self._report
        if self._budget.may_start(self._monotonic()) and not self._process.is_stopping.is_set():
            report.pruned = self._process.maintenance.prune_on(connection, limit=_PRUNE_MOST)
        report.remaining = actions.due(connection)
        counts = {name: value for name, value in report.as_json().items() if isinstance(value, int)}
        claims.finish_tick(connection, self._row, outcome="finished", counts=counts)
