"""Claiming and settling: the statements of a tick."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from scheduled_actions.actions.rules.settlement import clean
from scheduled_actions.actions.store import elements_text
from scheduled_actions.core.action import Claimed, Status
from scheduled_actions.database.arrays import numbers, uuids
from scheduled_actions.database.statements import Statements
from scheduled_actions.database.transactions import PATIENCE_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from scheduled_actions.actions.rules.settlement import Settlement
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.ticks.rules.metrics_buffer import Tally


sql = Statements(__file__)

log = logging.getLogger("scheduled_actions")


@dataclass(frozen=True, slots=True)
class TickRow:
    """A tick as the database knows it."""

    id: UUID
    started_at: datetime
    #: End of the lease of everything this tick claims.
    lease_expires_at: datetime


class Position(NamedTuple):
    """Where a walk over due actions stands: after this row."""

    priority: int | None = None
    scheduled_at: str | None = None
    id: UUID | None = None
    #: The row's team, '' without one; known of walks that may meet rows which they do not claim.
    team_id: str | None = None
    #: Whether that walk ended at its window, and not at the end of what is due.
    has_more: bool = False


#: Before the first row.
START = Position()


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


def begin_tick(
    connection: Connection, tick_id: UUID, *, lease_seconds: float, caller: str, budget: Mapping[str, float]
) -> TickRow:
    """Give the tick its row; repeating it changes nothing."""
    row = sql.run(
        connection,
        "begin_tick",
        {"tick_id": tick_id, "lease_seconds": lease_seconds, "caller": caller, "budget": json.dumps(budget)},
    ).fetchone()
    assert row is not None  # noqa: S101 - insert or update, one row either way
    return TickRow(tick_id, *row)


def claim_free(
    connection: Connection,
    tick: TickRow,
    *,
    wanted: int,
    after: Position,
    excluded: Collection[str],
    with_series: bool = True,
) -> tuple[list[Claimed], Position]:
    """Claim due actions without a lock group: the most urgent first, at most `wanted`.

    Args:
        connection: In a transaction wherever a claimed occurrence has to be judged before anybody sees it claimed.
        tick: Whose they are.
        wanted: How many.
        after: Where the scan goes on.
        excluded: Action types left where they are.
        with_series: False claims nothing when an occurrence of a series is among what would be claimed.

    Returns:
        Those claimed, in order, and where the next scan goes on; `START` when this one met nothing.
    """
    token = uuid4()
    claimed = _claimed(
        connection,
        "claim_free",
        {
            **behind(after, excluded),
            "wanted": wanted,
            "token": token,
            "lease_expires_at": tick.lease_expires_at,
            "with_series": with_series,
        },
    )
    if not claimed:
        return [], START
    last = claimed[-1]
    return claimed, Position(last.priority, last.scheduled_text, last.id)


def claim_grouped(
    connection: Connection,
    tick: TickRow,
    *,
    wanted: int,
    after: Position,
    excluded: Collection[str],
    left_out: Collection[str] = (),
    window: int | None = None,
) -> tuple[list[Claimed], Position]:
    """Claim the oldest due member of each lock group met that nobody holds, at most `wanted`; in a transaction.

    Args:
        connection: In a transaction.
        tick: Whose they are.
        wanted: How many.
        after: Where the scan goes on.
        excluded: Action types left where they are.
        left_out: Teams left where they are, '' for actions without one.
        window: How many rows are looked at; then no more groups are held than are wanted. None: a few for each.

    Returns:
        Those claimed, in order, and where the next scan goes on: after the last row seen, which may be none claimed.
        `START` when no row was met.
    """
    token = uuid4()
    row = sql.run(
        connection,
        "hold_groups",
        {
            # A crowd of members of few groups is walked over in larger steps.
            "window": window or 4 * wanted,
            "most": wanted if window else 4 * wanted,
            "left_out": list(left_out),
            **behind(after, excluded),
        },
    ).fetchone()
    assert row is not None  # noqa: S101 - a select of one row
    kept, team_ids, lock_groups, *last = row
    if not kept and not team_ids:
        return [], Position(*last)
    groups = {"team_ids": team_ids, "lock_groups": lock_groups, "token": token}
    claimed = claim_held(connection, tick, {**groups, "kept": kept, "wanted": wanted, "excluded": list(excluded)})
    if len(claimed) < len(kept) + len(team_ids):
        sql.run(connection, "drop_empty_holds", groups)
    return claimed, Position(*last)


def claim_held(connection: Connection, tick: TickRow, held: Mapping[str, Any]) -> list[Claimed]:
    """Claim what this transaction holds: lock groups, and actions by their ids."""
    return _claimed(connection, "claim_held", {**held, "lease_expires_at": tick.lease_expires_at})


def behind(after: Position, excluded: Collection[str]) -> dict[str, Any]:
    """Return where a scan goes on, and what it leaves, as the statements name it."""
    return {
        "after_priority": after.priority,
        "after_at": after.scheduled_at,
        "after_id": after.id,
        "excluded": list(excluded),
    }


def _claimed(connection: Connection, name: str, parameters: Mapping[str, Any]) -> list[Claimed]:
    """Return what the statement claims, in order."""
    token = parameters["token"]

    def made(_: object) -> Callable[[Sequence[Any]], Claimed]:
        return lambda values: Claimed._make((*values, token))

    claimed = connection.cursor(row_factory=made).execute(sql.text(name), parameters).fetchall()
    # `returning` has no order of its own.
    claimed.sort(key=_ORDER)
    return claimed


#: Where an action stands among those claimed: priority, then time, then age.
_ORDER = itemgetter(*(Claimed._fields.index(name) for name in ("priority", "scheduled_epoch", "id")))


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


def free_stale_holds(connection: Connection) -> int:
    """Free the groups whose holder neither runs nor keeps the others out; return how many holds were changed."""
    return sql.run(connection, "free_stale_holds").rowcount


def end_linger(connection: Connection, action_id: UUID) -> None:
    """Free the group of an action whose handler has returned after its time."""
    sql.run(connection, "end_linger", {"action_id": action_id})


def release_no_action(connection: Connection, action_types: Collection[str], *, action_id: UUID | None = None) -> int:
    """Make pending what had waited for a handler of one of these types; return how many.

    Args:
        connection: In autocommit mode.
        action_types: Those that this build has handlers of.
        action_id: None: every action that did.
    """
    ids = None if action_id is None else [action_id]
    return sql.run(connection, "release_no_action", {"action_types": list(action_types), "ids": ids}).rowcount


def unhandled(connection: Connection, action_types: Collection[str]) -> list[UUID]:
    """Return the ids of actions that wait for a handler of one of these types, at most 1,000."""
    return [row[0] for row in sql.run(connection, "unhandled_actions", {"action_types": list(action_types)})]


def cancel_requests(connection: Connection, ids: Collection[UUID]) -> set[UUID]:
    """Return which of these running actions somebody asked to stop."""
    return {row[0] for row in sql.run(connection, "cancel_requests", {"ids": uuids(ids)})}


def take_watch(connection: Connection, holder: str) -> bool:
    """Take the watch over what comes due, or renew it; False when a listener keeps it."""
    return sql.run(connection, "take_watch", {"holder": holder}).fetchone() is not None


def look_ahead(connection: Connection, holder: str, *, window_seconds: float) -> tuple[bool, bool, float | None, bool]:
    """Look at what comes due.

    Returns:
        Whether this holder still keeps the watch, whether anything is due, and the seconds until the next action comes
        due; None when none does within the window. And whether something has changed that actions may wait for.
    """
    row = sql.run(connection, "look_ahead", {"holder": holder, "window_seconds": window_seconds}).fetchone()
    assert row is not None  # noqa: S101 - a select of one row
    return row[0], row[1], row[2], row[3]


def finish_tick(
    connection: Connection,
    tick: TickRow,
    *,
    outcome: str,
    counts: Mapping[str, Any],
    tally: Tally | None = None,
    announcement: int = 0,
) -> None:
    """Write how the tick ended, and add what it tallied; nothing where it has announced more since."""
    ended = {"tick_id": tick.id, "outcome": outcome, "counts": json.dumps(counts), "announcement": announcement}
    if tally is None:
        sql.run(connection, "finish_tick", ended)
        return
    metrics, subjects, parts, values = tally.rows()
    counted = {"tally": tally.number, "metrics": metrics, "subjects": subjects, "parts": parts, "values": values}
    sql.run(connection, "finish_tick_counted", ended | counted)
