"""What several days hold, counted within bounds: the statements behind a month of the calendar."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduled_actions.database.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.database.connection import Connection


sql = Statements(__file__)


class Group(NamedTuple):
    """Actions of one day that are alike."""

    #: Counted from 1.
    day: int
    status: str
    action_type: str
    #: Of those that wait: the schedule and the deadline that they belong to.
    schedule_id: UUID | None
    deadline_id: UUID | None
    title: str
    number: int
    #: When the first of them is or was.
    at: datetime
    #: One of them: the one, where there is no other.
    some_id: UUID
    #: How many were looked at, wanted or not.
    seen: int


def of_all(
    connection: Connection, starts: Sequence[datetime], ends: Sequence[datetime], *, user: str | None, most: int
) -> tuple[list[Group], set[tuple[int, str]]]:
    """Return what waits for and ended in each day, and of which days and statuses there may be more.

    Of each day, and status or priority, the first `most` are looked at.
    """
    parameters = {"starts": list(starts), "ends": list(ends), "user": user, "most": most}
    names = ("calendar_days_ended", "calendar_days_waiting")
    found = [group for name in names for group in _groups(connection, name, parameters)]
    seen: Counter[tuple[int, str]] = Counter()
    for one in found:
        seen[one.day, one.status] += one.seen
    return [one for one in found if one.number], {place for place, number in seen.items() if number >= most}


def of_team(
    connection: Connection,
    starts: Sequence[datetime],
    ends: Sequence[datetime],
    *,
    user: str | None,
    team_id: str,
    most: int,
) -> tuple[list[Group], bool]:
    """Return what waits for and ended in each day, of the team's newest `most` in each status; whether it has more."""
    parameters = {"starts": list(starts), "ends": list(ends), "user": user, "team_id": team_id, "most": most}
    found = _groups(connection, "calendar_days_of_team", parameters)
    seen: Counter[str] = Counter()
    for one in found:
        seen[one.status] += one.seen
    # Day 0 lies before the first one; none, behind the last.
    return [one for one in found if one.number and one.day], max(seen.values(), default=0) >= most


def _groups(connection: Connection, name: str, parameters: dict[str, Any]) -> list[Group]:
    return [Group(*row) for row in sql.run_leniently(connection, name, parameters)]
