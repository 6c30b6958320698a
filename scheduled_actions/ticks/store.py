"""Run the statements of ticks: find work, write the tick's row, acquire the linger lease, rescue and prune."""

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from scheduled_actions.actions.claims import TickRow
from scheduled_actions.core.config import Settings
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements, texts, uuids
from scheduled_actions.ticks.report import MetricsBuffer

sql = Statements(__file__)


class PendingWork(NamedTuple):
    """The kinds of work that a tick may have; the columns of `find_work.sql`."""

    has_expired: bool
    has_lost_ticks: bool
    has_old_holds: bool
    #: Whether there are actions with status `no_action` whose type this build handles.
    has_unhandled: bool
    has_prunable: bool
    #: Whether there are changes that actions may wait for.
    has_wakes: bool
    #: Whether actions are in the queues of limit keys.
    has_queued: bool
    #: Whether a pending action has passed its `expires_at`.
    has_late: bool
    #: Whether there are pauses, or ended ones that may not have returned all of their actions.
    has_pauses: bool
    #: Whether a pause has ended and may not have returned all of its actions.
    has_ended_pauses: bool
    #: Whether limit keys have not been used for an hour.
    has_old_keys: bool
    #: Whether actions are due, and executors exist that may run them.
    may_park: bool
    #: Whether the queues of executors return to the claims.
    has_returning: bool
    #: Whether the only work is due actions without a lock group.
    has_only_free: bool
    #: Whether any action, also an ended one, has a team.
    has_teams: bool
    #: Whether there is no work, and the tick's row was written as started and ended.
    is_recorded: bool


class UpcomingWork(NamedTuple):
    """The work that is due now or next; the columns of `find_upcoming.sql`."""

    #: Whether the holder still has the linger lease.
    is_holder: bool
    is_due: bool
    #: Seconds until the next action becomes due; None if none does within the window.
    seconds: float | None
    #: Whether there are changes that actions may wait for.
    has_wakes: bool
    #: Whether a pending action has passed its `expires_at`.
    has_late: bool
    #: Whether a pause has ended and may not have returned all of its actions.
    has_ended_pauses: bool
    #: Whether executors exist, which may run due actions.
    has_executors: bool


class ExpiredLease(NamedTuple):
    """An action whose lease has ended; the columns of `expired_leases.sql`."""

    id: UUID
    action_type: str
    attempts: int
    max_attempts: int | None
    #: The claim token of the expired lease.
    token: UUID
    retry_text: str | None
    lock_group: str | None
    lock_group_blocks: bool
    limit_keys: list[str] | None
    #: The outcome in the last entry of the action's history; None if the history is empty.
    last_outcome: str | None
    schedule_id: UUID | None
    #: Number of actions that the tick announced as started, or that the worker had taken over, including this one; 0 if
    #: this one was neither.
    announced: int
    #: Start of the tick, or when the worker took the action over, in epoch seconds; None if `announced` is 0.
    started_epoch: float | None
    #: The tick that announced the action as started.
    tick_id: UUID | None
    #: The worker that took the action over.
    worker_id: UUID | None

    @property
    def was_started(self) -> bool:
        """Whether a tick announced the action's handler as started, or a worker took the action over."""
        return self.announced > 0

    @property
    def started_at(self) -> datetime | None:
        """The earliest start of the handler, in UTC; None if it was not started."""
        return None if self.started_epoch is None else datetime.fromtimestamp(self.started_epoch, UTC)


def find_work(
    connection: Connection,
    settings: Settings,
    *,
    tick_id: UUID,
    may_be_idle: bool,
    caller: str,
    budget: Mapping[str, float],
    counts: Mapping[str, Any],
    action_types: Collection[str],
) -> PendingWork:
    """Return the kinds of work that a tick may have, without locking rows.

    Args:
        connection: In autocommit mode.
        settings: Contains the retention times.
        tick_id: The id of the tick.
        may_be_idle: Whether to write the tick's row as started and ended if there is no work.
        caller: The caller, stored in that row.
        budget: The time limits, stored in that row.
        counts: The counts, stored in that row.
        action_types: The action types for which this build has handlers.
    """
    return PendingWork._make(
        sql.run_one(
            connection,
            "find_work",
            {
                "tick_id": tick_id,
                "may_be_idle": may_be_idle,
                "caller": caller,
                "budget": json.dumps(budget),
                "counts": json.dumps(counts),
                "action_types": texts(action_types),
                **_retention(settings),
            },
        )
    )


