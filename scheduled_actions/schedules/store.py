"""Read and write schedules in the database, on the connection that the caller gives."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast
from uuid import UUID

from scheduled_actions.actions.store import action_of
from scheduled_actions.core.action import Action, Claimed, Status
from scheduled_actions.core.errors import ScheduleNotApplied
from scheduled_actions.core.stored_values import (
    COUNT,
    OBJECT,
    OBJECT_OR_NULL,
    ValueRule,
    count_rule,
    or_null,
    seconds_rule,
    usable,
)
from scheduled_actions.database import shared_settings
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements, instants, uuids
from scheduled_actions.schedules.model import (
    PLANNING_FIELDS,
    PlanningState,
    PreviousOccurrence,
    Schedule,
    instant,
    planning_state,
)

sql = Statements(__file__)

#: The shared setting that holds the digest of the synchronised declarations.
SYNCED = "declared_schedules"
#: The columns of the reading statements, in order.
_FIELDS = tuple(field.name for field in fields(Schedule) if field.name != "problem")
#: The positions of the planning fields, after the id, that a claim reads as epoch seconds.
_EPOCHS = tuple(PLANNING_FIELDS.index(name) - 1 for name in ("anchor_at", "until", "next_occurrence_at"))
#: The fields `waiting_since` and `previous` of an occurrence that runs whatever the earlier ones do.
_NOT_NEEDED = (None, None)
#: Columns in which direct SQL can store invalid values, with the rule for each.
_COLUMNS: dict[str, ValueRule] = {
    "jitter_seconds": seconds_rule(0.0),
    "misfire_grace_seconds": seconds_rule(300.0),
    "catch_up_seconds": seconds_rule(604800.0),
    "catch_up_limit": count_rule(1, 10_000, expected="between 1 and 10000", default=100),
    "pause_after_failures": or_null(count_rule(1, expected="a count of at least 1")),
    "consecutive_failures": COUNT,
    "executions": COUNT,
    "skipped": COUNT,
    "missed": COUNT,
    "skip": OBJECT_OR_NULL,
    "metadata": OBJECT_OR_NULL,
    "definition": OBJECT,
}


class ScheduleSnapshot(NamedTuple):
    """A schedule, and the database's time at which it was read."""

    schedule: Schedule
    now: datetime


class ClaimedOccurrence(NamedTuple):
    """A claimed action that is the planned occurrence of a schedule."""

    claimed: Claimed
    state: PlanningState
    now: datetime
    #: When the earliest other running occurrence was claimed; None if no other is running.
    running_since: datetime | None
    #: With the overlap policy `skip`: when another occurrence began to wait for its condition; None if no other is
    #: waiting.
    waiting_since: datetime | None
    #: Whether another occurrence has the status `no_action`.
    has_unhandled: bool
    #: The previous occurrence if it is required and has not completed, nor a manual run since.
    previous: PreviousOccurrence | None


class ScheduleUpdate(NamedTuple):
    """A change of a schedule's counters, status and planned occurrence."""

    schedule_id: UUID
    #: The occurrence to plan; None plans none.
    occurrence_at: datetime | None = None
    #: When the occurrence is due with its jitter; None without jitter.
    scheduled_at: datetime | None = None
    #: Whether the planned occurrence becomes the last one.
    is_past: bool = False
    executed: int = 0
    skipped: int = 0
    missed: int = 0
    #: Final failures in a row; None leaves the count unchanged.
    failures: int | None = None
    #: None leaves the status unchanged.
    status: str | None = None
    reason: str | None = None
    status_by: str | None = None
    #: Whether the schedule keeps pointing to its occurrence, for example because it is still running.
    keeps_pointer: bool = False

    @property
    def due_at(self) -> datetime | None:
        """When the planned occurrence is due; None without one."""
        return self.scheduled_at or self.occurrence_at

    def with_occurrence(self, at: datetime, *, due_at: datetime | None, missed: int) -> "ScheduleUpdate":
        """Return the update with an occurrence to plan; a third of the time of `_replace`, for each occurrence."""
        return ScheduleUpdate(
            self.schedule_id, at, due_at, self.is_past, self.executed, self.skipped, missed, *self[7:]
        )


