"""The interface of features to the transactions that settle and cancel actions; `runtime.py` registers hooks.

`ClaimHook`, for the claiming transaction, is in `claims`.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from scheduled_actions.core.action import Status
from scheduled_actions.database.connection import Connection

#: Interval of the sweep, which completes changes that a crashed process or a manual change of the tables left
#: unfinished.
SWEEP_SECONDS = 300.0


class EndingAction(Protocol):
    """An action that a transaction settles; it has the field that each `SettleHook` names as its `column`."""

    @property
    def action_id(self) -> UUID:
        """The id of the action."""

    @property
    def schedule_id(self) -> UUID | None:
        """The id of the action's schedule; None without one."""


class SettledAction(NamedTuple):
    """A settled action and its schedule."""

    action_id: UUID
    schedule_id: UUID | None


class SettleHook(Protocol):
    """A feature's part in settling or cancelling actions: lock its rows first, and change them last."""

    @property
    def column(self) -> str:
        """The field of `EndingAction` that is None if an action does not concern the feature."""

    @property
    def deferred(self) -> Collection[object]:
        """The work that this process has deferred until after a commit; empty if there is none."""

    def lock_before_settle(self, connection: Connection, endings: Sequence[EndingAction]) -> object:
        """Lock the feature's rows before the actions are locked; return the argument `locked` of `after_settle`."""

    def after_settle(
        self, connection: Connection, locked: object, endings: Sequence[EndingAction], statuses: Mapping[UUID, Status]
    ) -> None:
        """Change the feature's rows after the actions were settled, in the same transaction.

        Args:
            connection: In the settling transaction.
            locked: As returned by `lock_before_settle`.
            endings: The actions that concern the feature.
            statuses: The new status of each action; an action that lost its claim is missing.
        """

    def settled_apart(
        self,
        connection: Connection,
        endings: Sequence[EndingAction],
        statuses: Mapping[UUID, Status],
        *,
        was_refused: bool,
    ) -> None:
        """Lock and change the feature's rows after the settlement committed, in separate transactions; must not raise.

        Args:
            connection: In autocommit mode.
            endings: The actions that concern the feature.
            statuses: As for `after_settle`.
            was_refused: Whether the database rejected the batch of these actions, after waiting for their locks.
        """

    def lock_before_cancel(self, connection: Connection, action_id: UUID, *, team_id: str | None) -> object | None:
        """Lock the feature's rows for an action before it is cancelled; return the argument `locked` of `after_cancel`.

        None if there are no such rows (in that team); `after_cancel` is then not called.
        """

    def after_cancel(self, connection: Connection, locked: object, action_id: UUID, status: Status) -> None:
        """Change the feature's rows in the same transaction, after the action was cancelled or requested to stop.

        Args:
            connection: In the cancelling transaction.
            locked: As returned by `lock_before_cancel`.
            action_id: The action.
            status: `cancelled`, or `processing` if the action is running and was requested to stop.
        """

    def run_deferred(self) -> None:
        """Run the work that this thread's transactions deferred; must not raise."""

    def release_deferred(self) -> None:
        """Allow any thread to run the work that this thread deferred; called after its transactions have ended."""
