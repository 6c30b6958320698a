"""Schedules in the table. Every function takes the connection: it can be the caller's own."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from scheduled_actions.database import shared_settings
from scheduled_actions.database.statements import Statements, uuids
from scheduled_actions.schedules.model import Course, Schedule, instant
from scheduled_actions.schedules.rules.rows import schedule_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from scheduled_actions.core.action import Claimed
    from scheduled_actions.database.connection import Connection

sql = Statements(__file__)

#: Under which the processes share what was brought up to date last.
_SYNCED = "declared_schedules"

#: The columns that the reading statements return, in their order: the fields of a schedule.
_FIELDS = tuple(field.name for field in fields(Schedule) if field.name != "problem")


class Found(NamedTuple):
    """A schedule, and the database's now when it was read."""

    schedule: Schedule
    now: datetime


class Taken(NamedTuple):
    """A claimed action that is the planned occurrence of a schedule."""

    action_id: UUID
    course: Course
    now: datetime
    #: The claim of the earliest other occurrence that is at work.
    running_since: datetime | None
    #: Since when another occurrence waits for its condition, where that matters.
    waiting_since: datetime | None
    #: Whether an occurrence waits for a build that has its handler.
    has_unhandled: bool


class Step(NamedTuple):
    """One step of a schedule, on its way to the table."""

    schedule_id: UUID
    #: The occurrence to plan; None plans none.
    occurrence_at: datetime | None = None
    #: The same, put off by its jitter; None where it has none.
    scheduled_at: datetime | None = None
    #: The planned occurrence has had its turn: from now on it is the last one.
    is_past: bool = False
    executed: int = 0
    skipped: int = 0
    missed: int = 0
    #: Final failures in a row; None leaves the count.
    failures: int | None = None
    #: None leaves the status.
    status: str | None = None
    note: str | None = None
    status_by: str | None = None
    #: The pointer stays where it is: at a rolling occurrence that is at work.
    keeps_pointer: bool = False

    @property
    def due_at(self) -> datetime | None:
        """When what it plans comes due; None where it plans nothing."""
        return self.scheduled_at or self.occurrence_at


def create(connection: Connection, values: Mapping[str, Any]) -> UUID | None:
    """Insert a schedule that has nothing planned yet; None when its name is taken.

    Args:
        connection: Its transaction decides whether the schedule ever was.
        values: What `create_schedule.sql` names; documents as JSON text.
    """
    row = sql.run(connection, "create_schedule", values).fetchone()
    return None if row is None else row[0]


def write(connection: Connection, schedule_id: UUID, values: Mapping[str, Any]) -> None:
    """Give a schedule new values, and its planned occurrence with it."""
    sql.run(connection, "write_schedule", {**values, "schedule_id": schedule_id})


def get(
    connection: Connection,
    *,
    schedule_id: UUID | None = None,
    name: str | None = None,
    name_team_id: str | None = None,
    team_id: str | None = None,
    locked: bool = False,
) -> Found | None:
    """Return one schedule by id or by name.

    Args:
        connection: Where.
        schedule_id: By id.
        name: By name, among those of `name_team_id`.
        name_team_id: None: those outside any team.
        team_id: Only if it belongs to this team; None: of any.
        locked: Keep others from changing it until the transaction ends.
    """
    rows = sql.run_leniently(
        connection,
        "lock_schedule" if locked else "get_schedule",
        {"id": schedule_id, "name": name, "name_team_id": name_team_id, "team_id": team_id},
    ).fetchall()
    return found(rows[0]) if rows else None


def find(
    connection: Connection,
    *,
    status: str | None,
    action_type: str | None,
    team_id: str | None,
    before: UUID | None,
    limit: int,
) -> list[Schedule]:
    """Return the newest schedules that match every filter given, at most `limit`, those with ids below `before`."""
    parameters = {"status": status, "action_type": action_type, "team_id": team_id, "before": before, "limit": limit}
    return [found(row).schedule for row in sql.run_leniently(connection, "list_schedules", parameters)]


def lock(connection: Connection, ids: Collection[UUID]) -> list[Found]:
    """Return schedules by id, locked for the rest of the transaction."""
    return [found(row) for row in sql.run_leniently(connection, "lock_schedules", {"ids": list(ids)})]


