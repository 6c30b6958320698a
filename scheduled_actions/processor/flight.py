"""The attempts of a tick that are at work: what comes of them, how long they may take, who wants them to stop."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

from scheduled_actions import settlement
from scheduled_actions.processor.calling import Ended
from scheduled_actions.runner import UNSTARTED
from scheduled_actions.store.connection import cut_off

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, ValuesView
    from uuid import UUID

    from scheduled_actions.processor.attempt import Attempt
    from scheduled_actions.processor.process import Process
    from scheduled_actions.runner import Job
    from scheduled_actions.tick_plan import Budget

#: An outcome waits no longer than this for others to be settled with.
_GATHER_SECONDS = 0.005
#: As many outcomes are settled without waiting for more.
_GATHER_MOST = 100


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
        self._attempts: dict[Job, Attempt] = {}
        #: What has ended; a pair of None where another ping asks to look for work.
        self._results: queue.SimpleQueue[tuple[Job | None, Any]] = queue.SimpleQueue()

    def __len__(self) -> int:
        return len(self._attempts)

    @property
    def attempts(self) -> ValuesView[Attempt]:
        """Those at work."""
        return self._attempts.values()

    @property
    def ids(self) -> list[UUID]:
        """The ids of their actions."""
        return [one.claimed.id for one in self._attempts.values()]

    @property
    def busy_threads(self) -> int:
        """How many threads they hold."""
        return sum(1 for job in self._attempts if job.ended is None)

    def announce(self, wave: Iterable[Attempt]) -> None:
        """Take in what is about to start."""
        for attempt in wave:
            self._attempts[attempt.job] = attempt

    def start(self, wave: Iterable[Attempt]) -> None:
        """Start what was announced."""
        self._process.runner.submit([attempt.job for attempt in wave], self._results)

    def put_back(self, wave: Iterable[Attempt]) -> None:
        """Let what was announced end without having started."""
        for attempt in wave:
            del self._attempts[attempt.job]
            self._ended.append((attempt, Ended(settlement.Unstarted())))

    def nudge(self) -> None:
        """End the present wait: another ping asks to look for work. May be called from any thread."""
        self._results.put((None, None))

    def wait(self, seconds: float) -> bool:
        """Wait for the next outcome, at most so long; return whether somebody nudged instead."""
        try:
            return self._take(*self._results.get(timeout=max(0.0, seconds)))
        except queue.Empty:
            return False

    def collect(self, seconds: float) -> bool:
        """Wait for the next outcome and gather its companions; return whether somebody nudged."""
        before = len(self._ended)
        is_nudged = self.wait(seconds)
        gather_until = self._monotonic() + _GATHER_SECONDS
        while before < len(self._ended) < _GATHER_MOST and self._attempts:
            count = len(self._ended)
            is_nudged |= (was_nudged := self.wait(gather_until - self._monotonic()))
            if len(self._ended) == count and not was_nudged:
                break
        self._time_out()
        return is_nudged

    def _take(self, job: Job | None, outcome: Any) -> bool:  # noqa: ANN401 - an Ended, or the runner's UNSTARTED
        if job is None:
            return True
        attempt = self._attempts.pop(job, None)
        if attempt is not None:
            self._ended.append((attempt, Ended(settlement.Unstarted()) if outcome is UNSTARTED else outcome))
        return False

    def next_timeout(self) -> float | None:
        """Return when the first of them is over its time, on the monotonic clock; None while none has begun."""
        limits = [job.started + one.timeout_seconds for job, one in self._attempts.items() if job.started is not None]
        return min(limits, default=None)

    def _time_out(self) -> None:
        """Give up what is over its time."""
        now = self._monotonic()
        is_over = now >= self._budget.answer_by
        for job, attempt in list(self._attempts.items()):
            if job.started is not None and now >= job.started + attempt.timeout_seconds:
                self._abandon(job, attempt, f"timed out after {attempt.timeout_seconds:g} s")
            elif is_over:
                self._abandon(
                    job, attempt, f"given up after {now - (job.started or now):.1f} s: the tick's time was up"
                )

    def give_up(self) -> None:
        """Whatever happened: no handler starts any more, and none is left without somebody who knows."""
        for job, attempt in list(self._attempts.items()):
            self._abandon(job, attempt, "given up: the tick ended early")

    def _abandon(self, job: Job, attempt: Attempt, reason: str) -> None:
        if not self._process.runner.abandon(job):
            if attempt.connection is not None and self._monotonic() >= self._budget.answer_by:
                cut_off(attempt.connection)
            return
        if attempt.connection is not None:
            cut_off(attempt.connection)
        del self._attempts[job]
        job.ended = self._monotonic()
        # Asked now that it can no longer start: a moment ago it might still have been waiting.
        outcome = settlement.Unstarted() if job.started is None else attempt.over_its_time(reason)
        self._process.stuck_by_team.add(attempt.claimed.team_id, int(job.started is not None))
        self._ended.append((attempt, Ended(outcome)))

    def stop(self, wanted: Collection[UUID] | None = None) -> None:
        """Ask handlers to stop: those of these actions; None: all of them."""
        for job, attempt in self._attempts.items():
            if wanted is None or attempt.claimed.id in wanted:
                job.stop()
