"""The attempts of a tick that are at work: what comes of them, how long they may take, who wants them to stop."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

from scheduled_actions.actions.rules import settlement
from scheduled_actions.ticks.attempts.result import Ended
from scheduled_actions.ticks.attempts.runner import UNSTARTED, State
from scheduled_actions.ticks.rules.plan import LARGEST

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, KeysView, Sequence
    from uuid import UUID

    from scheduled_actions.ticks.attempts.attempt import Attempt
    from scheduled_actions.ticks.rules.plan import Budget
    from scheduled_actions.ticks.worker_state import Process

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
