"""Share state between the ticks of one process: the running tick, the linger lease, the watchdog, the threads."""

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from scheduled_actions.actions.settling import Settler
from scheduled_actions.core.config import Settings
from scheduled_actions.core.retry import RetryPolicy
from scheduled_actions.database.connection import Connection, Database
from scheduled_actions.registry import Registry
from scheduled_actions.registry.handler import PrepareFollowUp
from scheduled_actions.ticks import store as tick_store
from scheduled_actions.ticks.attempts.handler_threads import HandlerThreads
from scheduled_actions.ticks.hooks import DispatchWork, Hooks
from scheduled_actions.ticks.report import MetricsBuffer, TickReport
from scheduled_actions.ticks.rules.plan import DurationStats, TickBudget

#: Maximum number of further callers stored in a tick's row.
_MAX_JOINED = 5
#: Prefix of holder ids of listeners, which hold the linger lease for longer than a tick.
LISTENER = "listen:"
#: How often the holder of the linger lease looks for new work without a notification.
LOOK_SECONDS = 1.0


class SingleFlight:
    """Lets one tick of a process run at a time, and notifies it of pings that arrive while it runs."""

    def __init__(self) -> None:
        #: Its lock is reentrant.
        self._changed = threading.Condition()
        self._holder: object | None = None
        #: The ping that waits to take over from a lingering tick.
        self._successor: object | None = None
        self._was_notified = False
        self._has_changed = False
        self._nudge: Callable[[], None] | None = None
        #: The first callers that were answered `busy` since the running tick began, at most `_MAX_JOINED`.
        self.joined: list[str] = []

    def acquire(self, *, patience_seconds: float, caller: str = "") -> object | None:
        """Return a holder's token; None if another tick keeps it.

        A running tick is notified in either case, and looks for work once more.

        Args:
            patience_seconds: How long to wait for the token. A ping that may linger takes over from a lingering tick,
                so that one tick always lingers; if several wait, the latest gets the token.
            caller: Name of the caller that pings.
        """
        with self._changed:
            if self.notify() and (patience_seconds <= 0 or not self._take_over(patience_seconds)):
                if len(self.joined) < _MAX_JOINED:
                    self.joined.append(caller)
                return None
            self._holder, self._was_notified, self._has_changed, self.joined = object(), False, False, []
            return self._holder

    def _take_over(self, patience_seconds: float) -> bool:
        """Wait until the holder has released the token; return False if it does not in time, or a later ping waits."""
        me = self._successor = object()
        self._changed.notify_all()
        self._changed.wait_for(lambda: self._holder is None or self._successor is not me, patience_seconds)
        if self._successor is not me:
            return False
        self._successor = None
        return self._holder is None

    def notify(self, *, has_changed: bool = False) -> bool:
        """Notify the running tick that actions may have become due; return False if no tick is running.

        Args:
            has_changed: Whether there is a change that actions wait for: they must be woken before they are claimed.
        """
        with self._changed:
            if self._holder is None:
                return False
            self._has_changed |= has_changed
            self._was_notified = True
            if self._nudge is not None:
                self._nudge()
            return True

    def take_change(self) -> bool:
        """Return whether a change that actions wait for was notified since the last call."""
        with self._changed:
            has_changed, self._has_changed = self._has_changed, False
            return has_changed

    def subscribe(self, nudge: Callable[[], None]) -> None:
        """Call `nudge` on each notification until the holder releases the token."""
        with self._changed:
            self._nudge = nudge

    @property
    def is_relieved(self) -> bool:
        """Whether another ping waits to take over."""
        return self._successor is not None

    def release_unless_notified(self, holder: object) -> bool:
        """Return whether there was a notification since `acquire` or the last call; if not, release the token."""
        with self._changed:
            was_notified, self._was_notified = self._was_notified, False
            if not was_notified:
                self.release(holder)
            return was_notified

    def release(self, holder: object) -> None:
        """Release the token, so that the next tick can run; do nothing if the holder has already released it."""
        with self._changed:
            if self._holder is holder:
                self._holder = self._nudge = None
                self._changed.notify_all()


