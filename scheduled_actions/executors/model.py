"""Values of executors."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

#: Maximum number of workers that are returned of one executor.
WORKERS_MOST = 100


class Ticket(NamedTuple):
    """The right to take over one claimed action."""

    #: The action.
    id: UUID
    #: The claim token. A ticket is valid as long as the action is claimed with this token.
    token: UUID
    action_type: str
    #: None: no team.
    team_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenWorker:
    """A worker that was seen within the last two minutes and has not ended."""

    #: Host and process id.
    name: str
    #: Number of actions that it runs at the same time.
    concurrency: int
    #: Number of actions that it runs now.
    running: int
    started_at: datetime
    #: When it last wrote to the database: when it takes actions over, and at least once a minute.
    seen_at: datetime
    #: When it last took actions over; None: never.
    last_taken_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorState:
    """An executor and its workers."""

    name: str
    #: Action types, and prefixes of types followed by `*`. Empty: it was removed, and its queue returns to the claims.
    types: Sequence[str]
    #: How actions reach the workers: `postgres`, or the broker's library.
    carrier: str
    #: Number of claimed actions that no worker has taken over, at most 10,000. With a broker: its untaken tickets.
    untaken: int
    #: When the oldest of them was claimed; None without any.
    oldest_untaken_at: datetime | None
    #: Number of due actions that are not claimed, at most 10,000.
    due: int
    #: Number of due actions that are in the queues of limit keys, at most 10,000.
    queued: int
    #: When the oldest due action became due; None without due actions.
    oldest_due_at: datetime | None
    #: Number of actions that its workers run.
    running: int
    #: Number of workers seen within the last two minutes that have not ended.
    workers: int
    #: When a worker last took actions over; None if none of the last day's workers did.
    last_taken_at: datetime | None
    #: When a worker was last seen, also one that has ended, such as that of a ping; None: not within the last day.
    last_seen_at: datetime | None
    #: Whether a worker was seen within the last two minutes, also one that has ended.
    is_attended: bool
    #: The workers of `workers`, the oldest first, at most `WORKERS_MOST`.
    seen_workers: Sequence[SeenWorker]


class ExecutorChange(NamedTuple):
    """A change of the executors in the database."""

    name: str
    #: The types before; empty: the executor was added.
    before: Sequence[str]
    #: The types after; empty: the executor was removed.
    after: Sequence[str]


def is_of_types(action_type: str, types: Iterable[str]) -> bool:
    """Return whether an action type is one of `types`, or begins with a prefix of types followed by `*`."""
    return any(
        action_type.startswith(one.removesuffix("*")) if one.endswith("*") else action_type == one for one in types
    )
