"""Create, change and list deadlines from application code, with the runtime of the process."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from scheduled_actions import runtime
from scheduled_actions.actions.model import UNSET, Unset
from scheduled_actions.client.checks import checked
from scheduled_actions.core.messages import suggests_keywords
from scheduled_actions.deadlines import operations, reading
from scheduled_actions.deadlines.model import Deadline


@suggests_keywords
def set_deadline(
    target: Mapping[str, str],
    due_at: datetime | date | str | timedelta | None = None,
    *,
    reminders: Sequence[Any] = (),
    escalation: Sequence[Any] | Mapping[str, Any] = (),
    auto_actions: Sequence[Mapping[str, Any]] = (),
    recipients: Any = None,  # noqa: ANN401 - addresses, names of roles, objects
    recurrence: str | None = None,
    timezone: str | None = None,
    calendar: Mapping[str, Any] | None = None,
    team_id: str | None = None,
    name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    created_by: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Deadline:
    """Create or update a deadline with its reminders, escalation and auto-actions; return it.

    Each stage is an action. Before a notification is sent, the status of the deadline is checked again: a completed
    deadline sends nothing. With a `name`, an unresolved deadline of that name (within the team) is updated; an
    identical call changes nothing.

    Args:
        target: The entity that the deadline is about: `{"type": "license", "id": "42"}`.
        due_at: A datetime or an ISO 8601 string with an offset, or without one in `timezone`; a date or a string such
            as "2026-12-31", which means the last second of the day; or a timedelta from now. None with a `recurrence`:
            its first occurrence.
        reminders: Distances before the due instant: 60 (days), "3 business days before at 09:00", a timedelta; or
            mappings with `offset` and optionally `repeat` (a rule, until the deadline is resolved), `times`, `to`,
            `severity`, `message`, `name`.
        escalation: Levels: mappings with `offset` (2 or "2 days after") and `to`, and optionally `assign` (the new
            responsible people), `stop_when` ("resolved" or "acknowledged"), `condition` (as for `schedule_action`, but
            evaluated before each attempt, without waiting; if it is not met, this run of the level is skipped),
            `severity`, `message`, `name`. Or a mapping with `levels`, `repeat` and `interval`.
        auto_actions: Mappings with `offset` (-30 or "30 days before"), `action_type` and `payload`, and optionally
            `condition` (as for a level), `priority`, `max_attempts`, `lock_group`, `name`. The payloads are validated
            now.
        recipients: Responsible people, who receive the reminders: an address, `resolver:name`, a mapping, or a list of
            these.
        recurrence: A rule for a series: each occurrence is a deadline, created in time for its first stage.
        timezone: IANA time zone in which days are counted; None: UTC.
        calendar: Business days and working hours: `{"holidays": "US-CA", "dates": […], "ranges": […], "hours":
            {"from": "09:00", "to": "17:00"}, "adjustment": "preceding"}`. `adjustment` moves stages that fall on other
            days. None: business days are Monday to Friday, and a pause delays the due instant by its whole length.
        team_id: The team that owns the deadline; None: no team.
        name: Unique within the team among unresolved deadlines.
        metadata: Stored with the deadline, not interpreted.
        created_by: The creator, stored with the deadline.
        connection: Your own psycopg connection, whose transaction the change joins; None: a separate transaction.

    Raises:
        RequestError: An argument or a payload is invalid, or an action type has no handler; nothing was changed.
        HandlerBroken: The handler of an auto-action cannot be loaded; nothing was changed.
        DatabaseUnavailable: The database cannot be reached; nothing was changed.
    """
    return runtime.current().deadlines.set(
        {
            "target": target,
            "due_at": due_at,
            "reminders": reminders,
            "escalation": escalation,
            "auto_actions": auto_actions,
            "recipients": recipients,
            "recurrence": recurrence,
            "timezone": timezone,
            "calendar": calendar,
            "team_id": team_id,
            "name": name,
            "metadata": metadata,
            "created_by": created_by,
        },
        connection=connection,
    )[0]


@suggests_keywords
def set_deadlines(
    deadlines: Sequence[Mapping[str, Any]], *, connection: psycopg.Connection[Any] | None = None
) -> list[UUID]:
    """Create many deadlines from mappings with the arguments of `set_deadline`, all of them or none; return their ids.

    See `Deadlines.set_many`.
    """
    return runtime.current().deadlines.set_many(deadlines, connection=connection)


@suggests_keywords
def get_deadline(deadline: UUID | str, *, team_id: str | None = None) -> Deadline:
    """Return a deadline by id or name; see `Deadlines.get`."""
    return runtime.current().deadlines.get(deadline, team_id=team_id)


@checked
def list_deadlines(
    *,
    status: str | None = None,
    is_overdue: bool = False,
    team_id: str | None = None,
    user_id: str | None = None,
    target: Mapping[str, str] | None = None,
    name: str | None = None,
    series_id: UUID | None = None,
    due_from: datetime | date | str | None = None,
    due_to: datetime | date | str | None = None,
    cursor: UUID | str | None = None,
    limit: int = 100,
) -> list[Deadline]:
    """Return at most `limit` deadlines that match all filters, newest first; see `deadlines.reading.find`."""
    return reading.find(
        runtime.current().database,
        status=status,
        is_overdue=is_overdue,
        team_id=team_id,
        user_id=user_id,
        target=target,
        name=name,
        series_id=series_id,
        due_from=due_from,
        due_to=due_to,
        cursor=cursor,
        limit=limit,
    )


@checked
def complete_deadline(
    deadline: UUID | str,
    *,
    at: datetime | date | str | None = None,
    by: str | None = None,
    reason: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Deadline:
    """Complete a deadline, so that no further stage starts; see `deadlines.operations.complete`."""
    return operations.complete(
        runtime.current().deadlines, deadline, at=at, by=by, reason=reason, team_id=team_id, connection=connection
    )


@checked
def cancel_deadline(
    deadline: UUID | str,
    *,
    reason: str | None = None,
    by: str | None = None,
    series: bool = False,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Deadline:
    """Cancel a deadline; with `series`, also cancel the later deadlines of its series, and end the series.

    See `deadlines.operations.cancel`.
    """
    return operations.cancel(
        runtime.current().deadlines,
        deadline,
        reason=reason,
        by=by,
        series=series,
        team_id=team_id,
        connection=connection,
    )


@checked
def move_deadline(
    deadline: UUID | str,
    due_at: datetime | date | str | timedelta,
    *,
    resend: bool | None = None,
    by: str | None = None,
    reason: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Deadline:
    """Move a deadline to another due instant, and plan its future stages again; see `Deadlines.move`."""
    return runtime.current().deadlines.move(
        deadline, due_at, resend=resend, by=by, reason=reason, team_id=team_id, connection=connection
    )


@suggests_keywords
def move_deadlines(
    moves: Mapping[UUID | str, datetime | date | str | timedelta],
    *,
    resend: bool | None = None,
    by: str | None = None,
    reason: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> int:
    """Move many deadlines by id, all of them or none; return their number. See `Deadlines.move_many`."""
    return runtime.current().deadlines.move_many(
        moves, resend=resend, by=by, reason=reason, team_id=team_id, connection=connection
    )


@checked
def update_deadline(
    deadline: UUID | str,
    *,
    target: Mapping[str, str] | Unset = UNSET,
    reminders: Sequence[Any] | Unset | None = UNSET,
    escalation: Sequence[Any] | Mapping[str, Any] | Unset | None = UNSET,
    auto_actions: Sequence[Mapping[str, Any]] | Unset | None = UNSET,
    recipients: Any = UNSET,  # noqa: ANN401 - as in `set_deadline`
    recurrence: str | Unset | None = UNSET,
    timezone: str | Unset | None = UNSET,
    calendar: Mapping[str, Any] | Unset | None = UNSET,
    metadata: Mapping[str, Any] | Unset | None = UNSET,
    by: str | None = None,
    reason: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Deadline:
    """Change arguments of a deadline and of the later deadlines of its series; see `Deadlines.update`."""
    return runtime.current().deadlines.update(
        deadline,
        target=target,
        reminders=reminders,
        escalation=escalation,
        auto_actions=auto_actions,
        recipients=recipients,
        recurrence=recurrence,
        timezone=timezone,
        calendar=calendar,
        metadata=metadata,
        by=by,
        reason=reason,
        team_id=team_id,
        connection=connection,
    )


@checked
def pause_deadline(
    deadline: UUID | str,
    *,
    by: str | None = None,
    reason: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Deadline:
    """Pause an open deadline: no reminder, escalation level or auto-action runs until the deadline is resumed.

    See `deadlines.operations.pause`.
    """
    return operations.pause(
        runtime.current().deadlines, deadline, by=by, reason=reason, team_id=team_id, connection=connection
    )


@checked
def resume_deadline(
    deadline: UUID | str,
    *,
    by: str | None = None,
    reason: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Deadline:
    """Resume a paused deadline, with as much working time left as when it was paused.

    See `deadlines.operations.resume`.
    """
    return operations.resume(
        runtime.current().deadlines, deadline, by=by, reason=reason, team_id=team_id, connection=connection
    )


@checked
def acknowledge_deadline(
    deadline: UUID | str,
    *,
    until: datetime | date | str | timedelta | None = None,
    by: str | None = None,
    reason: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Deadline:
    """Mute the repeated reminders of a deadline, and the stages with `stop_when` `acknowledged`.

    See `deadlines.operations.acknowledge`.
    """
    return operations.acknowledge(
        runtime.current().deadlines, deadline, until=until, by=by, reason=reason, team_id=team_id, connection=connection
    )


@checked
def reassign_deadline(
    deadline: UUID | str,
    recipients: Any,  # noqa: ANN401 - as in `set_deadline`
    *,
    by: str | None = None,
    reason: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Deadline:
    """Replace the recipients of a deadline, and end its acknowledgement; see `deadlines.operations.reassign`."""
    return operations.reassign(
        runtime.current().deadlines, deadline, recipients, by=by, reason=reason, team_id=team_id, connection=connection
    )
