"""Who pinged for a tick, and whether they still wait for its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Caller:
    """The caller of one tick.

    Args:
        name: What it calls itself.
        is_gone: Whether it has hung up; None where nobody can tell.
        started: When the tick began, on the monotonic clock.
    """

    def __init__(self, name: str, is_gone: Callable[[], bool] | None, started: float) -> None:
        self.name = name
        self._is_gone = is_gone
        self._started = started
        self._hung_up_seconds: float | None = None

    def look(self, now: float) -> None:
        """Notice when it hangs up: how long it had waited is its own time limit, to within a look."""
        if self._is_gone is not None and self._hung_up_seconds is None and self._is_gone():
            self._hung_up_seconds = now - self._started

    @property
    def outcome(self) -> str:
        """How the tick ended, seen from here."""
        return "finished" if self._hung_up_seconds is None else "hung_up"

    def notes(self, joined: Sequence[str]) -> dict[str, Any]:
        """Return what the tick's row says of its callers beside its counts.

        Args:
            joined: Those that pinged while the tick was at work, and were told that it is busy.
        """
        notes: dict[str, Any] = {}
        if self._hung_up_seconds is not None:
            notes["hung_up_seconds"] = round(self._hung_up_seconds, 1)
        if joined:
            notes["joined"] = list(joined)
        return notes
