"""What schedules or changes something tells the tick; `ticks.wake` does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID


class Wake(Protocol):
    """Has a tick look at once, in the background; it never delays or fails the caller."""

    def committed(self, *, has_changed: bool = False) -> None:
        """Have a tick look at once: something due has been committed, or a change that actions wait for."""

    def uncommitted(self, action_ids: Iterable[UUID]) -> None:
        """Have a tick look once one of these is committed, by a transaction that is not ours."""
