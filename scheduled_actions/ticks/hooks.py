"""The hooks through which features extend a tick. `runtime.py` registers them; the code of a tick handles actions only.

The hooks of claiming transactions are in `actions.claims`, those of settlements and cancellations in `actions.hooks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from scheduled_actions.actions.claims import ClaimHook
from scheduled_actions.actions.rules.settlement import AttemptResult, Outcome
from scheduled_actions.core.action import Claimed
from scheduled_actions.database.connection import Connection

if TYPE_CHECKING:
    from scheduled_actions.actions.evaluation import Do, PendingCheck
    from scheduled_actions.ticks.report import TickReport

#: Deletes rows past their retention, at most `limit` of each table; the returned number is not used.
Prune: TypeAlias = "Callable[..., int]"
#: By id: the result of an action whose condition does not hold, or the external checks that a condition still needs.
Evaluated: TypeAlias = "Mapping[UUID, AttemptResult | PendingCheck]"
#: Evaluates the conditions of claimed actions; called outside any transaction.
Evaluate: TypeAlias = "Callable[[Sequence[Claimed], Do], Evaluated]"
#: Returns the outcome of an action after its external checks; None to start its handler. Called on a handler thread.
CheckExternal: TypeAlias = "Callable[[PendingCheck, Claimed, Do], AttemptResult | None]"


class NamedStep(NamedTuple):
    """A step on a connection in autocommit mode, with its name for reports."""

    name: str
    run: Callable[[Connection], object]


class AttemptGuard(Protocol):
    """A condition that allowed an attempt to begin, and must still hold in the handler's transaction."""

    @property
    def subject(self) -> str:
        """The object that the guard checks, as named in messages, such as `its deadline`."""

    @property
    def condition_text(self) -> str | None:
        """A condition that is evaluated before the handler is called, besides that of the action, as JSON; or None."""

    def after_condition(self, connection: Connection, outcome: Outcome | None) -> Outcome | None:
        """Return the outcome of the attempt, given that of `condition_text`; None to call the handler."""

    def holds(self, connection: Connection) -> bool:
        """Return whether the guard still holds; it cannot change until the transaction ends."""


class AttemptHook(Protocol):
    """A hook that a feature runs before a handler is called, on the handler's thread."""

    @property
    def column(self) -> str:
        """The field of `Claimed` that is None for actions that do not use this feature."""

    @property
    def subject(self) -> str:
        """The object that the hook checks, as named in messages, such as `its deadline`."""

    def before_attempt(self, claimed: Claimed) -> AttemptGuard | Outcome | None:
        """Return an outcome if the handler must not be called, else None or a guard for transactional handlers."""


class BackgroundWork(Protocol):
    """Work that the transactions of one tick defer until after their commit; it runs on its own threads."""

    @property
    def is_busy(self) -> bool:
        """Whether work is in progress, which may make actions due."""

    def takes_finished(self) -> bool:
        """Return whether any work has finished since the last call."""

    def start(self) -> None:
        """Start the work deferred since the last call; must be called outside any transaction."""


class DispatchWork(BackgroundWork, Protocol):
    """Hands the due actions of executors to brokers; `start` does so unless it is still in progress."""

    def add_to(self, report: TickReport) -> None:
        """Add the counts and errors since the last call to the report of the tick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The hooks of the features of one project."""

    #: Run in the first tick of a process, before its claims; if any fails, the next tick runs all of them again.
    prepare: tuple[NamedStep, ...] = ()
    #: Run once, after `prepare`; a failure is logged and among the errors of that tick, and is not repeated.
    checks: tuple[NamedStep, ...] = ()
    #: Run at most every `SWEEP_SECONDS`, before the claims, to repair rows that crashes left unfinished.
    sweep: tuple[NamedStep, ...] = ()
    #: Run in the transaction that claims a batch, in this order.
    after_claim: tuple[ClaimHook, ...] = ()
    #: Runs after the claim has committed.
    evaluate: Evaluate
    #: Runs before the handler is called.
    check_external: CheckExternal
    #: Run before each handler is called, in this order.
    around_attempt: tuple[AttemptHook, ...] = ()
    #: Run with each prune: at the end of a tick that found old rows, and by `maintenance:prune`.
    prune: tuple[Prune, ...] = ()
    #: Creates the background work of a tick; called with the function that wakes the tick when work has finished.
    background: Callable[[Callable[[], None]], BackgroundWork]
    #: Returns the next occurrence of a schedule's rule after an instant, for `Context`; None if there is none.
    next_occurrence: Callable[[UUID, datetime], datetime | None]
