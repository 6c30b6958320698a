"""Attempts: the job, call and result of each start of a handler; the attempts in flight; the tick that runs them."""

from __future__ import annotations

import queue
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from scheduled_actions.actions.claims import TickRow
from scheduled_actions.actions.rules.settlement import (
    AttemptResult,
    Cancelled,
    Completed,
    ConditionFailed,
    ConditionPending,
    Expired,
    Failed,
    Outcome,
    Released,
    Settlement,
    Skipped,
    Snoozed,
    TimedOut,
    decide,
    history_entry,
    is_plain_completion,
    reports_failure,
)
from scheduled_actions.actions.settling import Completion, SettlementRow
from scheduled_actions.core import json_text, retry
from scheduled_actions.core.action import RESULT_LIMIT, Claimed
from scheduled_actions.core.log import log
from scheduled_actions.database.boundary import describe, text_of
from scheduled_actions.database.connection import CancellableConnection, RetryingConnection
from scheduled_actions.limits.rules.expiry import expiry
from scheduled_actions.registry import loading
from scheduled_actions.registry.handler import Cancel, Context, Fail, HandlerOptions, RetryAfter, Skip, Snooze
from scheduled_actions.ticks.attempts.handler_threads import Job, JobState, run_coroutine
from scheduled_actions.ticks.report import TickReport
from scheduled_actions.ticks.rules.plan import MAX_BATCH, Candidate, TickBudget
from scheduled_actions.ticks.worker_state import WorkerState

if TYPE_CHECKING:
    from scheduled_actions.actions.evaluation import PendingCheck
    from scheduled_actions.registry.resolution import Handler

#: How long an outcome waits for others to be settled with it: in total, and for the next one. The waits are short,
#: because the handler's thread is idle until the outcome is written.
_COLLECT_SECONDS = 0.005
_NEXT_SECONDS = 0.001


#: The result of an attempt whose handler was not called; the action becomes pending again without using an attempt.
RELEASED = AttemptResult(Released())
_COMPLETED = Completed()
#: Outcomes of attempts whose handler was not called although a thread had begun the attempt.
_NEVER_STARTED = (Released, ConditionFailed, Expired)
#: The result of most attempts: a handler that returned None and scheduled nothing.
_PLAINLY_COMPLETED = AttemptResult(_COMPLETED)
#: The types of handlers that returned a failure; a process warns once per type.
_types_with_failures: set[str] = set()


def outcome_name(outcome: Outcome) -> str:
    """Return the name of an outcome for logs and traces."""
    return type(outcome).__name__.lower()


class EndedEarly(Exception):
    """Ends an attempt with a result because its handler cannot be called, or its writes have to be rolled back."""

    def __init__(self, result: AttemptResult) -> None:
        self.result = result


