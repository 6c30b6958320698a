"""What features do in the transactions that settle and cancel actions. `runtime.py` registers them.

`ClaimHook`, for the transaction that claims, is in `claims`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from uuid import UUID

    from scheduled_actions.core.action import Status
    from scheduled_actions.database.connection import Connection


#: What a crashed process, or a hand in the tables, has left unfinished is repaired at least so often.
SWEEP_SECONDS = 300.0


class Ending(Protocol):
    """An action that a transaction settles, with the `column` of each `SettleHook`."""

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

    @property
    def column(self) -> str:
        """The field of `Ending` that is null for actions which do not concern the feature."""

    @property
    def left(self) -> Collection[object]:
        """What this process's transactions have left for after their commit; empty where there is nothing."""

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
