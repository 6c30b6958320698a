"""One start of a handler, as a job of the runner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduled_actions.actions.rules import settlement
from scheduled_actions.registry import loading
from scheduled_actions.ticks.attempts.runner import Job

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from scheduled_actions.actions.evaluation import Asking
    from scheduled_actions.actions.rules.settlement import Outcome
    from scheduled_actions.core.action import Claimed
    from scheduled_actions.database.connection import Loan
    from scheduled_actions.registry.handler import HandlerOptions
    from scheduled_actions.ticks.attempts.result import Ended
    from scheduled_actions.ticks.rules.plan import Candidate


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
