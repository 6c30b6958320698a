"""Operate actions for the management API: pages, counts, single and bulk changes, and the list of ticks.

Every call except `exact_counts` is bounded: a page examines a limited number of rows and returns a cursor, a count
stops at a limit, and a bulk change works in batches and stops at a time limit.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from scheduled_actions.actions import store
from scheduled_actions.actions.search import (
    BOUNDS,
    ActionFilters,
    ActionPage,
    SearchBounds,
    SummaryPage,
    find,
    find_page,
    page,
)
from scheduled_actions.actions.service import Scheduler
from scheduled_actions.core import checks as arguments
from scheduled_actions.core.action import FINISHED, Action, Status
from scheduled_actions.core.errors import StateConflict, UnknownAction
from scheduled_actions.core.wake import Wake
from scheduled_actions.database.boundary import RETRYABLE_ERRORS
from scheduled_actions.database.bounded import StatementLimits
from scheduled_actions.database.connection import Connection, Database
from scheduled_actions.database.transactions import announce, borrowed_connection

#: Maximum number of actions in one bulk change.
BULK_MOST = 10_000
#: The largest bound that a statement accepts.
_NO_BOUND = 2**31 - 1
#: A bulk change waits only briefly for each locked action, because all of its actions may be locked.
_SHORT_LOCK_WAIT = StatementLimits(lock_seconds=0.005)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionCounts:
    """Numbers of actions by status and by type, and of due actions."""

    by_status: dict[Status, int] = field(default_factory=lambda: dict.fromkeys(Status, 0))
    by_type: dict[str, dict[Status, int]] = field(default_factory=dict)
    #: Pending, with `scheduled_at` in the past.
    due: int = 0
    #: Due for longer than `overdue_seconds`, and neither queued nor paused nor for an executor.
    overdue: int = 0
    #: How long the oldest of the due actions that are neither queued nor paused nor for an executor has been due, at
    #: most since its creation; None without such actions.
    oldest_due_seconds: float | None = None
    #: Due, and waiting in the queue of a limit key.
    queued: int = 0
    #: Due, and held back by a pause.
    paused: int = 0
    #: Due, and waiting in the queue of an executor for one of its workers.
    for_executors: int = 0
    #: Names of the counts that exceed the limit; their values are the limit.
    capped: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class BulkResult:
    """The result of a bulk change, or of counting the actions that it would change."""

    #: Matching actions that were found.
    matched: int
    changed: int
    #: Whether more actions may match.
    more: bool
    #: The cursor of the next call; None at the end, and after a count.
    next_cursor: UUID | None


@dataclass(frozen=True, slots=True)
class TickRecord:
    """One tick, as stored in the database."""

    id: UUID
    started_at: datetime
    #: None while the tick is running, and if its process died.
    finished_at: datetime | None
    lease_expires_at: datetime
    caller: str | None
    #: None until the tick has ended or is found to be lost.
    outcome: str | None
    counts: Any
    budget: Any
    #: Number of actions that have started and are not settled yet.
    running: int
    #: None while the tick is running, and if its process died.
    duration_seconds: float | None
    #: Seconds from the start of the previous tick to the start of this one; None for the first tick.
    lag_seconds: float | None


class LatenessStats(NamedTuple):
    """How late the actions of one type started, in seconds."""

    action_type: str
    #: Number of measured actions.
    sample_count: int
    p50_seconds: float
    p95_seconds: float
    max_seconds: float


@dataclass(frozen=True, slots=True)
class ActionOperations:
    """Operates the actions of one project.

    Args:
        database: Holds the actions.
        find_scheduler: Returns the scheduler; called only for changes, because it needs the registry.
        wake: Starts a tick for actions that are due now; None leaves that to the cron.
        bounds: Limits of one call.
        monotonic: A clock that returns seconds.
    """

    database: Database
    find_scheduler: Callable[[], Scheduler]
    wake: Wake | None = None
    bounds: SearchBounds = field(default=BOUNDS, kw_only=True)
    monotonic: Callable[[], float] = field(default=time.monotonic, kw_only=True)

    def page(self, filters: ActionFilters, *, cursor: UUID | None = None, limit: int = 100) -> ActionPage:
        """Return the newest matching actions with ids below the cursor, at most `limit`."""
        with self.database.connection() as connection:
            return page(connection, filters, self.bounds, cursor=cursor, limit=limit, monotonic=self.monotonic)

    def summary_page(self, filters: ActionFilters, *, cursor: UUID | None = None, limit: int = 100) -> SummaryPage:
        """Return the summaries of the actions that `page` would return."""
        with self.database.connection() as connection:
            ids, next_cursor = find_page(
                connection, filters, self.bounds, cursor=cursor, limit=limit, monotonic=self.monotonic
            )
            return SummaryPage(store.summarize(connection, ids), next_cursor)

    def counts(
        self, *, team_id: str | None = None, overdue_seconds: float = 300, limit: int | None = None
    ) -> ActionCounts:
        """Count actions (of a team) by status and by type, and count due and overdue actions.

        If a status is capped, its counts by type are too low. `overdue` may be too low if `due` is capped; for a team,
        both may be too low if `pending` is capped.

        Args:
            team_id: Only this team.
            overdue_seconds: Actions due for longer than this are overdue.
            limit: Maximum of each count by status, and of the counts of due actions; None: `bounds.count_limit`.
        """
        limit = self.bounds.count_limit if limit is None else limit
        # Counting to one more than the limit shows whether the limit is exceeded.
        parameters: dict[str, Any] = {"overdue_seconds": overdue_seconds, "most": limit + 1}
        with self.database.connection() as connection:
            if team_id is None:
                rows = store.sql.run(connection, "count_actions", parameters).fetchall()
                due = store.due(connection, overdue_seconds=overdue_seconds, most=limit + 1)
            else:
                parameters |= {"team_id": team_id, "statuses": [status.value for status in Status]}
                found = store.sql.run(connection, "count_team", parameters).fetchall()
                rows = [row[:3] for row in found]
                ready, overdue, _, *parked = (sum(row[n] or 0 for row in found) for n in range(3, 9))
                oldest = max((row[5] for row in found if row[5] is not None), default=None)
                due = store.DueCounts(ready, overdue, oldest, *parked)
        by_status, by_type = dict.fromkeys(Status, 0), dict[str, dict[Status, int]]()
        for value, action_type, number in rows:
            status = Status(value)
            by_status[status] += number
            by_type.setdefault(action_type, dict.fromkeys(Status, 0))[status] += number
        of_due = {name: getattr(due, name) for name in ("due", "overdue", "queued", "paused", "for_executors")}
        totals = {**{status.value: number for status, number in by_status.items()}, **of_due}
        return ActionCounts(
            by_status={status: min(number, limit) for status, number in by_status.items()},
            by_type=by_type,
            **{name: min(number, limit) for name, number in of_due.items()},
            oldest_due_seconds=due.oldest_seconds,
            capped=[name for name, number in totals.items() if number > limit],
        )

    def exact_counts(self, *, overdue_seconds: float = 300) -> ActionCounts:
        """Count all actions by status, and due and overdue actions, exactly, but not by type; reads the whole table."""
        with self.database.connection() as connection:
            found = dict(store.sql.run(connection, "count_by_status").fetchall())
            due = store.due(connection, overdue_seconds=overdue_seconds, most=_NO_BOUND)
        return ActionCounts(
            by_status={status: found.get(status.value, 0) for status in Status},
            due=due.due,
            overdue=due.overdue,
            oldest_due_seconds=due.oldest_seconds,
            queued=due.queued,
            paused=due.paused,
            for_executors=due.for_executors,
        )

    def get(self, action_id: UUID | str, *, team_id: str | None, connection: Connection | None = None) -> Action:
        """Return one action.

        Raises:
            UnknownAction: No action has this id (in that team).
        """
        wanted = arguments.check_id(action_id)
        with borrowed_connection(self.database, connection) as borrowed:
            return store.get(borrowed, wanted, team_id=team_id)

    def scheduled_by(
        self, action_id: UUID | str, *, team_id: str | None, cursor: UUID | None = None, limit: int = 100
    ) -> ActionPage:
        """Return the actions that an action scheduled, in its handler or as follow-ups, newest first.

        Raises:
            UnknownAction: No action has this id (in that team).
        """
        with self.database.connection() as connection:
            action = self.get(action_id, team_id=team_id, connection=connection)
            filters = ActionFilters(scheduled_by=action.id, team_id=team_id)
            return page(connection, filters, self.bounds, cursor=cursor, limit=limit, monotonic=self.monotonic)

    @contextmanager
    def locked(
        self, action_id: UUID | str, *, team_id: str | None, connection: Connection | None = None
    ) -> Iterator[tuple[Action, Connection]]:
        """Lock an action; yield it and the connection whose transaction holds the lock.

        The lock ends with the block or, if `connection` is already in a transaction, with that transaction.

        Raises:
            UnknownAction: No action has this id (in that team).
        """
        wanted = arguments.check_id(action_id)
        with borrowed_connection(self.database, connection) as borrowed, borrowed.transaction():
            yield store.get(borrowed, wanted, team_id=team_id, locked=True), borrowed

    def run_now(
        self, action_id: UUID | str, *, by: str | None, team_id: str | None, connection: Connection | None = None
    ) -> Action:
        """Make a pending action due now, and return it; an action that is already due is unchanged.

        Raises:
            UnknownAction: No action has this id (in that team).
            WrongStatus: The action is not pending.
        """
        wanted = arguments.check_id(action_id)
        with borrowed_connection(self.database, connection) as borrowed:
            due = store.change(borrowed, "run_now", wanted, team_id=team_id, wanted_status="pending", by=by)
        announce(self.wake, connection)
        return due

    def purge(self, action_id: UUID | str, *, team_id: str | None, connection: Connection | None = None) -> Action:
        """Delete a finished action before its retention ends; return the deleted action.

        Raises:
            UnknownAction: No action has this id (in that team).
            WrongStatus: The action has not ended.
        """
        finished = ", ".join(status for status in Status if status in FINISHED)
        wanted = arguments.check_id(action_id)
        with borrowed_connection(self.database, connection) as borrowed:
            return store.change(borrowed, "purge_action", wanted, team_id=team_id, wanted_status=finished)

    def count_matching(self, filters: ActionFilters) -> BulkResult:
        """Count matching actions, up to `bounds.count_limit` and within `bounds.bulk_seconds`; change nothing."""
        most = self.bounds.count_limit
        return replace(self._change(filters, None, limit=most, cursor=None, batch=most), next_cursor=None)

    def retry_matching(self, filters: ActionFilters, *, by: str | None, limit: int, cursor: UUID | None) -> BulkResult:
        """Retry at most `limit` matching actions, newest first, as `Scheduler.retry_action` does.

        After `bounds.bulk_seconds`, no further batch is started. Actions that another session has locked or changed are
        counted as matched, but not retried.
        """
        return self._change(
            filters,
            partial(self.find_scheduler().retry_action, by=by, team_id=filters.team_id),
            limit=limit,
            cursor=cursor,
            batch=self.bounds.batch_size,
        )

    def cancel_matching(
        self, filters: ActionFilters, *, by: str | None, reason: str | None, limit: int, cursor: UUID | None
    ) -> BulkResult:
        """Cancel at most `limit` matching actions that are not running, newest first.

        The limits of `retry_matching` apply. The schedules of cancelled occurrences continue.
        """
        scheduler = self.find_scheduler()
        return self._change(
            filters,
            partial(
                scheduler.cancel_action,
                by=by,
                reason=reason,
                also_running=False,
                team_id=filters.team_id,
                edit_lock_seconds=filters.unlocked_for_seconds,
            ),
            limit=limit,
            cursor=cursor,
            batch=self.bounds.batch_size,
            after_batch=scheduler.run_deferred,
        )

    def delete_matching(self, filters: ActionFilters, *, limit: int, cursor: UUID | None) -> BulkResult:
        """Delete at most `limit` matching actions that have ended, newest first; others are not changed.

        The limits of `retry_matching` apply.
        """
        return self._change(
            filters,
            partial(self.purge, team_id=filters.team_id),
            limit=limit,
            cursor=cursor,
            batch=self.bounds.batch_size,
        )

    def _change(
        self,
        filters: ActionFilters,
        change: Callable[..., Action] | None,
        *,
        limit: int,
        cursor: UUID | None,
        batch: int,
        after_batch: Callable[[], None] = lambda: None,
    ) -> BulkResult:
        """Change each matching action in its own transaction, so that no lock is held while waiting for another.

        Without a `change`, only count the actions.
        """
        matched = changed = 0
        ends_at = self.monotonic() + self.bounds.bulk_seconds
        with self.database.connection(_SHORT_LOCK_WAIT) as connection:
            while True:
                ids, cursor = find(connection, filters, self.bounds, before=cursor, limit=min(batch, limit - matched))
                matched += len(ids)
                changed += sum(_is_changed(change, action_id, connection) for action_id in ids if change is not None)
                after_batch()
                if cursor is None or matched >= limit or self.monotonic() > ends_at:
                    return BulkResult(matched=matched, changed=changed, more=cursor is not None, next_cursor=cursor)

    def lateness(self, *, team_id: str | None = None) -> list[LatenessStats]:
        """Return the lateness by action type, from a sample of the actions (of a team) that ended in the last hour."""
        with self.database.connection() as connection:
            return [
                LatenessStats(*row)
                for row in store.sql.run(
                    connection,
                    "lateness",
                    {"team_id": team_id, "seconds": self.bounds.sample_seconds, "most": self.bounds.sample_size},
                )
            ]

    def ticks(self, *, before: tuple[datetime, UUID] | None = None, limit: int = 100) -> list[TickRecord]:
        """Return at most `limit` ticks, latest first; with `before` (start and id of a tick), only ticks before it."""
        started_at, tick_id = before or (None, None)
        with self.database.connection() as connection:
            return [
                TickRecord(*row)
                for row in store.sql.run_leniently(
                    connection, "list_ticks", {"before_started_at": started_at, "before_id": tick_id, "limit": limit}
                )
            ]


def _is_changed(change: Callable[..., Action], action_id: UUID, connection: Connection) -> bool:
    try:
        change(action_id, connection=connection)
    except (StateConflict, UnknownAction, *RETRYABLE_ERRORS):
        # Another session has changed the action or has it locked.
        return False
    return True
