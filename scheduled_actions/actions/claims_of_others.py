"""Claiming for other teams than those that fill the batches."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from scheduled_actions.actions.claims import Position, TickRow, behind, claim_grouped, claim_held
from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Collection

    from scheduled_actions.core.action import Claimed
    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)

#: Rows looked at by one statement: a few milliseconds of them.
WINDOW = 10000


def claim_free_of_others(
    connection: Connection,
    tick: TickRow,
    *,
    wanted: int,
    after: Position,
    excluded: Collection[str],
    left_out: Collection[str],
    window: int = WINDOW,
) -> tuple[list[Claimed], Position]:
    """Claim due actions without a lock group of other teams than those left out.

    Args:
        connection: In a transaction.
        tick: Whose they are.
        wanted: How many.
        after: Where the scan goes on.
        excluded: Action types left where they are.
        left_out: Teams left where they are, '' for actions without one.
        window: How many rows are looked at, those left out included.

    Returns:
        Those claimed, in order, and where the next scan goes on: after the last row judged, which may be one left out.
        `START` when no row was met.
    """
    row = sql.run(
        connection,
        "find_others",
        {"wanted": wanted, "window": window, "left_out": list(left_out), **behind(after, excluded)},
    ).fetchone()
    assert row is not None  # noqa: S101 - a select of one row
    found, *last = row
    if not found:
        return [], Position(*last)
    alone = {"kept": found, "team_ids": [], "lock_groups": [], "token": uuid4()}
    return claim_held(connection, tick, {**alone, "wanted": wanted, "excluded": list(excluded)}), Position(*last)


def claim_grouped_of_others(
    connection: Connection,
    tick: TickRow,
    *,
    wanted: int,
    after: Position,
    excluded: Collection[str],
    left_out: Collection[str],
    window: int = WINDOW,
) -> tuple[list[Claimed], Position]:
    """Claim as `claim_free_of_others` does, from the lock groups of the other teams that nobody holds."""
    claimed, position = claim_grouped(
        connection, tick, wanted=wanted, after=after, excluded=excluded, left_out=left_out, window=window
    )
    # What was met beyond those wanted is met again: the groups just claimed are held by now.
    return claimed, after._replace(has_more=True) if len(claimed) >= wanted else position
