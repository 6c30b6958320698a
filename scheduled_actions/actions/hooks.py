"""What features add to the transactions that claim, settle and cancel actions. `runtime.py` registers them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from scheduled_actions.core.action import Claimed, Status
    from scheduled_actions.database.connection import Connection


#: What a crashed process, or a hand in the tables, has left unfinished is repaired at least so often.
SWEEP_SECONDS = 300.0


@dataclass(slots=True)
class ClaimResult:
    """What became of claimed actions."""

    #: To be run.
    kept: list[Claimed]
    #: Ended as skipped, each with the reason.
    skipped: list[tuple[Claimed, str]] = field(default_factory=list)
    #: Occurrences whose end nothing waits for: neither their schedule, to take its next step, nor another occurrence.
    unawaited: frozenset[UUID] = frozenset()
    #: Some of them are to be run before others that were claimed first: teams take turns.
    is_by_turns: bool = False
    #: Cannot be run at all, each with the reason: they fail.
    refused: list[tuple[Claimed, str]] = field(default_factory=list)

    @property
    def has_found_work(self) -> bool:
        """Whether anything came of the claim but actions that wait for their turn."""
        return bool(self.kept or self.skipped or self.refused)

    def add(self, other: ClaimResult) -> None:
        """Add what became of others."""
        self.kept += other.kept
        self.skipped += other.skipped
        self.refused += other.refused
        self.unawaited |= other.unawaited

    def narrow(self, later: ClaimResult) -> None:
        """Take in what a later hook made of those kept."""
        self.kept = later.kept
        self.skipped += later.skipped
        self.refused += later.refused
        self.unawaited |= later.unawaited

    def take_turns_with(self, other: ClaimResult) -> None:
        """Add what was claimed for other teams."""
        self.kept = self.kept + other.kept
        self.skipped = self.skipped + other.skipped
        self.refused = self.refused + other.refused
        self.unawaited |= other.unawaited
        self.is_by_turns = bool(other.kept)


class ClaimHook(Protocol):
    """What a feature does in the transaction that claims a batch. No function of the project runs here."""

    def after_claim(self, connection: Connection, claimed: list[Claimed]) -> ClaimResult:
        """Return what becomes of actions that were just claimed.

        Args:
            connection: In the transaction that claimed them.
            claimed: Of any kind; those that are none of the feature's are kept as they are.
        """

    def claim_refused(self, connection: Connection, claimed: Claimed, error: BaseException) -> ClaimResult:
        """Return what becomes of one for which `after_claim` was refused; its changes were undone.

        Args:
            connection: In the transaction that claimed it.
            claimed: The action.
            error: Why.
        """


class Ending(Protocol):
    """An action that a transaction settles."""

    @property
    def action_id(self) -> UUID:
        """Which."""

    @property
    def schedule_id(self) -> UUID | None:
        """The series that it belongs to."""


class SettledAction(NamedTuple):
    """An action that was settled."""

    action_id: UUID
    schedule_id: UUID | None


class SettleHook(Protocol):
    """What a feature does in the transaction that settles or cancels actions: its locks first, its own rows after."""

    def concerns(self, ending: Ending) -> bool:
        """Whether there is anything to do for an action."""

    def lock_before_settle(self, connection: Connection, endings: Sequence[Ending]) -> object:
        """Lock the feature's rows, before those of the actions; return what `after_settle` needs of them."""

    def after_settle(
        self, connection: Connection, locked: object, endings: Sequence[Ending], statuses: Mapping[UUID, Status]
    ) -> None:
        """Write the feature's rows.

        Args:
            connection: In the transaction that settled the actions.
            locked: What `lock_before_settle` returned.
            endings: Those that concern the feature.
            statuses: In which status each action is now; one that is missing had lost its claim.
        """

    def settled_apart(
        self, connection: Connection, endings: Sequence[Ending], statuses: Mapping[UUID, Status], *, one_by_one: bool
    ) -> None:
        """Do both after the settlement has committed, in transactions of its own; nothing is raised.

        Args:
            connection: In autocommit mode.
            endings: Those that concern the feature.
            statuses: As for `after_settle`.
            one_by_one: They were refused together.
        """

    def lock_before_cancel(self, connection: Connection, action_id: UUID) -> object | None:
        """Lock the feature's rows of an action that is to be cancelled; None where there are none."""

    def after_cancel(self, connection: Connection, locked: object, action_id: UUID, status: Status) -> None:
        """Write the feature's rows once the action has been cancelled, in the same transaction."""

    def finish_left(self) -> None:
        """Do what this thread's transactions have left for after their commit; nothing is raised."""

    def release_left(self) -> None:
        """Leave to any thread what this thread's transactions have left: they have ended."""
