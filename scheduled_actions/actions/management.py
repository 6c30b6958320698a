"""What the management API does beyond scheduling: bounded pages, counts, changes of many, and what a tick left behind.

Nothing here reads or changes more than it says, however many actions there are: a page examines a bounded number of
them and says where to go on, a count stops at a number, a change of many goes in bites and ends in time.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scheduled_actions.actions import management_store as store
from scheduled_actions.actions import store as actions
from scheduled_actions.actions.search import BOUNDS, Bounds, Filters, Page, find, page
from scheduled_actions.core import checks as arguments
from scheduled_actions.core.action import FINISHED, Action, Status
from scheduled_actions.core.errors import StateConflict, UnknownAction, WrongStatus
from scheduled_actions.core.pages import page_by
from scheduled_actions.database.bounded import Limits
from scheduled_actions.database.failures import PASSING
from scheduled_actions.database.transactions import borrowed_connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.actions.service import Scheduler
    from scheduled_actions.database.connection import Connection, Database

#: The most that a change of many changes in one call.
BULK_MOST = 10_000
#: The highest number that a statement's bound can be.
_NO_BOUND = 2**31 - 1
#: A change of many leaves out what another session has locked: it may be all of them.
_HARDLY_WAITING = Limits(lock_seconds=0.005)


@dataclass(slots=True)
class Counts:
    """How many actions there are."""

    by_status: dict[Status, int] = field(default_factory=lambda: dict.fromkeys(Status, 0))
    by_type: dict[str, dict[Status, int]] = field(default_factory=dict)
    #: Pending and their time has come.
    due: int = 0
    #: Due for longer than was asked for.
    overdue: int = 0
    #: For how long the oldest has been due; None when nothing is.
    oldest_due_seconds: float | None = None
    #: The counts that stopped at the bound.
    capped: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Changed:
    """What a change of many did."""

    #: Actions found that match and could be changed so.
    matched: int
    changed: int
    #: Whether there may be more that match.
    more: bool
    #: Where to go on.
    next_cursor: UUID | None


@dataclass(frozen=True, slots=True)
class Tick:
    """One call of the cron endpoint."""

    id: UUID
    started_at: datetime
    finished_at: datetime | None
    lease_expires_at: datetime
    caller: str | None
    #: None while it runs.
    outcome: str | None
    counts: Any
    budget: Any
    #: How many actions it has started and not yet settled.
    running: int
    duration_seconds: float | None
    #: How long the tick before it had started earlier.
    lag_seconds: float | None


class Management:
    """Watches and mends the actions of one project.

    Args:
        database: Where the tables are.
        find_scheduler: Gives what makes the changes that code may make, too; asked when one is made, for it needs the
            registry, and looking does not.
        bounds: How much one call reads or changes.
        monotonic: Measures how long a change of many takes.
    """

    def __init__(
        self,
        database: Database,
        find_scheduler: Callable[[], Scheduler],
        *,
        bounds: Bounds = BOUNDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._find_scheduler = find_scheduler
        self._bounds = bounds
        self._monotonic = monotonic

    def page(self, filters: Filters, *, cursor: UUID | None = None, limit: int = 100) -> Page:
        """Return the newest actions that match, at most `limit`, those with ids below the cursor."""
        with self._database.connection() as connection:
            return page(connection, filters, self._bounds, cursor=cursor, limit=limit, monotonic=self._monotonic)

    def counts(self, *, team_id: str | None = None, overdue_seconds: float = 300, counted: int | None = None) -> Counts:
        """Return how many actions there are (of a team), each status counted to `counted`; None: to the bound."""
        told = self._bounds.counted if counted is None else counted
        # One more than is told: then it is known that there are more.
        most = told + 1
        with self._database.connection() as connection:
            if team_id is None:
                found = store.counts(connection, most=most)
                due, overdue, oldest = store.due(connection, overdue_seconds=overdue_seconds, most=most)
            else:
                found = store.team_counts(
                    connection,
                    team_id=team_id,
                    statuses=[status.value for status in Status],
                    overdue_seconds=overdue_seconds,
                    most=most,
                )
                due, overdue = sum(one.due for one in found), sum(one.overdue for one in found)
                oldest = max(
                    (one.oldest_due_seconds for one in found if one.oldest_due_seconds is not None), default=None
                )
        return _counts(found, told, due=due, overdue=overdue, oldest_due_seconds=oldest)

    def exact_counts(self, *, overdue_seconds: float = 300) -> Counts:
        """Return how many actions there are in each status, with no bound: it reads the whole table."""
        with self._database.connection() as connection:
            by_status = actions.by_status(connection)
            due, overdue, oldest = store.due(connection, overdue_seconds=overdue_seconds, most=_NO_BOUND)
        return Counts(by_status=by_status, due=due, overdue=overdue, oldest_due_seconds=oldest)

    def get(self, action_id: UUID | str, *, team_id: str | None, connection: Connection | None = None) -> Action:
        """Return one action.

        Raises:
            UnknownAction: There is none of that id (in that team).
        """
        wanted = arguments.check_id(action_id)
        with borrowed_connection(self._database, connection) as borrowed:
            found = actions.get(borrowed, wanted, team_id=team_id)
        if found is None:
            raise UnknownAction(action_id)
        return found

    def scheduled_by(
        self, action_id: UUID | str, *, team_id: str | None, cursor: UUID | None = None, limit: int = 100
    ) -> Page:
        """Return what an action scheduled, the newest first: its handler's follow-ups, and what follows its end.

        Raises:
            UnknownAction: There is none of that id (in that team).
        """
        with self._database.connection() as connection:
            found = self.get(action_id, team_id=team_id, connection=connection)
            ids, next_cursor = page_by(
                lambda one: one,
                lambda most: store.scheduled_by(connection, found.id, team_id=team_id, before=cursor, limit=most),
                limit,
            )
            return Page(store.read(connection, ids), next_cursor)

    @contextmanager
    def locked(
        self, action_id: UUID | str, *, team_id: str | None, connection: Connection | None = None
    ) -> Iterator[tuple[Action, Connection]]:
        """Give the action and a connection in whose transaction nobody else changes it.

        Raises:
            UnknownAction: There is none of that id (in that team).
        """
        wanted = arguments.check_id(action_id)
        with borrowed_connection(self._database, connection) as lent, lent.transaction():
            found = store.lock(lent, wanted, team_id=team_id)
            if found is None:
                raise UnknownAction(action_id)
            yield found, lent

    def run_now(
        self, action_id: UUID | str, *, by: str | None, team_id: str | None, connection: Connection | None = None
    ) -> Action:
        """Make a pending action due: the next tick takes it. One that is due already keeps its place.

        Raises:
            UnknownAction: There is none of that id (in that team).
            WrongStatus: It is not pending.
        """
        wanted = arguments.check_id(action_id)
        with borrowed_connection(self._database, connection) as lent:
            due = store.run_now(lent, wanted, by=by, team_id=team_id)
        return due or self._refuse(wanted, team_id, "pending")

    def purge(self, action_id: UUID | str, *, team_id: str | None, connection: Connection | None = None) -> Action:
        """Remove a finished action before its retention ends; return what it was.

        Raises:
            UnknownAction: There is none of that id (in that team).
            WrongStatus: It has not ended.
        """
        wanted = arguments.check_id(action_id)
        with borrowed_connection(self._database, connection) as borrowed:
            gone = store.purge(borrowed, wanted, team_id=team_id)
        return gone or self._refuse(wanted, team_id, ", ".join(status for status in Status if status in FINISHED))

    def count_matching(self, filters: Filters) -> Changed:
        """Return how many actions match, counted to the bound; nothing is changed."""
        matched, cursor, most = 0, None, self._bounds.counted
        ends_at = self._monotonic() + self._bounds.seconds
        with self._database.connection() as connection:
            while True:
                ids, cursor = find(connection, filters, self._bounds, before=cursor, limit=most - matched)
                matched += len(ids)
                if cursor is None or matched >= most or self._monotonic() > ends_at:
                    return Changed(matched=matched, changed=0, more=cursor is not None, next_cursor=None)

    def retry_matching(self, filters: Filters, *, by: str | None, limit: int, cursor: UUID | None) -> Changed:
        """Make those that match pending again, at most `limit`, the newest first."""
        scheduler = self._find_scheduler()

        def retry(action_id: UUID, connection: Connection) -> None:
            scheduler.retry_action(action_id, by=by, team_id=filters.team_id, connection=connection)

        return self._change(filters, retry, limit=limit, cursor=cursor)

    def cancel_matching(
        self, filters: Filters, *, by: str | None, reason: str | None, limit: int, cursor: UUID | None
    ) -> Changed:
        """Cancel those that match, at most `limit`, the newest first; plan what their series go on with."""
        scheduler = self._find_scheduler()

        def cancel(action_id: UUID, connection: Connection) -> None:
            scheduler.cancel_action(
                action_id,
                by=by,
                reason=reason,
                also_running=False,
                team_id=filters.team_id,
                edit_lock_seconds=filters.unlocked_for_seconds,
                connection=connection,
            )

        return self._change(filters, cancel, limit=limit, cursor=cursor, after_bite=scheduler.finish_left)

    def lateness(self, *, team_id: str | None = None) -> list[store.Lateness]:
        """Return how late actions of each type (of a team) started in the last hour: start less due, in seconds."""
        bounds = self._bounds
        with self._database.connection() as connection:
            return store.lateness(connection, team_id=team_id, seconds=bounds.measured_seconds, most=bounds.measured)

    def ticks(self, *, before: tuple[datetime, UUID] | None = None, limit: int = 100) -> list[Tick]:
        """Return the latest ticks before the one of that start and id, at most `limit`."""
        with self._database.connection() as connection:
            return [Tick(*row) for row in store.ticks(connection, before=before, limit=limit)]

    def _change(
        self,
        filters: Filters,
        change: Callable[[UUID, Connection], None],
        *,
        limit: int,
        cursor: UUID | None,
        after_bite: Callable[[], None] = lambda: None,
    ) -> Changed:
        """Change each of those that match in a transaction of its own.

        Several in one transaction would wait for the rows of the next while they keep those of the one before.
        """
        matched = changed = 0
        ends_at = self._monotonic() + self._bounds.seconds
        with self._database.connection(_HARDLY_WAITING) as connection:
            while True:
                ids, cursor = find(
                    connection, filters, self._bounds, before=cursor, limit=min(self._bounds.bite, limit - matched)
                )
                matched += len(ids)
                changed += sum(_is_changed(change, action_id, connection) for action_id in ids)
                after_bite()
                if cursor is None or matched >= limit or self._monotonic() > ends_at:
                    return Changed(matched=matched, changed=changed, more=cursor is not None, next_cursor=cursor)

    def _refuse(self, action_id: UUID, team_id: str | None, wanted_status: str) -> Action:
        found = self.get(action_id, team_id=team_id)
        raise WrongStatus(action_id, found.status, wanted_status)


def _is_changed(change: Callable[[UUID, Connection], None], action_id: UUID, connection: Connection) -> bool:
    try:
        change(action_id, connection)
    except (StateConflict, UnknownAction, *PASSING):
        # Another session was first, or is changing it right now.
        return False
    return True


def _counts(
    found: list[store.Counted], most: int, *, due: int, overdue: int, oldest_due_seconds: float | None
) -> Counts:
    counts = Counts(oldest_due_seconds=oldest_due_seconds)
    for one in found:
        status = Status(one.status)
        counts.by_status[status] += one.number
        counts.by_type.setdefault(one.action_type, dict.fromkeys(Status, 0))[status] += one.number
    for status, count in counts.by_status.items():
        if count > most:
            counts.by_status[status] = most
            counts.capped.append(status.value)
    for name, count in (("due", due), ("overdue", overdue)):
        setattr(counts, name, min(count, most))
        if count > most:
            counts.capped.append(name)
    return counts
