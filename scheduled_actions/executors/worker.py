"""Run the actions of one executor in this process: claim, take over, run and settle them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Protocol
from uuid import UUID, uuid4

import psycopg

from scheduled_actions.actions.claims import ClaimResult, TickRow
from scheduled_actions.actions.rules.settlement import AttemptResult, Failed
from scheduled_actions.core.action import Claimed
from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.core.log import log
from scheduled_actions.database.boundary import TEMPORARY_ERRORS, contain, isolate, reason_of
from scheduled_actions.database.connection import Connection, RetryingConnection
from scheduled_actions.executors import takeover
from scheduled_actions.executors.model import Ticket
from scheduled_actions.executors.ready import CLAIM_SECONDS, ReadyAttempts
from scheduled_actions.executors.takeover import TakeOver, WorkerRow
from scheduled_actions.ticks import store as tick_store
from scheduled_actions.ticks.attempts.attempt import Attempt, InFlightAttempts, RunningTick
from scheduled_actions.ticks.attempts.attempt_runner import AttemptRunner
from scheduled_actions.ticks.hooks import BackgroundWork
from scheduled_actions.ticks.report import TickReport
from scheduled_actions.ticks.rules.plan import TickBudget
from scheduled_actions.ticks.settling import ResultWriter, WriteResult
from scheduled_actions.ticks.worker_state import WorkerState

#: How often a worker looks for due actions without a notification, and for requests to cancel a running action.
_LOOK_SECONDS = 1.0
#: A worker is idle after this number of claims in a row that found nothing: one claim reads a part of a long queue.
_IDLE_CLAIMS = 3
#: After the worker has released an action that must run alone, because others were still running, it claims nothing for
#: this time: every other worker looks once meanwhile, and an idle one can run it.
_OFFER_SECONDS = 2 * _LOOK_SECONDS
#: How often a worker writes its row; with results to report, it does so more often.
_ROW_SECONDS, _REPORT_SECONDS = 60.0, 10.0
#: The slots and lock groups of handlers that timed out are kept this long, unless the handlers return.
_LINGER_SECONDS = 120.0
#: How long a step waits for a lost connection before the worker attends to its handlers again.
_RECONNECT_SECONDS = 3.0
#: Pause between two tries to reach the database: initial and maximum value.
_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS = 1.0, 15.0
#: How long a worker that has ended tries to store its last results.
_LAST_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker runs."""

    #: Whether it ends when no action is due or running.
    until_idle: bool = False
    #: How long handlers may go on after the worker was stopped, in seconds.
    grace_seconds: float = 60.0
    #: Called with a line of text for each outage of the database; None: an outage raises an error.
    on_outage: Callable[[str], None] | None = None
    #: Called with the counts since the last call, if any is not zero.
    on_report: Callable[[TickReport], None] = lambda _: None
    #: Called with the number of running handlers when the worker notices that it was stopped.
    on_stop: Callable[[int], None] = lambda _: None
    #: Called with a connection before the first claim.
    prepare: Callable[[Connection], object] = lambda _: None
    #: Called when actions of other types may have become due.
    on_freed: Callable[[], None] = lambda: None


class ActionQueue(Protocol):
    """Where a worker gets its actions from: the queue of its executor in Postgres, or the tickets that have arrived."""

    #: Minimum time between two claims that found nothing.
    futile_seconds: float
    #: Whether a worker is not idle although nothing is due.
    expects_more: bool

    def claim(self, connection: Connection, *, wanted: int, lease_seconds: float) -> ClaimResult:
        """Return claimed actions in the order in which they should run, at most `wanted`."""

    def take_rest(self, connection: Connection) -> Sequence[Claimed]:
        """Return the claimed actions that the worker would get next; it is ending, and releases them."""

    def give_back_turns(self, team_ids: Iterable[str | None]) -> None:
        """Give the teams of actions that are released without a start their turns back, one for each action."""

    def ended(self, ids: Iterable[UUID]) -> None:
        """Take note that these actions were settled or released."""