class DeclaredSchedule(NamedTuple):
    """A schedule that is declared in code."""

    id: UUID
    name: str
    team_id: str | None
    status: str
    status_by: str | None


class OccurrenceOutcome(NamedTuple):
    """The status of an occurrence that is running or past."""

    action_id: UUID
    status: Status
    #: The rule's own instant; aware.
    occurrence_at: datetime


def snapshot_of(row: Sequence[Any]) -> ScheduleSnapshot:
    """Return the schedule of a row; its `problem` describes the first value that cannot be used."""
    *values, now = row
    found, problem = usable(dict(zip(_FIELDS, values, strict=True)), _COLUMNS)
    return ScheduleSnapshot(Schedule(**found, problem=problem), now.astimezone(UTC))


def _snapshots(connection: Connection, name: str, parameters: Mapping[str, Any]) -> list[ScheduleSnapshot]:
    return [snapshot_of(row) for row in sql.run_leniently(connection, name, parameters)]


def get(
    connection: Connection,
    *,
    schedule_id: UUID | None = None,
    name: str | None = None,
    name_team_id: str | None = None,
    team_id: str | None = None,
    locked: bool = False,
) -> ScheduleSnapshot | None:
    """Return one schedule by id or by name; None if there is none.

    Args:
        connection: In a transaction if `locked` is set.
        schedule_id: Find by id.
        name: Find by name within `name_team_id`.
        name_team_id: The team of the name; None: schedules without a team.
        team_id: Only a schedule of this team; None: of any.
        locked: Lock the schedule until the transaction ends.
    """
    parameters = {"id": schedule_id, "name": name, "name_team_id": name_team_id, "team_id": team_id}
    return next(iter(_snapshots(connection, "lock_schedule" if locked else "get_schedule", parameters)), None)


def find(
    connection: Connection,
    *,
    status: str | None,
    action_type: str | None,
    team_id: str | None,
    before: UUID | None,
    limit: int,
) -> list[Schedule]:
    """Return at most `limit` schedules that match every filter and have ids below `before`, newest first."""
    parameters = {"status": status, "action_type": action_type, "team_id": team_id, "before": before, "limit": limit}
    return [found.schedule for found in _snapshots(connection, "list_schedules", parameters)]


def latest_actions(connection: Connection, schedule_id: UUID, *, limit: int) -> list[Action]:
    """Return at most `limit` actions of a schedule, newest first, except pending ones that never started."""
    return [
        action_of(row)
        for row in sql.run_leniently(connection, "latest_of_schedule", {"schedule_id": schedule_id, "limit": limit})
    ]


def latest_outcomes(
    connection: Connection, schedule_ids: Collection[UUID], *, limit: int
) -> dict[UUID, list[OccurrenceOutcome]]:
    """Return at most `limit` occurrences of each schedule, newest first, except pending ones that never started."""
    found: dict[UUID, list[OccurrenceOutcome]] = {schedule_id: [] for schedule_id in schedule_ids}
    for schedule_id, action_id, status, occurrence_at in sql.run(
        connection, "outcomes_of_schedules", ids=list(schedule_ids), limit=limit
    ):
        found[schedule_id].append(OccurrenceOutcome(action_id, Status(status), occurrence_at))
    return found


def requested(connection: Connection, schedule_id: UUID) -> str | None:
    """Return the arguments of the latest call from SQL that is not applied, as JSON text; None if there is none."""
    row = sql.run(connection, "requested_schedule", {"schedule_id": schedule_id}).fetchone()
    return None if row is None else row[0]


def refuse_unapplied(connection: Connection, reference: object, schedule: Schedule) -> None:
    """Raise `ScheduleNotApplied` if SQL has reserved the schedule, and its arguments are not applied."""
    if not schedule.definition and requested(connection, schedule.id) is not None:
        refused = f"{schedule.status_reason}; call schedule_recurring_action with valid arguments"
        raise ScheduleNotApplied(reference, refused if schedule.is_refused else "no tick has applied the call from SQL")


def lock(connection: Connection, ids: Collection[UUID]) -> list[ScheduleSnapshot]:
    """Lock schedules in the order of their ids until the transaction ends, and return those that exist."""
    return _snapshots(connection, "lock_schedules", {"ids": list(ids)})


