"""Settling: the outcomes, their statements, and the one entry point through which they are written.

Ticks, rescue, cancel and transactional handlers settle through `Settler`. Locks are taken in one order everywhere: wait
marks, what features lock (schedules), actions, holds.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from scheduled_actions.actions import store
from scheduled_actions.actions.claims import TickRow
from scheduled_actions.actions.rules.settlement import clean
from scheduled_actions.actions.store import elements_text
from scheduled_actions.core.action import Status
from scheduled_actions.database.connection import whole
from scheduled_actions.database.statements import Statements, numbers, uuids
from scheduled_actions.database.transactions import PATIENCE_MS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from scheduled_actions.actions import waits
    from scheduled_actions.actions.hooks import Ending, SettleHook
    from scheduled_actions.actions.rules.settlement import Settlement
    from scheduled_actions.core.action import Action, Claimed
    from scheduled_actions.database.connection import Connection

log = logging.getLogger("scheduled_actions")

sql = Statements(__file__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One settlement on its way to the table."""

    action_id: UUID
    token: UUID
    settlement: Settlement
    started_at: datetime | None = None
    ended_at: datetime | None = None
    #: The entry of the history; None leaves none.
    entry: Mapping[str, Any] | None = None
    max_attempts: int | None = None
    #: The series that the action belongs to, which may wait for its end.
    schedule_id: UUID | None = None
    follow_ups: Sequence[Mapping[str, Any]] = ()

    def as_json(self) -> str:
        """Return the outcome as one element of what `settle.sql` takes.

        Put together by hand: ids, numbers and instants need no escaping, and results are JSON text already.
        """
        settlement = self.settlement
        text = (
            f'{{"id":"{self.action_id}","token":"{self.token}","status":"{settlement.status.value}",'
            f'"charge":{settlement.charge},"hold":"{settlement.hold}"'
        )
        if self.max_attempts is not None:
            text += f',"max_attempts":{self.max_attempts}'
        if settlement.delay is not None:
            text += f',"delay":{settlement.delay.total_seconds()!r}'
        if self.started_at is not None:
            text += f',"started_at":"{self.started_at.isoformat()}"'
        if self.ended_at is not None:
            text += f',"ended_at":"{self.ended_at.isoformat()}"'
        if settlement.error is not None:
            text += f',"error":{json.dumps(settlement.error)}'
        if self.entry is not None:
            text += f',"entry":{json.dumps(self.entry)}'
        if settlement.result is not None:
            text += f',"result":{settlement.result}'
        if settlement.state is not None:
            text += f',"state":{settlement.state}'
        if self.follow_ups:
            text += f',"follow_ups":{elements_text(self.follow_ups)}'
        return text + "}"


class Completion(NamedTuple):
    """The outcome of most actions: a first attempt that completed and leaves nothing behind but its times.

    It has no result, no follow-up, no entry in the history, no lock group, and no series that waits for its end.
    """

    action_id: UUID
    token: UUID
    #: Microseconds after the tick's own start.
    started: int
    ended: int
    max_attempts: int


@dataclass(frozen=True, slots=True)
class Settled:
    """What a settling statement did."""

    #: The status each action ended in; an action that is missing had lost its claim.
    statuses: dict[UUID, Status]
    #: Whether what was announced may start.
    announced: bool


@dataclass(frozen=True, slots=True)
class Completed:
    """What a completing statement did."""

    #: The actions that had lost their claim, and occurrences whose schedules wait for their end: nothing was written.
    lost: frozenset[UUID]
    #: Whether what was announced may start.
    announced: bool


def settle(
    connection: Connection,
    tick: TickRow,
    outcomes: Sequence[Outcome],
    *,
    running: Collection[UUID] | None,
    announcement: int = 0,
) -> Settled:
    """Write outcomes, each only while its claim stands, and announce what is in flight from now on.

    Args:
        connection: In autocommit mode one statement does it all; in a transaction its end decides.
        tick: Whose leases the announcement stands on.
        outcomes: What to write.
        running: Every action in flight after this, those about to start included; None leaves the announcement alone.
        announcement: Its number within the tick, rising: one that arrives late changes nothing.

    Raises:
        psycopg.errors.LockNotAvailable: Another transaction keeps a row locked; nothing was written.
        psycopg.Error: The database refuses a value; nothing was written.
    """
    row = sql.run(
        connection,
        "settle",
        {
            "outcomes": f"[{','.join(outcome.as_json() for outcome in outcomes)}]",
            "running": uuids(running or ()),
            "tick_id": tick.id if running is not None else None,
            "announcement": announcement,
            "lease_expires_at": tick.lease_expires_at,
            "patience_ms": PATIENCE_MS,
        },
    ).fetchone()
    assert row is not None  # noqa: S101 - a select of one row
    ids, statuses, refused, announced = row
    if refused:
        log.warning("follow_ups.refused tick_id=%s count=%d", tick.id, refused)
    return Settled(dict(zip(ids, map(Status, statuses), strict=True)), announced)


