"""Finding the actions that match filters, the newest first, in statements that each read no more than a bound.

A walk goes backwards over all actions, a search over those of a team or of few statuses; which of them is shorter is
found out on the way. What is rare may want several statements, none of them long.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduled_actions.actions import management_store as store
from scheduled_actions.core.action import Status

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.core.action import Action
    from scheduled_actions.database.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much one call reads or changes at most."""

    #: Counts are exact up to here, for each status.
    counted: int = 10_000
    #: So many actions a page walks over in search of those that match.
    walked: int = 50_000
    #: So many of them before it looks whether there are but few of the statuses it wants.
    near: int = 200
    #: So many candidates of a team a page looks at; they are gathered from each status.
    candidates: int = 5_000
    #: For so many seconds a page that has found nothing yet walks on.
    page_seconds: float = 0.5
    #: How many actions a bulk change reads at once; it changes them one by one.
    bite: int = 100
    #: After so many seconds a change of many starts no further bite.
    seconds: float = 5.0
    #: Lateness is measured on so many that completed, and as many that failed, within so many seconds.
    measured: int = 5_000
    measured_seconds: float = 3600.0


BOUNDS = Bounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which actions are meant; what is None does not matter."""

    statuses: tuple[Status, ...] | None = None
    action_type: str | None = None
    team_id: str | None = None
    lock_group: str | None = None
    #: `scheduled_at` is this instant or later.
    scheduled_from: datetime | None = None
    #: `scheduled_at` is before this instant.
    scheduled_to: datetime | None = None
    #: Part of the type, the dedup key or the lock group, or the beginning of the id.
    q: str | None = None
    #: Pending actions that are due sooner are left out.
    unlocked_for_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the actions that match, the newest first."""

    actions: list[Action]
    #: Where the next page begins; None on the last. A page may be short and still not be the last.
    next_cursor: UUID | None


class Listed(list["Action"]):
    """The actions of a page, as a list that also says where the next one begins.

    Args:
        found: The page.
    """

    #: As in `Page`.
    next_cursor: UUID | None

    def __init__(self, found: Page) -> None:
        super().__init__(found.actions)
        self.next_cursor = found.next_cursor


def page(
    connection: Connection,
    filters: Filters,
    bounds: Bounds = BOUNDS,
    *,
    cursor: UUID | None = None,
    limit: int = 100,
    least: int = 1,
    monotonic: Callable[[], float] = time.monotonic,
) -> Page:
    """Return the newest actions that match, at most `limit`, those with ids below the cursor.

    Args:
        connection: What is read, is read there.
        filters: Which are meant.
        bounds: How much one statement reads, and how long they go on.
        cursor: Where the page before ended.
        limit: At most so many.
        least: With fewer than these it goes on looking, for as long as `page_seconds` say.
        monotonic: Measures that.
    """
    ends_at = monotonic() + bounds.page_seconds
    found: list[UUID] = []
    while True:
        ids, cursor = find(connection, filters, bounds, before=cursor, limit=limit - len(found))
        found += ids
        if len(found) >= least or cursor is None or monotonic() > ends_at:
            return Page(store.read(connection, found), cursor)


def find(
    connection: Connection, filters: Filters, bounds: Bounds, *, before: UUID | None, limit: int
) -> tuple[list[UUID], UUID | None]:
    """Return the ids of the newest that match, and where to go on; None where nothing is left."""
    parameters = {
        "statuses": None if filters.statuses is None else [status.value for status in filters.statuses],
        "action_type": filters.action_type,
        "lock_group": filters.lock_group,
        "scheduled_from": filters.scheduled_from,
        "scheduled_to": filters.scheduled_to,
        "q": filters.q,
        "unlocked_for_seconds": filters.unlocked_for_seconds,
    }
    if filters.team_id is not None:
        return _find_in_team(connection, parameters, filters.team_id, bounds, before=before, limit=limit)
    is_narrowed = filters.statuses is not None
    examined = min(bounds.near, bounds.walked) if is_narrowed else bounds.walked
    ids, end = store.walk(connection, parameters, before=before, examined=examined, limit=limit + 1)
    if is_narrowed and end is not None and len(ids) <= limit:
        # Rare ones far back: few enough, they are all looked at, whatever their place.
        wanted = parameters | {"team_id": None}
        few = store.search(connection, wanted, before=before, examined=bounds.counted + 1, limit=limit + 1)
        if few.examined <= bounds.counted:
            return _cut(few.ids, None, limit)
        ids, end = store.walk(connection, parameters, before=before, examined=bounds.walked, limit=limit + 1)
    return _cut(ids, end, limit)


def _find_in_team(
    connection: Connection, parameters: dict[str, Any], team_id: str, bounds: Bounds, *, before: UUID | None, limit: int
) -> tuple[list[UUID], UUID | None]:
    is_narrowed = any(value is not None for name, value in parameters.items() if name != "statuses")
    examined = max(bounds.candidates, limit + 1) if is_narrowed else limit + 1
    wanted = parameters | {"team_id": team_id, "statuses": parameters["statuses"] or list(_ALL)}
    found = store.search(connection, wanted, before=before, examined=examined, limit=limit + 1)
    return _cut(found.ids, found.last if found.examined >= examined else None, limit)


def _cut(ids: list[UUID], end: UUID | None, limit: int) -> tuple[list[UUID], UUID | None]:
    """Return so many of the ids, and where to go on: behind the last of them where there are more, else at the end."""
    return (ids[:limit], ids[limit - 1]) if len(ids) > limit else (ids, end)


_ALL = tuple(status.value for status in Status)
