"""Notify people and schedule actions in their local time from application code, with the runtime of the process."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from scheduled_actions import runtime
from scheduled_actions.core.action import DedupMode, OnExpiry, Scheduled
from scheduled_actions.core.messages import suggests_keywords
from scheduled_actions.core.retry import RetryPolicy
from scheduled_actions.notifications.local_scheduling import UserSchedule
from scheduled_actions.notifications.planning import NoticeOptions
from scheduled_actions.notifications.rules.people import Person
from scheduled_actions.notifications.rules.reminder import Severity
from scheduled_actions.schedules.model import Misfire, Overlap, RecurrenceType


@suggests_keywords
def notify(
    recipients: str | Person | Mapping[str, Any] | Sequence[str | Person | Mapping[str, Any]],
    text: str,
    *,
    subject: str | None = None,
    html: str | None = None,
    severity: Severity | None = None,
    digest: bool = False,
    scheduled_at: datetime | date | str | timedelta | None = None,
    team_id: str | None = None,
    target: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    created_by: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> list[Scheduled]:
    """Send a message to people, each through their first working channel; return one action per person.

    Args:
        recipients: One recipient or a list: an address ("ann@example.org", "https://…", a name in
            `[notifications.channels]`), `resolver:name` for a function with `@resolve_recipients` ("role:cfo"), a
            `Person`, or a mapping of its fields. A deputy replaces an absent person; each person gets the message once.
        text: The message.
        subject: One line; None: the first line of the text.
        html: The message as HTML, for channels that support it.
        severity: urgent, high, medium or low; None: no severity. By default, quiet hours do not defer urgent messages.
        digest: Combine messages to one person that are due at the same time. A message that is due now waits
            `notifications.digest_seconds` for others.
        scheduled_at: An instant with an offset, a day (its start in UTC), or a timedelta from now; None: now. Quiet
            hours defer the message to their end.
        team_id: The team that owns the actions; None: no team.
        target: The entity that the message is about: `{"type": "invoice", "id": "42"}`.
        metadata: Stored with the actions, not interpreted.
        created_by: The sender, stored with the actions.
        connection: Your own psycopg connection, whose transaction the insert joins; None: a separate transaction.

    Raises:
        RequestError: A recipient or another argument is invalid; nothing was scheduled.
        HandlerBroken: A resolver cannot be imported, or raised an exception; nothing was scheduled.
        DatabaseUnavailable: The database cannot be reached; nothing was scheduled.
    """
    return runtime.current().notifications.notify(
        recipients,
        text,
        NoticeOptions(
            severity=severity,
            digest=digest,
            team_id=team_id,
            arguments={"target": target, "metadata": metadata, "created_by": created_by},
        ),
        subject=subject,
        html=html,
        at=scheduled_at,
        connection=connection,
    )


@suggests_keywords
def schedule_local(
    action_type: str,
    payload: Any,  # noqa: ANN401 - any model
    local_time: str,
    users: Mapping[str, str | None] | Sequence[Person | Mapping[str, str]],
    *,
    recurrence: str | None = None,
    name: str | None = None,
    team_id: str | None = None,
    priority: int | None = None,
    max_attempts: int | None = None,
    retry: RetryPolicy | Mapping[str, Any] | Sequence[float] | None = None,
    lock_group: str | None = None,
    lock_group_blocks: bool | None = None,
    target: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    created_by: str | None = None,
    condition: Mapping[str, Any] | None = None,
    on_success: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    on_failure: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    dedup_key: str | None = None,
    dedup_window: float | None = None,
    dedup_mode: DedupMode | None = None,
    after: UUID | str | Sequence[UUID | str] | None = None,
    limit: str | Sequence[str] | None = None,
    expires_at: datetime | date | str | None = None,
    expires_in: timedelta | float | None = None,
    on_expiry: OnExpiry | None = None,
    recurrence_type: RecurrenceType | None = None,
    misfire: Misfire | None = None,
    misfire_grace_seconds: float | None = None,
    catch_up_limit: int | None = None,
    catch_up_seconds: float | None = None,
    overlap: Overlap | None = None,
    requires_previous: bool | None = None,
    pause_after_failures: int | None = None,
    skip: Mapping[str, Any] | None = None,
    jitter_seconds: float | None = None,
    until: datetime | date | str | None = None,
    remaining: int | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> list[UserSchedule]:
    """Create an action or a schedule for each user at a time of day in the user's time zone, for all users or none.

    The results are in the order of the users.

    Args:
        action_type: Selects the handler.
        payload: The same for all users; `context.action.user_id` is the user.
        local_time: A time of day, such as "09:00". Inside a DST gap it moves forward by the gap; in a fold it occurs
            once.
        users: Time zones by user id; or a list of `Person`s with an id, or of mappings with `user_id` and `timezone`.
            Users without a time zone have that of the setting `notifications.timezone`.
        recurrence: A rule ("daily", "weekly", an RRULE) for a schedule per user. None: one action per user.
        name: Prefix of the names of the schedules: with "greeting", the schedule of the user "ann" is "greeting:ann".
            An existing schedule of that name is updated. Needs a recurrence.
        team_id: The team that owns the actions and schedules; None: no team.
        priority: As for `schedule_action`.
        max_attempts: As for `schedule_action`.
        retry: As for `schedule_action`.
        lock_group: As for `schedule_action`.
        lock_group_blocks: As for `schedule_action`.
        target: As for `schedule_action`.
        metadata: As for `schedule_action`.
        created_by: As for `schedule_action`.
        condition: As for `schedule_action`.
        on_success: As for `schedule_action`.
        on_failure: As for `schedule_action`.
        dedup_key: As for `schedule_action`; not with a recurrence.
        dedup_window: As for `schedule_action`; not with a recurrence.
        dedup_mode: As for `schedule_action`; not with a recurrence.
        after: As for `schedule_action`; not with a recurrence.
        limit: As for `schedule_action`.
        expires_at: As for `schedule_action`; not with a recurrence.
        expires_in: As for `schedule_action`.
        on_expiry: As for `schedule_action`.
        recurrence_type: As for `schedule_recurring_action`; needs a recurrence.
        misfire: As for `schedule_recurring_action`; needs a recurrence.
        misfire_grace_seconds: As for `schedule_recurring_action`; needs a recurrence.
        catch_up_limit: As for `schedule_recurring_action`; needs a recurrence.
        catch_up_seconds: As for `schedule_recurring_action`; needs a recurrence.
        overlap: As for `schedule_recurring_action`; needs a recurrence.
        requires_previous: As for `schedule_recurring_action`; needs a recurrence.
        pause_after_failures: As for `schedule_recurring_action`; needs a recurrence.
        skip: As for `schedule_recurring_action`; needs a recurrence.
        jitter_seconds: As for `schedule_recurring_action`; needs a recurrence.
        until: As for `schedule_recurring_action`; needs a recurrence.
        remaining: As for `schedule_recurring_action`; needs a recurrence.
        connection: Your own psycopg connection, whose transaction the insert joins; None: a separate transaction.

    Raises:
        RequestError: An argument is invalid, needs a recurrence or does not work with one, or the rule has
            occurrences at another time of day; nothing was scheduled.
        HandlerBroken: As for `schedule_action`; nothing was scheduled.
        DatabaseUnavailable: The database cannot be reached; nothing was scheduled.
    """
    given: dict[str, Any] = {
        "priority": priority,
        "max_attempts": max_attempts,
        "retry": retry,
        "lock_group": lock_group,
        "lock_group_blocks": lock_group_blocks,
        "target": target,
        "metadata": metadata,
        "created_by": created_by,
        "condition": condition,
        "on_success": on_success,
        "on_failure": on_failure,
        "dedup_key": dedup_key,
        "dedup_window": dedup_window,
        "dedup_mode": dedup_mode,
        "after": after,
        "limit": limit,
        "expires_at": expires_at,
        "expires_in": expires_in,
        "on_expiry": on_expiry,
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
    }
    return runtime.current().local_scheduling.schedule_local(
        action_type,
        payload,
        local_time,
        users,
        recurrence=recurrence,
        name=name,
        team_id=team_id,
        connection=connection,
        **{name: value for name, value in given.items() if value is not None},
    )
