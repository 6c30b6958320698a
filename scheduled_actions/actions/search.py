"""Find actions by filters, newest first, with statements that each read a bounded number of rows.

Only the actions of the wanted user, target, schedule, deadline or parent are searched, or those of the team. Without
these filters, actions are scanned from the newest to the oldest; if few actions have the wanted statuses, only those
few are searched. A page may need several statements.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from scheduled_actions.actions import store
from scheduled_actions.core.action import Action, ActionSummary, Status
from scheduled_actions.database.connection import Connection

_ALL = [status.value for status in Status]
#: Filters whose index is in the order of a page, the most selective first.
_ORDERED = ("scheduled_by", "target", "user_id")
#: Filters whose index is in another order; most deadlines and schedules have few actions.
_SMALL = ("deadline_id", "schedule_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchBounds:
    """Limits of one call: the rows it reads, the actions it changes, and its time."""

    #: Counts are exact up to this number, per status.
    count_limit: int = 10_000
    #: Maximum number of actions that one statement scans for matches.
    scan_size: int = 50_000
    #: Number of actions that the first statement scans, before the search checks whether the wanted statuses are rare.
    first_scan_size: int = 200
    #: Maximum number of actions of a team, a user, a target or a parent that one statement compares with the filters.
    candidate_limit: int = 5_000
    #: Seconds after which a page with too few matches stops searching.
    page_seconds: float = 0.5
    #: Number of actions per batch of a bulk change; each action is changed in its own transaction.
    batch_size: int = 100
    #: Seconds after which a bulk change starts no further batch.
    bulk_seconds: float = 5.0
    #: Lateness is measured over at most this number of completed and as many failed actions, all of which ended within
    #: the last `sample_seconds`.
    sample_size: int = 5_000
    sample_seconds: float = 3600.0


BOUNDS = SearchBounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFilters:
    """Filters of a search; None matches everything."""

    statuses: tuple[Status, ...] | None = None
    action_type: str | None = None
    team_id: str | None = None
    lock_group: str | None = None
    user_id: str | None = None
    #: `{"type", "id"}` of the entity.
    target: Mapping[str, str] | None = None
    schedule_id: UUID | None = None
    deadline_id: UUID | None = None
    #: The action whose handler scheduled them, or that they follow.
    scheduled_by: UUID | None = None
    #: `scheduled_at` is this instant or later.
    due_from: datetime | None = None
    #: `scheduled_at` is before this instant.
    due_to: datetime | None = None
    #: `completed_at` is before this instant.
    completed_to: datetime | None = None
    #: Part of the type, the dedup key or the lock group, or the beginning of the id.
    q: str | None = None
    #: Exclude pending actions that are overdue or due within this number of seconds.
    unlocked_for_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class ActionPage:
    """A page of matching actions, newest first."""

    actions: list[Action]
    #: The cursor of the next page; None on the last page. A short page need not be the last one.
    next_cursor: UUID | None


@dataclass(frozen=True, slots=True)
class SummaryPage:
    """A page of the summaries of matching actions; otherwise as `ActionPage`."""

    actions: list[ActionSummary]
    next_cursor: UUID | None


class ActionList(list["Action"]):
    """The actions of a page as a list with the attribute `next_cursor`, as in `ActionPage`.

    Args:
        page: The actions and the cursor.
    """

    def __init__(self, page: ActionPage) -> None:
        super().__init__(page.actions)
        self.next_cursor = page.next_cursor


def page(
    connection: Connection,
    filters: ActionFilters,
    bounds: SearchBounds = BOUNDS,
    *,
    cursor: UUID | None = None,
    limit: int = 100,
    least: int = 1,
    monotonic: Callable[[], float] = time.monotonic,
) -> ActionPage:
    """Return the newest matching actions with ids below the cursor.

    Args:
        connection: Reads the actions.
        filters: The filters that the actions must match.
        bounds: Limit each statement and the total time.
        cursor: `next_cursor` of the previous page; None: the first page.
        limit: Maximum number of actions.
        least: With fewer matches than this number, the search continues for up to `page_seconds`.
        monotonic: A clock that returns seconds.
    """
    ids, next_cursor = find_page(
        connection, filters, bounds, cursor=cursor, limit=limit, least=least, monotonic=monotonic
    )
    return ActionPage(store.read(connection, ids), next_cursor)


def find_page(
    connection: Connection,
    filters: ActionFilters,
    bounds: SearchBounds,
    *,
    cursor: UUID | None,
    limit: int,
    least: int = 1,
    monotonic: Callable[[], float] = time.monotonic,
) -> tuple[list[UUID], UUID | None]:
    """Return the ids of the actions of a page, and the cursor of the next one; arguments as those of `page`."""
    ends_at = monotonic() + bounds.page_seconds
    found: list[UUID] = []
    while True:
        ids, cursor = find(connection, filters, bounds, before=cursor, limit=limit - len(found))
        found += ids
        if len(found) >= least or cursor is None or monotonic() > ends_at:
            return found, cursor


def find(
    connection: Connection, filters: ActionFilters, bounds: SearchBounds, *, before: UUID | None, limit: int
) -> tuple[list[UUID], UUID | None]:
    """Return the ids of the newest matches, at most `limit`, and the cursor to continue from; None at the end.

    Reads a bounded number of rows, and may therefore return fewer ids than `limit`, or none, before the end.
    """
    statuses = None if filters.statuses is None else [status.value for status in filters.statuses]
    parameters: dict[str, Any] = {
        "action_type": filters.action_type,
        "team_id": filters.team_id,
        "lock_group": filters.lock_group,
        "user_id": filters.user_id,
        "target_type": None if filters.target is None else filters.target["type"],
        "target_id": None if filters.target is None else filters.target["id"],
        "schedule_id": filters.schedule_id,
        "deadline_id": filters.deadline_id,
        "scheduled_by": filters.scheduled_by,
        "due_from": filters.due_from,
        "due_to": filters.due_to,
        "completed_to": filters.completed_to,
        "q": filters.q,
        "unlocked_for_seconds": filters.unlocked_for_seconds,
        "before": before,
        "limit": limit + 1,
    }
    given = {field.name for field in fields(filters) if getattr(filters, field.name) is not None}
    scan = parameters | {"statuses": statuses}
    for small in (name for name in _SMALL if name in given):
        # If the deadline or schedule has few actions, search all of them.
        candidate_limit = bounds.count_limit + 1
        count, _, ids = store.sql.run_one(
            connection, "search_related", scan | {"source": small, "candidate_limit": candidate_limit}
        )
        if count < candidate_limit:
            return _cut(ids, None, limit)
    source = next((name for name in _ORDERED if name in given), None)
    if source is not None:
        candidate_limit = _candidate_limit(bounds, limit, is_narrowed=given != {source})
        count, last, ids = store.sql.run_one(
            connection, "search_related", scan | {"source": source, "candidate_limit": candidate_limit}
        )
        return _cut(ids, last if count >= candidate_limit else None, limit)
    parameters |= {"statuses": statuses or _ALL}
    if filters.team_id is not None:
        candidate_limit = _candidate_limit(bounds, limit, is_narrowed=not given <= {"team_id", "statuses"})
        count, last, ids = store.sql.run_one(
            connection, "search_actions", parameters | {"candidate_limit": candidate_limit}
        )
        return _cut(ids, last if count >= candidate_limit else None, limit)
    if statuses is not None:
        ids, end = store.sql.run_one(
            connection, "scan_actions", scan | {"scan_size": min(bounds.first_scan_size, bounds.scan_size)}
        )
        if end is None or len(ids) > limit:
            return _cut(ids, end, limit)
        # If few actions have these statuses, search all of those actions.
        count, _, ids = store.sql.run_one(
            connection, "search_actions", parameters | {"candidate_limit": bounds.count_limit + 1}
        )
        if count <= bounds.count_limit:
            return _cut(ids, None, limit)
    ids, end = store.sql.run_one(connection, "scan_actions", scan | {"scan_size": bounds.scan_size})
    return _cut(ids, end, limit)


def _candidate_limit(bounds: SearchBounds, limit: int, *, is_narrowed: bool) -> int:
    """Return how many candidates a statement reads: as many as the page needs if all of them match."""
    return max(bounds.candidate_limit, limit + 1) if is_narrowed else limit + 1


def _cut(ids: list[UUID], end: UUID | None, limit: int) -> tuple[list[UUID], UUID | None]:
    """Return at most `limit` ids, and the cursor to continue from: the last of them if there are more, else `end`."""
    return (ids[:limit], ids[limit - 1]) if len(ids) > limit else (ids, end)
