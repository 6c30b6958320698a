"""Outcomes on their way to the table: the statements that settle actions. `settling` decides which one is used."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduled_actions.actions.rules.settlement import clean
from scheduled_actions.actions.store import elements_text
from scheduled_actions.core.action import Status
from scheduled_actions.database.statements import Statements, numbers, uuids
from scheduled_actions.database.transactions import PATIENCE_MS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.actions.claims import TickRow
    from scheduled_actions.actions.rules.settlement import Settlement
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
