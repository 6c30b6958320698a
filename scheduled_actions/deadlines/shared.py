"""What the services of deadlines share: one is read, counted, planned, and followed by the next of its series."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from scheduled_actions.core.errors import DeadlineUnusable, ScheduledActionsError, UnknownDeadline
from scheduled_actions.deadlines import store
from scheduled_actions.deadlines.rules import planning
from scheduled_actions.deadlines.rules.working_calendar import parse_calendar
from scheduled_actions.schedules.rules import new_schedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from uuid import UUID

    from scheduled_actions.core.evaluation_budget import EvaluationBudget
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.deadlines.model import Deadline, Stage


def locked(connection: Connection, reference: UUID | str, team_id: str | None) -> store.Found:
    """Return a deadline by id or name, locked for the rest of the transaction.

    Raises:
        UnknownDeadline: There is none of that id or name (in that team).
    """
    deadline_id, name = new_schedule.reference(reference)
    if deadline_id is None:
        found = store.get(connection, name=name, name_team_id=team_id, team_id=team_id)
        deadline_id = None if found is None else found.deadline.id
    rows = [] if deadline_id is None else store.lock(connection, [deadline_id], team_id=team_id)
    if not rows:
        raise UnknownDeadline(reference)
    return rows[0]


def read(connection: Connection, deadline_id: UUID) -> Deadline:
    """Return a deadline that is there."""
    found = store.get(connection, deadline_id=deadline_id)
    if found is None:
        raise UnknownDeadline(deadline_id)
    return found.deadline


def entry(what: str, at: datetime, **facts: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Return an entry of a deadline's history; facts that are None are left out."""
    return {"what": what, "at": at, **{name: fact for name, fact in facts.items() if fact is not None}}


def counted(
    stages: Iterable[Stage], *, due_at: datetime, clock: planning.Clock, now: datetime, following: datetime | None
) -> tuple[Stage, ...]:
    """Return stages with the instants of what is still to come.

    Args:
        stages: Of one deadline.
        due_at: Its due instant.
        clock: On which distances are counted.
        now: The database's.
        following: The due instant that comes next in its series: it is made in time for its own first stage.
    """
    listed = list(stages)
    planned = planning.plan(listed, due_at=due_at, clock=clock, now=now)
    if not any(stage.kind == "renewal" for stage in planned):
        return planned
    at = None if following is None else min(due_at, planning.lead(listed, due_at=following, clock=clock))
    return tuple(
        replace(stage, at=at, state="planned" if at is not None else "begun")
        if stage.kind == "renewal" and not stage.begun
        else stage
        for stage in planned
    )


def following_of(deadline: Deadline, budget: EvaluationBudget | None = None) -> datetime | None:
    """Return the due instant that comes next in a deadline's series; None where it has none.

    A rule that cannot be followed any more, or a row that cannot be used, ends its series, and its deadlines' histories
    say so.

    Raises:
        DeadlineUnusable: The row holds a value that cannot be used.
        RecurrenceInvalid: The rule cannot be followed.
    """
    if deadline.problem is not None and deadline.recurrence is not None:
        raise DeadlineUnusable(deadline.id, deadline.problem)
    if deadline.recurrence is None or deadline.occurrence_at is None or deadline.anchor_at is None:
        return None
    return planning.next_of_series(
        deadline.recurrence,
        timezone=deadline.timezone,
        anchor=deadline.anchor_at,
        calendar=parse_calendar(deadline.calendar),
        after=deadline.occurrence_at,
        budget=budget,
    )


def succeed(connection: Connection, deadline: Deadline, now: datetime) -> UUID | None:
    """Make the deadline that follows in a series, unless it is there; return its id, None where the series has ended.

    The deadline must be locked. Whoever comes first makes it: the instant at which its first stage asks for it, the
    due instant of the one before, or the end of that one.
    """
    if deadline.recurrence is None or deadline.next_id is not None or deadline.series_id is None:
        return deadline.next_id
    try:
        due_at = following_of(deadline)
    except ScheduledActionsError as error:
        store.write(connection, {deadline.id: {"entry": entry("series_stopped", now, reason=str(error))}})
        return None
    if due_at is None:
        return None
    found = store.find_occurrence(connection, deadline.series_id, due_at)
    if found is None:
        found = _make_next(connection, deadline, due_at, now)
    store.write(connection, {deadline.id: {"next_id": found}})
    return found


def _make_next(connection: Connection, before: Deadline, due_at: datetime, now: datetime) -> UUID | None:
    (new_id,), now = store.new_ids(connection, 1)
    fresh = [replace(stage, state="planned", at=None, occurrence=1, begun=0, last_at=None) for stage in before.stages]
    clock = planning.Clock.of(before)
    values = row_values(
        new_id,
        due_at=due_at,
        stages=fresh,
        clock=clock,
        now=now,
        recurrence=before.recurrence,
        anchor_at=before.anchor_at or due_at,
    )
    # Whoever took an occurrence over keeps that one; the next is again of those who were named for all of them.
    recipients = before.definition.get("recipients", list(before.recipients))
    columns = ("name", "team_id", "target_type", "target_id", "metadata", "definition", "created_by", "series_id")
    made = store.create(
        connection,
        [
            values
            | {name: getattr(before, name) for name in columns}
            | {"calendar": before.calendar, "recipients": recipients}
        ],
    )
    if new_id not in made:
        return store.find_occurrence(connection, before.series_id or new_id, due_at)
    store.plan(connection, new_id, values["stages"])
    return new_id


def row_values(
    deadline_id: UUID,
    *,
    due_at: datetime,
    stages: Iterable[Stage],
    clock: planning.Clock,
    now: datetime,
    recurrence: str | None,
    anchor_at: datetime,
) -> dict[str, Any]:
    """Return the columns of a new deadline that depend on its due instant."""
    following = None
    if recurrence is not None:
        following = planning.next_of_series(
            recurrence,
            timezone=clock.zone.key,
            anchor=anchor_at,
            calendar=clock.calendar,
            after=due_at,
            budget=clock.budget,
        )
    return {
        "id": deadline_id,
        "due_at": due_at,
        "timezone": clock.zone.key,
        "stages": counted(stages, due_at=due_at, clock=clock, now=now, following=following),
        "recurrence": recurrence,
        "series_id": deadline_id if recurrence is not None else None,
        "occurrence_at": due_at if recurrence is not None else None,
        "anchor_at": anchor_at if recurrence is not None else None,
        "history": [entry("set", now, due_at=due_at)],
    }


def clock_of(timezone: str, calendar: Mapping[str, Any] | None) -> planning.Clock:
    """Return the clock that a zone and a calendar make."""
    return planning.Clock(ZoneInfo(timezone), parse_calendar(calendar))