def lock_several(
    connection: Connection, *, ids: Collection[UUID] = (), names: Collection[str] = (), name_team_id: str | None = None
) -> None:
    """Lock schedules and their planned occurrences before a transaction changes the schedules one by one.

    Otherwise the transaction could wait for one schedule while it has the occurrence of another one locked.

    Args:
        connection: In a transaction that has no row locked yet.
        ids: The ids of schedules to lock.
        names: The names of further schedules to lock.
        name_team_id: The team of the names; None: schedules without a team.
    """
    locked = [
        row[0]
        for row in sql.run(
            connection, "lock_several", {"ids": list(ids), "names": list(names), "name_team_id": name_team_id}
        )
    ]
    if locked:
        sql.run(connection, "lock_planned", {"ids": locked})


def lock_those_that_watch(
    connection: Connection, ids: Collection[UUID], action_ids: Collection[UUID]
) -> list[ScheduleSnapshot]:
    """Lock and return the schedules whose next step depends on how these actions end."""
    return _snapshots(connection, "lock_schedules_that_watch", {"ids": list(ids), "action_ids": list(action_ids)})


class TakenOccurrences(NamedTuple):
    """The planned occurrences among claimed actions."""

    #: Those whose schedules are now locked.
    taken: list[ClaimedOccurrence]
    #: The ids of those whose schedule another transaction has locked.
    waiting: set[UUID]
    #: A new id, from which the ids of the next occurrences count up; None if none are taken.
    first_id: UUID | None = None


def take(connection: Connection, claimed: Sequence[Claimed]) -> TakenOccurrences:
    """Lock the schedules of the planned occurrences among these actions.

    Args:
        connection: In the claiming transaction.
        claimed: Actions with a schedule, claimed by one statement.
    """
    if not claimed:
        return TakenOccurrences([], set())
    ids = {
        "action_ids": uuids(one.id for one in claimed),
        "schedule_ids": uuids(one.schedule_id for one in claimed if one.schedule_id is not None),
    }
    types = list({one.action_type for one in claimed})
    taken: list[ClaimedOccurrence] = []
    rows = sql.run_leniently(connection, "take_occurrences", {**ids, "action_types": types}).fetchall()
    # The same in all rows.
    first_id, now = (UUID(rows[0][0]), instant(rows[0][1])) if rows else (None, datetime.max.replace(tzinfo=UTC))
    earlier = _earlier(connection, [claimed[row[2] - 1].schedule_id for row in rows if row[5]])
    for _, _, position, running, has_unhandled, _, *values in rows:
        one = claimed[position - 1]
        for place in _EPOCHS:
            if values[place] is not None:
                values[place] = instant(values[place])
        running_since = None if running is None else instant(running)
        waiting_since, previous = earlier.get(one.schedule_id, _NOT_NEEDED) if earlier else _NOT_NEEDED
        state = planning_state(one.schedule_id, *values)
        taken.append(ClaimedOccurrence(one, state, now, running_since, waiting_since, has_unhandled, previous))
    if len(taken) == len(claimed):
        return TakenOccurrences(taken, set(), first_id)
    # The other actions are retries and manual runs, which are not planned occurrences, or their schedule is locked.
    others = {row[0] for row in sql.run(connection, "planned_among", ids)}
    return TakenOccurrences(taken, others.difference([one.claimed.id for one in taken]), first_id)


def _earlier(
    connection: Connection, schedule_ids: Collection[UUID | None]
) -> dict[UUID | None, tuple[datetime | None, PreviousOccurrence | None]]:
    """Return the fields `waiting_since` and `previous` of `ClaimedOccurrence` for these schedules."""
    if not schedule_ids:
        return {}
    return {
        schedule_id: (
            None if waiting is None else instant(waiting),
            None if previous_id is None else PreviousOccurrence(previous_id, status, instant(at), instant(since)),
        )
        for schedule_id, waiting, previous_id, status, at, since in sql.run(
            connection, "earlier_occurrences", {"ids": list(schedule_ids)}
        )
    }


