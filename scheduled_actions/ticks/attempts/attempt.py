"""One start of a handler: the job of the runner, its call, what comes of it; and the attempts of a tick in flight."""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduled_actions.actions.rules import settlement
from scheduled_actions.core import json_text
from scheduled_actions.core.action import RESULT_LIMIT
from scheduled_actions.database.boundary import describe, text_of
from scheduled_actions.registry import loading
from scheduled_actions.registry.handler import Cancel, Fail, RetryAfter, Skip, Snooze
from scheduled_actions.ticks.attempts.runner import UNSTARTED, Job, State, run_coroutine
from scheduled_actions.ticks.rules.plan import LARGEST

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, KeysView, Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    from scheduled_actions.actions.evaluation import Asking
    from scheduled_actions.actions.rules.settlement import Outcome
    from scheduled_actions.core.action import Claimed
    from scheduled_actions.database.connection import Loan
    from scheduled_actions.registry.handler import Context, HandlerOptions
    from scheduled_actions.registry.resolution import Handler
    from scheduled_actions.ticks.rules.plan import Budget, Candidate
    from scheduled_actions.ticks.worker_state import Process


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of an attempt."""

    outcome: Outcome
    follow_ups: tuple[Mapping[str, Any], ...] = ()
    #: The handler's transaction has committed its settlement; nothing is left to write.
    is_settled: bool = False

    @property
    def waits(self) -> bool:
        """Whether its condition does not hold yet."""
        return isinstance(self.outcome, settlement.Waited)


class Attempt(Job):
    """A claimed action on its way through a handler: the job of the runner that it is.

    One object for both, and nothing in it that leads back to it: thousands a second are left behind, and only what no
    circle keeps alive goes away by itself.

    Args:
        claimed: The action.
        work: Given the attempt, runs its handler.
        start_until: On the monotonic clock; later it is not started.
        on_late: Called with it and its outcome, where it had been given up before.
    """

    __slots__ = (
        "asking", "candidate", "claimed", "imported_by", "is_awaited", "loan", "max_attempts", "options", "own_wait",
        "timeout_seconds", "wait_problem",
    )  # fmt: skip

    options: HandlerOptions
    timeout_seconds: float
    max_attempts: int
    #: What the plan needs to know of it, as far as that was known when it was claimed.
    candidate: Candidate

    def __init__(
        self,
        claimed: Claimed,
        work: Callable[[Attempt], Ended],
        *,
        start_until: float,
        on_late: Callable[[Attempt, Ended], None],
    ) -> None:
        super().__init__(work, start_until=start_until, on_late=on_late)
        self.claimed = claimed
        #: Of the connection of a transactional handler.
        self.loan: Loan | None = None
        #: By when its module must be imported, on the monotonic clock; None while nothing is being imported for it.
        self.imported_by: float | None = None
        #: Of a series: whether its schedule, or another occurrence, waits for its end.
        self.is_awaited = False
        #: How long to wait if it fails, where its handler has a retry policy of the project's own; None: not known.
        self.own_wait: timedelta | None = None
        #: Why that policy said nothing; None where it has.
        self.wait_problem: str | None = None
        #: What its condition has to ask the world before its handler starts; None once that is done.
        self.asking: Asking | None = None

    @property
    def gives_up_at(self) -> float | None:
        """When it is given up, on the monotonic clock; None while its time has not begun."""
        if (imported_by := self.imported_by) is not None:
            return imported_by
        started = self.started
        return None if started is None else started + self.timeout_seconds

    def cut_off(self) -> None:
        """End what its transactional handler does in the database, if it does anything now."""
        loan = self.loan
        if loan is not None:
            loan.cut()

    def over_its_time(self, reason: str | None = None) -> Outcome:
        """Return what it is to be given up: an attempt, or a check of its condition that is made again.

        Args:
            reason: Why; None: its own time is over.
        """
        if reason is None:
            reason = f"timed out after {self.timeout_seconds:g} s"
            if self.imported_by is not None:
                reason = f"the import of its module timed out after {loading.IMPORT_SECONDS:g} s"
        if self.asking is None or not self.asking.plan.waits:
            return settlement.TimedOut(reason)
        return settlement.Waited(f"the check of its condition {reason}", self.asking.plan.check_seconds)


def began(attempt: Attempt, ended: Ended) -> float | None:
    """Return when its handler started, on the monotonic clock; None where it was not called, whatever else was done."""
    return None if isinstance(ended.outcome, settlement.Unstarted | settlement.Unmet) else attempt.started


def call(job: Job, handler: Handler, context: Context | None, payload: Any) -> Ended:  # noqa: ANN401 - the handler's own type
    """Call the handler and make an outcome of what it returns or raises: the one place that catches everything."""
    arguments = (payload, context) if handler.takes_context else (payload,)
    try:
        answer = handler.function(*arguments)
        if handler.is_async:
            answer = run_coroutine(job, answer)
        outcome = _outcome(answer)
    except RetryAfter as error:
        return Ended(settlement.Failed(text_of(error.reason), retry_after=error.delay))
    except Fail as error:
        return Ended(settlement.Failed(text_of(error.reason), is_final=True))
    except BaseException as error:  # noqa: BLE001 - SystemExit of a handler ends the attempt, not the process
        return Ended(settlement.Failed(describe(error)))
    if context is None:
        return _COMPLETED if answer is None else Ended(outcome)
    return Ended(outcome, tuple(context._follow_ups))  # noqa: SLF001 - the context's other half


#: What comes of most attempts.
_COMPLETED = Ended(settlement.Completed())


def _outcome(answer: object) -> Outcome:
    match answer:
        case None:
            return settlement.Completed()
        case Snooze():
            state = None if answer.state is None else json_text.encode("state", answer.state, limit=RESULT_LIMIT)
            return settlement.Snoozed(answer.delay, state)
        case Skip(reason):
            return settlement.Skipped(text_of(reason))
        case Cancel(reason):
            return settlement.Cancelled(text_of(reason))
        case _:
            return settlement.Completed(json_text.encode("result", answer, limit=RESULT_LIMIT))


#: An outcome waits no longer than this for others to be settled with, and no longer than the second for the next one:
#: its thread is idle until the outcome is written.
_GATHER_SECONDS = 0.005
_NEXT_SECONDS = 0.001


class Flight:
    """What is at work, until its outcome is known.

    Args:
        process: Its runner and its clock.
        budget: By when all of it must have ended.
        ended: What has ended is added here, to be written.
    """

    def __init__(self, process: Process, budget: Budget, ended: list[tuple[Attempt, Ended]]) -> None:
        self._process = process
        self._monotonic = process.monotonic
        self._budget = budget
        self._ended = ended
        #: In the order of their start.
        self._attempts: dict[Attempt, None] = {}
        #: What has ended; a pair of None where another ping asks to look for work.
        self._results: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()

    def __len__(self) -> int:
        return len(self._attempts)

    @property
    def attempts(self) -> KeysView[Attempt]:
        """Those at work."""
        return self._attempts.keys()

    @property
    def ids(self) -> list[UUID]:
        """The ids of their actions."""
        return [one.claimed.id for one in self._attempts]

    @property
    def busy_threads(self) -> int:
        """How many threads they hold."""
        return sum(1 for one in self._attempts if one.ended is None)

    def announce(self, wave: Iterable[Attempt]) -> None:
        """Take in what is about to start."""
        self._attempts.update(dict.fromkeys(wave))

    def start(self, wave: Sequence[Attempt]) -> None:
        """Start what was announced."""
        self._process.runner.submit(wave, self._results)

    def put_back(self, wave: Iterable[Attempt]) -> None:
        """Let what was announced end without having started."""
        for attempt in wave:
            del self._attempts[attempt]
            self._ended.append((attempt, Ended(settlement.Unstarted())))

    def nudge(self) -> None:
        """End the present wait: another ping asks to look for work. May be called from any thread."""
        self._results.put((None, None))

    def wait(self, seconds: float) -> bool:
        """Wait for the next outcome, at most so long; return whether somebody nudged instead."""
        try:
            return self._take(self._results.get(timeout=max(0.0, seconds)))
        except queue.Empty:
            return False

    def collect(self, seconds: float) -> bool:
        """Wait for the next outcome and gather its companions; return whether somebody nudged."""
        before = len(self._ended)
        is_nudged = self.wait(seconds)
        gather_until = self._monotonic() + _GATHER_SECONDS
        while before < len(self._ended) < LARGEST and self._attempts:
            count = len(self._ended)
            is_nudged |= (was_nudged := self.wait(min(_NEXT_SECONDS, gather_until - self._monotonic())))
            if len(self._ended) == count and not was_nudged:
                break
        self._time_out()
        return is_nudged

    def _take(self, result: tuple[Any, Any]) -> bool:
        """Take in an attempt with its `Ended`, or the runner's `UNSTARTED`; return whether it is a nudge instead."""
        attempt, outcome = result
        if attempt is None:
            return True
        if attempt in self._attempts:
            del self._attempts[attempt]
            self._ended.append((attempt, Ended(settlement.Unstarted())) if outcome is UNSTARTED else result)
        return False

    def next_timeout(self) -> float | None:
        """Return when the first of them is over its time, on the monotonic clock; None while none has begun."""
        return min((limit for one in self._attempts if (limit := one.gives_up_at) is not None), default=None)

    def _time_out(self) -> None:
        """Give up what is over its time."""
        now = self._monotonic()
        is_over = now >= self._budget.answer_by
        for attempt in list(self._attempts):
            limit = attempt.gives_up_at
            if limit is not None and now >= limit:
                self._abandon(attempt, None)
            elif is_over:
                took = now - (attempt.started or now)
                self._abandon(attempt, f"given up after {took:.1f} s: the tick's time was up")

    def give_up(self) -> None:
        """Whatever happened: no handler starts any more, and none is left without somebody who knows."""
        for attempt in list(self._attempts):
            self._abandon(attempt, "given up: the tick ended early")

    def _abandon(self, attempt: Attempt, reason: str | None) -> None:
        """Give an attempt up; `reason` is None where its own time is over."""
        was = self._process.runner.abandon(attempt)
        if was is None:
            if self._monotonic() >= self._budget.answer_by:
                attempt.cut_off()
            return
        attempt.cut_off()
        del self._attempts[attempt]
        attempt.ended = self._monotonic()
        # Asked now that it can no longer start: a moment ago it might still have been waiting.
        is_uncharged = attempt.started is None and reason is not None
        outcome = settlement.Unstarted() if is_uncharged else attempt.over_its_time(reason)
        self._process.stuck_by_team.add(attempt.claimed.team_id, int(was is State.RUNNING))
        self._ended.append((attempt, Ended(outcome)))

    def stop(self, wanted: Collection[UUID] | None = None) -> None:
        """Ask handlers to stop: those of these actions; None: all of them."""
        for attempt in self._attempts:
            if wanted is None or attempt.claimed.id in wanted:
                attempt.stop()
