"""What features do in a tick. `runtime.py` registers them: the tick itself knows actions alone.

The hooks of the transactions that claim are in `actions.claims`, of those that settle and cancel in `actions.hooks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.actions.claims import ClaimHook
    from scheduled_actions.actions.evaluation import Asking, Do
    from scheduled_actions.actions.rules.settlement import Held, Outcome
    from scheduled_actions.core.action import Claimed
    from scheduled_actions.database.connection import Connection

#: Done on a connection in autocommit mode.
Step: TypeAlias = "Callable[[Connection], object]"
#: Removes at most so many rows past their retention; returns how many.
Prune: TypeAlias = "Callable[[Connection, int], int]"
#: Returns, by id, what becomes of claimed actions that are not dispatched as they are. In no transaction.
Evaluate: TypeAlias = "Callable[[Sequence[Claimed], Do], Mapping[UUID, Held | Asking]]"
#: Returns what becomes of an action after its external checks; None: its handler starts. On a runner's thread.
CheckExternal: TypeAlias = "Callable[[Asking, Claimed, Do], Held | None]"


class NamedStep(NamedTuple):
    """A step, and what reports call it."""

    name: str
    run: Step


class Guard(Protocol):
    """What an attempt was allowed to begin under."""

    @property
    def subject(self) -> str:
        """What it looks at, for reasons: `its deadline`."""

    def holds(self, connection: Connection) -> bool:
        """Whether it still may; until the transaction ends nothing changes that."""


class AttemptHook(Protocol):
    """What a feature does around the call of a handler, on the runner's thread."""

    @property
    def column(self) -> str:
        """The field of `Claimed` that is null for actions which are none of the feature's."""

    @property
    def subject(self) -> str:
        """What it looks at, for reasons: `its deadline`."""

    def before_attempt(self, claimed: Claimed) -> Guard | Outcome | None:
        """Return what a transactional handler is guarded by, what becomes of the action instead, or None."""


class Background(Protocol):
    """Work that the transactions of one tick leave for after their commit, on threads of its own."""

    @property
    def is_busy(self) -> bool:
        """Whether there is work under way: something may come due of it."""

    def takes_finished(self) -> bool:
        """Whether any was finished since the last call."""

    def start(self) -> None:
        """Start what has been left since the last call; outside any transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The features of one project, as its ticks call them."""

    #: In the first tick of a process, before its claims; repeated in the next one where a step is refused.
    prepare: tuple[NamedStep, ...] = ()
    #: Every `SWEEP_SECONDS`, before the claims: repairs what crashes have left.
    sweep: tuple[NamedStep, ...] = ()
    #: In the transaction that claims a batch, in this order.
    after_claim: tuple[ClaimHook, ...] = ()
    #: After the claim has committed.
    evaluate: Evaluate
    #: Before the handler is called.
    check_external: CheckExternal
    #: Around its call.
    around_attempt: tuple[AttemptHook, ...] = ()
    #: Made for each tick, with what wakes the tick when some of the work is done.
    background: Callable[[Callable[[], None]], Background]
    #: The next instant of a schedule's rule after an occurrence, for a handler that asks; None when there is none.
    next_occurrence: Callable[[UUID, datetime], datetime | None]
