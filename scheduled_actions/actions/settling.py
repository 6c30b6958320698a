"""Settle actions: write the outcomes of attempts. `Settler` is the only entry point.

Ticks, rescue, cancellations and transactional handlers use it. Every transaction takes its locks in the same order:
waits, the rows of hooks (schedules), actions, holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from scheduled_actions.actions import store
from scheduled_actions.actions.claims import TickRow
from scheduled_actions.actions.hooks import EndingAction, SettleHook
from scheduled_actions.actions.rules.settlement import Settlement, SettlementResult, clean
from scheduled_actions.core.action import Action, Claimed, Status
from scheduled_actions.core.log import log
from scheduled_actions.database.connection import Connection, atomic
from scheduled_actions.database.statements import binary_uuids, numbers, texts, uuids
from scheduled_actions.database.transactions import LOCK_WAIT_MS

if TYPE_CHECKING:
    from scheduled_actions.actions import waits


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementRow:
    """One settlement: an element of the parameter `outcomes` of `settle.sql`."""

    action_id: UUID
    token: UUID
    settlement: Settlement
    started_at: datetime | None = None
    ended_at: datetime | None = None
    #: The entry added to the history; None adds none.
    entry: Mapping[str, Any] | None = None
    max_attempts: int | None = None
    #: The schedule of the action, which may wait for the action to end; None without one.
    schedule_id: UUID | None = None
    follow_ups: Sequence[Mapping[str, Any]] = ()

    def as_json(self) -> str:
        """Return the settlement as a JSON object for `settle.sql`.

        The text is formatted directly: ids, numbers and instants need no escaping, and results are already JSON text.
        """
        settlement = self.settlement
        return (
            f'{{"id":"{self.action_id}","token":"{self.token}","status":"{settlement.status.value}",'
            f'"charge":{settlement.charge},"hold":"{settlement.hold}"'
            + ("" if self.max_attempts is None else f',"max_attempts":{self.max_attempts}')
            + ("" if settlement.delay is None else f',"delay":{settlement.delay.total_seconds()!r}')
            + ("" if self.started_at is None else f',"started_at":"{self.started_at.isoformat()}"')
            + ("" if self.ended_at is None else f',"ended_at":"{self.ended_at.isoformat()}"')
            + ("" if settlement.error is None else f',"error":{json.dumps(settlement.error)}')
            + ("" if self.entry is None else f',"entry":{json.dumps(self.entry)}')
            + ("" if settlement.result is None else f',"result":{settlement.result}')
            + ("" if settlement.state is None else f',"state":{settlement.state}')
            + (f',"follow_ups":{store.elements_text(self.follow_ups)}' if self.follow_ups else "")
            + "}"
        )


class Completion(NamedTuple):
    """A completed first attempt of which only the times and the result are stored: the outcome of most actions.

    The action has no follow-up, history entry or lock group, and no schedule waits for it to end.
    """

    action_id: UUID
    token: UUID
    #: Start and end of the attempt, in microseconds after the start of the tick.
    started: int
    ended: int
    max_attempts: int
    #: Whether the action has limit keys, whose slots are freed.
    has_slots: bool = False
    #: As JSON text; None if the handler returned nothing.
    result: str | None = None


#: The order in which statements write and lock actions, so that two sessions never wait for each other in a circle.
_LOCK_ORDER = attrgetter("action_id.int")


@dataclass(frozen=True, slots=True)
class CompletionResult:
    """The actions that `complete` left out, and whether it announced the running actions."""

    #: Actions that lost their claim, and occurrences whose schedule waits for them to end; their rows are unchanged.
    lost: frozenset[UUID]
    #: Whether the announced actions may start.
    announced: bool


def settle(
    connection: Connection,
    tick: TickRow,
    outcomes: Sequence[SettlementRow],
    *,
    running: Collection[UUID] | None,
    announcement: int = 0,
) -> SettlementResult:
    """Write outcomes whose claims are valid, and announce the running actions.

    Args:
        connection: In autocommit mode or in a transaction.
        tick: The tick that holds the leases.
        outcomes: The settlements to write; one whose claim was lost changes nothing.
        running: All actions that run after this, including those about to start; None announces nothing.
        announcement: Number of the announcement, ascending within the tick; one that arrives after a later one is
            ignored.

    Raises:
        psycopg.errors.LockNotAvailable: Another transaction keeps a row locked; nothing was written.
        psycopg.Error: The database rejects a value; nothing was written.
    """
    if not outcomes:
        return SettlementResult(
            {}, running is not None and announce(connection, tick, running=running, announcement=announcement)
        )
    in_order = sorted(outcomes, key=_LOCK_ORDER)
    ids, statuses, refused, announced = store.sql.run_one(
        connection,
        "settle",
        {
            "outcomes": f"[{','.join(outcome.as_json() for outcome in in_order)}]",
            "running": uuids(running or ()),
            "tick_id": tick.id if running is not None else None,
            "announcement": announcement,
            "lease_expires_at": tick.lease_expires_at,
            "patience_ms": LOCK_WAIT_MS,
        },
    )
    if refused:
        log.warning("follow_ups.refused tick_id=%s count=%d", tick.id, refused)
    return SettlementResult(dict(zip(ids, map(Status, statuses), strict=True)), announced)


def announce(connection: Connection, tick: TickRow, *, running: Collection[UUID], announcement: int = 0) -> bool:
    """Announce the running actions as `settle` does; return whether those about to start may start."""
    parameters = {"running": uuids(running), "tick_id": tick.id, "announcement": announcement}
    return store.sql.run(connection, "announce", parameters).fetchone() is not None


def complete(
    connection: Connection,
    tick: TickRow,
    completions: Sequence[Completion],
    *,
    running: Collection[UUID],
    announcement: int = 0,
) -> CompletionResult:
    """Write plain completions, at least one, as `settle` would, but faster, and announce the running actions.

    No hook may wait for these actions, unless `after_claim` returned them as `unawaited`. An occurrence whose schedule
    has since begun to wait for the occurrence to end is left out and returned as lost.

    Raises:
        psycopg.errors.LockNotAvailable: Another transaction keeps a row locked; nothing was written.
    """
    in_order = sorted(completions, key=_LOCK_ORDER)
    ids, tokens, started, ended, max_attempts, has_slots, results = zip(*in_order, strict=True)
    written, announced = store.sql.run_one(
        connection,
        "complete_actions",
        {
            "ids": binary_uuids(ids),
            "tokens": binary_uuids(tokens),
            "started": numbers(started),
            "ended": numbers(ended),
            "max_attempts": numbers(max_attempts),
            "results": texts(results) if any(results) else "{}",
            "has_slots": any(has_slots),
            "begun_at": tick.started_at,
            "running": binary_uuids(running),
            "tick_id": tick.id,
            "announcement": announcement,
            "patience_ms": LOCK_WAIT_MS,
        },
    )
    return CompletionResult(frozenset() if written is None else frozenset(ids) - frozenset(written), announced)


def fail(connection: Connection, action_id: UUID, token: UUID, reason: str) -> bool:
    """End an action as failed even if its row is unreadable; return False if its claim was lost.

    For an outcome that `settle` cannot write: schedules no follow-ups, adds no history entry and charges no attempt.
    """
    return (
        store.sql.run(
            connection, "fail_action", {"action_id": action_id, "token": token, "reason": clean(reason)}
        ).fetchone()
        is not None
    )


def end_linger(connection: Connection, action_id: UUID, token: UUID) -> None:
    """Free the slots and the lock group of an action whose handler returned late.

    The group is kept if the action blocks it for a retry. `token` is that of the attempt that timed out.
    """
    store.sql.run(connection, "end_linger", {"action_id": action_id, "token": token})


def free_stale_holds(connection: Connection) -> int:
    """Free lock groups whose holder is neither running nor blocking them, and slots of ended claims; 1,000 each.

    A group or slot is freed at the earliest a minute after it was taken or, after a timeout, when the lease has ended.

    Returns:
        Number of holds that are kept for a pending, blocking action after its late handler's lease ended.
    """
    return store.sql.run(connection, "free_stale_holds").rowcount


@dataclass(frozen=True, slots=True)
class Settler:
    """Settles the actions of one project.

    Args:
        hooks: Called in the same transactions; their locks are taken in this order.
    """

    hooks: Sequence[SettleHook] = ()

    complete = staticmethod(complete)

    def settle(
        self,
        connection: Connection,
        tick: TickRow,
        outcomes: Sequence[SettlementRow],
        *,
        running: Collection[UUID] | None,
        announcement: int = 0,
    ) -> SettlementResult:
        """Write outcomes as the function `settle` does and call the hooks, in one transaction.

        Raises:
            psycopg.errors.LockNotAvailable: Another transaction keeps a row locked; nothing was written.
            psycopg.Error: The database rejects a value; nothing was written.
        """
        return self._with_hooks(
            connection,
            outcomes,
            partial(settle, connection, tick, outcomes, running=running, announcement=announcement),
        )

    def settle_alone(self, connection: Connection, tick: TickRow, outcome: SettlementRow) -> SettlementResult:
        """Settle one outcome, then call the hooks; a failed hook does not undo the settlement.

        Used after the database rejected a batch that contains this outcome. The hooks then use the short lock timeout,
        because that batch has already waited for the locks.

        Raises:
            psycopg.Error: As for `settle`; nothing was written.
        """
        settled = settle(connection, tick, [outcome], running=None)
        self.settled_apart(connection, [outcome], settled.statuses, was_refused=True)
        return settled

    @staticmethod
    def settle_actions(connection: Connection, outcomes: Sequence[SettlementRow]) -> dict[UUID, Status]:
        """Write outcomes of ticks that are no longer running; return the status of each action whose claim was valid.

        Hooks must take their locks before actions are locked, but the caller's transaction has already locked these
        actions. Therefore, the caller calls `settled_apart` after its commit.
        """
        # Without a tick nothing is announced, and no lease remains for a lingering hold.
        no_tick = TickRow(UUID(int=0), datetime.now(UTC), datetime.now(UTC))
        return settle(connection, no_tick, outcomes, running=None).statuses if outcomes else {}

    def settle_waiting(
        self,
        connection: Connection,
        tick_id: UUID | None,
        settlements: Sequence[waits.WaitSettlement],
        *,
        worker_id: UUID | None = None,
    ) -> SettlementResult:
        """Make actions whose conditions are not met yet pending again; cancel those with a cancellation request.

        `tick_id` or `worker_id` is who checked the conditions.

        Raises:
            psycopg.errors.LockNotAvailable: Another transaction keeps a row locked; nothing was written.
        """
        from scheduled_actions.actions import waits  # noqa: PLC0415 - most projects have no conditions

        # Without hooks, the statement itself locks the waits before the actions.
        return self._with_hooks(
            connection,
            settlements,
            partial(waits.settle, connection, tick_id, settlements, worker_id=worker_id),
            lock=partial(waits.lock, connection, settlements),
        )

    def _with_hooks(
        self,
        connection: Connection,
        endings: Sequence[EndingAction],
        write: Callable[[], SettlementResult],
        *,
        lock: Callable[[], None] = lambda: None,
    ) -> SettlementResult:
        """Call `lock`, the hooks and `write` in one transaction; hooks lock their rows before `write` is called.

        If the actions concern no hook, only `write` is called.
        """
        concerned = self._concerned(endings)
        if not concerned:
            return write()
        with connection.transaction():
            lock()
            locked = [hook.lock_before_settle(connection, mine) for hook, mine in concerned]
            settled = write()
            for (hook, mine), held in zip(concerned, locked, strict=True):
                hook.after_settle(connection, held, mine, settled.statuses)
        return settled

    def settled_apart(
        self,
        connection: Connection,
        endings: Iterable[EndingAction],
        statuses: Mapping[UUID, Status],
        *,
        was_refused: bool = False,
    ) -> None:
        """Call the hooks for outcomes that are already committed, in separate transactions."""
        for hook, mine in self._concerned(endings):
            hook.settled_apart(connection, mine, statuses, was_refused=was_refused)

    def cancel(
        self,
        connection: Connection,
        action_id: UUID,
        *,
        by: str | None,
        reason: str | None,
        statuses: Collection[Status],
        team_id: str | None,
        edit_lock_seconds: int | None,
    ) -> Action | None:
        """Cancel a pending or `no_action` action, or request that a running one stop.

        The hooks are called in the same transaction. `statuses` are those of the actions that may be cancelled.

        Returns:
            The action. None if it does not exist (in that team), or if its status is not one of `statuses`.
            With `edit_lock_seconds`, also None for a running action, and for a pending one that is overdue or due
            within that time.
        """
        with atomic(connection):
            locked = [(hook, hook.lock_before_cancel(connection, action_id, team_id=team_id)) for hook in self.hooks]
            cancelled = store.one(
                connection,
                "cancel_action",
                id=action_id,
                by=by,
                reason=reason,
                statuses=[status.value for status in statuses],
                team_id=team_id,
                edit_lock_seconds=edit_lock_seconds,
            )
            for hook, held in locked:
                if cancelled is not None and held is not None:
                    hook.after_cancel(connection, held, action_id, cancelled.status)
        return cancelled

    def run_deferred(self) -> None:
        """Run the work that hooks deferred until after the commit of this thread's transactions."""
        for hook in self.hooks:
            if hook.deferred:
                hook.run_deferred()

    def release_deferred(self) -> None:
        """Allow any thread to run the work that this thread deferred; call it only after this thread's transactions."""
        for hook in self.hooks:
            if hook.deferred:
                hook.release_deferred()

    @property
    def has_deferred(self) -> bool:
        """Whether any hook has deferred work, on any thread."""
        return any(hook.deferred for hook in self.hooks)

    def awaited(self, claimed: Iterable[Claimed]) -> set[UUID]:
        """Return the ids of the actions on whose end a hook may act."""
        columns = [hook.column for hook in self.hooks]
        return {one.id for column in columns for one in claimed if getattr(one, column) is not None}

    def _concerned(self, endings: Iterable[EndingAction]) -> list[tuple[SettleHook, list[EndingAction]]]:
        listed = list(endings)
        found = ((hook, [one for one in listed if getattr(one, hook.column) is not None]) for hook in self.hooks)
        return [(hook, mine) for hook, mine in found if mine]
