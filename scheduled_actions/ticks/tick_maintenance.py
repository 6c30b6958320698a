"""What a tick does around its actions: rescue, release, prune; and what it does where there is nothing to do."""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import TYPE_CHECKING

import psycopg

from scheduled_actions.actions import claims, settling
from scheduled_actions.actions.hooks import SWEEP_SECONDS
from scheduled_actions.conditions.rules.plan import in_a_circle
from scheduled_actions.database.boundary import contain, reason_of
from scheduled_actions.ticks import store as tick_store
from scheduled_actions.ticks.hooks import NamedStep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.ticks.report import Report
    from scheduled_actions.ticks.worker_state import Process

log = logging.getLogger("scheduled_actions")

#: Finished actions pruned by one tick: twice what a million a day asks of a tick a minute.
_PRUNE_MOST = 1500
#: Changes that one statement wakes for.
#: Few, for meanwhile other ticks that look at the same actions wait.
_WAKE_BITE = 100
#: After so long the tick settles what has ended before it wakes more.
_WAKE_SECONDS = 0.5
#: Cycles of waiting actions that one sweep reports.
_CYCLES_MOST = 10


class Tidying:
    """Keeps the tables in order on the way of one tick.

    Args:
        process: Its maintenance and its clock.
        report: What was done is counted there.
    """

    def __init__(self, process: Process, report: Report) -> None:
        self._process = process
        self._report = report
        self._found: tick_store.Found | None = None
        #: Whether more has changed than was woken for in the time of one step.
        self.has_wakes_left = False

    def finds_nothing(
        self, connection: Connection, tick_id: UUID, *, caller: str, budget: Mapping[str, float], waits: bool
    ) -> bool:
        """Look what there is to do; return whether there is nothing at all, and the tick has its row already.

        Args:
            connection: In autocommit mode.
            tick_id: The tick.
            caller: For its row.
            budget: For its row.
            waits: It keeps the watch over what comes due, whatever it finds now.
        """
        has_own = not self._process.had_first_tick or self._is_sweep_due or self._process.is_exhausted
        settings = self._process.settings
        self._found = tick_store.look(
            connection,
            tick_id=tick_id,
            may_be_idle=not (has_own or waits),
            caller=caller,
            budget=json.dumps(budget),
            counts=json.dumps(self._process.counts(self._report)),
            action_types=list(self._process.registry.types),
            retention_days=settings.retention_days,
            retention_failed_days=settings.retention_failed_days,
        )
        return self._found.is_noted

    @property
    def _is_sweep_due(self) -> bool:
        return self._process.monotonic() >= self._process.next_sweep

    def begin(self, connection: Connection) -> None:
        """Do what comes before the claims, as far as the look found it needed; a refused step stops no other."""
        found = self._found
        assert found is not None  # noqa: S101 - looked before
        if not self._process.had_first_tick:
            steps = (NamedStep("first_tick", self._process.maintenance.first_tick), *self._process.hooks.prepare)
            done = [self._try(step.name, step.run, connection) for step in steps]
            # Where one was refused, the next tick repeats them all.
            self._process.had_first_tick = all(done)
        if self._is_sweep_due:
            self._process.next_sweep = self._process.monotonic() + SWEEP_SECONDS
            for step in self._process.hooks.sweep:
                self._try(step.name, step.run, connection)
            self._try("cycles", self._report_cycles, connection)
        if found.has_expired or found.has_lost_ticks:
            self._try("rescue", self._rescue, connection)
        if found.has_wakes:
            self.wake(connection)
        if found.has_old_holds:
            self._try("holds", settling.free_stale_holds, connection)
        if found.has_unhandled:
            self._try("release", self._release, connection)
        if self._process.is_exhausted:
            self._report.add_error(
                None,
                None,
                f"all {self._process.runner.concurrency} handler threads hold handlers that never returned; "
                "this process claims nothing until it is restarted",
            )

    def _try(self, name: str, step: Callable[[Connection], object], connection: Connection) -> bool:
        """Do a step; report it where it is refused, whatever it raises. Return whether it was done."""

        def done() -> bool:
            step(connection)
            return True

        return contain(done, lambda error: self.refused(name, error))

    def refused(self, name: str, error: BaseException) -> bool:
        """Report a step that was refused; return False."""
        reason = reason_of(error)
        log.error("%s.refused error=%s", name, reason)
        self._report.add_error(None, None, f"{name}: {reason}")
        return False

    def _release(self, connection: Connection) -> None:
        """Release what waited for a handler of this build; where that is refused, each on its own."""
        types = self._process.registry.types

        def unreleased(action_id: UUID, error: BaseException) -> int:
            self._report.add_error(action_id, None, f"release: {reason_of(error)}")
            return 0

        def each(_: BaseException) -> int:
            release = partial(claims.release_no_action, connection, types)
            ids = claims.unhandled(connection, types)
            return sum(contain(partial(release, action_id=one), partial(unreleased, one)) for one in ids)

        contain(lambda: claims.release_no_action(connection, types), each)

    def wake(self, connection: Connection) -> None:
        """Make due what waits for something that has changed."""
        self._try("wake", self._wake, connection)

    def _wake(self, connection: Connection) -> None:
        from scheduled_actions.actions import waits  # noqa: PLC0415 - most projects have no conditions

        until = self._process.monotonic() + _WAKE_SECONDS
        self.has_wakes_left = False
        try:
            while waits.wake(connection, most=_WAKE_BITE) == _WAKE_BITE:
                if self._process.monotonic() >= until:
                    self.has_wakes_left = True
                    return
        except (psycopg.errors.DeadlockDetected, psycopg.errors.LockNotAvailable):
            # Another session changes some of these actions: what has changed is still there for the next look.
            log.info("waits.put_off")
            self.has_wakes_left = waits.wake_each(connection, most=_WAKE_BITE) == _WAKE_BITE

    def _report_cycles(self, connection: Connection) -> None:
        """Report actions that wait for one another for ever: made by SQL, or by retrying one that had ended."""
        from scheduled_actions.actions.evaluation import cycles_among_waiting  # noqa: PLC0415 - most projects have no conditions

        for cycle in cycles_among_waiting(connection, most=_CYCLES_MOST):
            ids = in_a_circle(cycle)
            log.warning("waits.cycle actions=%s", ids)
            self._report.add_error(cycle[0], None, f"these actions wait for one another, change their after: {ids}")

    def _rescue(self, connection: Connection) -> None:
        rescued = self._process.maintenance.rescue(connection)
        self._report.rescued += rescued.count
        self._report.failed += len(rescued.failed)
        for action_id, action_type, error in rescued.failed:
            self._report.add_error(action_id, action_type, error)
            if self._process.tally is not None:
                self._process.tally.settled(action_type, "failed", payload_text="")

    def prune(self, connection: Connection) -> None:
        """Remove what is past its retention, where the look found any."""
        if self._found is not None and self._found.has_prunable:
            self._try("prune", self._prune, connection)

    def _prune(self, connection: Connection) -> None:
        self._report.pruned += self._process.maintenance.prune_on(connection, limit=_PRUNE_MOST)
