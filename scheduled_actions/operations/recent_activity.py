"""How it has been going of late: what was done, how late it began, what failed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from scheduled_actions.database import clock
from scheduled_actions.operations import recent_activity_store as store

if TYPE_CHECKING:
    from datetime import datetime

    from scheduled_actions.database.connection import Connection, Database
    from scheduled_actions.operations.recent_activity_store import Failing, Near

#: The windows that can be looked at: how long each is, and of how many steps.
WINDOWS = {
    "hour": (timedelta(hours=1), 60),
    "day": (timedelta(days=1), 96),
    "week": (timedelta(days=7), 84),
}
_TYPES_MOST = 8
_NEAR = timedelta(days=7)
_DEADLINES_MOST = 5


@dataclass(slots=True)
class Step:
    """A step of a window."""

    starts_at: datetime
    succeeded: int = 0
    #: Failed, with attempts left; of a team this is not known.
    retried: int = 0
    failed: int = 0
    #: Of a team this is not known.
    ticks: int = 0
    #: By how many seconds half of what completed began late; None where nothing did.
    median_late: float | None = None
    #: The same of 95 of 100.
    most_late: float | None = None


@dataclass(frozen=True, slots=True)
class Pulse:
    """What happened in a window that ends now."""

    since: datetime
    until: datetime
    #: All of them, the oldest first.
    steps: list[Step]
    failing: list[Failing]
    #: Deadlines that are due within a week, or were.
    near: list[Near]


def pulse(database: Database, *, window: str, team_id: str | None) -> Pulse:
    """Return what happened of late, of a team where one is given.

    Args:
        database: Where the tables are.
        window: A name of `WINDOWS`.
        team_id: The team; None: all.
    """
    length, count = WINDOWS[window]
    step = length / count
    with database.connection() as connection:
        now = clock.now(connection)
        since = now - length
        steps = [Step(since + number * step) for number in range(count)]
        if team_id is None:
            _add_all(connection, steps, since, step.total_seconds())
        else:
            _add_team(connection, steps, since, step.total_seconds(), team_id)
        failing = store.failures(connection, team_id=team_id, since=since, limit=_TYPES_MOST)
        near = store.near_deadlines(
            connection, team_id=team_id, within_seconds=_NEAR.total_seconds(), limit=_DEADLINES_MOST
        )
    return Pulse(since, now, steps, failing, near)


def minutes(database: Database) -> list[int]:
    """Return how many ticks there were in each minute of the last hour, the oldest first."""
    length, count = WINDOWS["hour"]
    counted = [0] * count
    with database.connection() as connection:
        since = clock.now(connection) - length
        for number, ticks, *_ in store.of_ticks(connection, since=since, step_seconds=length.total_seconds() / count):
            if 0 <= number < count:
                counted[number] = ticks
    return counted


def _add_all(connection: Connection, steps: list[Step], since: datetime, seconds: float) -> None:
    for number, ticks, succeeded, retried, failed in store.of_ticks(connection, since=since, step_seconds=seconds):
        if 0 <= number < len(steps):
            step = steps[number]
            step.ticks, step.succeeded, step.retried, step.failed = ticks, succeeded, retried, failed
    late = store.lateness(connection, since=since, step_seconds=seconds, steps=len(steps))
    for number, median, most in late:
        steps[number].median_late, steps[number].most_late = median, most


def _add_team(connection: Connection, steps: list[Step], since: datetime, seconds: float, team_id: str) -> None:
    rows = store.of_team(connection, team_id=team_id, since=since, step_seconds=seconds)
    for number, succeeded, failed, median, most in rows:
        if 0 <= number < len(steps):
            step = steps[number]
            step.succeeded, step.failed, step.median_late, step.most_late = succeeded, failed, median, most
