"""The protocol that wakes a tick; `ticks.wake` implements it."""

from collections.abc import Iterable
from typing import Protocol
from uuid import UUID


class Wake(Protocol):
    """Wakes a tick in the background; never delays or fails the caller."""

    def notify(self, *, has_changed: bool = False) -> None:
        """Wake a tick after the commit of a due action, or of a change that actions may be waiting for.

        Args:
            has_changed: Whether such a change was committed. The tick then checks which waiting actions become due.
        """

    def notify_after_commit(self, action_ids: Iterable[UUID]) -> None:
        """Wake a tick once the caller's own transaction has committed one of these actions."""
