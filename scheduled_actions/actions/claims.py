"""Claiming and settling: the statements of a tick."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from scheduled_actions.core.action import Claimed
from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from scheduled_actions.database.connection import Connection


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
