"""Decide which of the queued actions may be claimed: as many as the limits of all their keys allow."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID


class KeyId(NamedTuple):
    """A limit key of a team; '' stands for no team, and for keys whose limit applies across teams."""

    team_id: str
    limit_key: str


class QueuedAction(NamedTuple):
    """A due action in the queue of its first limit key, or of its executor."""

    id: UUID
    #: Empty without limit keys.
    keys: tuple[KeyId, ...]
    #: The team of its lock group, '' for none, and the group; None without a lock group.
    lock_group: tuple[str, str] | None = None
    #: Whether the action kept its lock group while it was pending.
    holds_group: bool = False
    priority: int = 0
    #: When it is due, in epoch seconds.
    scheduled_epoch: float = 0.0
    #: '' for none.
    team_id: str = ""

    @property
    def place(self) -> tuple[int, float, int]:
        """The place in the order of claims."""
        return self.priority, self.scheduled_epoch, self.id.int


def admit(candidates: Iterable[QueuedAction], rooms: Mapping[KeyId, int], *, wanted: int) -> list[QueuedAction]:
    """Return the actions to claim, at most `wanted`, in the given order.

    An action is admitted if each of its keys has room left by those admitted before it. Of each lock group, only the
    first action is admitted.

    Args:
        candidates: In the order of the claim.
        rooms: How many actions of each key may be claimed now. Keys that are missing, because another transaction has
            locked them, have no room.
        wanted: Maximum number of actions.
    """
    left = dict(rooms)
    groups: set[tuple[str, str]] = set()
    admitted: list[QueuedAction] = []
    for one in candidates:
        if len(admitted) == wanted:
            break
        if one.lock_group in groups or any(left.get(key, 0) < 1 for key in one.keys):
            continue
        for key in one.keys:
            left[key] -= 1
        if one.lock_group is not None:
            groups.add(one.lock_group)
        admitted.append(one)
    return admitted