class Watchdog:
    """Enforces the time limits of all ticks of a process on one thread; a thread per tick would double a tick's cost.

    Args:
        monotonic: A monotonic clock, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition(threading.Lock())
        self._thread: threading.Thread | None = None
        #: By guard: the time limit on the monotonic clock, and the function to call then.
        self._guards: dict[object, tuple[float, Callable[[], None]]] = {}
        self._sleeps_until = math.inf

    @contextmanager
    def guards(self, until: float, act: Callable[[], None]) -> Iterator[None]:
        """Call `act` once, on the watchdog's thread, if the block has not ended by `until`.

        Args:
            until: The time limit, on the monotonic clock.
            act: The function to call; must not raise.
        """
        me = object()
        if self._pid != os.getpid():
            # A forked child has no such thread, and may have inherited a lock that is never released.
            self._reset()
        with self._changed:
            self._guards[me] = until, act
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name="scheduled-actions-watchdog", daemon=True)
                self._thread.start()
            elif until < self._sleeps_until:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._guards.pop(me, None)

    def close(self) -> None:
        """End the thread; the next guard starts a new one."""
        with self._changed:
            self._thread = None
            self._changed.notify_all()

    def _watch(self) -> None:
        with self._changed:
            while self._thread is threading.current_thread():
                now = self._monotonic()
                over = [guard for guard, (until, _) in self._guards.items() if until <= now]
                for act in [self._guards.pop(guard)[1] for guard in over]:
                    self._changed.release()
                    try:
                        act()
                    finally:
                        self._changed.acquire()
                if not over:
                    self._sleeps_until = min((until for until, _ in self._guards.values()), default=math.inf)
                    self._changed.wait(None if math.isinf(self._sleeps_until) else self._sleeps_until - now)


@dataclass(slots=True, kw_only=True, eq=False)
class WorkerState:
    """The state that the ticks of one process share."""

    database: Database
    registry: Registry
    settings: Settings
    settler: Settler
    hooks: Hooks
    #: Validates follow-ups.
    prepare: PrepareFollowUp
    #: A monotonic clock, in seconds.
    monotonic: Callable[[], float]
    threads: HandlerThreads
    watchdog: Watchdog
    #: The retry policy of failed actions if neither the action nor its handler has one.
    default_policy: RetryPolicy
    single_flight: SingleFlight = field(default_factory=SingleFlight)
    duration_stats: DurationStats = field(default_factory=DurationStats)
    #: Set when no more handlers may start.
    is_stopping: threading.Event = field(default_factory=threading.Event)
    #: Values for `/metrics`; None without `prometheus_client`.
    metrics: MetricsBuffer | None = None
    #: Returns the outcome of the last heartbeat of this process; None: no heartbeat.
    heartbeat_outcome: Callable[[], str] | None = None
    #: None without executors that use a broker.
    dispatch: "MakeDispatch | None" = None
    #: Whether all steps that prepare the first tick have succeeded.
    had_first_tick: bool = False
    #: Whether the last batch that was claimed in a transaction had an occurrence of a schedule.
    meets_series: bool = True
    #: When the next sweep of this process is due, on the monotonic clock.
    next_sweep: float = float("-inf")

    def counts(self, report: TickReport) -> dict[str, Any]:
        """Return the counts of a report for the tick's row, with the outcome of the last heartbeat."""
        return report.counts() | ({} if self.heartbeat_outcome is None else {"heartbeat": self.heartbeat_outcome()})

    @property
    def is_exhausted(self) -> bool:
        """Whether abandoned handlers occupy every thread, so that this process cannot run any more handlers."""
        return self.threads.capacity <= 0


#: Creates the work of one tick for executors that use a broker; called with the state of the process, the tick's time
#: limits, and a function that wakes the tick.
MakeDispatch: TypeAlias = Callable[[WorkerState, TickBudget, Callable[[], None]], DispatchWork]


class LingerLease:
    """The lease of the one tick or listener that waits for actions to become due.

    A tick holds the lease until a newer ping takes over, the process stops, or the time to linger has passed.

    Args:
        state: The shared state, with the clock and the pings that wait to take over.
        budget: The time limits of the tick.
        holder: The id of the tick, or of the listener that runs it.
    """

    def __init__(self, state: WorkerState, budget: TickBudget, holder: str) -> None:
        self._state = state
        self._budget = budget
        self._holder = holder
        self._is_holder = True
        self._looked_at = float("-inf")
        self._is_due = False
        #: Whether there are changes that actions may wait for.
        self.has_wakes = False
        #: Whether a pending action has passed its `expires_at`.
        self.has_late = False
        #: Whether a pause has ended and may not have returned all of its actions.
        self.has_ended_pauses = False
        #: Whether executors may run due actions.
        self.may_park = False
        #: When the next action becomes due, on the monotonic clock; None if none does within the window.
        self.next_due: float | None = None

    @property
    def is_held(self) -> bool:
        """Whether this tick keeps waiting for actions to become due."""
        return (
            self._is_holder
            and self._state.monotonic() < self._budget.linger_until
            and not self._state.single_flight.is_relieved
            and not self._state.is_stopping.is_set()
        )

    def acquire(self, connection: Connection) -> None:
        """Take the lease over from any tick, but not from an active listener; do nothing once the lease is lost."""
        self._is_holder = self._is_holder and tick_store.acquire_linger_lease(connection, self._holder)

    def look(self, connection: Connection) -> None:
        """Look up whether actions are due, when the next one becomes due, and whether the lease is held.

        A listener renews its lease first.
        """
        if self._holder.startswith(LISTENER):
            self.acquire(connection)
        window_seconds = self._budget.linger_until - self._budget.started
        found = tick_store.find_upcoming(connection, self._holder, window_seconds=window_seconds)
        self._is_holder = self._is_holder and found.is_holder
        self._is_due, self.has_wakes, self.has_late = found.is_due, found.has_wakes, found.has_late
        self.has_ended_pauses = found.has_ended_pauses
        self.may_park = found.is_due and found.has_executors
        # The clock is read after the statement, so that no action starts before it is due by the database's clock.
        self._looked_at = self._state.monotonic()
        self.next_due = None if found.seconds is None else self._looked_at + found.seconds

    def wants_a_look(self) -> bool:
        """Return whether to look for work while handlers run.

        True if the lease is held, and the next action is due or the last look was at least `LOOK_SECONDS` ago.
        """
        look_at = min(self._looked_at + LOOK_SECONDS, self.next_due or math.inf)
        return self.is_held and self._state.monotonic() >= look_at

    def seconds_to_wait(self, *, was_futile: bool) -> float:
        """Return the seconds until the next look for work.

        Args:
            was_futile: Whether the last claim got none of the due actions. Other transactions hold them, so the next
                claim has to wait.
        """
        if self._is_due and not was_futile:
            return 0.0
        now = self._state.monotonic()
        return max(0.0, min(now + LOOK_SECONDS, self._budget.linger_until, self.next_due or math.inf) - now)