def lock_several(
    connection: Connection, *, ids: Collection[UUID] = (), names: Collection[str] = (), name_team_id: str | None = None
) -> None:
    """Lock schedules and their planned occurrences, for a transaction that changes one after the other.

    Otherwise it would wait for a schedule while it keeps the occurrence of another one locked.

    Args:
        connection: In the transaction, before it has locked any row.
        ids: These, as far as they are there,
        names: and those with these names,
        name_team_id: in this team; None: outside any team.
    """
    parameters = {"ids": list(ids), "names": list(names), "name_team_id": name_team_id}
    locked = [row[0] for row in sql.run(connection, "lock_several", parameters)]
    if locked:
        sql.run(connection, "lock_planned", {"ids": locked})


def lock_unless_locked(connection: Connection, schedule_id: UUID) -> bool:
    """Lock a schedule for the rest of the transaction; False where another one has locked it, or it is gone."""
    return sql.run(connection, "lock_unless_locked", {"schedule_id": schedule_id}).fetchone() is not None


def lock_those_that_watch(connection: Connection, ids: Collection[UUID], action_ids: Collection[UUID]) -> list[Found]:
    """Return the schedules whose next step depends on how these actions end, locked for the rest of the transaction."""
    parameters = {"ids": list(ids), "action_ids": list(action_ids)}
    return [found(row) for row in sql.run_leniently(connection, "lock_schedules_that_watch", parameters)]


def lock_schedule_of(connection: Connection, action_id: UUID) -> UUID | None:
    """Return the schedule that an action is an occurrence of, locked for the rest of the transaction."""
    row = sql.run(connection, "schedule_of_action", {"action_id": action_id}).fetchone()
    return None if row is None else row[0]


def take(connection: Connection, claimed: Collection[Claimed]) -> tuple[list[Taken], set[UUID]]:
    """Return which of these occurrences of series are planned ones, their schedules locked.

    Args:
        connection: In the transaction that claimed them.
        claimed: Each of a series, by one statement.

    Returns:
        The planned ones, and beside them those whose schedule somebody is changing at this moment.
    """
    if not claimed:
        return [], set()
    asked = {
        "action_ids": uuids(one.id for one in claimed),
        "schedule_ids": uuids(one.schedule_id for one in claimed if one.schedule_id is not None),
    }
    types, token = list({one.action_type for one in claimed}), next(iter(claimed)).token
    taken = []
    for row in sql.run_leniently(connection, "take_occurrences", {**asked, "action_types": types, "token": token}):
        now, action_id, running, waiting, has_unhandled, *course = row
        beside = (None if running is None else instant(running), None if waiting is None else instant(waiting))
        taken.append(Taken(action_id, Course._make(course), instant(now), *beside, has_unhandled))
    if len(taken) == len(claimed):
        return taken, set()
    # Retries and runs by hand are planned by nobody, and most claims meet none.
    others = {row[0] for row in sql.run(connection, "planned_among", asked)}
    return taken, others.difference([one.action_id for one in taken])


def broken(
    connection: Connection, *, limit: int, schedule_id: UUID | None = None, after: UUID | None = None
) -> list[Found]:
    """Return live schedules that have nothing planned, locked for the rest of the transaction, by id.

    Args:
        connection: In a transaction.
        limit: How many, at most.
        schedule_id: This one alone; None: any.
        after: Those with larger ids; None: all.
    """
    parameters = {"limit": limit, "schedule_id": schedule_id, "after": after}
    return [found(row) for row in sql.run_leniently(connection, "broken_schedules", parameters)]


def advance(connection: Connection, steps: Sequence[Step]) -> set[UUID]:
    """Write steps; return the schedules whose wanted occurrence had been created before: nothing is planned there."""
    columns = zip(Step._fields, zip(*steps, strict=True), strict=True)
    parameters = {name: _column(name, values) for name, values in columns}
    return {row[0] for row in sql.run(connection, "advance_schedules", parameters) if row[1]}


