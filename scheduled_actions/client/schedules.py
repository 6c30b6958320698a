"""The functions about schedules that application code calls, on the process's own runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions import runtime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    import psycopg

    from scheduled_actions.core.action import Scheduled
    from scheduled_actions.core.retry import RetryPolicy
    from scheduled_actions.schedules.model import Misfire, Overlap, RecurrenceType, Schedule


def schedule_recurring_action(
    action_type: str,
    payload: Any,  # noqa: ANN401 - any model
    recurrence: str,
    *,
    scheduled_at: datetime | timedelta | None = None,
    timezone: str = "UTC",
    name: str | None = None,
    recurrence_type: RecurrenceType = "fixed",
    misfire: Misfire = "fire_once",
    misfire_grace_seconds: float | None = None,
    catch_up_limit: int | None = None,
    catch_up_seconds: float | None = None,
    overlap: Overlap = "skip",
    pause_after_failures: int | None = None,
    skip: Mapping[str, Any] | None = None,
    jitter_seconds: float | None = None,
    until: datetime | None = None,
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
    created_by: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Schedule:
    """Make a schedule, or bring the one of the same name (within its team) up to date; return it.

    Asking again for the same changes nothing: neither its start nor what it has planned, nor a pause.

    Args:
        action_type: Names the handler.
        payload: Of every occurrence; checked against the handler's model before anything is written.
        recurrence: An interval ("daily", "every 10 minutes", "PT10M"), a cron expression, an RRULE, a business day
            ("last business day of the quarter"), or `custom:` and the name of a registered function.
        scheduled_at: The start: intervals count from it, and it is the first occurrence if the rule names it. An
            aware datetime, a naive one in `timezone`, or a timedelta from now. None: now, which is no occurrence.
        timezone: IANA name: whose wall clock the rule follows.
        name: Names the schedule within its team; None makes a new one at each call.
        recurrence_type: `fixed`: instants come from the rule. `rolling`: the next is counted from the end of the run.
        misfire: What becomes of occurrences that no tick ran in time: `fire_once` runs one and goes on after now,
            `skip` leaves those out that are later than the grace, `catch_up` runs each.
        misfire_grace_seconds: 300 unless said.
        catch_up_limit: The latest missed ones that `catch_up` runs; 100 unless said.
        catch_up_seconds: How old they may be; seven days unless said.
        overlap: What an occurrence does while the one before still runs: `skip`, `queue` or `allow`.
        pause_after_failures: Pause after as many final failures in a row; None: go on for ever.
        skip: What is left out: `{"weekends": true, "holidays": "US", "dates": […], "ranges": […], "windows": […],
            "function": "name", "then": "drop" | "preceding" | "following"}`.
        jitter_seconds: Put each occurrence off by its own share of this.
        until: No occurrence after it.
        remaining: Executions until the series ends.
        team_id: The tenant.
        priority: The lower number goes first.
        max_attempts: Of each occurrence, the first attempt included; None: the handler's, else the setting.
        retry: As for `schedule_action`.
        lock_group: As for `schedule_action`.
        lock_group_blocks: As for `schedule_action`.
        target: The thing it is about: `{"type": "invoice", "id": "42"}`.
        user_id: Whom it concerns.
        metadata: Your own notes.
        condition: Of each occurrence: what must hold when it would run, else it is skipped and the series goes on.
            `{"wait": condition, …}` keeps it waiting; what comes due meanwhile is left out, or waits beside it, as
            `overlap` says.
        on_success: What to schedule when an occurrence completes: `{"action_type", "payload", …}`, or a list of these.
        on_failure: What to schedule when an occurrence has failed for good.
        created_by: Who asked for it.
        connection: Your own psycopg connection: roll its transaction back, and nothing was changed.

    Raises:
        RecurrenceInvalid: The rule is malformed, or never occurs (`NeverOccurs`); nothing was changed.
        RequestError: Unknown type, payload refused, or an argument out of its range; nothing was changed.
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
        created_by=created_by,
        connection=connection,
    )


def get_schedule(schedule: UUID | str, *, team_id: str | None = None) -> Schedule:
    """Return one schedule by id or name; see `Schedules.get`."""
    return runtime.current().schedules.get(schedule, team_id=team_id)


def list_schedules(**filters: Any) -> list[Schedule]:  # noqa: ANN401 - the filters of Schedules.find
    """Return the newest schedules that match every filter given; see `Schedules.find`."""
    return runtime.current().schedules.find(**filters)


def update_schedule(schedule: UUID | str, **changes: Any) -> Schedule:  # noqa: ANN401 - the arguments of schedule_recurring_action
    """Change what is given of a schedule; its waiting occurrence is planned anew; see `Schedules.update`."""
    return runtime.current().schedules.update(schedule, **changes)


def pause_schedule(schedule: UUID | str, **options: Any) -> Schedule:  # noqa: ANN401 - the options of Schedules.pause
    """Plan no more until it is resumed; see `Schedules.pause`."""
    return runtime.current().schedules.pause(schedule, **options)


def resume_schedule(schedule: UUID | str, **options: Any) -> Schedule:  # noqa: ANN401 - the options of Schedules.resume
    """Go on with the first occurrence after now; see `Schedules.resume`."""
    return runtime.current().schedules.resume(schedule, **options)


def run_schedule(schedule: UUID | str, **options: Any) -> Scheduled:  # noqa: ANN401 - the options of Schedules.run_now
    """Run it once more, now, beside its occurrences; see `Schedules.run_now`."""
    return runtime.current().schedules.run_now(schedule, **options)


def backfill_schedule(
    schedule: UUID | str,
    start: datetime,
    end: datetime,
    **options: Any,  # noqa: ANN401 - the options of Schedules.backfill
) -> list[UUID]:
    """Create the past occurrences of a range that were never created; see `Schedules.backfill`."""
    return runtime.current().schedules.backfill(schedule, start, end, **options)


def skip_next_occurrence(schedule: UUID | str, **options: Any) -> Schedule:  # noqa: ANN401 - the options of Schedules.skip_next
    """Leave the planned occurrence out and plan the one after it; see `Schedules.skip_next`."""
    return runtime.current().schedules.skip_next(schedule, **options)


def delete_schedule(schedule: UUID | str, **options: Any) -> Schedule:  # noqa: ANN401 - the options of Schedules.delete
    """Remove a schedule and its planned occurrence; see `Schedules.delete`."""
    return runtime.current().schedules.delete(schedule, **options)
