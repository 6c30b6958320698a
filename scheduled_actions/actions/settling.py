"""The one entry point for settling: ticks, rescue, cancel and transactional handlers write outcomes through it.

Locks are taken in one order everywhere: what features lock (schedules), then actions, then holds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from scheduled_actions.actions import outcome_store, store
from scheduled_actions.actions.claims import TickRow
from scheduled_actions.database.connection import whole

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from scheduled_actions.actions import waits
    from scheduled_actions.actions.hooks import Ending, SettleHook
    from scheduled_actions.core.action import Action, Status
    from scheduled_actions.database.connection import Connection


class Settler:
    """Settles the actions of one project.

    Args:
        hooks: What features do in the same transactions; their locks are taken in this order.
    """

    def __init__(self, hooks: Sequence[SettleHook] = ()) -> None:
        self._hooks = tuple(hooks)

    def settle(
        self,
        connection: Connection,
        tick: TickRow,
        outcomes: Sequence[outcome_store.Outcome],
        *,
        running: Collection[UUID] | None,
        announcement: int = 0,
    ) -> outcome_store.Settled:
        """Write outcomes as `outcome_store.settle` does, and what features add to them, in one transaction.

        Raises:
            psycopg.errors.LockNotAvailable: Another transaction keeps a row locked; nothing was written.
            psycopg.Error: The database refuses a value; nothing was written.
        """
        concerned = self._concerned(outcomes)
        if not concerned:
            return outcome_store.settle(connection, tick, outcomes, running=running, announcement=announcement)
        with connection.transaction():
            locked = [hook.lock_before_settle(connection, mine) for hook, mine in concerned]
            settled = outcome_store.settle(connection, tick, outcomes, running=running, announcement=announcement)
            for (hook, mine), held in zip(concerned, locked, strict=True):
                hook.after_settle(connection, held, mine, settled.statuses)
        return settled

    def settle_alone(
        self, connection: Connection, tick: TickRow, outcome: outcome_store.Outcome
    ) -> outcome_store.Settled:
        """Settle one outcome; what features add to it is written afterwards, and undoes nothing where it is refused.

        For an outcome that was refused together with others: what is locked was waited for then.
        """
        settled = outcome_store.settle(connection, tick, [outcome], running=None)
        self.settled_apart(connection, [outcome], settled.statuses, one_by_one=True)
        return settled

    @staticmethod
    def settle_actions(connection: Connection, outcomes: Sequence[outcome_store.Outcome]) -> dict[UUID, Status]:
        """Write outcomes of ticks that are gone; return the status of each whose claim still stood.

        For a transaction that has locked the actions before: `settled_apart` follows once it has committed, because
        what features lock comes first.
        """
        if not outcomes:
            return {}
        # No tick is passed on: nothing is announced, and no lease is left to linger under.
        nobody = TickRow(UUID(int=0), datetime.now(UTC), datetime.now(UTC))
        return outcome_store.settle(connection, nobody, outcomes, running=None).statuses

    @staticmethod
    def complete(
        connection: Connection,
        tick: TickRow,
        completions: Sequence[outcome_store.Completion],
        *,
        running: Collection[UUID],
        announcement: int = 0,
    ) -> outcome_store.Completed:
        """Write plain completions as `settle` would, in a part of its time: no feature has anything to add to them.

        Raises:
            psycopg.errors.LockNotAvailable: Another transaction keeps a row locked; nothing was written.
        """
        return outcome_store.complete(connection, tick, completions, running=running, announcement=announcement)

    def settle_waiting(self, connection: Connection, tick_id: UUID, unmet: Sequence[waits.Unmet]) -> waits.Settled:
        """Make actions pending again whose conditions do not hold yet; those cancelled meanwhile end.

        Raises:
            psycopg.errors.LockNotAvailable: Another transaction keeps a row locked; nothing was written.
        """
        from scheduled_actions.actions import waits  # noqa: PLC0415 - most projects have no conditions

        concerned = self._concerned(unmet)
        if not concerned:
            return waits.settle(connection, tick_id, unmet)
        with connection.transaction():
            locked = [hook.lock_before_settle(connection, mine) for hook, mine in concerned]
            settled = waits.settle(connection, tick_id, unmet)
            for (hook, mine), held in zip(concerned, locked, strict=True):
                hook.after_settle(connection, held, mine, settled.statuses)
        return settled

    def settled_apart(
        self,
        connection: Connection,
        endings: Iterable[Ending],
        statuses: Mapping[UUID, Status],
        *,
        one_by_one: bool = False,
    ) -> None:
        """Write what features add to outcomes that were settled before, in transactions of their own."""
        for hook, mine in self._concerned(endings):
            hook.settled_apart(connection, mine, statuses, one_by_one=one_by_one)

    def cancel(self, connection: Connection, action_id: UUID, **arguments: Any) -> Action | None:  # noqa: ANN401 - of `store.cancel`
        """Cancel a waiting action as `store.cancel` does, and what features add to that, in one transaction."""
        with whole(connection):
            locked = [(hook, hook.lock_before_cancel(connection, action_id)) for hook in self._hooks]
            cancelled = store.cancel(connection, action_id, **arguments)
            if cancelled is not None:
                for hook, held in locked:
                    if held is not None:
                        hook.after_cancel(connection, held, action_id, cancelled.status)
        return cancelled

    def finish_left(self) -> None:
        """Do what features left for after the commit of this thread's transactions."""
        for hook in self._hooks:
            hook.finish_left()

    def release_left(self) -> None:
        """Leave it to any thread instead."""
        for hook in self._hooks:
            hook.release_left()

    def _concerned(self, endings: Iterable[Ending]) -> list[tuple[SettleHook, list[Ending]]]:
        listed = list(endings)
        found = ((hook, [one for one in listed if hook.concerns(one)]) for hook in self._hooks)
        return [(hook, mine) for hook, mine in found if mine]
