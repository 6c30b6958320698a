"""What the ticks of one process share."""

from __future__ import annotations

import math
import os
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scheduled_actions.ticks.rules.plan import Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scheduled_actions.actions.settling import Settler
    from scheduled_actions.core.config import Settings
    from scheduled_actions.core.retry import RetryPolicy
    from scheduled_actions.database.connection import Database
    from scheduled_actions.registry import Registry
    from scheduled_actions.registry.handler import Prepare
    from scheduled_actions.ticks.attempts.runner import Runner
    from scheduled_actions.ticks.hooks import Hooks
    from scheduled_actions.ticks.maintenance import Maintenance
    from scheduled_actions.ticks.report import Report, Tally


#: Pings beside one tick whose callers are told in its row.
_JOINED_MOST = 5


class Stuck:
    """How many abandoned handlers of each team have not returned: they are still at work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted: Counter[str | None] = Counter()

    def add(self, team_id: str | None, number: int) -> None:
        """Count one more, or one less."""
        with self._lock:
            self._counted[team_id] += number

    def counted(self) -> Counter[str | None]:
        """Return how many there are, by team."""
        with self._lock:
            return self._counted.copy()


class Turn:
    """Whose turn it is: one tick of a process is at work, and hears of the pings that came meanwhile."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holder: object | None = None
        #: The ping that waits to take over from a tick that lingers.
        self._relief: object | None = None
        self._was_asked = False
        self._has_changed = False
        self._nudge: Callable[[], None] | None = None
        #: Who else pinged since the tick at work began, the first few of them.
        self.joined: list[str] = []

    def take(self, *, patience_seconds: float, caller: str = "") -> object | None:
        """Take the turn; None when another tick has it, which then looks for work once more before it ends.

        Args:
            patience_seconds: How long to wait for the turn. A ping that wants to linger relieves the tick that
                does, so that somebody always keeps the watch; of several that wait the latest gets it.
            caller: Who pings.
        """
        with self._changed:
            if self._holder is not None:
                self._ask()
                if patience_seconds <= 0 or not self._relieves(patience_seconds):
                    if len(self.joined) < _JOINED_MOST:
                        self.joined.append(caller)
                    return None
            self._holder, self._was_asked, self._has_changed, self.joined = object(), False, False, []
            return self._holder

    def _relieves(self, patience_seconds: float) -> bool:
        """Wait until the turn is free, unless another ping comes to do so."""
        me = self._relief = object()
        self._changed.notify_all()
        self._changed.wait_for(lambda: self._holder is None or self._relief is not me, patience_seconds)
        if self._relief is not me:
            return False
        self._relief = None
        return self._holder is None

    def _ask(self) -> None:
        self._was_asked = True
        if self._nudge is not None:
            self._nudge()

    def ask(self, *, has_changed: bool = False) -> bool:
        """Tell the tick at work that something may have come due; return whether there is one.

        Args:
            has_changed: Something has changed that actions wait for: they are to be woken before they can be claimed.
        """
        with self._changed:
            if self._holder is not None:
                self._has_changed |= has_changed
                self._ask()
            return self._holder is not None

    def takes_change(self) -> bool:
        """Whether something has changed that actions wait for, since this was asked last."""
        with self._changed:
            has_changed, self._has_changed = self._has_changed, False
            return has_changed

    def hears(self, nudge: Callable[[], None] | None) -> None:
        """Let the tick at work be told when somebody asks, or nobody any more."""
        with self._changed:
            self._nudge = nudge

    @property
    def is_relieved(self) -> bool:
        """Whether another ping waits to keep the watch."""
        return self._relief is not None

    def goes_on(self, holder: object) -> bool:
        """Whether somebody asked meanwhile; if nobody did, the turn is given back in the same moment."""
        with self._changed:
            was_asked, self._was_asked = self._was_asked, False
            if not was_asked:
                self._give_back(holder)
            return was_asked

    def end(self, holder: object) -> None:
        """Give the turn back, if it was not given back before."""
        with self._changed:
            self._give_back(holder)

    def _give_back(self, holder: object) -> None:
        if self._holder is holder:
            self._holder = self._nudge = None
            self._changed.notify_all()


class Watchdog:
    """One thread for all ticks of a process, made when first needed: a thread for each costs as much as the tick.

    Args:
        monotonic: Seconds that never go back.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition(threading.Lock())
        self._thread: threading.Thread | None = None
        #: When what has to be done, by who asked for it.
        self._asked: dict[object, tuple[float, Callable[[], None]]] = {}
        #: Until when the thread sleeps.
        self._sleeps_until = math.inf

    @contextmanager
    def guards(self, until: float, act: Callable[[], None]) -> Iterator[None]:
        """Do `act`, once, in the watchdog's thread if the block lasts longer than `until`.

        Args:
            until: In monotonic seconds.
            act: Must not raise.
        """
        me = object()
        if self._pid != os.getpid():
            # A fork leaves its child without the thread, and perhaps with its lock held for ever.
            self._begin()
        with self._changed:
            self._asked[me] = until, act
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name="scheduled-actions-watchdog", daemon=True)
                self._thread.start()
            elif until < self._sleeps_until:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._asked.pop(me, None)

    def close(self) -> None:
        """Let the thread end; the next that asks gets a new one."""
        with self._changed:
            self._thread = None
            self._changed.notify_all()

    def _watch(self) -> None:
        with self._changed:
            while self._thread is threading.current_thread():
                now = self._monotonic()
                over = [who for who, (until, _) in self._asked.items() if until <= now]
                acts = [self._asked.pop(who)[1] for who in over]
                for act in acts:
                    self._changed.release()
                    try:
                        act()
                    finally:
                        self._changed.acquire()
                if not acts:
                    self._sleep(now)

    def _sleep(self, now: float) -> None:
        self._sleeps_until = min((until for until, _ in self._asked.values()), default=math.inf)
        self._changed.wait(None if math.isinf(self._sleeps_until) else self._sleeps_until - now)


@dataclass(slots=True, kw_only=True, eq=False)
class Process:
    """What the ticks of one process share."""

    database: Database
    registry: Registry
    settings: Settings
    maintenance: Maintenance
    settler: Settler
    hooks: Hooks
    #: Validates follow-ups.
    prepare: Prepare
    #: Seconds that never go back.
    monotonic: Callable[[], float]
    runner: Runner
    watchdog: Watchdog
    #: How long to wait after a failure where neither the action nor its handler says.
    usual_policy: RetryPolicy
    turn: Turn = field(default_factory=Turn)
    pace: Pace = field(default_factory=Pace)
    #: Set once nothing more is to be started.
    is_stopping: threading.Event = field(default_factory=threading.Event)
    stuck_by_team: Stuck = field(default_factory=Stuck)
    #: What is counted for `/metrics`; None where nobody could ask for it.
    tally: Tally | None = None
    #: How the last heartbeat of this process went; None where there is none.
    heartbeat_outcome: Callable[[], str] | None = None
    had_first_tick: bool = False
    #: When this process looks for schedules without a planned occurrence again.
    next_sweep: float = float("-inf")

    def counts(self, report: Report) -> dict[str, Any]:
        """Return what a tick's row keeps of its answer, and of the heartbeat before it."""
        counts = report.counts()
        if self.heartbeat_outcome is not None:
            return {**counts, "heartbeat": self.heartbeat_outcome()}
        return counts

    @property
    def is_exhausted(self) -> bool:
        """Whether handlers that never returned hold every thread: only a new process can work again."""
        return self.runner.capacity <= 0
