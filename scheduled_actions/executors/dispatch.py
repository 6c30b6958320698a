"""Claim the due actions of executors that use a broker, and send their tickets, on a thread for each executor."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from uuid import uuid4

import psycopg

from scheduled_actions.actions.claims import ClaimHook, ClaimResult, TickRow
from scheduled_actions.actions.rules.settlement import AttemptResult, Failed, Released
from scheduled_actions.core.config import Executor, Settings
from scheduled_actions.core.errors import ExtraMissing, ScheduledActionsError
from scheduled_actions.core.log import log
from scheduled_actions.database import clock
from scheduled_actions.database.boundary import contain, reason_of
from scheduled_actions.database.connection import RetryingConnection
from scheduled_actions.executors.carriers import Carrier, CarrierUnavailable, SendOutcome, build_carrier
from scheduled_actions.executors.claims import ExecutorQueue
from scheduled_actions.executors.model import Ticket
from scheduled_actions.executors.tickets import TicketMessage
from scheduled_actions.ticks.attempts.attempt import Attempt, InFlightAttempts, RunningTick
from scheduled_actions.ticks.attempts.attempt_runner import AttemptRunner
from scheduled_actions.ticks.claiming.claimer import evaluate_claimed
from scheduled_actions.ticks.report import TickReport
from scheduled_actions.ticks.rules.plan import TickBudget
from scheduled_actions.ticks.settling import ResultWriter
from scheduled_actions.ticks.worker_state import WorkerState

#: Maximum number of actions that are claimed and sent at once.
_BATCH = 500
#: While as many tickets are untaken as allowed, a sender looks this often whether workers have taken some; it ends when
#: none was taken for a while.
_FULL_PAUSE_SECONDS, _FULL_SECONDS = 0.2, 2.0
#: After a failure, an executor is left out for this long.
FAILED_SECONDS = 5.0


class _Sender:
    """Claims the due actions of one executor, and sends their tickets; used by one thread at a time.

    Args:
        name: The name of the executor.
        executor: Its settings.
        queue: Claims its actions.
        build: Returns its carrier.
    """

    def __init__(self, name: str, executor: Executor, queue: ExecutorQueue, build: Callable[[], Carrier]) -> None:
        self.name = name
        self.executor = executor
        self.queue = queue
        self._build = build
        self._carrier: Carrier | None = None
        #: When the executor may be tried again after a failure, on the monotonic clock.
        self._not_before = float("-inf")

    def run(self, state: WorkerState, budget: TickBudget, report: TickReport) -> bool:
        """Send tickets until no action is due, too many tickets are untaken, or time is up; never raises.

        Args:
            state: The state of the process.
            budget: The time limits of the tick.
            report: The counts and errors are added to it.

        Returns:
            Whether any action was found.
        """
        if state.monotonic() < self._not_before:
            return False
        has_found = False
        try:
            # The carrier is opened before the first claim, so that nothing is claimed while the broker is away.
            carrier = self._open()
            run = _Run(self, carrier, self._as_tick(state, budget, report))
            while not state.is_stopping.is_set() and budget.may_start(state.monotonic()) and run.send_batch():
                has_found = True
            state.settler.release_deferred()
        except (CarrierUnavailable, ExtraMissing, psycopg.Error, ScheduledActionsError) as error:
            reason = str(error) if isinstance(error, CarrierUnavailable | ExtraMissing) else reason_of(error)
            self._fail(state, report, reason)
        except Exception as error:
            log.exception("executor.failed executor=%s", self.name)
            self._fail(state, report, f"{type(error).__name__}: its tickets could not be sent")
        return has_found

    def _as_tick(self, state: WorkerState, budget: TickBudget, report: TickReport) -> RunningTick:
        connection = RetryingConnection(state.database, state.monotonic, budget.answer_by)
        begun, run_id = state.monotonic(), uuid4()
        started_at = connection.do(clock.now)
        lease_expires_at = started_at + timedelta(seconds=self.executor.ticket_seconds)
        return RunningTick(
            state=state,
            budget=budget,
            connection=connection,
            in_flight=InFlightAttempts(state, budget),
            report=report,
            row=TickRow(run_id, started_at, lease_expires_at),
            begun=begun,
            worker_id=run_id,
        )

    def _open(self) -> Carrier:
        self._carrier = self._carrier or self._build()
        self._carrier.open()
        return self._carrier

    def _fail(self, state: WorkerState, report: TickReport, reason: str) -> None:
        self._not_before = state.monotonic() + FAILED_SECONDS
        log.error("executor.unsent executor=%s error=%s", self.name, reason)
        report.add_error(None, None, f"executor {self.name}: {reason}")
        self.close()

    def close(self) -> None:
        """Close the connection to the broker."""
        if self._carrier is not None:
            contain(self._carrier.close, lambda error: log.debug("executor.not_closed error=%s", type(error).__name__))


class _Run:
    """One run of a sender.

    Args:
        sender: The sender.
        carrier: Its open carrier.
        tick: The run, as a tick.
    """

    def __init__(self, sender: _Sender, carrier: Carrier, tick: RunningTick) -> None:
        self._name = sender.name
        self._executor = sender.executor
        self._queue = sender.queue
        self._carrier = carrier
        self._tick = tick
        self._state = tick.state
        self._connection = tick.connection
        self._report = tick.report
        self._attempts = AttemptRunner(tick)
        self._writer = ResultWriter(tick)
        #: The lowest number of untaken tickets while there was no room, and when it was seen.
        self._least, self._least_at = sender.executor.outstanding + 1, tick.begun

    def send_batch(self) -> bool:
        """Claim and send a batch; return whether to go on.

        Raises:
            CarrierUnavailable: The broker has refused messages; their actions were released.
        """
        untaken = self._connection.do(partial(self._queue.count_untaken, most=self._executor.outstanding))
        room = min(_BATCH, self._executor.outstanding - untaken)
        if room <= 0:
            return self._waits_for_room(untaken)
        claim = partial(self._queue.claim, wanted=room, lease_seconds=self._executor.ticket_seconds)
        found = contain(partial(self._connection.do, claim), self._refuse_claim)
        attempts, ended = self._sort_out(found)
        try:
            refused = self._send(attempts)
        finally:
            # Also after an error, so that the next batch does not find the same actions.
            self._settle(ended)
        if refused:
            raise CarrierUnavailable(f"the broker has refused {len(refused)} of {len(attempts)} tickets")
        return found.has_found_work

    def _waits_for_room(self, untaken: int) -> bool:
        """Wait briefly; return whether workers have taken tickets lately."""
        now = self._state.monotonic()
        if untaken < self._least:
            self._least, self._least_at = untaken, now
        self._state.is_stopping.wait(_FULL_PAUSE_SECONDS)
        return now - self._least_at < _FULL_SECONDS

    def _refuse_claim(self, error: BaseException) -> ClaimResult:
        self._report.add_refusal(f"claim for executor {self._name}", error, event="claim.refused")
        return ClaimResult([])

    def _sort_out(self, found: ClaimResult) -> tuple[list[Attempt], list[Attempt]]:
        """Return the attempts to send tickets for, and those that have ended."""
        for skipped, reason in found.skipped:
            self._writer.count_skipped(skipped, reason)
        ended = []
        for refused, reason in found.refused:
            ended.append(attempt := self._attempts.make(refused))
            attempt.result = AttemptResult(Failed(reason, is_final=True))
        evaluated = evaluate_claimed(self._tick, found.kept)
        awaited = self._state.settler.awaited(found.kept) - found.unawaited
        to_send = []
        for one in found.kept:
            attempt = self._attempts.make(one)
            attempt.is_awaited = one.id in awaited
            result = evaluated.get(one.id)
            if isinstance(result, AttemptResult):
                attempt.result = result
                ended.append(attempt)
            else:
                to_send.append(attempt)
        return to_send, ended

    def _send(self, attempts: Sequence[Attempt]) -> list[Attempt]:
        """Send the tickets of attempts; release and return those that the broker has refused."""
        if not attempts:
            return []
        size = self._executor.tickets_per_message
        parts = [attempts[start : start + size] for start in range(0, len(attempts), size)]
        outcomes = self._carrier.send([TicketMessage(self._name, [_ticket(one) for one in part]) for part in parts])
        numbers = dict.fromkeys(SendOutcome, 0)
        refused: list[Attempt] = []
        for part, outcome in zip(parts, outcomes, strict=True):
            numbers[outcome] += len(part)
            if outcome is SendOutcome.REFUSED:
                refused += part
        log.info(
            "executor.sent executor=%s tickets=%d messages=%d refused=%d unknown=%d",
            self._name, numbers[SendOutcome.SENT], len(parts), len(refused), numbers[SendOutcome.UNKNOWN],
        )  # fmt: skip
        for one in refused:
            one.result = AttemptResult(Released(f"the broker of executor {self._name} has refused its ticket"))
        self._queue.give_back_turns(one.claimed.team_id for one in refused)
        self._settle(refused)
        return refused

    def _settle(self, attempts: list[Attempt]) -> None:
        """Write the results of attempts that no worker runs; try once more those whose rows are locked."""
        for _ in range(2):
            if attempts:
                attempts = self._writer.settle(attempts, running=[]).kept_back
        self._writer.give_back_rates()


def _ticket(attempt: Attempt) -> Ticket:
    claimed = attempt.claimed
    return Ticket(claimed.id, claimed.token, claimed.action_type, claimed.team_id)


class TicketSenders:
    """The senders of a process, which survive its ticks.

    Args:
        settings: Contains the executors.
        environ: Contains the addresses of their brokers.
        hooks: Run in the claiming transactions.
    """

    def __init__(self, settings: Settings, environ: Mapping[str, str], hooks: Sequence[ClaimHook]) -> None:
        self._senders = [
            _Sender(
                name,
                one,
                ExecutorQueue(name, hooks, settings, outstanding=one.outstanding),
                partial(build_carrier, name, one, environ),
            )
            for name, one in settings.executors.items()
            if one.has_broker
        ]
        #: The names of the executors whose senders are running.
        self._running: set[str] = set()

    def of_tick(self, state: WorkerState, budget: TickBudget, on_finished: Callable[[], None]) -> "TickSenders":
        """Return the senders as the work of one tick.

        Args:
            state: The state of the process.
            budget: The time limits of the tick.
            on_finished: Called on the thread of a sender when it has ended; must not raise.
        """
        # The values of metrics belong to the thread of the tick.
        return TickSenders(self._senders, self._running, replace(state, metrics=None), budget, on_finished)

    def close(self) -> None:
        """Close the connections to the brokers."""
        for one in self._senders:
            one.close()


class TickSenders:
    """Sends tickets on threads of their own while a tick runs, so that a slow broker delays nothing else."""

    def __init__(
        self,
        senders: Sequence[_Sender],
        running: set[str],
        state: WorkerState,
        budget: TickBudget,
        on_finished: Callable[[], None],
    ) -> None:
        self._senders = senders
        self._running = running
        self._state = state
        self._budget = budget
        self._on_finished = on_finished
        self._lock = threading.Lock()
        self._has_finished = False
        #: Whether the tick waits for the senders, and those that it wanted to start while they were running.
        self._is_awaited = False
        self._wanted: set[str] = set()
        self._report = TickReport()

    @property
    def is_busy(self) -> bool:
        """Whether a sender is running."""
        return bool(self._running)

    def takes_finished(self) -> bool:
        """Return whether any sender has found actions and ended since the last call; called before a wait for them."""
        with self._lock:
            self._is_awaited = True
            has_finished, self._has_finished = self._has_finished, False
        return has_finished

    def start(self) -> None:
        """Start the senders that are not running."""
        self._is_awaited = False
        for sender in self._senders:
            with self._lock:
                if sender.name in self._running:
                    self._wanted.add(sender.name)
                    continue
                self._wanted.discard(sender.name)
                self._running.add(sender.name)
            name = f"scheduled-actions-sender-{sender.name}"
            try:
                threading.Thread(target=self._serve, args=[sender], name=name, daemon=True).start()
            except BaseException:
                # Otherwise, the tick would wait for it.
                self._running.discard(sender.name)
                raise

    def add_to(self, report: TickReport) -> None:
        """Add the counts and errors since the last call to the report of the tick."""
        with self._lock:
            report.add(self._report)
            self._report = TickReport()

    def _serve(self, sender: _Sender) -> None:
        report = TickReport()
        has_found = sender.run(self._state, self._budget, report)
        with self._lock:
            self._report.add(report)
            self._has_finished |= has_found
            self._running.discard(sender.name)
            is_wanted = sender.name in self._wanted
        # A tick that lingers starts the senders whenever it is nudged. Without these conditions, the end of a run that
        # found nothing would start the next one at once.
        if has_found or is_wanted or self._is_awaited:
            self._on_finished()