def complete(
    connection: Connection,
    tick: TickRow,
    completions: Sequence[Completion],
    *,
    running: Collection[UUID],
    announcement: int = 0,
) -> Completed:
    """Write completions as `settle` would, in a part of its time, and announce what is in flight from now on.

    Raises:
        psycopg.errors.LockNotAvailable: Another transaction keeps a row locked; nothing was written.
    """
    ids, tokens, started, ended, max_attempts = zip(*completions, strict=True)
    row = sql.run(
        connection,
        "complete_actions",
        {
            "ids": uuids(ids),
            "tokens": uuids(tokens),
            "started": numbers(started),
            "ended": numbers(ended),
            "max_attempts": numbers(max_attempts),
            "begun_at": tick.started_at,
            "running": uuids(running),
            "tick_id": tick.id,
            "announcement": announcement,
            "patience_ms": PATIENCE_MS,
        },
    ).fetchone()
    assert row is not None  # noqa: S101 - a select of one row
    written, announced = row
    return Completed(frozenset() if written is None else frozenset(ids) - frozenset(written), announced)


def fail(connection: Connection, action_id: UUID, token: UUID, reason: str) -> bool:
    """End an action as failed, whatever its row holds; False where its claim had been lost.

    The last resort for an outcome that `settle` cannot write: no follow-ups, no entry in the history, no charge.
    """
    parameters = {"action_id": action_id, "token": token, "reason": clean(reason)}
    return sql.run(connection, "fail_action", parameters).fetchone() is not None


def end_linger(connection: Connection, action_id: UUID) -> None:
    """Free the group of an action whose handler has returned after its time."""
    sql.run(connection, "end_linger", {"action_id": action_id})


def free_stale_holds(connection: Connection) -> int:
    """Free the groups whose holder neither runs nor keeps the others out; return how many holds were changed."""
    return sql.run(connection, "free_stale_holds").rowcount


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
        outcomes: Sequence[Outcome],
        *,
        running: Collection[UUID] | None,
        announcement: int = 0,
    ) -> Settled:
        """Write outcomes as `settle` does, and what features add to them, in one transaction.

        Raises:
            psycopg.errors.LockNotAvailable: Another transaction keeps a row locked; nothing was written.
            psycopg.Error: The database refuses a value; nothing was written.
        """
        concerned = self._concerned(outcomes)
        if not concerned:
            return settle(connection, tick, outcomes, running=running, announcement=announcement)
        with connection.transaction():
            locked = [hook.lock_before_settle(connection, mine) for hook, mine in concerned]
            settled = settle(connection, tick, outcomes, running=running, announcement=announcement)
            for (hook, mine), held in zip(concerned, locked, strict=True):
                hook.after_settle(connection, held, mine, settled.statuses)
        return settled

    def settle_alone(self, connection: Connection, tick: TickRow, outcome: Outcome) -> Settled:
        """Settle one outcome; what features add to it is written afterwards, and undoes nothing where it is refused.

        For an outcome that was refused together with others: what is locked was waited for then.
        """
        settled = settle(connection, tick, [outcome], running=None)
        self.settled_apart(connection, [outcome], settled.statuses, one_by_one=True)
        return settled

    @staticmethod
    def settle_actions(connection: Connection, outcomes: Sequence[Outcome]) -> dict[UUID, Status]:
        """Write outcomes of ticks that are gone; return the status of each whose claim still stood.

        For a transaction that has locked the actions before: `settled_apart` follows once it has committed, because
        what features lock comes first.
        """
        if not outcomes:
            return {}
        # No tick is passed on: nothing is announced, and no lease is left to linger under.
        nobody = TickRow(UUID(int=0), datetime.now(UTC), datetime.now(UTC))
        return settle(connection, nobody, outcomes, running=None).statuses

    @staticmethod
    def complete(
        connection: Connection,
        tick: TickRow,
        completions: Sequence[Completion],
        *,
        running: Collection[UUID],
        announcement: int = 0,
    ) -> Completed:
        """Write plain completions as `settle` would, in a part of its time.

        Of actions that no feature awaits, or that `after_claim` returned as `unawaited`. The statement leaves out an
        occurrence whose schedule awaits its end by now.

        Raises:
            psycopg.errors.LockNotAvailable: Another transaction keeps a row locked; nothing was written.
        """
        return complete(connection, tick, completions, running=running, announcement=announcement)

    def settle_waiting(self, connection: Connection, tick_id: UUID, unmet: Sequence[waits.Unmet]) -> waits.Settled:
        """Make actions pending again whose conditions do not hold yet; those cancelled meanwhile end.

        Raises:
            psycopg.errors.LockNotAvailable: Another transaction keeps a row locked; nothing was written.
        """
        from scheduled_actions.actions import waits  # noqa: PLC0415 - most projects have no conditions

        concerned = self._concerned(unmet)
        if not concerned:
            # One statement, which locks what they wait for before the actions.
            return waits.settle(connection, tick_id, unmet)
        with connection.transaction():
            waits.lock(connection, unmet)
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
            if hook.left:
                hook.finish_left()

    def release_left(self) -> None:
        """Leave it to any thread instead."""
        for hook in self._hooks:
            if hook.left:
                hook.release_left()

    @property
    def has_left(self) -> bool:
        """Whether anything is left, by any thread."""
        return any(hook.left for hook in self._hooks)

    def awaits(self, claimed: Claimed) -> bool:
        """Whether a feature may have something to add to the end of this action."""
        for hook in self._hooks:  # noqa: SIM110 - done for each action: a generator costs more than the looks
            if getattr(claimed, hook.column) is not None:
                return True
        return False

    def _concerned(self, endings: Iterable[Ending]) -> list[tuple[SettleHook, list[Ending]]]:
        listed = list(endings)
        found = ((hook, [one for one in listed if getattr(one, hook.column) is not None]) for hook in self._hooks)
        return [(hook, mine) for hook, mine in found if mine]