class Attempt(Job):
    """A claimed action and its job in one object.

    An attempt must not be part of a reference cycle: thousands are dropped per second, and each has to be freed
    immediately.

    Args:
        claimed: The claimed action.
        work: Runs the handler; called with the attempt.
        start_until: The latest time to start the attempt, on the monotonic clock.
        on_late: Called with the attempt and its late result if the attempt had been abandoned.
    """

    __slots__ = (
        "candidate",
        "chosen_delay",
        "claimed",
        "connection",
        "import_deadline",
        "is_awaited",
        "is_settled",
        "lease_until",
        "max_attempts",
        "options",
        "pending_check",
        "timeout_seconds",
    )  # fmt: skip

    #: `RELEASED` until the handler has returned, or the tick has decided the result.
    result: AttemptResult
    options: HandlerOptions
    timeout_seconds: float
    max_attempts: int
    #: The properties that decide when the attempt may start; one object for all attempts with the same properties.
    candidate: Candidate

    def __init__(
        self,
        claimed: Claimed,
        work: Callable[[Attempt], AttemptResult],
        *,
        start_until: float,
        on_late: Callable[[Attempt, AttemptResult], None],
    ) -> None:
        super().__init__(work, start_until=start_until, on_late=on_late)
        self.result = RELEASED
        self.claimed = claimed
        #: The connection of a transactional handler; None for other handlers.
        self.connection: CancellableConnection | None = None
        #: When the import of the handler's module times out, on the monotonic clock; None if no import is in progress.
        self.import_deadline: float | None = None
        #: Whether the action's schedule, or another occurrence of its series, waits for its end.
        self.is_awaited = False
        #: When the attempt is abandoned because its lease is about to end, on the monotonic clock; None: with its tick.
        self.lease_until: float | None = None
        #: Whether the handler's transaction has already committed the settlement.
        self.is_settled = False
        #: The delay before a retry that the handler's own retry policy returned, or the reason why it returned none;
        #: None without such a policy.
        self.chosen_delay: timedelta | str | None = None
        #: The external checks that the action's condition needs before the handler starts; None if none are left.
        self.pending_check: PendingCheck | None = None

    @property
    def times_out_at(self) -> float | None:
        """When the attempt times out, on the monotonic clock; None before its time has begun."""
        if self.import_deadline is not None or (started := self.started) is None:
            return self.import_deadline
        return started + self.timeout_seconds

    def abort(self) -> None:
        """Abort the connection of a transactional handler; do nothing for other handlers."""
        if (connection := self.connection) is not None:
            connection.cancel()

    @property
    def is_waiting(self) -> bool:
        """Whether the action's condition does not hold yet."""
        return isinstance(self.result.outcome, ConditionPending)

    @property
    def handler_started(self) -> float | None:
        """When an ended attempt started, on the monotonic clock.

        None if the attempt did not start, or if its result is `Released`, `ConditionFailed` or `Expired`.
        """
        return None if isinstance(self.result.outcome, _NEVER_STARTED) else self.started

    def timeout_outcome(self, reason: str | None = None) -> Outcome:
        """Return the outcome of an abandoned attempt: a timeout, or another check if it was waiting for its condition.

        Args:
            reason: Why the attempt is abandoned; None if it has timed out.
        """
        if reason is None and self.import_deadline is not None:
            reason = f"the import of its module timed out after {loading.IMPORT_SECONDS:g} s"
        reason = reason or f"timed out after {self.timeout_seconds:g} s"
        if self.pending_check is None or not self.pending_check.plan.waits:
            return TimedOut(reason)
        return ConditionPending(
            f"the check of its condition was not completed: {reason}", self.pending_check.plan.check_seconds
        )


def call(job: Job, handler: Handler, context: Context | None, payload: Any) -> AttemptResult:  # noqa: ANN401 - the handler's own type
    """Call the handler, and convert its return value or exception to a result; no exception is raised."""
    try:
        answer = handler.function(payload, context) if handler.takes_context else handler.function(payload)
        if handler.is_async:
            answer = run_coroutine(job, answer)
        outcome = _outcome(answer)
    except RetryAfter as error:
        return AttemptResult(Failed(text_of(error.reason), retry_after=error.delay))
    except Fail as error:
        return AttemptResult(Failed(text_of(error.reason), is_final=True))
    except BaseException as error:  # noqa: BLE001 - SystemExit of a handler ends the attempt, not the process
        return AttemptResult(Failed(describe(error)))
    follow_ups = () if context is None else tuple(context._follow_ups)  # noqa: SLF001 - internal to handlers' contexts
    if outcome is _COMPLETED and not follow_ups:
        return _PLAINLY_COMPLETED
    if type(outcome) is Completed and outcome.result is not None and reports_failure(outcome.result):
        _warn_of_returned_failure(handler)
    return AttemptResult(outcome, follow_ups)


def _warn_of_returned_failure(handler: Handler) -> None:
    if handler.action_type in _types_with_failures:
        return
    _types_with_failures.add(handler.action_type)
    log.warning(
        'action.failure_returned action_type=%s handler=%s problem=it returned {"success": false}, and its action '
        "completes all the same: a handler fails by raising Fail or any other exception",
        handler.action_type, handler.reference,
    )  # fmt: skip


def _outcome(answer: object) -> Outcome:
    match answer:
        case None:
            return _COMPLETED
        case Snooze():
            return Snoozed(
                answer.delay,
                None if answer.state is None else json_text.encode("state", answer.state, limit=RESULT_LIMIT),
            )
        case Skip(reason):
            return Skipped(text_of(reason))
        case Cancel(reason):
            return Cancelled(text_of(reason))
        case _:
            return Completed(json_text.encode("result", answer, limit=RESULT_LIMIT))


