"""Run one tick: claim due actions, run and settle them, and answer in time."""

from collections.abc import Callable
from functools import partial
from uuid import UUID, uuid4

from scheduled_actions.actions.rules.settlement import Snoozed
from scheduled_actions.core.log import log
from scheduled_actions.database.connection import Connection, RetryingConnection
from scheduled_actions.ticks import store as tick_store
from scheduled_actions.ticks.attempts.attempt import Attempt, InFlightAttempts, RunningTick
from scheduled_actions.ticks.claiming.claimer import MAX_REFUSED_CLAIMS, Claimer
from scheduled_actions.ticks.hooks import BackgroundWork
from scheduled_actions.ticks.maintenance import TickMaintenance
from scheduled_actions.ticks.report import TickCaller, TickReport
from scheduled_actions.ticks.rules.plan import ANSWER_MARGIN_SECONDS, FRESH_SECONDS, TickBudget
from scheduled_actions.ticks.settling import ResultWriter
from scheduled_actions.ticks.worker_state import LingerLease, WorkerState

#: How much longer than the tick its leases last, so that a slow commit leaves time to settle.
LEASE_MARGIN_SECONDS = 15.0
#: How long a tick waits in total for briefly snoozed actions and for rates; they must not keep it running.
_MAX_SNOOZE_WAIT_SECONDS = 3.0
#: How often a tick looks for requests to cancel a running action.
_CANCEL_POLL_SECONDS = 1.0


