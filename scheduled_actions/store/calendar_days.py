"""What several days hold, counted within bounds: the statements behind a month of the calendar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from scheduled_actions.store.actions import read_leniently

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.store.connection import Connection


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
    #: The first of them.
    at: datetime
    first_id: UUID
    #: Whether it was not counted further.
    is_cut: bool


def of_all(
    connection: Connection, starts: Sequence[datetime], ends: Sequence[datetime], *, user: str | None, most: int
) -> list[Group]:
    """Return what waits for and ended in each day; of each day, and status or priority, the first `most`."""
    parameters = {"starts": list(starts), "ends": list(ends), "user": user, "most": most}
    return [
        group
        for name in ("calendar_days_ended", "calendar_days_waiting")
        for group in _groups(connection, name, parameters)
    ]


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
    found = list(_groups(connection, "calendar_days_of_team", parameters, also_cut=True))
    shown = [one._replace(is_cut=False) for one in found if one.number and one.day and 1 <= one.day <= len(starts)]
    return shown, any(one.is_cut for one in found)


def _groups(
    connection: Connection, name: str, parameters: dict[str, Any], *, also_cut: bool = False
) -> Iterator[Group]:
    """Yield the groups of a statement; one that holds nothing wanted says no more than that it was cut."""
    found = [Group(*row) for row in read_leniently(connection, name, parameters)]
    cut = {(one.day, one.status) for one in found if one.is_cut}
    for one in found:
        if one.number or also_cut:
            yield one._replace(is_cut=(one.day, one.status) in cut)