class InFlightAttempts:
    """The announced attempts of one tick that have no result yet, and the results that are not written yet.

    Args:
        state: The shared state, with the handler threads and the clock.
        budget: The time limits of the tick.
    """

    def __init__(self, state: WorkerState, budget: TickBudget) -> None:
        self._state = state
        self._budget = budget
        #: The attempts whose result is not written yet, including claimed ones that end without being started.
        self.unwritten: list[Attempt] = []
        #: The attempts in the order of their announcement; the values are not used.
        self.attempts: dict[Attempt, None] = {}
        #: Attempts that have ended, and None for each nudge.
        self._queue: queue.SimpleQueue[Attempt | None] = queue.SimpleQueue()

    @property
    def ids(self) -> list[UUID]:
        """The ids of the actions in flight."""
        return [one.claimed.id for one in self.attempts]

    def announce(self, wave: Iterable[Attempt]) -> None:
        """Add attempts that are about to start."""
        self.attempts.update(dict.fromkeys(wave))

    def start(self, wave: Sequence[Attempt]) -> None:
        """Start announced attempts."""
        self._state.threads.submit(wave, self._queue)

    def release(self, wave: Iterable[Attempt]) -> None:
        """End announced attempts without starting them."""
        for attempt in wave:
            self._end(attempt)

    def nudge(self) -> None:
        """End the current wait, because actions may have become due; may be called from any thread."""
        self._queue.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for results, then take those that are there; return whether there was a nudge."""
        try:
            ended = [self._queue.get(timeout=max(0.0, seconds))]
        except queue.Empty:
            return False
        # Only this thread takes from the queue, so none of these calls waits.
        ended += [self._queue.get() for _ in range(self._queue.qsize())]
        in_flight = self.attempts
        self.unwritten += [one for one in ended if one is not None and in_flight.pop(one, 0) is None]
        return None in ended

    def collect(self, seconds: float, *, is_urgent: Callable[[], bool] = lambda: False) -> bool:
        """Wait at most `seconds` for the next result, and briefly for more; then abandon attempts whose time is up.

        Once the answer of the tick is due, all attempts are abandoned.

        Args:
            seconds: Maximum wait for the first result.
            is_urgent: Called after the first result; returns whether to wait for no more.

        Returns:
            Whether there was a nudge.
        """
        before = len(self.unwritten)
        is_nudged = self.wait(seconds)
        collect_until = self._state.monotonic() + _COLLECT_SECONDS
        takes_more = len(self.unwritten) > before and not is_urgent()
        while takes_more and len(self.unwritten) < MAX_BATCH and self.attempts:
            count = len(self.unwritten)
            is_nudged |= (was_nudged := self.wait(min(_NEXT_SECONDS, collect_until - self._state.monotonic())))
            if len(self.unwritten) == count and not was_nudged:
                break
        now = self._state.monotonic()
        for attempt in list(self.attempts) if now >= self._budget.answer_by else self._running():
            if (limit := attempt.times_out_at) is not None and now >= limit:
                self.abandon(attempt, None)
            elif now >= self._budget.answer_by:
                self.abandon(attempt, f"abandoned after {now - (attempt.started or now):.1f} s: the tick's time was up")
        return is_nudged

    def times_out_at(self) -> float | None:
        """Return when the next attempt times out, on the monotonic clock; None if no attempt is running."""
        return min([limit for one in self._running() if (limit := one.times_out_at) is not None], default=None)

    def _running(self) -> list[Attempt]:
        """Return the attempts that a thread has begun; of a wave of fast actions, most wait for a thread."""
        running = JobState.RUNNING
        return [attempt for attempt in self.attempts if attempt.state is running]

    def give_up(self, reason: str = "abandoned: the tick ended early") -> None:
        """Abandon all attempts, so that no handler starts any more and each action has a result."""
        for attempt in list(self.attempts):
            self.abandon(attempt, reason)

    def abandon(self, attempt: Attempt, reason: str | None) -> None:
        """Abandon an attempt, unless the attempt has just ended; `reason` is None for a timeout."""
        if self._state.threads.abandon(attempt) is None:
            if self._state.monotonic() >= self._budget.answer_by:
                attempt.abort()
            return
        attempt.abort()
        attempt.ended = self._state.monotonic()
        # Read only after `abandon`: before that, a thread could still start the attempt.
        if attempt.started is not None or reason is None:
            attempt.result = AttemptResult(attempt.timeout_outcome(reason))
        self._end(attempt)

    def _end(self, attempt: Attempt) -> None:
        del self.attempts[attempt]
        self.unwritten.append(attempt)

    def stop(self, wanted: Collection[UUID] | None = None) -> None:
        """Ask the handlers of these actions to stop; None: all handlers."""
        for attempt in self.attempts:
            if wanted is None or attempt.claimed.id in wanted:
                attempt.is_stopped = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTick:
    """The state that claiming, running and settling share within one tick, whose row has been inserted."""

    state: WorkerState
    budget: TickBudget
    connection: RetryingConnection
    in_flight: InFlightAttempts
    report: TickReport
    row: TickRow
    #: When the statement that inserted the row was sent, on the monotonic clock.
    begun: float
    #: The worker of an executor that runs the actions, with the id of `row`; None: a tick.
    worker_id: UUID | None = None

    def settlement_of(self, attempt: Attempt) -> SettlementRow:
        """Convert the result of an attempt to the row that settles it."""
        claimed = attempt.claimed
        started_at = ended_at = None
        decided = self._decide(attempt, attempt.result.outcome)
        if (started := attempt.handler_started) is not None:
            started_at = self._database_time(started)
            ended_at = self._database_time(self.state.monotonic() if attempt.ended is None else attempt.ended)
        return SettlementRow(
            action_id=claimed.id,
            token=claimed.token,
            settlement=decided,
            started_at=started_at,
            ended_at=ended_at,
            entry=history_entry(
                claimed,
                decided,
                started_at=started_at,
                ended_at=ended_at,
                tick_id=self.tick_id,
                worker_id=self.worker_id,
            ),
            max_attempts=attempt.max_attempts,
            schedule_id=claimed.schedule_id,
            follow_ups=attempt.result.follow_ups,
        )

    def expired(self, claimed: Claimed) -> AttemptResult | None:
        """Return the result of an action that has expired by the database's time; None if it may start."""
        if claimed.expires_epoch is None:
            return None
        found = expiry(claimed, now=self._database_time(self.state.monotonic()).timestamp())
        return None if found is None else AttemptResult(found)

    @property
    def tick_id(self) -> UUID | None:
        """The id of the tick; None for a worker."""
        return self.row.id if self.worker_id is None else None

    def lease_ends(self, attempt: Attempt) -> datetime:
        """Return when the lease of an attempt expires."""
        return self.row.lease_expires_at if attempt.lease_until is None else self._database_time(attempt.lease_until)

    def _database_time(self, instant: float) -> datetime:
        """Convert an instant of the monotonic clock to the database's time."""
        return self.row.started_at + timedelta(seconds=instant - self.begun)

    def _decide(self, attempt: Attempt, outcome: Outcome) -> Settlement:
        policy = self.state.default_policy
        if isinstance(outcome, Failed | TimedOut):
            declared = attempt.options.retry
            if not retry.is_builtin(declared):
                # A project's policy is called only in the thread of the attempt, by `AttemptRunner`.
                chosen = attempt.chosen_delay
                declared = retry.Delays((chosen.total_seconds(),)) if isinstance(chosen, timedelta) else None
                if isinstance(chosen, str):
                    outcome = replace(outcome, reason=f"{outcome.reason}; the retry policy failed: {chosen}")
            policy = retry.effective_policy(attempt.claimed.retry_text, declared, policy)
        return decide(
            attempt.claimed,
            outcome,
            max_attempts=attempt.max_attempts,
            policy=policy,
            draw=random.random(),  # noqa: S311 - jitter, not a secret
        )

    def completions(self, attempts: Iterable[Attempt]) -> list[Completion] | None:
        """Convert results to plain completions; return None if any has more to write than its times and result."""
        begun = self.begun
        completions = []
        for attempt in attempts:
            claimed, result, outcome = attempt.claimed, attempt.result, attempt.result.outcome
            has_more = result.follow_ups or attempt.is_settled or attempt.is_awaited
            if has_more or not is_plain_completion(outcome, claimed):
                return None
            started, ended = attempt.started, attempt.ended
            assert started is not None and ended is not None  # noqa: S101, PT018 - its handler has returned
            completions.append(
                Completion(
                    claimed.id,
                    claimed.token,
                    int((started - begun) * 1e6),
                    int((ended - begun) * 1e6),
                    attempt.max_attempts,
                    claimed.limit_keys is not None,
                    outcome.result,
                )
            )
        return completions