def _column(name: str, values: tuple[Any, ...]) -> str | list[str | None] | None:
    """Return one field of many steps as an array, None where it says nothing of any: most say little."""
    if values.count(Step._field_defaults.get(name)) == len(values):
        return None
    if name in _TEXTS:
        return list(values)
    # Postgres reads a literal in a tenth of the time that a list takes as a parameter.
    return f"{{{','.join(map(_element, values))}}}"


#: The fields of a step that need quoting.
_TEXTS = frozenset({"status", "note", "status_by"})


def _element(value: UUID | datetime | int | None) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return value.isoformat()
    return value.hex if isinstance(value, UUID) else str(value)


def skip_claimed(connection: Connection, reasons: Mapping[UUID, str]) -> None:
    """End claimed occurrences as skipped, and free what they held."""
    skips = json.dumps([{"id": str(action_id), "reason": reason} for action_id, reason in reasons.items()])
    sql.run(connection, "skip_claimed", {"skips": skips})
    sql.run(connection, "free_holds_of", {"ids": list(reasons)})


def unclaim(connection: Connection, action_ids: Collection[UUID]) -> None:
    """Make claimed actions pending again, uncharged; a blocking member that waits for its retry keeps its group."""
    sql.run(connection, "unclaim", {"ids": list(action_ids)})
    sql.run(connection, "free_holds_of_unclaimed", {"ids": list(action_ids)})


def point_at_work(connection: Connection, schedule_id: UUID) -> bool:
    """Point a rolling schedule to its occurrence that is at work; return whether there is one."""
    return sql.run(connection, "point_at_work", {"schedule_id": schedule_id}).fetchone() is not None


def drop_planned(connection: Connection, schedule_id: UUID) -> bool:
    """Remove the planned occurrence, unless it is at work; return whether one was removed."""
    row = sql.run(connection, "drop_planned", {"schedule_id": schedule_id}).fetchone()
    return row is not None and row[0]


def skip_planned(connection: Connection, action_id: UUID, *, reason: str, by: str | None) -> bool:
    """End a planned occurrence as skipped; False when it had been claimed before."""
    parameters = {"action_id": action_id, "reason": reason, "by": by}
    return sql.run(connection, "skip_planned", parameters).fetchone() is not None


def delete(connection: Connection, schedule_id: UUID) -> None:
    """Remove a schedule; what it has planned must have been dropped before."""
    sql.run(connection, "delete_schedule", {"schedule_id": schedule_id})


def insert_occurrences(
    connection: Connection, schedule_id: UUID, occurrences: Sequence[datetime | None], *, by: str | None
) -> list[UUID]:
    """Insert occurrences that are due now; return the ids of those that were not there before.

    Args:
        connection: Where.
        schedule_id: Whose.
        occurrences: The rule's own instants; None for a run that has none.
        by: Who asked for it.
    """
    parameters = {"schedule_id": schedule_id, "occurrences": list(occurrences), "by": by}
    return [row[0] for row in sql.run(connection, "insert_occurrences", parameters)]


def is_due_for_a_sweep(connection: Connection, *, every_seconds: float) -> bool:
    """Whether the sweep is this caller's: nobody swept within the time."""
    return sql.run(connection, "due_for_a_sweep", {"every_seconds": every_seconds}).fetchone() is not None


class Declared(NamedTuple):
    """A schedule that was declared in the code."""

    id: UUID
    name: str
    team_id: str | None
    status: str
    status_by: str | None


def declared(connection: Connection) -> list[Declared]:
    """Return the schedules that were declared in the code."""
    return [Declared._make(row) for row in sql.run(connection, "declared_schedules")]


def lock_sync(connection: Connection) -> None:
    """Keep others from bringing the declared schedules up to date until the transaction ends."""
    sql.run(connection, "lock_sync")


def synced(connection: Connection) -> str | None:
    """Return the digest of the declared schedules that were brought up to date last; None before the first."""
    digest: str | None = shared_settings.read(connection, _SYNCED)
    return digest


def write_synced(connection: Connection, digest: str) -> None:
    """Keep the digest of the declared schedules that have just been brought up to date."""
    shared_settings.write(connection, _SYNCED, digest)


def found(row: Sequence[Any]) -> Found:
    """Return a row of one of the statements that read whole schedules."""
    *values, now = row
    return Found(schedule_of(dict(zip(_FIELDS, values, strict=True))), now.astimezone(UTC))
