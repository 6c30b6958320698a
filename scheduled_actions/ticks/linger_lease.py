"""The watch of a tick that lingers: when the next action comes due, and whether somebody else keeps it now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduled_actions.ticks import store as tick_store

if TYPE_CHECKING:
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.ticks.worker_state import Process

#: How the holders begin that live longer than a tick.
LISTENER = "listen:"
#: New work is heard of within this time, where nobody nudges.
LOOK_SECONDS = 1.0


class Watch:
    """Keeps the watch over what comes due, until a newer ping takes it over or the time is up.

    Args:
        process: Whose turn it is, and what time.
        holder: Who keeps it: a tick, or a listener over all its ticks.
        until: On the process's monotonic clock; in the past for a tick that does not linger.
        window_seconds: How far it looks ahead.
    """

    def __init__(self, process: Process, holder: str, *, until: float, window_seconds: float) -> None:
        self._process = process
        self._holder = holder
        self._until = until
        self._window_seconds = window_seconds
        self._is_mine = window_seconds > 0
        self._looked_at = float("-inf")
        self._is_due = False
        #: Whether something has changed that actions may wait for.
        self.has_wakes = False
        #: On the monotonic clock; None: nothing comes due within the window.
        self.next_due: float | None = None

    @property
    def is_kept(self) -> bool:
        """Whether this tick goes on waiting for what comes due."""
        return (
            self._is_mine
            and self._process.monotonic() < self._until
            and not self._process.turn.is_relieved
            and not self._process.is_stopping.is_set()
        )

    def begin(self, connection: Connection) -> None:
        """Take the watch over from the tick that keeps it; a listener keeps it better."""
        if self._is_mine:
            self._is_mine = tick_store.take_watch(connection, self._holder)

    def look(self, connection: Connection) -> None:
        """Ask what is due, what comes next, and whether the watch is still kept here."""
        if self._holder.startswith(LISTENER):
            self.begin(connection)
        is_kept, self._is_due, seconds, self.has_wakes = tick_store.look_ahead(
            connection, self._holder, window_seconds=self._window_seconds
        )
        self._is_mine = self._is_mine and is_kept
        # Read after the answer came: nobody wakes before the database's own time for it.
        self._looked_at = self._process.monotonic()
        self.next_due = None if seconds is None else self._looked_at + seconds

    def wants_a_look(self) -> bool:
        """Whether, beside running handlers, something has come due since the last look, or it was long ago."""
        if not self.is_kept:
            return False
        now = self._process.monotonic()
        return now - self._looked_at >= LOOK_SECONDS or (self.next_due is not None and now >= self.next_due)

    def seconds_to_wait(self, *, was_futile: bool) -> float:
        """Return how long nothing needs to be done.

        Args:
            was_futile: The last claim got nothing of what was due: it is held up, and asking at once again is no use.
        """
        now = self._process.monotonic()
        if self._is_due and not was_futile:
            return 0.0
        wake = min(now + LOOK_SECONDS, self._until)
        if self.next_due is not None:
            wake = min(wake, self.next_due)
        return max(0.0, wake - now)
