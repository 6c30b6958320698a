"""Pause, resume, run, backfill and delete existing schedules, and skip their next occurrence."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.action import Scheduled, Status
from scheduled_actions.core.errors import InvalidArgument, NothingPlanned, ScheduleEnded
from scheduled_actions.core.errors.families import short
from scheduled_actions.database.connection import Connection, atomic
from scheduled_actions.database.transactions import announce, borrowed_connection
from scheduled_actions.schedules import changes, store
from scheduled_actions.schedules.model import Schedule
from scheduled_actions.schedules.service import Schedules

#: Maximum number of occurrences in the range of one backfill.
BACKFILL_LIMIT = 1000
_FIRST_YEAR, _LAST_YEAR = 2, 9998


def pause(
    schedules: Schedules,
    reference: UUID | str,
    *,
    reason: str | None = None,
    by: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Schedule:
    """Pause a schedule, delete its planned occurrence unless it has started, and return the schedule.

    An occurrence that is running or waits for a retry continues. A second call replaces the reason.

    Args:
        schedules: The schedules of the project.
        reference: Id or name.
        reason: Why the schedule is paused; stored with it.
        by: Who pauses the schedule.
        team_id: Only within this team. None: by id, any schedule; by name, only a schedule without a team.
        connection: Your own connection; the change takes effect once its transaction commits.

    Raises:
        UnknownSchedule: No schedule has this id or name (in that team).
        ScheduleEnded: The schedule has ended.
        InvalidArgument: `reason` or `by` is not a string.
    """
    with locked(schedules, reference, team_id=team_id, connection=connection) as (schedule, borrowed):
        if schedule.status == "ended":
            raise ScheduleEnded(reference, schedule.status_reason)
        store.drop_planned(borrowed, schedule.id)
        reason, by = arguments.check_text("reason", reason), arguments.check_text("by", by)
        store.advance(borrowed, [store.ScheduleUpdate(schedule.id, status="paused", reason=reason, status_by=by)])
        return changes.read(borrowed, schedule.id).schedule


def resume(
    schedules: Schedules,
    reference: UUID | str,
    *,
    by: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Schedule:
    """Resume a schedule from its next occurrence, and return it.

    Occurrences during the pause are not created, and the count of failures in a row is reset. An active schedule is
    returned unchanged. If the rule cannot be evaluated, the schedule is paused again, with the reason.

    Args:
        schedules: The schedules of the project.
        reference: Id or name.
        by: Who resumes the schedule.
        team_id: Only within this team. None: by id, any schedule; by name, only a schedule without a team.
        connection: Your own connection; the change takes effect once its transaction commits.

    Raises:
        UnknownSchedule: No schedule has this id or name (in that team).
        ScheduleEnded: The schedule has ended, or its rule has no further occurrence.
        ScheduleNotApplied: The call from SQL that would have created the schedule was refused or is not applied yet.
        InvalidArgument: `by` is not a string.
    """
    with borrowed_connection(schedules.database, connection) as borrowed, atomic(borrowed):
        schedule, now = changes.read(borrowed, reference, team_id, locked=True)
        if schedule.status == "ended":
            raise ScheduleEnded(reference, schedule.status_reason)
        if schedule.status == "active":
            return schedule
        store.refuse_unapplied(borrowed, reference, schedule)
        by = arguments.check_text("by", by)
        store.advance(borrowed, [store.ScheduleUpdate(schedule.id, status="active", status_by=by, failures=0)])
        # A rolling schedule whose run outlasted the pause continues from the end of that run.
        if schedule.recurrence_type == "fixed" or not (
            store.sql.run(borrowed, "point_at_work", {"schedule_id": schedule.id}).fetchone()
        ):
            schedules.hook.planner.plan(borrowed, schedule, now, may_leave=True)
        resumed = changes.read(borrowed, schedule.id).schedule
        if resumed.status == "ended":
            raise ScheduleEnded(reference, resumed.status_reason)
    return schedules.after_deferred_planning(resumed, connection)


def run_now(
    schedules: Schedules,
    reference: UUID | str,
    *,
    by: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Scheduled:
    """Schedule an additional run that is due now; it is not an occurrence of the rule and leaves `remaining` unchanged.

    Args:
        schedules: The schedules of the project.
        reference: Id or name.
        by: Who requests the run.
        team_id: Only within this team. None: by id, any schedule; by name, only a schedule without a team.
        connection: Your own connection; the run exists once its transaction commits.

    Raises:
        UnknownSchedule: No schedule has this id or name (in that team).
        InvalidArgument: `by` is not a string.
    """
    with locked(schedules, reference, team_id=team_id, connection=connection) as (schedule, borrowed):
        (action_id,) = store.insert_occurrences(borrowed, schedule.id, [None], by=arguments.check_text("by", by))
    announce(schedules.wake, connection)
    return Scheduled(action_id, deduplicated=False)


def backfill(
    schedules: Schedules,
    reference: UUID | str,
    start: datetime | date | str,
    end: datetime | date | str,
    *,
    by: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> list[UUID]:
    """Create the missing occurrences from `start` to `end`, both included; return the ids of their actions.

    The created actions are due now, and run one after the other unless the schedule allows overlaps.

    Args:
        schedules: The schedules of the project.
        reference: Id or name.
        start: First instant of the range: with an offset, a local time of the schedule, or a day (its start).
        end: Last instant of the range, not in the future; in the same forms, but a day means its last second.
        by: Who requests the backfill.
        team_id: Only within this team. None: by id, any schedule; by name, only a schedule without a team.
        connection: Your own connection; the occurrences exist once its transaction commits.

    Raises:
        UnknownSchedule: No schedule has this id or name (in that team).
        InvalidArgument: An end of the range is invalid or outside the years 2 to 9998; the range ends before its start,
            ends in the future, or has more than 1,000 occurrences; or `by` is not a string.
        RecurrenceInvalid: The rule cannot be evaluated.
        FunctionTimedOut: A project function of the rule exceeded its time limit.
        BudgetExceeded: Finding the occurrences takes too many steps.
    """
    # Read without a lock, because the rule may call project functions.
    with borrowed_connection(schedules.database, connection) as borrowed:
        schedule, now = changes.read(borrowed, reference, team_id)
    since = _in_range("start", start, arguments.check_instant("start", start, timezone=schedule.timezone))
    to = _in_range("end", end, arguments.check_end("end", end, timezone=schedule.timezone))
    if not since <= to:
        raise InvalidArgument("end", problem=f"{short(to)} is before the start of the range")
    if to > now:
        raise InvalidArgument(
            "end", problem=f"{short(to)} is in the future; future occurrences are planned automatically"
        )
    rule = schedules.hook.planner.rules.rule_of(schedule, since=since)
    found = rule.between(since - timedelta(microseconds=1), to, limit=BACKFILL_LIMIT + 1)
    if len(found) > BACKFILL_LIMIT:
        raise InvalidArgument(
            "end", problem=f"is too late: the range has more than {BACKFILL_LIMIT:,} occurrences; split it"
        )
    with locked(schedules, schedule.id, team_id=team_id, connection=connection) as (_, borrowed):
        by = arguments.check_text("by", by)
        action_ids = store.insert_occurrences(borrowed, schedule.id, [one.at for one in found], by=by)
    announce(schedules.wake, connection)
    return action_ids


def skip_next(
    schedules: Schedules,
    reference: UUID | str,
    *,
    next_action_id: UUID | str | None = None,
    reason: str | None = None,
    by: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Schedule:
    """Skip the planned occurrence and plan the one after it; return the schedule.

    Args:
        schedules: The schedules of the project.
        reference: Id or name.
        next_action_id: The action of the occurrence to skip; None: skip the occurrence that is planned now.
        reason: Why the occurrence is skipped; stored in its history.
        by: Who skips the occurrence.
        team_id: Only within this team. None: by id, any schedule; by name, only a schedule without a team.
        connection: Your own connection; the change takes effect once its transaction commits.

    Raises:
        UnknownSchedule: No schedule has this id or name (in that team).
        UnknownAction: `next_action_id` is not an id.
        NothingPlanned: No occurrence is planned, the planned one is running or has started before, or its action is
            not `next_action_id`.
        InvalidArgument: `reason` or `by` is not a string.
    """
    with locked(schedules, reference, team_id=team_id, connection=connection) as (schedule, borrowed):
        action_id = schedule.next_action_id
        if next_action_id is not None and arguments.check_id(next_action_id) != action_id:
            raise NothingPlanned(reference, schedule.status, wanted=next_action_id)
        reason, by = arguments.check_text("reason", reason) or "skipped manually", arguments.check_text("by", by)
        if action_id is None or not store.skip_planned(borrowed, action_id, reason=reason, by=by):
            raise NothingPlanned(reference, schedule.status)
        schedules.hook.conclude(borrowed, {action_id: schedule.id}, {action_id: Status.SKIPPED})
        skipped = changes.read(borrowed, schedule.id).schedule
    return schedules.after_deferred_planning(skipped, connection)


def delete(
    schedules: Schedules,
    reference: UUID | str,
    *,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Schedule:
    """Delete a schedule, and its planned occurrence unless it has started; return the schedule.

    All other actions of the schedule remain.

    Args:
        schedules: The schedules of the project.
        reference: Id or name.
        team_id: Only within this team. None: by id, any schedule; by name, only a schedule without a team.
        connection: Your own connection; the change takes effect once its transaction commits.

    Raises:
        UnknownSchedule: No schedule has this id or name (in that team).
    """
    with locked(schedules, reference, team_id=team_id, connection=connection) as (schedule, borrowed):
        store.drop_planned(borrowed, schedule.id)
        store.sql.run(borrowed, "delete_schedule", {"schedule_id": schedule.id})
        return schedule


@contextmanager
def locked(
    schedules: Schedules,
    reference: UUID | str,
    *,
    team_id: str | None,
    connection: psycopg.Connection[Any] | None = None,
) -> Iterator[tuple[Schedule, Connection]]:
    """Lock a schedule; yield it and the connection whose transaction holds the lock.

    The lock ends with the block or, in the caller's transaction, with that transaction.

    Raises:
        UnknownSchedule: No schedule has this id or name (in that team).
    """
    with borrowed_connection(schedules.database, connection) as borrowed, atomic(borrowed):
        yield changes.read(borrowed, reference, team_id, locked=True).schedule, borrowed


def _in_range(name: str, given: object, moment: datetime | None) -> datetime:
    # Offsets and the search may reach a day or more beyond the range.
    if moment is None or not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise InvalidArgument(name, given, f"an instant between the years {_FIRST_YEAR} and {_LAST_YEAR}")
    return moment
