"""Read recent activity for the overview and `/metrics`; each statement reads a bounded number of rows."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from scheduled_actions.database import clock
from scheduled_actions.database.connection import Connection, Database
from scheduled_actions.database.statements import Statements

sql = Statements(__file__)

#: The windows by name: length and number of steps.
WINDOWS = {
    "hour": (timedelta(hours=1), 60),
    "day": (timedelta(days=1), 96),
    "week": (timedelta(days=7), 84),
}
_TYPES_MOST = 8
_NEAR = timedelta(days=7)
_DEADLINES_MOST = 5


@dataclass(slots=True)
class ActivityStep:
    """The activity in one step of a window."""

    starts_at: datetime
    succeeded: int = 0
    #: Failed attempts that are retried; always 0 for a team.
    retried: int = 0
    failed: int = 0
    #: Always 0 for a team.
    ticks: int = 0
    #: Median and 95th percentile of the seconds from due to start, from a sample of the completed actions; for a team,
    #: of the completed and failed actions. None without such actions.
    median_late: float | None = None
    most_late: float | None = None


class FailingType(NamedTuple):
    """An action type with failed actions: their number, and the latest one."""

    action_type: str
    number: int
    latest_at: datetime
    latest_id: UUID
    latest_error: str | None


class NearDeadline(NamedTuple):
    """An unresolved deadline that is due soon or overdue."""

    id: UUID
    name: str | None
    target_type: str
    target_id: str
    status: str
    due_at: datetime
    paused_at: datetime | None


@dataclass(frozen=True, slots=True)
class RecentActivity:
    """The activity of a window that ends now."""

    since: datetime
    until: datetime
    #: The oldest first.
    steps: list[ActivityStep]
    #: The most frequent first, at most 8, from the newest 1,000 failures.
    failing: list[FailingType]
    #: Due within a week, or overdue; the earliest first, at most 5.
    near: list[NearDeadline]


def recent_activity(database: Database, *, window: str, team_id: str | None) -> RecentActivity:
    """Return the activity in a window that ends now.

    Args:
        database: Holds the actions and ticks.
        window: A key of `WINDOWS`.
        team_id: Only actions and deadlines of this team; None: of all teams, and ticks.
    """
    length, count = WINDOWS[window]
    step = length / count
    with database.connection() as connection:
        now = clock.now(connection)
        since = now - length
        steps = [ActivityStep(since + number * step) for number in range(count)]
        parameters = {"team_id": team_id, "since": since, "step_seconds": step.total_seconds(), "steps": count}
        if team_id is None:
            rows = sql.run(connection, "activity_ticks", parameters)
            _fill(steps, rows, "ticks", "succeeded", "retried", "failed")
            _fill(steps, sql.run(connection, "activity_lateness", parameters), "median_late", "most_late")
        else:
            rows = sql.run(connection, "activity_team", parameters)
            _fill(steps, rows, "succeeded", "failed", "median_late", "most_late")
        failures = sql.run_leniently(connection, "activity_failures", parameters | {"limit": _TYPES_MOST})
        near = sql.run_leniently(
            connection,
            "near_deadlines",
            {"team_id": team_id, "within_seconds": _NEAR.total_seconds(), "limit": _DEADLINES_MOST},
        )
        return RecentActivity(
            since, now, steps, [FailingType(*row) for row in failures], [NearDeadline(*row) for row in near]
        )


def ticks_per_minute(database: Database) -> list[int]:
    """Return the number of ticks in each minute of the last hour, the oldest first."""
    length, count = WINDOWS["hour"]
    with database.connection() as connection:
        since = clock.now(connection) - length
        steps = [ActivityStep(since) for _ in range(count)]
        parameters = {"since": since, "step_seconds": length.total_seconds() / count}
        _fill(steps, sql.run(connection, "activity_ticks", parameters), "ticks")
    return [step.ticks for step in steps]


def _fill(steps: list[ActivityStep], rows: Iterable[tuple[Any, ...]], *names: str) -> None:
    """Set the named attributes of steps; a row contains the number of its step, then their values."""
    for number, *values in rows:
        if 0 <= number < len(steps):
            for name, value in zip(names, values, strict=False):
                setattr(steps[number], name, value)


class RecentTicks(NamedTuple):
    """Statistics of the latest ticks."""

    #: Number of ticks by outcome: `finished`, `hung_up`, `lost`, `running`.
    by_outcome: dict[str, int]
    #: Start of the last tick in seconds since 1970; None without ticks.
    last_started_epoch: float | None
    #: Duration of the last tick; None while it is running, if its process died, and without ticks.
    last_seconds: float | None


def recent_ticks(connection: Connection, *, seconds: float, limit: int) -> RecentTicks:
    """Return statistics of the last tick, and of at most `limit` ticks that started within the last `seconds`."""
    return RecentTicks(*sql.run_one(connection, "recent_ticks", {"seconds": seconds, "limit": limit}))


def counted(connection: Connection, *, limit: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return the counters that ticks have written, at most `limit`, by metric, subject and part."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for metric, subject, part, value in sql.run(connection, "read_metrics", {"limit": limit}):
        found.setdefault(metric, {}).setdefault(subject, {})[part] = value
    return found
