"""A tick's row, what there is to do, and the watch over what comes due."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduled_actions.actions.claims import TickRow
from scheduled_actions.database.statements import Statements, uuids

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from uuid import UUID

    from scheduled_actions.database.connection import Connection
    from scheduled_actions.ticks.report import Tally

sql = Statements(__file__)


class Found(NamedTuple):
    """What there may be for a tick to do."""

    may_have_due: bool
    has_expired: bool
    has_lost_ticks: bool
    has_old_holds: bool
    #: Actions that waited for a handler which this build has.
    has_unhandled: bool
    has_prunable: bool
    #: Something has changed that actions may wait for.
    has_wakes: bool
    #: There is nothing, and the tick has its row, begun and ended at once.
    is_noted: bool


def look(connection: Connection, **parameters: Any) -> Found:  # noqa: ANN401 - named in the statement
    """Return what there may be for a tick to do, as `look_and_note.sql` says; nothing is locked.

    Args:
        connection: In autocommit mode: a tick that found nothing has its row then.
        parameters: Those of the statement.
    """
    row = sql.run(connection, "look_and_note", parameters).fetchone()
    assert row is not None  # noqa: S101 - a select of one row
    return Found._make(row)


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


def due(connection: Connection) -> int:
    """Return how many actions are due, counted to 10,000."""
    row = sql.run(connection, "remaining").fetchone()
    return int(row[0]) if row else 0