class Tick:
    """Runs one tick; each tick has its own instance.

    Args:
        state: The state shared by the ticks of the process.
        caller: The caller of the tick, and when the tick began.
        host_seconds: The host's time limit in seconds; None: only the setting applies.
        lingers: Whether the tick waits for actions to become due.
        linger_holder: The id of the listener that runs this tick; None without a listener.
    """

    def __init__(
        self,
        state: WorkerState,
        *,
        caller: TickCaller,
        host_seconds: float | None,
        lingers: bool,
        linger_holder: str | None,
    ) -> None:
        self._state = state
        self._budget = budget = TickBudget.by_settings(
            state.settings, started=caller.started, host_seconds=host_seconds, lingers=lingers
        )
        self._limits = {
            "max_run_seconds": state.settings.max_run_seconds,
            "max_duration_seconds": budget.duration_seconds,
        }
        self._caller = caller
        self._report = TickReport()
        self._maintenance = TickMaintenance(state, self._report)
        self._in_flight = InFlightAttempts(state, budget)
        self._background: BackgroundWork | None = None
        make_dispatch = state.dispatch
        self._dispatch = None if make_dispatch is None else make_dispatch(state, budget, self._in_flight.nudge)
        self._may_start_background = True
        self._may_announce = True
        self._is_counted = False
        #: When the last of the briefly snoozed actions becomes due, on the monotonic clock; None if there are none.
        self._snoozed_until: float | None = None
        self._snooze_waited = 0.0
        self._linger_lease = LingerLease(state, budget, linger_holder or str(uuid4()))
        self._next_cancel_poll = caller.started + _CANCEL_POLL_SECONDS

    def run(self, *, is_asked_again: Callable[[], bool]) -> TickReport:
        """Run the tick to its end; return its report.

        Args:
            is_asked_again: Returns whether the tick has been notified since it began or since the last call, for
                example by a ping that was answered `busy`. If so, the tick claims again, because actions may have
                become due after its last claim; if not, the next tick may begin.
        """
        # The last settlement begins at `answer_by`. If it takes longer than half of the margin, it is cancelled: the
        # other half is left for the answer.
        cancel_at = self._budget.answer_by + ANSWER_MARGIN_SECONDS / 2
        self._connection = RetryingConnection(self._state.database, self._state.monotonic, cancel_at)
        with self._state.watchdog.guards(cancel_at, self._connection.cancel):
            if self._connection.do(self._is_idle) and not is_asked_again():
                return self._report
            self._begin()
            self._work()
            while self._may_start() and not self._state.single_flight.is_relieved and is_asked_again():
                self._claimer.scanner.scan_again()
                self._work()
        return self._report

    def _work(self) -> None:
        try:
            self._wake()
            self._start_dispatch()
            while self._work_once():
                pass
        finally:
            # Even after an error, no handler of this tick may start any more.
            self._in_flight.give_up()
        self._finish()
        # Any thread may now run the planning that the last settlement deferred: the next tick may use another thread.
        self._state.settler.release_deferred()

    # -- the beginning ---------------------------------------------------------------------------------------------

    def _is_idle(self, connection: Connection) -> bool:
        """Return whether there is nothing to do or to wait for; if so, the tick's row has been written."""
        return self._maintenance.finds_nothing(
            connection,
            self._new_id(),
            caller=self._caller.name,
            budget=self._limits,
            # The check does not read the queues of executors.
            may_be_idle=not self._linger_lease.is_held and self._dispatch is None,
        )

    def _new_id(self) -> UUID:
        """Give the tick a new id, and return it; an idle check and the work after it have separate rows."""
        tick_id = uuid4()
        self._report.tick_id = str(tick_id)
        return tick_id

    def _begin(self) -> None:
        # Read before the statement, so that no action is recorded as started too early, however slow the commit is.
        begun = self._state.monotonic()
        self._row = self._connection.do(
            partial(
                tick_store.begin_tick,
                tick_id=self._new_id(),
                lease_seconds=self._budget.duration_seconds + LEASE_MARGIN_SECONDS,
                caller=self._caller.name,
                budget=self._limits,
            )
        )
        running = RunningTick(
            state=self._state,
            budget=self._budget,
            connection=self._connection,
            in_flight=self._in_flight,
            report=self._report,
            row=self._row,
            begun=begun,
        )
        self._writer = ResultWriter(running)
        self._claimer = Claimer(running, self._writer)
        if self._maintenance.has_queued:
            self._claimer.scanner.include_queues()
        self._claimer.has_late = self._maintenance.has_late
        if self._maintenance.has_only_free:
            self._claimer.scanner.skip_groups(begun)
        if not self._maintenance.has_teams:
            self._claimer.scanner.fair_share.skip_teams(begun)
        self._connection.do(self._maintenance.begin)
        if self._budget.linger_until > self._budget.started:
            self._connection.do(self._linger_lease.acquire)
        self._state.single_flight.subscribe(self._in_flight.nudge)

    # -- the middle ------------------------------------------------------------------------------------------------

    def _work_once(self) -> bool:
        """Settle, start attempts, claim ahead, and wait for the next result.

        Returns:
            False when nothing is in flight, nothing more may start, and there is nothing to wait for. If results could
            not be written, True until the answer is due.
        """
        wave = self._claimer.next_wave() if self._claimer.ready and self._may_start() else []
        if self._in_flight.unwritten or wave:
            self._settle_and_start(wave)
        if self._maintenance.has_wakes_left:
            self._wake()
        if self._may_expire():
            self._claimer.expire()
        if self._maintenance.has_parked_left and self._may_start():
            self._unpark()
        if self._may_start() and self._claimer.wants_more():
            self._claimer.claim()
            has_queues = self._claimer.scanner.has_queues
            if has_queues and self._claimer.ready and self._may_start() and self._claimer.startable():
                # A wait for results would leave these, and the slots of their limit keys, waiting for other handlers.
                return True
        self._start_background()
        if self._in_flight.attempts:
            self._collect()
            if self._linger_lease.wants_a_look():
                self._look()
                self._claimer.scanner.scan_again()
        if self._in_flight.unwritten and not self._in_flight.attempts:
            return self._state.monotonic() < self._budget.answer_by
        waits = (self._lingers_on, self._awaits_background, self._awaits_snoozed)
        return (
            bool(self._in_flight.attempts)
            or (self._may_start() and self._has_more_to_start())
            or self._may_expire()
            or any(not self._claimer.ready and self._may_start() and wait() for wait in waits)
        )

    def _may_start(self) -> bool:
        return (
            self._may_announce
            and self._claimer.refused_claims < MAX_REFUSED_CLAIMS
            and not self._state.is_stopping.is_set()
            and not self._state.is_exhausted
            and self._budget.may_start(self._state.monotonic())
        )

    def _may_expire(self) -> bool:
        """Return whether to end further expired actions; that needs no free handler thread."""
        return (
            self._claimer.has_late
            and self._may_announce
            and not self._state.is_stopping.is_set()
            and self._budget.may_start(self._state.monotonic())
        )

    def _has_more_to_start(self) -> bool:
        claimer = self._claimer
        maintenance = self._maintenance
        has_left = maintenance.has_wakes_left or maintenance.has_parked_left
        return has_left or claimer.wants_more() or bool(claimer.ready and claimer.startable())

    def _lingers_on(self) -> bool:
        """Wait until the next action is due, at most `LOOK_SECONDS`; return False when lingering has ended."""
        lease = self._linger_lease
        if not lease.is_held:
            return False
        self._look()
        self._caller.look(self._state.monotonic())
        wait = lease.seconds_to_wait(was_futile=not self._claimer.has_claimed)
        self._claimer.has_claimed = False
        if wait > 0:
            self._in_flight.wait(wait)
        self._wake()
        self._claimer.scanner.scan_again()
        return lease.is_held

    def _start_background(self) -> None:
        """Start the work that transactions of this tick have deferred; after an error, start no more."""
        if self._may_start_background and self._state.settler.has_deferred:
            self._background = self._background or self._state.hooks.background(self._in_flight.nudge)
            self._may_start_background = self._report.run_step("background", self._background.start)

    def _start_dispatch(self) -> None:
        """Start to hand the due actions of executors to their brokers, unless that is in progress."""
        if self._dispatch is not None and self._may_start():
            self._report.run_step("dispatch", self._dispatch.start)

    def _awaits_background(self) -> bool:
        """Wait at most `FRESH_SECONDS` for background work, which may make actions due.

        Returns:
            False if there is no such work in progress, and none has finished since the last call.
        """
        works = [work for work in (self._background, self._dispatch) if work is not None]
        have_finished = [work.takes_finished() for work in works]
        if any(work.is_busy for work in works):
            self._in_flight.wait(FRESH_SECONDS)
        elif not any(have_finished):
            return False
        self._claimer.scanner.scan_again()
        return True

    def _awaits_snoozed(self) -> bool:
        """Wait for briefly snoozed actions, or for a rate that soon allows a start: the next tick may be a minute away.

        Returns:
            False if there are none, or the tick has waited `_MAX_SNOOZE_WAIT_SECONDS` in total.
        """
        began = self._state.monotonic()
        until, opens_at = self._snoozed_until, self._claimer.scanner.opens_at
        if opens_at is not None and opens_at <= began + FRESH_SECONDS:
            until = min(opens_at, until or opens_at)
        if until is None or self._snooze_waited >= _MAX_SNOOZE_WAIT_SECONDS:
            return False
        if not self._in_flight.wait(until - began) and until == self._snoozed_until:
            self._snoozed_until = None
        self._snooze_waited += self._state.monotonic() - began
        self._claimer.scanner.scan_again()
        return True

    def _look(self) -> None:
        """Look up when the next action becomes due; wake the actions whose conditions wait for a stored change."""
        self._connection.do(self._linger_lease.look)
        self._claimer.has_late = self._claimer.has_late or self._linger_lease.has_late
        if self._linger_lease.has_wakes:
            self._connection.do(self._maintenance.wake)
            self._connection.do(self._linger_lease.look)
            # The last claim could not get the actions woken here, so its result must not delay the next claim.
            self._claimer.has_claimed = True
        if self._linger_lease.has_ended_pauses:
            self._unpark()
            self._claimer.has_claimed = True
        if self._linger_lease.may_park:
            self._connection.do(self._maintenance.park)
        self._start_dispatch()

    def _wake(self) -> None:
        """Wake the actions whose conditions wait for a change, if the tick was notified of one or has some left."""
        if self._state.single_flight.take_change() or self._maintenance.has_wakes_left:
            self._connection.do(self._maintenance.wake)
            self._claimer.scanner.scan_again()

    def _unpark(self) -> None:
        """Return a bite of the actions that ended pauses have parked, and claim again."""
        self._connection.do(self._maintenance.unpark)
        self._claimer.scanner.include_queues()
        self._claimer.scanner.scan_again()

    def _settle_and_start(self, wave: list[Attempt]) -> None:
        """Write results and announce the attempts of a wave; start the wave only if it was announced."""
        self._in_flight.announce(wave)
        unwritten, stats = self._in_flight.unwritten, self._state.duration_stats
        starts_first = (
            any(not one.is_settled for one in unwritten)
            and any(stats.is_brief(action_type) for action_type in {one.claimed.action_type for one in wave})
            # An action that runs alone is announced alone, too: it may end the process at once.
            and not wave[0].candidate.runs_alone
            and not self._writer.are_completions(unwritten)
        )
        if starts_first:
            # Otherwise the threads would be idle while the results are written, which takes several times as long.
            # Completions are different: writing them takes hardly longer than the commit of the announcement.
            is_announced = self._writer.announce(self._in_flight.ids, unwritten=unwritten)
        else:
            is_announced = self._settle(running=self._in_flight.ids)
        if is_announced:
            self._in_flight.start(wave)
        else:
            # The announcement could not be written, or the leases ended while the process was frozen.
            self._may_announce = False
            self._in_flight.release(wave)
        if starts_first:
            self._settle(running=self._in_flight.ids)

    def _settle(self, *, running: list[UUID]) -> bool:
        """Write results; return whether the announced attempts may start."""
        attempts, self._in_flight.unwritten = self._in_flight.unwritten, []
        written = self._writer.settle(attempts, running=running)
        self._in_flight.unwritten += written.kept_back
        self._writer.give_back_rates()
        if written.may_have_freed_more:
            self._claimer.scanner.scan_again()
        elif any(attempt.claimed.limit_keys for attempt in attempts):
            self._claimer.scanner.scan_queues_again()
        # Plain completions, which are not listed, are most of the results.
        for outcome in [attempt.result.outcome for attempt in written.tried]:
            if isinstance(outcome, Snoozed) and (seconds := outcome.delay.total_seconds()) <= FRESH_SECONDS:
                self._snoozed_until = max(self._snoozed_until or 0.0, self._state.monotonic() + seconds)
        return written.is_announced

    def _collect(self) -> None:
        """Wait for results, abandon attempts whose time is up, and ask handlers to stop.

        All handlers are asked if the process is stopping, otherwise those whose actions are to be cancelled.
        """
        now = self._state.monotonic()
        instants = [
            self._budget.answer_by,
            self._next_cancel_poll,
            now + FRESH_SECONDS,
            self._in_flight.times_out_at(),
            self._linger_lease.next_due if self._linger_lease.is_held else None,
        ]
        if self._in_flight.collect(max(0.001, min(filter(None, instants)) - now), is_urgent=self._may_start_promptly):
            self._wake()
            self._claimer.scanner.scan_again()
        now = self._state.monotonic()
        if self._state.is_stopping.is_set():
            self._in_flight.stop()
        if now < self._next_cancel_poll or not self._in_flight.attempts:
            return
        self._next_cancel_poll = now + _CANCEL_POLL_SECONDS
        self._caller.look(now)
        self._in_flight.stop(self._connection.do(partial(tick_store.cancel_requests, ids=self._in_flight.ids)))

    def _may_start_promptly(self) -> bool:
        """Return whether a thread is free for the next attempt, which must not wait for further results.

        Only completions are written so quickly that collecting more of them costs the thread more time than it saves.
        """
        ready = self._claimer.ready
        return (
            bool(ready)
            and self._state.duration_stats.is_prompt(ready[0].claimed.action_type)
            and self._may_start()
            and bool(self._claimer.startable())
            and self._writer.are_completions(self._in_flight.unwritten)
        )

    # -- the end ---------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        self._in_flight.unwritten += self._claimer.ready
        self._claimer.ready = []
        if self._in_flight.unwritten:
            self._settle(running=[])
        report, metrics = self._report, self._state.metrics
        if self._dispatch is not None:
            self._dispatch.add_to(report)
        report.count_processed()
        if metrics is not None and not self._is_counted:
            # A tick that continues for another ping is counted once.
            metrics.ticked(self._state.monotonic() - self._budget.started)
        self._is_counted = True
        self._connection.do(self._prune_and_count)
        if self._in_flight.unwritten:
            # Their rows were locked until the end. The tick's row stays open, so that a rescue charges the attempts
            # whose handlers had started.
            log.warning("tick.unwritten tick_id=%s outcomes=%d", self._row.id, len(self._in_flight.unwritten))
        else:
            # If the tick's row stays open, the next rescue closes it.
            report.run_step("the tick's row", self._end, event="tick.unended")
        report.more = report.remaining > 0

    def _prune_and_count(self, connection: Connection) -> None:
        if self._budget.may_start(self._state.monotonic()) and not self._state.is_stopping.is_set():
            self._maintenance.end(connection)
        self._report.remaining = tick_store.count_due(connection)

    def _end(self) -> None:
        self._caller.look(self._state.monotonic())
        self._connection.do(
            partial(
                tick_store.finish_tick,
                tick=self._row,
                outcome="finished" if self._caller.hung_up_seconds is None else "hung_up",
                counts=self._state.counts(self._report) | self._caller.notes(self._state.single_flight.joined),
                metrics=self._state.metrics,
                announcement=next(self._writer.announcements),
            )
        )
        if self._state.metrics is not None:
            self._state.metrics.clear()
