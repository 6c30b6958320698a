"""Create, change, run and list schedules from application code, with the runtime of the process."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from scheduled_actions import runtime
from scheduled_actions.actions.model import UNSET, Unset
from scheduled_actions.client.checks import checked
from scheduled_actions.core.action import OnExpiry, Scheduled
from scheduled_actions.core.messages import suggests_keywords
from scheduled_actions.core.retry import RetryPolicy
from scheduled_actions.schedules import operations
from scheduled_actions.schedules.model import Misfire, Overlap, RecurrenceType, Schedule


@suggests_keywords
def schedule_recurring_action(
    action_type: str,
    payload: Any,  # noqa: ANN401 - any model
    recurrence: str,
    *,
    scheduled_at: datetime | date | str | timedelta | None = None,
    timezone: str | None = None,
    name: str | None = None,
    recurrence_type: RecurrenceType = "fixed",
    misfire: Misfire = "fire_once",
    misfire_grace_seconds: float | None = None,
    catch_up_limit: int | None = None,
    catch_up_seconds: float | None = None,
    overlap: Overlap = "skip",
    requires_previous: bool = False,
    pause_after_failures: int | None = None,
    skip: Mapping[str, Any] | None = None,
    jitter_seconds: float | None = None,
    until: datetime | date | str | None = None,
    remaining: int | None = None,
    team_id: str | None = None,
    priority: int = 0,
    max_attempts: int | None = None,
    retry: RetryPolicy | Mapping[str, Any] | Sequence[float] | None = None,
    lock_group: str | None = None,
    lock_group_blocks: bool = False,
    target: Mapping[str, str] | None = None,
    user_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    condition: Mapping[str, Any] | None = None,
    on_success: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    on_failure: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    limit: str | Sequence[str] | None = None,
    expires_in: timedelta | float | None = None,
    on_expiry: OnExpiry = "skip",
    created_by: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Schedule:
    """Create or update a schedule by name (within its team); return it.

    An identical call changes nothing: not the start, the planned occurrence or a pause.

    Args:
        action_type: Selects the handler.
        payload: The payload of every occurrence; validated before anything is written.
        recurrence: An interval ("daily", "every 10 minutes", "PT10M"), a cron expression, days of the week ("every
            weekday at 09:00"), an RRULE, a business day ("last business day of the quarter"), or `custom:` and the name
            of a registered function.
        scheduled_at: The start: intervals count from it, and it is the first occurrence if the rule matches it. In
            the forms of `schedule_action`; None: now, not an occurrence.
        timezone: IANA name of the time zone of the rule and of times without an offset; None: the rule is in UTC.
        name: Unique within the team; None creates a new schedule with each call.
        recurrence_type: `fixed`: occurrences follow the rule. `rolling`: the interval starts at the end of a run.
        misfire: What happens to occurrences that no tick claimed in time: `fire_once` runs one of them and continues
            after now, `skip` skips those that are more than `misfire_grace_seconds` late, `catch_up` runs each of them,
            within `catch_up_limit` and `catch_up_seconds`.
        misfire_grace_seconds: With `misfire="skip"`: how many seconds late an occurrence can still run. Default: 300.
        catch_up_limit: With `misfire="catch_up"`: maximum number of missed occurrences that run, the latest ones.
            Default: 100.
        catch_up_seconds: With `misfire="catch_up"`: maximum age in seconds of the missed occurrences that run. Default:
            seven days.
        overlap: What happens when an occurrence is due while an earlier one is running: `skip` skips the occurrence,
            `queue` runs the occurrence afterwards, `allow` runs both at the same time.
        requires_previous: Skip an occurrence unless the previous one, or a manual run since, has completed.
        pause_after_failures: Pause the schedule after this many final failures in a row; None: never.
        skip: Times without occurrences: `{"weekends": true, "holidays": "US", "dates": […], "ranges": […],
            "windows": […], "function": "name", "adjustment": "drop" | "preceding" | "following"}`.
        jitter_seconds: Maximum random delay of an occurrence, in seconds; None: no delay.
        until: Time of the last possible occurrence, in the same forms except a timedelta; a day means its last second.
            None: no end.
        remaining: Number of executions until the schedule ends; None: unlimited.
        team_id: The team that owns the schedule and its actions; None: no team.
        priority: Lower numbers run first.
        max_attempts: Maximum attempts of each occurrence, including the first; None: the handler's value, else the
            setting.
        retry: As for `schedule_action`.
        lock_group: As for `schedule_action`.
        lock_group_blocks: As for `schedule_action`.
        target: The entity that the actions are about: `{"type": "invoice", "id": "42"}`.
        user_id: Id of the user that the actions concern.
        metadata: Stored with each action, not interpreted.
        condition: Evaluated before each attempt; the occurrence is skipped if the condition is not met. With
            `{"wait": condition, …}`, the occurrence waits; `overlap` applies to occurrences that become due during the
            wait.
        on_success: Actions to schedule when an occurrence completes: `{"action_type", "payload", …}`, or a list.
        on_failure: Actions to schedule when an occurrence fails permanently.
        limit: As for `schedule_action`, for every occurrence.
        expires_in: How long after its due time an occurrence may start, as a timedelta or seconds; None: it does not
            expire.
        on_expiry: What happens to an occurrence that has not started by then: `skip` or `fail`.
        created_by: The creator, stored with the schedule.
        connection: Your own psycopg connection, whose transaction the change joins; None: a separate transaction.

    Raises:
        RecurrenceInvalid: The rule is malformed, never occurs (`NeverOccurs`), or calls a project function that failed;
            nothing was changed.
        RequestError: The action type is unknown, or the payload or an argument is invalid; nothing was changed.
        HandlerBroken: The handler, or that of a follow-up, cannot be loaded; nothing was changed.
        FunctionTimedOut: A project function of the rule exceeded its time limit; nothing was changed.
        DatabaseUnavailable: The database cannot be reached; nothing was changed.
    """
    return runtime.current().schedules.schedule_recurring(
        action_type,
        payload,
        recurrence,
        scheduled_at=scheduled_at,
        timezone=timezone,
        name=name,
        recurrence_type=recurrence_type,
        misfire=misfire,
        misfire_grace_seconds=misfire_grace_seconds,
        catch_up_limit=catch_up_limit,
        catch_up_seconds=catch_up_seconds,
        overlap=overlap,
        requires_previous=requires_previous,
        pause_after_failures=pause_after_failures,
        skip=skip,
        jitter_seconds=jitter_seconds,
        until=until,
        remaining=remaining,
        team_id=team_id,
        priority=priority,
        max_attempts=max_attempts,
        retry=retry,
        lock_group=lock_group,
        lock_group_blocks=lock_group_blocks,
        target=target,
        user_id=user_id,
        metadata=metadata,
        condition=condition,
        on_success=on_success,
        on_failure=on_failure,
        limit=limit,
        expires_in=expires_in,
        on_expiry=on_expiry,
        created_by=created_by,
        connection=connection,
    )


@suggests_keywords
def get_schedule(schedule: UUID | str, *, team_id: str | None = None) -> Schedule:
    """Return a schedule by id or name; see `Schedules.get`."""
    return runtime.current().schedules.get(schedule, team_id=team_id)


@suggests_keywords
def list_schedules(
    *,
    status: str | None = None,
    action_type: str | None = None,
    team_id: str | None = None,
    cursor: UUID | str | None = None,
    limit: int = 100,
) -> list[Schedule]:
    """Return at most `limit` schedules that match all filters, newest first; see `Schedules.find`."""
    return runtime.current().schedules.find(
        status=status, action_type=action_type, team_id=team_id, cursor=cursor, limit=limit
    )


@checked
def update_schedule(
    schedule: UUID | str,
    *,
    payload: Any = None,  # noqa: ANN401 - any model
    recurrence: str | Unset = UNSET,
    scheduled_at: datetime | date | str | timedelta | Unset | None = UNSET,
    timezone: str | Unset | None = UNSET,
    name: str | Unset | None = UNSET,
    recurrence_type: RecurrenceType | Unset | None = UNSET,
    misfire: Misfire | Unset | None = UNSET,
    misfire_grace_seconds: float | Unset | None = UNSET,
    catch_up_limit: int | Unset | None = UNSET,
    catch_up_seconds: float | Unset | None = UNSET,
    overlap: Overlap | Unset | None = UNSET,
    requires_previous: bool | Unset | None = UNSET,
    pause_after_failures: int | Unset | None = UNSET,
    skip: Mapping[str, Any] | Unset | None = UNSET,
    jitter_seconds: float | Unset | None = UNSET,
    until: datetime | date | str | Unset | None = UNSET,
    remaining: int | Unset | None = UNSET,
    priority: int | Unset | None = UNSET,
    max_attempts: int | Unset | None = UNSET,
    retry: RetryPolicy | Mapping[str, Any] | Sequence[float] | Unset | None = UNSET,
    lock_group: str | Unset | None = UNSET,
    lock_group_blocks: bool | Unset | None = UNSET,
    target: Mapping[str, str] | Unset | None = UNSET,
    user_id: str | Unset | None = UNSET,
    metadata: Mapping[str, Any] | Unset | None = UNSET,
    condition: Mapping[str, Any] | Unset | None = UNSET,
    on_success: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Unset | None = UNSET,
    on_failure: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Unset | None = UNSET,
    limit: str | Sequence[str] | Unset | None = UNSET,
    expires_in: timedelta | float | Unset | None = UNSET,
    on_expiry: OnExpiry | Unset | None = UNSET,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Schedule:
    """Change a schedule and its planned occurrence; see `Schedules.update`.

    Omitted arguments keep their values; None restores a default. A payload replaces the whole payload; None keeps the
    current one.
    """
    given: dict[str, Any] = {
        "recurrence": recurrence,
        "scheduled_at": scheduled_at,
        "timezone": timezone,
        "name": name,
        "recurrence_type": recurrence_type,
        "misfire": misfire,
        "misfire_grace_seconds": misfire_grace_seconds,
        "catch_up_limit": catch_up_limit,
        "catch_up_seconds": catch_up_seconds,
        "overlap": overlap,
        "requires_previous": requires_previous,
        "pause_after_failures": pause_after_failures,
        "skip": skip,
        "jitter_seconds": jitter_seconds,
        "until": until,
        "remaining": remaining,
        "priority": priority,
        "max_attempts": max_attempts,
        "retry": retry,
        "lock_group": lock_group,
        "lock_group_blocks": lock_group_blocks,
        "target": target,
        "user_id": user_id,
        "metadata": metadata,
        "condition": condition,
        "on_success": on_success,
        "on_failure": on_failure,
        "limit": limit,
        "expires_in": expires_in,
        "on_expiry": on_expiry,
    }
    return runtime.current().schedules.update(
        schedule,
        payload=payload,
        team_id=team_id,
        connection=connection,
        **{name: value for name, value in given.items() if value is not UNSET},
    )


@checked
def pause_schedule(
    schedule: UUID | str,
    *,
    reason: str | None = None,
    by: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Schedule:
    """Pause a schedule, and delete its planned occurrence unless it has started; see `schedules.operations.pause`."""
    return operations.pause(
        runtime.current().schedules, schedule, reason=reason, by=by, team_id=team_id, connection=connection
    )


@checked
def resume_schedule(
    schedule: UUID | str,
    *,
    by: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Schedule:
    """Resume a paused schedule from its next occurrence; see `schedules.operations.resume`."""
    return operations.resume(runtime.current().schedules, schedule, by=by, team_id=team_id, connection=connection)


@checked
def run_schedule(
    schedule: UUID | str,
    *,
    by: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Scheduled:
    """Schedule an additional run of a schedule, due now; see `schedules.operations.run_now`."""
    return operations.run_now(runtime.current().schedules, schedule, by=by, team_id=team_id, connection=connection)


@checked
def backfill_schedule(
    schedule: UUID | str,
    start: datetime | date | str,
    end: datetime | date | str,
    *,
    by: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> list[UUID]:
    """Create the missing occurrences from `start` to `end`, both included; return the ids of their actions.

    `end` must not be in the future. See `schedules.operations.backfill`.
    """
    return operations.backfill(
        runtime.current().schedules, schedule, start, end, by=by, team_id=team_id, connection=connection
    )


@checked
def skip_next_occurrence(
    schedule: UUID | str,
    *,
    next_action_id: UUID | str | None = None,
    reason: str | None = None,
    by: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Schedule:
    """Skip the planned occurrence and plan the one after it; see `schedules.operations.skip_next`."""
    return operations.skip_next(
        runtime.current().schedules,
        schedule,
        next_action_id=next_action_id,
        reason=reason,
        by=by,
        team_id=team_id,
        connection=connection,
    )


@checked
def delete_schedule(
    schedule: UUID | str,
    *,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Schedule:
    """Delete a schedule, and its planned occurrence unless it has started; see `schedules.operations.delete`."""
    return operations.delete(runtime.current().schedules, schedule, team_id=team_id, connection=connection)
