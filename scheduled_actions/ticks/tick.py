"""One tick: claim what is due, run it, settle it, answer in time."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from scheduled_actions.actions.rules import settlement
from scheduled_actions.database.boundary import contain, reason_of
from scheduled_actions.database.connection import Line
from scheduled_actions.ticks import store as tick_store
from scheduled_actions.ticks.attempts.attempt import Ended, Flight
from scheduled_actions.ticks.attempts.attempt_runner import Attempts
from scheduled_actions.ticks.claiming.claimer import Claimer
from scheduled_actions.ticks.claiming.scanner import FRESH_SECONDS
from scheduled_actions.ticks.report import Report
from scheduled_actions.ticks.rules.plan import (
    ANSWER_MARGIN_SECONDS,
    Budget,
    tick_seconds,
)
from scheduled_actions.ticks.settling import Settling
from scheduled_actions.ticks.tick_maintenance import Tidying

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.ticks.attempts.attempt import Attempt
    from scheduled_actions.ticks.hooks import Background
    from scheduled_actions.ticks.linger_lease import Watch
    from scheduled_actions.ticks.report import Caller
    from scheduled_actions.ticks.worker_state import Process

log = logging.getLogger("scheduled_actions")

#: How much longer than the tick its leases live: time to settle after a slow commit.
LEASE_MARGIN_SECONDS = 15.0
#: How long a tick waits in all for what handlers put off: one that polls every second must not keep it going.
_WAITS_MOST_SECONDS = 3.0
#: How often a tick asks whether somebody wants a running action to stop.
_CANCEL_POLL_SECONDS = 1.0


class Tick:
    """The state of one tick; lives as long as the call."""

    def __init__(
        self,
        process: Process,
        started: float,
        *,
        caller: Caller,
        host_seconds: float | None,
        lingers: bool,
        watch_as: str | None,
    ) -> None:
        self._process = process
        self._settings = process.settings
        self._runner = process.runner
        self._pace = process.pace
        self._monotonic = process.monotonic
        duration = tick_seconds(self._settings, host_seconds)
        self._budget = Budget.by_settings(self._settings, started=started, duration_seconds=duration, lingers=lingers)
        self._duration = duration
        self._allowed = {"max_run_seconds": self._settings.max_run_seconds, "max_duration_seconds": duration}
        self._caller = caller
        self._report = Report()
        self._tidying = Tidying(process, self._report)
        #: What has ended and is not written yet.
        self._ended: list[tuple[Attempt, Ended]] = []
        self._flight = Flight(process, self._budget, self._ended)
        self._background: Background | None = None
        self._may_start_background = True
        self._may_announce = True
        self._claimer = Claimer(process, self._budget, self._flight, self._ended, self._report, tick_seconds=duration)
        self._walk = self._claimer.walk
        #: When the last action is due that a handler put off for a moment; None when nothing is awaited.
        self._put_off_until: float | None = None
        self._waited_seconds = 0.0
        window = self._budget.linger_until - started
        self._watch = None if window <= 0 else _watch(process, watch_as, self._budget.linger_until, window)
        self._next_cancel_poll = started + _CANCEL_POLL_SECONDS

    def run(self, *, is_asked_again: Callable[[], bool]) -> Report:
        """Go through the whole tick.

        Args:
            is_asked_again: Whether another ping was left to this tick since it began or since this was asked last:
                what that one saw due may have come after the last look, so there is another one.
        """
        # The last settlement begins when the time to answer has come: the line is cut in the middle of the margin.
        cut_at = self._budget.answer_by + ANSWER_MARGIN_SECONDS / 2
        self._line = Line(self._process.database, self._monotonic, cut_at)
        with self._process.watchdog.guards(cut_at, self._line.cut):
            if self._line.do(self._is_idle) and not is_asked_again():
                return self._report
            self._begin()
            self._work()
            while self._may_start() and not self._process.turn.is_relieved and is_asked_again():
                self._walk.look_again()
                self._work()
        return self._report

    def _work(self) -> None:
        """Do what there is to do, and write what came of it."""
        try:
            self._wake()
            while self._work_once():
                pass
        finally:
            # Whatever happened: no handler of this tick starts any more.
            self._flight.give_up()
        self._finish()
        # What its last settlement left unplanned: the next tick may run on another thread.
        self._process.settler.release_left()

    # -- the beginning ---------------------------------------------------------------------------------------------

    def _is_idle(self, connection: Connection) -> bool:
        """Look whether there is anything to do, or to wait for; if not, the tick's row is written."""
        return self._tidying.finds_nothing(
            connection, self._named(), caller=self._caller.name, budget=self._allowed, waits=self._lingers
        )

    def _named(self) -> UUID:
        """Return the tick's new name: each try of an idle one has its own, and so has what another ping asks of it."""
        tick_id = uuid4()
        self._report.tick_id = str(tick_id)
        return tick_id

    def _begin(self) -> None:
        tick_id = self._named()
        # Read before it is asked: no action is said to have begun earlier than it did, however slow the commit is.
        begun = self._monotonic()
        row = self._line.do(
            lambda connection: tick_store.begin_tick(
                connection,
                tick_id,
                lease_seconds=self._duration + LEASE_MARGIN_SECONDS,
                caller=self._caller.name,
                budget=self._allowed,
            )
        )
        self._row = row
        self._attempts = Attempts(
            self._process,
            tick=row,
            begun=begun,
            answer_by=self._budget.answer_by,
            nudge=self._flight.nudge,
        )
        self._settling = Settling(self._process, self._line, row, self._attempts, self._report)
        self._claimer.begin(self._line, row, self._attempts, self._settling)
        self._line.do(self._tidying.begin)
        if self._watch is not None:
            self._line.do(self._watch.begin)
        self._process.turn.hears(self._flight.nudge)

    # -- the middle ------------------------------------------------------------------------------------------------

    def _work_once(self) -> bool:
        """Settle what has ended, start what may start, claim ahead, wait for the next end; False when all is done."""
        wave = self._claimer.next_wave() if self._claimer.ready and self._may_start() else []
        if self._ended or wave:
            self._settle_and_start(wave)
        if self._tidying.has_wakes_left:
            self._wake()
        if self._wants_more():
            self._claimer.claim()
        self._start_background()
        if self._flight:
            self._collect()
            if self._watch is not None and self._watch.wants_a_look():
                self._look(self._watch)
                self._walk.look_again()
        if self._ended and not self._flight:
            return self._monotonic() < self._budget.answer_by
        return (
            bool(self._flight or self._wants_more() or self._may_start_any())
            or (self._tidying.has_wakes_left and self._may_start())
            or self._keeps_watch()
            or self._awaits_background()
            or self._awaits_put_off()
        )

    def _wants_more(self) -> bool:
        return self._may_start() and self._claimer.wants_more()

    def _may_start_any(self) -> bool:
        return bool(self._claimer.ready) and self._may_start() and bool(self._claimer.startable())

    @property
    def _lingers(self) -> bool:
        """Whether this tick goes on waiting for what comes due."""
        return self._watch is not None and self._watch.is_kept

    def _keeps_watch(self) -> bool:
        """Wait for what comes due next; False when the watch has ended."""
        if self._claimer.ready or not self._may_start() or self._watch is None or not self._watch.is_kept:
            return False
        self._look(self._watch)
        self._caller.look(self._monotonic())
        was_futile, self._claimer.has_claimed = not self._claimer.has_claimed, False
        wait = self._watch.seconds_to_wait(was_futile=was_futile)
        if wait > 0:
            self._flight.wait(wait)
        self._wake()
        self._walk.look_again()
        return self._watch.is_kept

    def _start_background(self) -> None:
        """Start what the transactions of this tick have left for after their commit; once refused, it is left."""
        if self._may_start_background and self._process.settler.has_left:
            self._may_start_background = contain(
                self._has_started_background, lambda error: self._tidying.refused("background", error)
            )

    def _has_started_background(self) -> bool:
        if self._background is None:
            self._background = self._process.hooks.background(self._flight.nudge)
        self._background.start()
        return True

    def _awaits_background(self) -> bool:
        """Wait for what features do on threads of their own, which may bring due actions. False when there is none."""
        if self._background is None or self._claimer.ready or not self._may_start():
            return False
        if self._background.is_busy:
            self._flight.wait(FRESH_SECONDS)
        elif not self._background.takes_finished():
            return False
        self._walk.look_again()
        return True

    def _awaits_put_off(self) -> bool:
        """Wait for what handlers put off for a moment: the next tick may be a minute away. False when nothing was."""
        if self._put_off_until is None or self._waited_seconds >= _WAITS_MOST_SECONDS:
            return False
        if self._claimer.ready or not self._may_start():
            return False
        began = self._monotonic()
        if not self._flight.wait(self._put_off_until - began):
            self._put_off_until = None
        self._waited_seconds += self._monotonic() - began
        self._walk.look_again()
        return True

    def _look(self, watch: Watch) -> None:
        """Look what comes due; what waits for something that has changed is due now."""
        self._line.do(watch.look)
        if watch.has_wakes:
            self._line.do(self._tidying.wake)
            self._line.do(watch.look)
            # What is due now was not when the last claim got nothing.
            self._claimer.has_claimed = True

    def _wake(self) -> None:
        """Make due what waits for something that this tick was told has changed, before it claims."""
        if self._process.turn.takes_change() or self._tidying.has_wakes_left:
            self._line.do(self._tidying.wake)
            self._walk.look_again()

    def _may_start(self) -> bool:
        return (
            self._may_announce
            and not self._claimer.is_refused
            and not self._process.is_stopping.is_set()
            and not self._process.is_exhausted
            and self._budget.may_start(self._monotonic())
        )

    def _settle_and_start(self, wave: list[Attempt]) -> None:
        """Write what has ended and announce what starts, in one statement; then start it."""
        self._flight.announce(wave)
        if self._settle(running=self._flight.ids):
            self._flight.start(wave)
        else:
            # The leases have ended under a process that was frozen: what is not yet started must not start.
            self._may_announce = False
            self._flight.put_back(wave)

    def _settle(self, *, running: list[UUID]) -> bool:
        """Write what has ended; return whether what was announced may start."""
        ended = list(self._ended)
        self._ended.clear()
        written = self._settling.settle(ended, running=running)
        self._ended.extend(written.kept_back)
        if written.may_have_freed_more:
            self._walk.look_again()
        put_off = [one.outcome.delay.total_seconds() for _, one in ended if isinstance(one.outcome, settlement.Snoozed)]
        if moments := [seconds for seconds in put_off if seconds <= FRESH_SECONDS]:
            self._put_off_until = max(self._put_off_until or 0.0, self._monotonic() + max(moments))
        return written.is_announced

    # -- waiting ---------------------------------------------------------------------------------------------------

    def _collect(self) -> None:
        """Wait for the next outcome, gather its companions, give up what is over its time."""
        if self._flight.collect(self._patience()):
            self._wake()
            self._walk.look_again()
        self._poll_cancel_requests()

    def _patience(self) -> float:
        """Return how long to wait for an outcome, in seconds."""
        now = self._monotonic()
        limits = [self._budget.answer_by, self._next_cancel_poll, now + FRESH_SECONDS]
        if self._watch is not None and self._watch.is_kept:
            limits.append(self._watch.next_due or now + FRESH_SECONDS)
        return max(0.001, min([*limits, self._flight.next_timeout() or now + FRESH_SECONDS]) - now)

    def _poll_cancel_requests(self) -> None:
        now = self._monotonic()
        if self._process.is_stopping.is_set():
            self._flight.stop()
        if now < self._next_cancel_poll or not self._flight:
            return
        self._next_cancel_poll = now + _CANCEL_POLL_SECONDS
        self._caller.look(now)
        ids = self._flight.ids
        self._flight.stop(self._line.do(lambda connection: tick_store.cancel_requests(connection, ids)))

    # -- the end ---------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        self._ended.extend((attempt, Ended(settlement.Unstarted())) for attempt in self._claimer.ready)
        self._claimer.ready.clear()
        if self._ended:
            self._settle(running=[])
        report = self._report
        report.processed = report.succeeded + report.failed + report.retried + report.snoozed + report.skipped
        self._settling.tally_tick(self._monotonic() - self._budget.started)
        self._line.do(self._prune_and_count)
        if self._ended:
            # Somebody kept their rows locked to the last: the tick's row stays open, and tells a rescue what started.
            log.warning("tick.unwritten tick_id=%s outcomes=%d", self._row.id, len(self._ended))
        else:
            contain(self._end, self._unended)
        report.more = report.remaining > 0

    def _prune_and_count(self, connection: Connection) -> None:
        report = self._report
        if self._budget.may_start(self._monotonic()) and not self._process.is_stopping.is_set():
            self._tidying.prune(connection)
        report.remaining = tick_store.due(connection)

    def _unended(self, error: BaseException) -> None:
        """Leave the tick's row open: the next rescue closes it."""
        reason = f"the tick's row: {reason_of(error)}"
        log.error("tick.unended tick_id=%s error=%s", self._row.id, reason)
        self._report.add_error(None, None, reason)

    def _end(self) -> None:
        report = self._report
        self._caller.look(self._monotonic())
        counts = self._process.counts(report) | self._caller.notes(self._process.turn.joined)
        self._line.do(
            partial(
                tick_store.finish_tick,
                tick=self._row,
                outcome=self._caller.outcome,
                counts=counts,
                tally=self._process.tally,
                announcement=self._settling.next_announcement(),
            )
        )
        self._settling.tally_is_written()


def _watch(process: Process, watch_as: str | None, until: float, window_seconds: float) -> Watch:
    from scheduled_actions.ticks.linger_lease import Watch  # noqa: PLC0415 - most ticks do not linger

    return Watch(process, watch_as or str(uuid4()), until=until, window_seconds=window_seconds)