class Worker:
    """Runs the actions of one executor; each run has its own instance.

    Args:
        state: The state of this process; its threads run the handlers, and its `is_stopping` ends the worker.
        queue: Returns the actions to run.
        row: The row of the worker.
        budget: The time limits; those of a process are infinite.
        options: How the worker runs.
    """

    def __init__(
        self, state: WorkerState, queue: ActionQueue, row: WorkerRow, budget: TickBudget, options: WorkerOptions
    ) -> None:
        self._state = state
        self._queue = queue
        self._row = row
        self._budget = budget
        self._options = options
        self._connection = RetryingConnection(state.database, state.monotonic, self._answer_by())
        self._in_flight = InFlightAttempts(state, budget)
        self._ready = ReadyAttempts(state, budget)
        #: Attempts with the token of a take-over of which it is unknown whether it was committed.
        self._doubtful: list[Attempt] = []
        self._background: BackgroundWork | None = None
        self._next_claim = self._next_cancel_poll = self._offers_until = float("-inf")
        #: When the last claim that found nothing was sent, and the number of such claims in a row.
        self._futile_at, self._futile_claims = float("-inf"), 0
        self._stopped_at: float | None = None
        self._is_notified = False
        self._was_exhausted = False
        self._total = TickReport()

    def run(self) -> TickReport:
        """Run due actions until the worker is stopped, is idle (`until_idle`) or reaches its time limit.

        Returns:
            The counts of the whole run.

        Raises:
            DatabaseUnavailable: The database could not be reached at the start, or later without `on_outage`.
        """
        self._state.single_flight.subscribe(self._in_flight.nudge)
        if not self._outlive(self._start):
            return self._total
        try:
            while self._outlive(self._work_once):
                pass
        except (psycopg.Error, ScheduledActionsError):
            raise
        except Exception as error:
            # Otherwise, the actions would stay claimed until their leases end, and count as crashed.
            self._in_flight.give_up(f"abandoned: the worker ended because of an error ({type(error).__name__})")
            contain(partial(self._outlive, self._finish), self._log_unfinished)
            raise
        finally:
            # Even after an error, no handler of this run may start any more.
            self._in_flight.give_up(self._reason_to_give_up())
        self._outlive(self._finish)
        return self._total

    @property
    def left(self) -> int:
        """Number of claimed actions that are left to other workers, because their timeout is too long for this run."""
        return self._ready.left

    def _log_unfinished(self, error: BaseException) -> bool:
        log.warning("worker.unfinished worker_id=%s error=%s", self._row.id, type(error).__name__)
        return False

    def abort(self) -> None:
        """Abort the current statement, from another thread."""
        self._connection.cancel()

    # -- limits and outages ----------------------------------------------------------------------------------------

    def _answer_by(self) -> float:
        """Return when the current step must have ended, on the monotonic clock."""
        return min(self._state.monotonic() + _RECONNECT_SECONDS, self._budget.answer_by + _LAST_SECONDS)

    def _grace_ends_at(self) -> float | None:
        if self._stopped_at is None and self._state.is_stopping.is_set():
            self._stopped_at = self._state.monotonic()
            self._options.on_stop(min(len(self._in_flight.attempts), self._state.threads.concurrency))
        return None if self._stopped_at is None else self._stopped_at + self._options.grace_seconds

    def _is_over(self, *, reserve: float = 0.0) -> bool:
        """Return whether the handlers' time has been up for `reserve` seconds."""
        now, grace_ends_at = self._state.monotonic(), self._grace_ends_at()
        return now >= self._budget.answer_by + reserve or (grace_ends_at is not None and now >= grace_ends_at + reserve)

    def _ends_outage(self) -> bool:
        """Return whether not to wait for the database any longer: time is up, or a stopped worker has no results."""
        has_results = self._in_flight.attempts or self._in_flight.unwritten or self._doubtful
        return self._is_over(reserve=_LAST_SECONDS) or (self._state.is_stopping.is_set() and not has_results)

    def _reason_to_give_up(self) -> str:
        if self._stopped_at is None:
            return "abandoned: the worker ended early"
        return f"abandoned: the worker was stopped, and its grace period of {self._options.grace_seconds:g} s has ended"

    def _outlive(self, step: Callable[[], bool]) -> bool:
        """Run a step; during an outage of the database, attend to the running handlers and try again."""
        pause = _FIRST_RETRY_SECONDS
        while True:
            self._connection.until = self._answer_by()
            try:
                return step()
            except (psycopg.Error, ScheduledActionsError) as error:
                if self._options.on_outage is None:
                    raise
                # The last statement may have been committed: a settlement that changes nothing is not stale then.
                self._connection.was_repeated = True
                if self._ends_outage():
                    if unwritten := self._in_flight.unwritten:
                        log.warning("worker.unwritten worker_id=%s outcomes=%d", self._row.id, len(unwritten))
                    return False
                self._options.on_outage(f"{error}; trying again in {pause:g} s")
                self._next_claim = until = self._state.monotonic() + pause
                while self._state.monotonic() < until and not self._ends_outage():
                    self._collect(until)
                pause = min(2 * pause, _MAX_RETRY_SECONDS)

    # -- the beginning and the end ---------------------------------------------------------------------------------

    def _start(self) -> bool:
        self._connection.do(self._options.prepare)
        self._begin(has_finished=False)
        return True

    def _begin(self, *, has_finished: bool) -> None:
        """Write the worker's row, and count from here on; the clock of the database is read again, too."""
        begun = self._state.monotonic()
        seen_at = self._connection.do(partial(takeover.write_worker, worker=self._row, has_finished=has_finished))
        self._tick = RunningTick(
            state=self._state,
            budget=self._budget,
            connection=self._connection,
            in_flight=self._in_flight,
            report=TickReport(),
            row=TickRow(self._row.id, seen_at, seen_at + timedelta(seconds=_LINGER_SECONDS)),
            begun=begun,
            worker_id=self._row.id,
        )
        self._runner = AttemptRunner(self._tick)
        self._writer = ResultWriter(self._tick)

    def _turn_over(self, *, has_finished: bool = False) -> None:
        """Write the worker's row, and report the counts since the last call."""
        report, metrics = self._tick.report, self._state.metrics
        self._begin(has_finished=has_finished)
        if metrics is not None:
            self._connection.do(partial(takeover.count_metrics, metrics=metrics))
            metrics.clear()
        report.count_processed()
        self._total.add(report)
        if report.processed or report.errors:
            self._options.on_report(report)

    def _is_turn_due(self, now: float) -> bool:
        report = self._tick.report
        report.count_processed()
        return now - self._tick.begun >= (_REPORT_SECONDS if report.processed or report.errors else _ROW_SECONDS)

    def _finish(self) -> bool:
        self._in_flight.unwritten += self._ready.take_all()
        self._in_flight.unwritten += map(self._runner.make, self._connection.do(self._queue.take_rest))
        self._settle()
        self._state.settler.release_deferred()
        self._turn_over(has_finished=not self._in_flight.unwritten)
        return True

    # -- the middle ------------------------------------------------------------------------------------------------

    def _work_once(self) -> bool:
        """Settle, claim, take over and start attempts, and wait for the next result; return False at the end."""
        now = self._state.monotonic()
        if self._is_turn_due(now):
            self._turn_over()
        if self._state.is_stopping.is_set():
            self._in_flight.unwritten += self._ready.take_all()
        self._release_old(now)
        self._settle()
        self._start_ready()
        if self._may_claim(self._state.monotonic()):
            self._claim()
            self._start_ready()
        self._start_background()
        if self._may_end():
            return False
        self._report_exhaustion()
        if not self._in_flight.unwritten or self._in_flight.attempts:
            self._collect(self._looks_again_at())
        self._poll_cancel_requests()
        return not self._is_over()

    def _release_old(self, now: float) -> None:
        old = self._ready.take_old(now)
        self._in_flight.unwritten += old
        # They keep their places, so that the next claim returns them again unless other workers have claimed them.
        self._queue.give_back_turns(one.claimed.team_id for one in old)
        if any(one.candidate.runs_alone for one in old):
            self._offers_until = now + _OFFER_SECONDS

    def _may_start(self) -> bool:
        return not self._state.is_stopping.is_set() and self._budget.may_start(self._state.monotonic())

    def _may_end(self) -> bool:
        """Return whether nothing is left to run, and nothing else may start or is waited for."""
        if self._in_flight.attempts or self._in_flight.unwritten or self._ready.attempts:
            return False
        if not self._may_start():
            return True
        if not self._options.until_idle or (self._background is not None and self._background.is_busy):
            return False
        if self._state.is_exhausted:
            return True
        return self._futile_claims >= _IDLE_CLAIMS and not self._is_notified and not self._queue.expects_more

    def _may_claim(self, now: float) -> bool:
        if self._is_notified:
            self._is_notified = False
            self._next_claim = min(self._next_claim, max(now, self._futile_at + self._queue.futile_seconds))
        is_due = now >= max(self._next_claim, self._offers_until)
        return is_due and self._may_start() and self._ready.wanted(self._tick) > 0

    def _claim(self) -> None:
        wanted, sent = self._ready.wanted(self._tick), self._state.monotonic()
        claim = partial(self._queue.claim, wanted=wanted, lease_seconds=CLAIM_SECONDS)
        found = contain(partial(self._connection.do, claim), self._refuse_claim)
        before = len(self._ready.attempts) + self._ready.left
        self._ready.add(found, self._tick, self._runner, self._writer, sent=sent)
        is_useful = len(self._ready.attempts) + self._ready.left > before or found.skipped
        if found.has_found_work:
            self._futile_claims = 0
            # Without a useful action, the next claim would find the same ones again.
            claims_again = is_useful and (len(found.kept) >= wanted or self._options.until_idle)
        else:
            self._futile_at, self._futile_claims = sent, self._futile_claims + 1
            claims_again = self._options.until_idle and self._futile_claims < _IDLE_CLAIMS
        self._next_claim = sent if claims_again else sent + _LOOK_SECONDS

    def _looks_again_at(self) -> float:
        """Return when to claim again, at most a second from now, on the monotonic clock."""
        until = self._state.monotonic() + _LOOK_SECONDS
        return min(until, self._next_claim) if self._may_start() and self._ready.wanted(self._tick) > 0 else until

    def _refuse_claim(self, error: BaseException) -> ClaimResult:
        self._tick.report.add_refusal("claim", error)
        return ClaimResult([])

    def _start_background(self) -> None:
        """Start the planning of schedules that transactions of this worker have deferred."""
        if self._state.settler.has_deferred:
            self._background = self._background or self._state.hooks.background(self._in_flight.nudge)
            self._tick.report.run_step("background", self._background.start)

    def _report_exhaustion(self) -> None:
        is_exhausted = self._state.is_exhausted
        if is_exhausted and not self._was_exhausted:
            log.error("worker.exhausted worker_id=%s threads=%d", self._row.id, self._state.threads.concurrency)
            reason = "all threads are occupied by handlers that timed out; no action starts until one of them returns"
            self._tick.report.add_error(None, None, reason)
        self._was_exhausted = is_exhausted

    def _collect(self, until: float) -> None:
        """Wait for results until an instant on the monotonic clock; abandon attempts whose time or lease is up."""
        now = self._state.monotonic()
        instants = (until, self._budget.answer_by, self._in_flight.times_out_at(), self._grace_ends_at())
        seconds = min(one for one in instants if one is not None) - now
        self._is_notified |= self._in_flight.collect(max(0.001, seconds))
        now = self._state.monotonic()
        for attempt in list(self._in_flight.attempts):
            if attempt.lease_until is not None and now >= attempt.lease_until:
                self._in_flight.abandon(attempt, "abandoned: its lease was about to end")
        if self._state.is_stopping.is_set():
            self._in_flight.stop()

    def _poll_cancel_requests(self) -> None:
        now = self._state.monotonic()
        if self._in_flight.attempts and now >= self._next_cancel_poll:
            self._next_cancel_poll = now + _LOOK_SECONDS
            self._in_flight.stop(self._connection.do(partial(tick_store.cancel_requests, ids=self._in_flight.ids)))

    # -- taking over -----------------------------------------------------------------------------------------------

    def _start_ready(self) -> None:
        """Take over the actions for which threads are free, and start their handlers."""
        wave = self._ready.next_wave(self._tick) if self._may_start() else []
        if not wave:
            return
        token, sent = uuid4(), self._state.monotonic()
        lasts = {one: self._ready.lease_seconds(one, sent) for one in wave}
        try:
            found = isolate(wave, partial(self._take_over, token=token, lasts=lasts), self._refuse_take_over)
        except BaseException:
            # Whether these actions were taken over is unknown: they are released with either token.
            self._in_flight.unwritten += [one for one in wave if one not in self._in_flight.unwritten]
            self._doubtful += [self._runner.make(one.claimed._replace(token=token)) for one in wave]
            raise
        taken = {key: one for part in found for key, one in part.taken.items()}
        waiting = {key for part in found for key in part.waiting}
        starting = []
        for attempt in wave:
            action_id = attempt.claimed.id
            if action_id in taken:
                attempt.claimed = taken[action_id].claimed
                self._ready.lease(attempt, sent=sent, seconds=lasts[attempt])
                starting.append(attempt)
            elif action_id in waiting:
                self._ready.attempts.append(attempt)
            elif attempt not in self._in_flight.unwritten:
                # Its cancellation was requested, its lease has ended, or another session has locked it.
                self._in_flight.unwritten.append(attempt)
        self._in_flight.announce(starting)
        self._in_flight.start(starting)

    def _take_over(self, wave: Sequence[Attempt], *, token: UUID, lasts: dict[Attempt, float]) -> TakeOver:
        unsettled = [one.claimed.id for one in self._in_flight.unwritten if one.handler_started is not None]
        return self._connection.do(
            partial(
                takeover.take_over,
                worker=self._row,
                tickets=[_ticket(one) for one in wave],
                seconds=[lasts[one] for one in wave],
                running=[*self._in_flight.ids, *unsettled],
                token=token,
            )
        )

    def _refuse_take_over(self, attempt: Attempt, error: BaseException) -> TakeOver:
        if not isinstance(error, TEMPORARY_ERRORS):
            attempt.result = AttemptResult(Failed(f"the action could not be taken over: {reason_of(error)}"))
        self._in_flight.unwritten.append(attempt)
        return TakeOver({}, frozenset())

    # -- settling --------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Write the results; those that could not be written stay for the next settlement."""
        attempts = self._in_flight.unwritten
        if not attempts and not self._doubtful:
            return
        written = WriteResult()
        if attempts:
            written = self._writer.settle(attempts, running=[])
            self._in_flight.unwritten = written.kept_back
            self._queue.ended({one.claimed.id for one in attempts} - {one.claimed.id for one in written.kept_back})
            self._writer.give_back_rates()
        if self._doubtful:
            self._doubtful = self._writer.settle(self._doubtful, running=[]).kept_back
        self._connection.was_repeated = False
        if written.may_have_freed_more:
            self._next_claim = self._state.monotonic()
            self._options.on_freed()


def _ticket(attempt: Attempt) -> Ticket:
    claimed = attempt.claimed
    return Ticket(claimed.id, claimed.token, claimed.action_type, claimed.team_id)