def broken(
    connection: Connection, *, limit: int, schedule_id: UUID | None = None, after: UUID | None = None
) -> list[ScheduleSnapshot]:
    """Lock and return active schedules without a planned occurrence, in the order of their ids; omit locked ones.

    Args:
        connection: In a transaction.
        limit: Maximum number of schedules.
        schedule_id: Only this schedule; None: any.
        after: Only schedules with larger ids; None: all.
    """
    return _snapshots(connection, "broken_schedules", {"limit": limit, "schedule_id": schedule_id, "after": after})


def advance(
    connection: Connection, updates: Sequence[ScheduleUpdate], *, first_id: UUID | None = None
) -> dict[UUID, datetime]:
    """Write updates, at least one.

    Args:
        connection: In the transaction that locked the schedules.
        updates: Of different schedules.
        first_id: A new id, from which the ids of the occurrences count up: an eighth of the time that the database
            takes for as many random ids. None: each is random.

    Returns:
        The instants of occurrences that already existed, by schedule; these schedules now have none planned.
    """
    parameters: dict[str, object] = {
        name: _column(name, values)
        for name, values in zip(ScheduleUpdate._fields, zip(*updates, strict=True), strict=True)
    }
    parameters["action_ids"] = None if first_id is None else ids_from(first_id, len(updates))
    return dict(sql.run(connection, "advance_schedules", parameters).fetchall())


def ids_from(first: UUID, count: int) -> str:
    """Format an id and the `count - 1` following ones as an array literal; only their last 32 bits differ."""
    prefix, number = first.hex[:24], first.int
    return f"{{{','.join([f'{prefix}{(number + n) & 0xFFFF_FFFF:08x}' for n in range(count)])}}}"


def _column(name: str, values: tuple[Any, ...]) -> str | list[str | None] | None:
    """Return one field of many updates as an array; None if it has its default in all of them, which is usual."""
    if values.count(ScheduleUpdate._field_defaults.get(name)) == len(values):
        return None
    # PostgreSQL reads a literal in a tenth of the time of a list parameter.
    match name:
        case "schedule_id":
            return uuids(values)
        case "occurrence_at" | "scheduled_at":
            return instants(values)
        case "status" | "reason" | "status_by":
            return list(values)
        case _:
            return f"{{{','.join(['NULL' if one is None else str(one) for one in values])}}}"


def skip_claimed(connection: Connection, reasons: Mapping[UUID, str]) -> None:
    """End claimed occurrences as skipped, and free their lock groups."""
    sql.run(
        connection,
        "skip_claimed",
        {"skips": json.dumps([{"id": str(action_id), "reason": reason} for action_id, reason in reasons.items()])},
    )
    sql.run(connection, "free_holds_of", {"ids": list(reasons)})


def unclaim(connection: Connection, action_ids: Collection[UUID]) -> None:
    """Return claimed actions to pending, without counting an attempt, and free their lock groups.

    An action that blocks its lock group and has started keeps the group.
    """
    sql.run(connection, "unclaim", {"ids": list(action_ids)})
    sql.run(connection, "free_holds_of_unclaimed", {"ids": list(action_ids)})


def drop_planned(connection: Connection, schedule_id: UUID) -> None:
    """Delete the planned occurrence unless it has started."""
    sql.run(connection, "drop_planned", {"schedule_id": schedule_id})


def skip_planned(connection: Connection, action_id: UUID, *, reason: str, by: str | None) -> bool:
    """End a planned occurrence as skipped; return False if it is claimed or has started before."""
    return (
        sql.run(connection, "skip_planned", {"action_id": action_id, "reason": reason, "by": by}).fetchone() is not None
    )


def insert_occurrences(
    connection: Connection, schedule_id: UUID, occurrences: Sequence[datetime | None], *, by: str | None
) -> list[UUID]:
    """Insert occurrences that are due now, unless they exist; return the ids of the new actions.

    Args:
        connection: In the transaction that locked the schedule.
        schedule_id: The schedule of the occurrences.
        occurrences: The rule's own instants; None for a manual run.
        by: Who requested the occurrences.
    """
    return [
        row[0]
        for row in sql.run(
            connection, "insert_occurrences", {"schedule_id": schedule_id, "occurrences": list(occurrences), "by": by}
        )
    ]


def synced(connection: Connection) -> str | None:
    """Return the digest of the declarations that were synchronised last; None before the first time."""
    return cast("str | None", shared_settings.read(connection, SYNCED))