def begin_tick(
    connection: Connection, tick_id: UUID, *, lease_seconds: float, caller: str, budget: Mapping[str, float]
) -> TickRow:
    """Insert the tick's row; calling this again with the same id changes nothing.

    Args:
        connection: In autocommit mode.
        tick_id: The id of the tick.
        lease_seconds: Seconds from now until the leases of the tick end.
        caller: The caller, stored in the row.
        budget: The time limits, stored in the row.

    Returns:
        The id, the start of the tick and the end of its leases.
    """
    return TickRow(
        tick_id,
        *sql.run_one(
            connection,
            "begin_tick",
            tick_id=tick_id,
            lease_seconds=lease_seconds,
            caller=caller,
            budget=json.dumps(budget),
        ),
    )


def cancel_requests(connection: Connection, ids: Collection[UUID]) -> set[UUID]:
    """Return the ids of those running actions whose cancellation was requested."""
    return {row[0] for row in sql.run(connection, "cancel_requests", {"ids": uuids(ids)})}


def acquire_linger_lease(connection: Connection, holder: str) -> bool:
    """Acquire or renew the linger lease; return False if another listener holds it."""
    return sql.run(connection, "acquire_linger_lease", {"holder": holder}).fetchone() is not None


def find_upcoming(connection: Connection, holder: str, *, window_seconds: float) -> UpcomingWork:
    """Return the work that is due now or next within the window, and whether `holder` still has the linger lease."""
    return UpcomingWork._make(
        sql.run_one(connection, "find_upcoming", {"holder": holder, "window_seconds": window_seconds})
    )


def finish_tick(
    connection: Connection,
    tick: TickRow,
    *,
    outcome: str,
    counts: Mapping[str, Any],
    metrics: MetricsBuffer | None = None,
    announcement: int = 0,
) -> None:
    """Write the end of the tick, and add its metrics; do nothing if the row has a later announcement.

    Args:
        connection: In autocommit mode.
        tick: The row of the tick.
        outcome: `finished`, or `hung_up` if the caller closed its connection.
        counts: The counts of the report and notes about callers, stored in the row.
        metrics: The values to add; None without metrics.
        announcement: The number of this announcement; a row with a higher number is not changed.
    """
    parameters = {"tick_id": tick.id, "outcome": outcome, "counts": json.dumps(counts), "announcement": announcement}
    if metrics is None:
        sql.run(connection, "finish_tick", parameters)
    else:
        sql.run(connection, "finish_tick_counted", {**parameters, **metrics.columns(), "buffer": metrics.number})


def count_due(connection: Connection) -> int:
    """Return the number of due actions, at most 10,000."""
    return int(sql.run_one(connection, "count_due")[0])


def expired_leases(connection: Connection, *, limit: int) -> list[ExpiredLease]:
    """Lock and return at most `limit` actions whose lease has ended; actions that are already locked are left out."""
    return [ExpiredLease._make(row) for row in sql.run(connection, "expired_leases", {"limit": limit})]


def close_lost_ticks(connection: Connection) -> int:
    """Close the ticks whose lease ended before they finished, once their actions are rescued; return their number."""
    return sql.run(connection, "close_lost_ticks").rowcount


def prune_actions(connection: Connection, settings: Settings, *, limit: int, action_id: UUID | None = None) -> int:
    """Delete at most `limit` finished actions past their retention; return the number deleted.

    Locked actions, and those that other actions wait for, are kept. `action_id` is the only action that may be deleted;
    None: any.
    """
    ids = None if action_id is None else [action_id]
    return sql.run(connection, "prune_actions", {"limit": limit, "ids": ids, **_retention(settings)}).rowcount


def prunable_actions(connection: Connection, settings: Settings, *, limit: int) -> list[UUID]:
    """Return the ids of at most `limit` finished actions past their retention, by status, the oldest first."""
    return [row[0] for row in sql.run(connection, "prunable_actions", {"limit": limit} | _retention(settings))]


def prune_ticks(connection: Connection, *, settings: Settings, limit: int) -> int:
    """Delete at most `limit` ended ticks and `limit` event types past their retention; return the number of ticks."""
    # An event type is kept as long as there may be an action of it.
    unseen_days = max(settings.retention_days, settings.retention_failed_days)
    return sql.run(
        connection, "prune_ticks", retention_days=settings.retention_days, unseen_days=unseen_days, limit=limit
    ).rowcount


def _retention(settings: Settings) -> dict[str, Any]:
    return {"retention_days": settings.retention_days, "retention_failed_days": settings.retention_failed_days}
