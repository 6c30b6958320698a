"""What the management API asks of the tables: bounded walks, counts and single changes, each one statement."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduled_actions.actions.store import action_of
from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.core.action import Action
    from scheduled_actions.database.connection import Connection


sql = Statements(__file__)


class Candidates(NamedTuple):
    """What `search` looked at, and what of it matched."""

    #: How many it looked at.
    examined: int
    #: The lowest id among them; None where there were none.
    last: UUID | None
    #: The newest that match.
    ids: list[UUID]


class Counted(NamedTuple):
    """The actions of one type in one status; the last three are known for a team only."""

    status: str
    action_type: str
    number: int
    due: int = 0
    overdue: int = 0
    oldest_due_seconds: float | None = None


def walk(
    connection: Connection, filters: Mapping[str, Any], *, before: UUID | None, examined: int, limit: int
) -> tuple[list[UUID], UUID | None]:
    """Return the ids of the newest actions that match, out of the next `examined` ones before the cursor.

    Beside them, where they are fewer than `limit`, the last of those that were examined; None at the table's end.
    """
    row = sql.run(
        connection, "walk_actions", {**filters, "before": before, "examined": examined, "limit": limit}
    ).fetchone()
    assert row is not None  # noqa: S101 - a select of one array answers one row
    return (row[0], row[1])


def search(
    connection: Connection, filters: Mapping[str, Any], *, before: UUID | None, examined: int, limit: int
) -> Candidates:
    """Return the ids of the newest actions that match, of a team or of few statuses; see `search_actions.sql`."""
    row = sql.run(
        connection, "search_actions", {**filters, "before": before, "examined": examined, "limit": limit}
    ).fetchone()
    assert row is not None  # noqa: S101 - a select of aggregates answers one row
    return Candidates(*row)


def read(connection: Connection, ids: Sequence[UUID]) -> list[Action]:
    """Return these actions, the newest first; those that are gone are left out."""
    if not ids:
        return []
    return [action_of(row) for row in sql.run_leniently(connection, "get_actions", {"ids": list(ids)})]


def scheduled_by(
    connection: Connection, action_id: UUID, *, team_id: str | None, before: UUID | None, limit: int
) -> list[UUID]:
    """Return the ids of what an action scheduled (of a team), at most `limit`, the newest first."""
    parameters = {"id": action_id, "team_id": team_id, "before": before, "limit": limit}
    return [row[0] for row in sql.run(connection, "scheduled_by_action", parameters)]


def lock(connection: Connection, action_id: UUID, *, team_id: str | None) -> Action | None:
    """Return the action, which nobody else changes until the transaction ends; None where there is none."""
    return _one(connection, "lock_action", {"id": action_id, "team_id": team_id})


def run_now(connection: Connection, action_id: UUID, *, by: str | None, team_id: str | None) -> Action | None:
    """Make a pending action due; None when it is not pending or not there."""
    return _one(connection, "run_now", {"id": action_id, "by": by, "team_id": team_id})


def purge(connection: Connection, action_id: UUID, *, team_id: str | None) -> Action | None:
    """Remove a finished action; return what it was, or None when it has not ended or is not there."""
    return _one(connection, "purge_action", {"id": action_id, "team_id": team_id})


def counts(connection: Connection, *, most: int) -> list[Counted]:
    """Return how many actions of each type stand in each status, of each status counted to `most`."""
    return [Counted(*row) for row in sql.run(connection, "count_actions", {"most": most})]


def due(connection: Connection, *, overdue_seconds: float, most: int) -> tuple[int, int, float | None]:
    """Return how many actions are due, how many are overdue, and for how many seconds the oldest has been due."""
    row = sql.run(connection, "due_actions", {"overdue_seconds": overdue_seconds, "most": most}).fetchone()
    assert row is not None  # noqa: S101 - a select of aggregates answers one row
    return (row[0], row[1], row[2])


def team_counts(
    connection: Connection, *, team_id: str, statuses: Sequence[str], overdue_seconds: float, most: int
) -> list[Counted]:
    """Return the same of one team, with what is due."""
    parameters = {
        "team_id": team_id,
        "statuses": list(statuses),
        "overdue_seconds": overdue_seconds,
        "most": most,
    }
    return [Counted(*row) for row in sql.run(connection, "count_team", parameters)]


class Lateness(NamedTuple):
    """How late the actions of one type started, in seconds."""

    action_type: str
    #: How many it was measured on.
    number: int
    p50_seconds: float
    p95_seconds: float
    max_seconds: float


def lateness(connection: Connection, *, team_id: str | None, seconds: float, most: int) -> list[Lateness]:
    """Return how late actions of each type started that ended of late (of a team), the latest `most` of each end."""
    parameters = {"team_id": team_id, "seconds": seconds, "most": most}
    return [Lateness(*row) for row in sql.run(connection, "lateness", parameters)]


def ticks(connection: Connection, *, before: tuple[datetime, UUID] | None, limit: int) -> list[tuple[Any, ...]]:
    """Return the latest ticks before one of that start and id, at most `limit`, as `list_ticks.sql` has them."""
    started_at, tick_id = before or (None, None)
    parameters = {"before_started_at": started_at, "before_id": tick_id, "limit": limit}
    return sql.run_leniently(connection, "list_ticks", parameters).fetchall()


def claim_key(connection: Connection, *, scope: str, key: str, digest: bytes) -> bool:
    """Make an idempotency key this transaction's; False when an answer is kept under it."""
    return (
        sql.run(connection, "claim_idempotency_key", {"scope": scope, "key": key, "digest": digest}).fetchone()
        is not None
    )


def kept_answer(connection: Connection, *, scope: str, key: str) -> tuple[bytes, Any] | None:
    """Return the digest of the request that first came with the key, and what it was answered."""
    row = sql.run(connection, "kept_answer", {"scope": scope, "key": key}).fetchone()
    return None if row is None else (bytes(row[0]), row[1])


def keep_answer(connection: Connection, *, scope: str, key: str, answer: object) -> None:
    """Keep what was answered; of keys that are a day old a few are removed on the way."""
    sql.run(connection, "keep_answer", {"scope": scope, "key": key, "answer": json.dumps(answer)})
    sql.run(connection, "prune_idempotency_keys", {"limit": _PRUNED_ON_THE_WAY})


#: More than one, so that they do not gather.
_PRUNED_ON_THE_WAY = 10


def _one(connection: Connection, name: str, parameters: Mapping[str, Any]) -> Action | None:
    row = sql.run_leniently(connection, name, parameters).fetchone()
    return None if row is None else action_of(row)
