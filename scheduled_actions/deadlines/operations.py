"""Pause, resume, complete, cancel, acknowledge and reassign existing deadlines."""

from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument, WrongDeadlineStatus
from scheduled_actions.core.requester import Requester, narrower, reach_of
from scheduled_actions.deadlines import changes as change, store
from scheduled_actions.deadlines.changes import NOT_ACKNOWLEDGED
from scheduled_actions.deadlines.model import Deadline
from scheduled_actions.deadlines.rules import planning
from scheduled_actions.deadlines.rules.definition import due_instant, parse_recipients

if TYPE_CHECKING:
    # The client lists deadlines without the service.
    from scheduled_actions.deadlines.service import Deadlines


def pause(
    deadlines: "Deadlines",
    reference: UUID | str,
    *,
    by: str | None = None,
    reason: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Deadline:
    """Pause an open deadline; return the deadline.

    Until the deadline is resumed, its stages do not run, but the next deadline of its series is still created. A
    deadline that is already paused is not changed.

    Args:
        deadlines: The deadlines of the project.
        reference: Id or name.
        by: Who pauses the deadline, for the history.
        reason: The reason, for the history.
        team_id: Only within this team; None: as for `Deadlines.get`.
        connection: Joins the caller's transaction.

    Raises:
        UnknownDeadline: No deadline has that id or name (in that team).
        WrongDeadlineStatus: The deadline is not open.
        DeadlineUnusable: The stored row is invalid.
    """
    with deadlines.changing(reference, team_id, connection, "open") as (lent, deadline, now):
        if deadline.paused_at is not None:
            return deadline
        # The renewal stage stays planned, so that the next deadline of the series is still created.
        stages = [stage for stage in deadline.stages if stage.kind != "renewal"]
        store.drop(lent, store.planned_keys(deadline.id, stages))
        entry = store.history_entry("paused", now, by=by, reason=reason)
        return store.update(lent, deadline.id, entry, paused_at=now, revisions=1)


def resume(
    deadlines: "Deadlines",
    reference: UUID | str,
    *,
    by: str | None = None,
    reason: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Deadline:
    """Resume a paused deadline with as much working time left as when it was paused; return the deadline.

    With a calendar, working time is the time within its business days and hours; without one, it is all time. A
    deadline that is not paused is not changed.

    Args:
        deadlines: The deadlines of the project.
        reference: Id or name.
        by: Who resumes the deadline, for the history.
        reason: The reason, for the history.
        team_id: Only within this team; None: as for `Deadlines.get`.
        connection: Joins the caller's transaction.

    Raises:
        UnknownDeadline: No deadline has that id or name (in that team).
        WrongDeadlineStatus: The deadline is not open.
        DeadlineUnusable: The stored row is invalid.
        InvalidArgument: A stage has no instant for the new due instant.
        BudgetExceeded: Counting the working time, or planning the stages, takes too many steps.
    """
    with deadlines.changing(reference, team_id, connection, "open") as (lent, deadline, now):
        if deadline.paused_at is None:
            return deadline
        due_at = planning.resumed_due(deadline, now)
        stages = planning.plan_deadline(replace(deadline, due_at=due_at), now)
        store.plan(lent, {deadline.id: stages})
        entry = store.history_entry("resumed", now, by=by, reason=reason, due_at=due_at, before=deadline.due_at)
        return store.update(lent, deadline.id, entry, paused_at=None, due_at=due_at, stages=stages, revisions=1)


def complete(
    deadlines: "Deadlines",
    reference: UUID | str,
    *,
    at: datetime | date | str | None = None,
    by: str | None = None,
    reason: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Deadline:
    """Complete a deadline; return the deadline, with `days_late`.

    No reminder, escalation level or auto-action of a completed deadline can start. The next deadline of its series is
    created unless it exists. The due instant of a paused deadline moves as with `resume`. A deadline that is already
    completed is not changed.

    Args:
        deadlines: The deadlines of the project.
        reference: Id or name.
        at: When the work was done, not in the future, in the forms of `Deadlines.move`, but a day means its start;
            None: now.
        by: Who completes the deadline, for the history.
        reason: The reason, for the history.
        team_id: Only within this team; None: as for `Deadlines.get`.
        connection: Joins the caller's transaction; stages of the deadline cannot start until it ends.

    Raises:
        UnknownDeadline: No deadline has that id or name (in that team).
        WrongDeadlineStatus: The deadline is cancelled.
        DeadlineNotApplied: SQL has reserved the deadline, and no tick has applied the call.
        InvalidArgument: `at` is invalid or in the future.
        BudgetExceeded: The deadline is paused, and counting its working time takes too many steps.
    """
    with deadlines.changing(reference, team_id, connection) as (lent, deadline, now):
        done_at = arguments.check_instant("at", at, timezone=deadline.timezone)
        if deadline.status == "completed":
            return deadline
        if deadline.status == "cancelled":
            raise WrongDeadlineStatus(reference, deadline.status, "open and missed")
        store.refuse_reserved(lent, reference, deadline)
        closed_at = done_at or now
        if closed_at > now:
            raise InvalidArgument("at", at, problem=f"must not be in the future: {closed_at.isoformat()}")
        due_at = planning.resumed_due(deadline, max(closed_at, deadline.paused_at or closed_at))
        late = max(0, -((due_at - closed_at) // timedelta(days=1)))
        entry = store.history_entry("completed", now, by=by, reason=reason, days_late=late)
        return change.close(
            lent, deadline, now, entry, due_at=due_at, days_late=late, closed_reason=reason, closed_at=closed_at
        )


def cancel(
    deadlines: "Deadlines",
    reference: UUID | str,
    *,
    reason: str | None = None,
    by: str | None = None,
    series: bool = False,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Deadline:
    """Cancel a deadline; return the deadline.

    Without `series`, the next deadline of its series is created unless it exists, and a deadline that is already
    cancelled is not changed.

    Args:
        deadlines: The deadlines of the project.
        reference: Id or name.
        reason: The reason, for the history.
        by: Who cancels the deadline, for the history.
        series: Whether to also cancel the later unresolved deadlines of its series, and end the series.
        team_id: Only within this team; None: as for `Deadlines.get`.
        connection: Joins the caller's transaction.

    Raises:
        UnknownDeadline: No deadline has that id or name (in that team).
        WrongDeadlineStatus: The deadline is completed, and `series` is false.
    """
    with deadlines.changing(reference, team_id, connection) as (lent, deadline, now):
        if series:
            change.end_series(lent, deadline, now, reason=reason, by=by)
            return store.read(lent, deadline.id)
        if deadline.status == "completed":
            raise WrongDeadlineStatus(reference, deadline.status, "open and missed")
        if deadline.status == "cancelled":
            return deadline
        entry = store.history_entry("cancelled", now, by=by, reason=reason)
        return change.close(lent, deadline, now, entry, closed_reason=reason)


def acknowledge(
    deadlines: "Deadlines",
    reference: UUID | str,
    *,
    until: datetime | date | str | timedelta | None = None,
    by: str | None = None,
    reason: str | None = None,
    team_id: str | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Deadline:
    """Mute the repeated reminders of a deadline; return the deadline.

    Escalation levels with `stop_when` `acknowledged` are muted, too; other reminders and levels continue.

    Args:
        deadlines: The deadlines of the project.
        reference: Id or name.
        until: In the forms of `Deadlines.move`; None: no limit. The acknowledgement also ends when the deadline is
            completed, cancelled, moved or reassigned.
        by: Who acknowledges the deadline, for the history.
        reason: The reason, for the history.
        team_id: Only within this team; None: as for `Deadlines.get`.
        connection: Joins the caller's transaction.

    Raises:
        UnknownDeadline: No deadline has that id or name (in that team).
        WrongDeadlineStatus: The deadline is completed or cancelled.
        DeadlineUnusable: The stored row is invalid.
        InvalidArgument: `until` is invalid, or not in the future.
    """
    with deadlines.changing(reference, team_id, connection, "open", "missed") as (lent, deadline, now):
        end = None if until is None else due_instant(until, deadline.timezone, now=now, name="until")
        if end is not None and end <= now:
            raise InvalidArgument("until", until, "an instant in the future")
        entry = store.history_entry("acknowledged", now, by=by, reason=reason, until=end)
        return store.update(lent, deadline.id, entry, acknowledged_at=now, acknowledged_by=by, acknowledged_until=end)


def reassign(
    deadlines: "Deadlines",
    reference: UUID | str,
    recipients: Any,  # noqa: ANN401 - addresses, names of roles, objects
    *,
    by: str | None = None,
    reason: str | None = None,
    team_id: str | None = None,
    requester: Requester | None = None,
    connection: psycopg.Connection[Any] | None = None,
) -> Deadline:
    """Replace the recipients of a deadline's notifications that were not sent; return the deadline.

    After this function has returned, only stages with their own recipients can still notify a former recipient. An
    acknowledgement ends. The next deadline of the series has the recipients of the definition again.

    Args:
        deadlines: The deadlines of the project.
        reference: Id or name.
        recipients: A recipient, or a list of 1 to 100: addresses, roles (`resolver:name`), or people as objects.
        by: Who reassigns the deadline, for the history.
        reason: The reason, for the history.
        team_id: Only within this team; None: as for `Deadlines.get`.
        requester: The token of an HTTP request; None: application code.
        connection: Joins the caller's transaction.

    Raises:
        UnknownDeadline: No deadline has that id or name (in that team).
        WrongDeadlineStatus: The deadline is completed or cancelled.
        DeadlineUnusable: The stored row is invalid.
        InvalidArgument: A recipient is invalid, or no recipient is given.
    """
    to = parse_recipients("recipients", recipients)
    if not to:
        raise InvalidArgument("recipients", problem="must not be empty: give at least one address, role or person")
    with deadlines.changing(reference, team_id, connection, "open", "missed") as (lent, deadline, now):
        reach = reach_of(requester)
        deadlines.validator.recipients.check(to, name="recipients", team_id=deadline.team_id, reach=reach)
        entry = store.history_entry(
            "reassigned", now, by=by, reason=reason, to=list(to), before=list(deadline.recipients)
        )
        definition = deadline.definition
        if reach is not None:
            definition = {**definition, "reach": narrower(deadline.reach, reach)}
        return store.update(lent, deadline.id, entry, recipients=to, definition=definition, **NOT_ACKNOWLEDGED)
