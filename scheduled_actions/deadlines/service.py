"""Deadlines: set and read; what is done to those that are there is in `operations`."""

from __future__ import annotations

import builtins
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument, RecurrenceInvalid, UnknownDeadline
from scheduled_actions.core.pages import READ_MOST
from scheduled_actions.core.requester import reach_of
from scheduled_actions.database.connection import whole
from scheduled_actions.deadlines import shared as book
from scheduled_actions.deadlines import store
from scheduled_actions.deadlines.changes import DeadlineChanges, refuse_a_crowd
from scheduled_actions.deadlines.rules import planning
from scheduled_actions.deadlines.rules.definition import NewDeadline, new_deadline
from scheduled_actions.schedules.rules import new_schedule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    import psycopg

    from scheduled_actions.core.requester import Requester
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.deadlines.model import Deadline, Stage

#: Notices, and lines of a timeline, that one deadline is shown with.
SHOWN_MOST = 100
#: Deadlines that one call may set.
MANY_MOST = 20_000


@dataclass(frozen=True, slots=True)
class Step:
    """One line of a deadline's timeline."""

    at: datetime | None
    #: The key of the stage, and the number of its occurrence.
    stage: str
    occurrence: int
    #: `sent`, `begun`, `failed`, `planned`, `left_out`, `withdrawn`, …
    state: str
    #: What there is to say of it: to whom, or why not.
    note: str | None
    action_id: UUID | None


class Deadlines(DeadlineChanges):
    """Deadlines of one project."""

    # -- setting -------------------------------------------------------------------------------------------------------

    def set(
        self,
        given: Mapping[str, Any],
        *,
        requester: Requester | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> tuple[Deadline, bool]:
        """Set a deadline, or bring the unresolved one of the same name (within its team) up to date.

        Args:
            given: The arguments of `set_deadline`.
            requester: The token that asks over HTTP; None: application code.
            connection: Joins the caller's own transaction.

        Returns:
            The deadline, and whether it is a new one. Asking again for the same changes nothing.

        Raises:
            RequestError: An argument cannot be, a type has no handler or is not open to the requester, or a payload is
                refused; nothing was changed.
            DatabaseUnavailable: The database cannot be reached; nothing was changed.
        """
        new = self._checked(given, builtins.set(), requester)
        with self._borrowed(connection) as borrowed, whole(borrowed):
            found = self._of_that_name(borrowed, new)
            if found is not None:
                return self._brought_up_to_date(borrowed, found, new), False
            made = self._make(borrowed, [new])
            if made:
                return book.read(borrowed, made[0]), True
            # Somebody took the name a moment ago.
            found = self._of_that_name(borrowed, new)
            if found is None:
                raise UnknownDeadline(new.name)
            return self._brought_up_to_date(borrowed, found, new), False

    def set_many(
        self, given: Sequence[Mapping[str, Any]], *, connection: psycopg.Connection[Any] | None = None
    ) -> list[UUID]:
        """Set many new deadlines at once, all of them or none; return their ids, in order.

        Raises:
            RequestError: As `set`; the message names the position. A name that an unresolved deadline has is refused.
        """
        arguments.check_list("deadlines", given, most=MANY_MOST)
        checked, known = [], builtins.set[str]()
        for position, one in enumerate(given):
            try:
                checked.append(self._checked(one, known))
            except Exception as error:
                error.add_note(f"in deadlines[{position}]")
                raise
        if not checked:
            return []
        with self._borrowed(connection) as borrowed, whole(borrowed):
            made = self._make(borrowed, checked)
            if len(made) < len(checked):
                raise InvalidArgument("name", "one of the names", "free: an unresolved deadline of the team has it")
            return made

    def _checked(
        self, given: Mapping[str, Any], known: builtins.set[str], requester: Requester | None = None
    ) -> NewDeadline:
        return self._validated(replace(new_deadline(given), reach=reach_of(requester)), known, requester)

    def _make(self, connection: Connection, checked: Sequence[NewDeadline]) -> list[UUID]:
        """Insert deadlines with all that is planned of them; return the ids of those whose names were free."""
        ids, now = store.new_ids(connection, len(checked))
        rows = [_row(new_id, new, now) for new_id, new in zip(ids, checked, strict=True)]
        made = store.create(connection, rows)
        there = {row["id"]: row["stages"] for row in rows if row["id"] in made}
        store.plan_many(connection, there)
        return list(there)

    def _of_that_name(self, connection: Connection, new: NewDeadline) -> store.Found | None:
        if new.name is None:
            return None
        found = store.get(connection, name=new.name, name_team_id=new.team_id)
        if found is None or not found.deadline.is_unresolved:
            return None
        (locked,) = store.lock(connection, [found.deadline.id])
        return locked if locked.deadline.is_unresolved else None

    # -- reading -------------------------------------------------------------------------------------------------------

    def get(self, reference: UUID | str, *, team_id: str | None = None) -> Deadline:
        """Return one deadline by id, or by name the unresolved one that is due first.

        Raises:
            UnknownDeadline: There is none of that id or name (in that team).
        """
        deadline_id, name = new_schedule.reference(reference)
        arguments.check_text("team_id", team_id)
        with self._borrowed(None) as borrowed:
            found = store.get(borrowed, deadline_id=deadline_id, name=name, name_team_id=team_id, team_id=team_id)
        if found is None:
            raise UnknownDeadline(reference)
        return found.deadline

    def find(
        self,
        *,
        status: str | None = None,
        is_overdue: bool = False,
        team_id: str | None = None,
        target: Mapping[str, str] | None = None,
        name: str | None = None,
        series_id: UUID | None = None,
        due_from: datetime | None = None,
        due_to: datetime | None = None,
        cursor: UUID | str | None = None,
        limit: int = 100,
    ) -> list[Deadline]:
        """Return the newest deadlines that match every filter given; `cursor` is the last id of the page before.

        Args:
            status: One of the statuses.
            is_overdue: Only those that are unresolved after their due instant.
            team_id: Of this team only.
            target: `{"type", "id"}` of what they are about.
            name: Of this name only.
            series_id: Of this series only.
            due_from: Due at this instant or later; aware.
            due_to: Due before this instant; aware.
            cursor: The id of the last one of the page before.
            limit: 1 to 101.

        Raises:
            InvalidArgument: A filter cannot be.
        """
        arguments.check_limit(limit, most=READ_MOST)
        if status not in (None, "open", "missed", "completed", "cancelled"):
            raise InvalidArgument("status", status, "one of open, missed, completed, cancelled")
        arguments.target_text(target)
        with self._borrowed(None) as borrowed:
            return store.find(
                borrowed,
                status=status,
                is_overdue=is_overdue,
                team_id=arguments.check_text("team_id", team_id),
                target_type=None if target is None else target["type"],
                target_id=None if target is None else target["id"],
                name=arguments.check_text("name", name),
                series_id=series_id,
                due_from=arguments.check_aware("due_from", due_from),
                due_to=arguments.check_aware("due_to", due_to),
                before=None if cursor is None else arguments.check_cursor(cursor),
                limit=limit,
            )

    def near(
        self,
        *,
        statuses: Sequence[str] = ("missed", "open"),
        team_id: str | None = None,
        due_to: datetime | None = None,
        after: tuple[datetime, UUID] | None = None,
        limit: int = 50,
    ) -> list[Deadline]:
        """Return the unresolved deadlines, the nearest first, those missed before them.

        Args:
            statuses: Of these only.
            team_id: Of this team only.
            due_to: Due before this instant; aware.
            after: The due instant and the id of the last one of the page before.
            limit: How many at most.
        """
        after_at, after_id = after or (None, None)
        with self._borrowed(None) as borrowed:
            return store.near(
                borrowed,
                statuses=list(statuses),
                team_id=team_id,
                due_to=due_to,
                after_at=after_at,
                after_id=after_id,
                limit=limit,
            )

    def notices(
        self, deadline: Deadline, *, before: UUID | None = None, limit: int = SHOWN_MOST
    ) -> list[store.Noticed]:
        """Return the latest that was sent of a deadline, and what was not taken: to whom, through what, when.

        Args:
            deadline: Which.
            before: The id of the last one of the page before; None: from the newest on.
            limit: How many at most.

        Returns:
            The newest first.
        """
        with self._borrowed(None) as borrowed:
            return store.notices_of(borrowed, deadline.id, before=before, limit=limit)

    def timeline(self, deadline: Deadline, *, limit: int = SHOWN_MOST) -> list[Step]:
        """Return what was sent and done of a deadline and what will be, in the order of the instants.

        Args:
            deadline: Which.
            limit: How many lines at most: the earliest are left out.
        """
        with self._borrowed(None) as borrowed:
            bound = store.bound(borrowed, deadline.id, limit=limit)
        actions = {one.deadline_stage: one for one in bound if one.deadline_stage}
        told = {(one.get("stage"), one.get("occurrence")): one for one in deadline.history if one["what"] in _TOLD}
        steps = []
        for stage in deadline.stages:
            if stage.kind == "renewal":
                continue
            for occurrence in range(max(1, stage.occurrence - limit), stage.occurrence + 1):
                action = actions.get(planning.occurrence_name(stage.key, occurrence))
                step = _step(stage, occurrence, action, told.get((stage.key, occurrence)))
                if step is not None:
                    steps.append(step)
        return sorted(steps, key=lambda one: (one.at is None, one.at, one.stage))[-limit:]


#: What the history calls it when people were told of a stage, or were not.
_TOLD = {"reminded": "sent", "escalated": "sent", "held_back": "held_back"}


def _step(stage: Stage, occurrence: int, action: store.Bound | None, told: Mapping[str, Any] | None) -> Step | None:
    """Return a line of the timeline; None for an occurrence of long ago of which nothing is kept."""
    if told is not None:
        at, note = datetime.fromisoformat(told["at"]), told.get("reason") or ", ".join(told.get("to") or ())
        return Step(at, stage.key, occurrence, _TOLD[told["what"]], note, None if action is None else action.id)
    if occurrence == stage.occurrence and occurrence > stage.begun:
        return Step(stage.at, stage.key, occurrence, stage.state, None, None if action is None else action.id)
    if action is not None:
        at = action.started_at or action.scheduled_at
        state = {"completed": "done", "pending": "begun", "processing": "begun"}.get(action.status, action.status)
        return Step(at, stage.key, occurrence, state, action.error_message, action.id)
    if occurrence == stage.begun and stage.last_at is not None:
        return Step(stage.last_at, stage.key, occurrence, "begun", None, None)
    return None


def _row(new_id: UUID, new: NewDeadline, now: datetime) -> dict[str, Any]:
    clock = book.clock_of(new.timezone, new.calendar)
    due_at = due_of(new, clock, now)
    values = book.row_values(
        new_id, due_at=due_at, stages=new.stages, clock=clock, now=now, recurrence=new.recurrence, anchor_at=due_at
    )
    if new.recurrence is not None:
        refuse_a_crowd(new.recurrence, values["stages"], clock, due_at)
    columns = {name: getattr(new, name) for name in _COLUMNS}
    return values | columns | {"recipients": list(new.recipients), "definition": new.definition}


def due_of(new: NewDeadline, clock: planning.Clock, now: datetime) -> datetime:
    """Return when a deadline is due first; aware.

    Raises:
        RecurrenceInvalid: Its rule names no occurrence after now.
    """
    if new.due_at is not None:
        return new.due_at
    if new.delay is not None:
        return now + new.delay
    assert new.recurrence is not None  # noqa: S101 - one of the three is there
    due_at = planning.next_of_series(
        new.recurrence, timezone=new.timezone, anchor=now, calendar=clock.calendar, after=now, budget=clock.budget
    )
    if due_at is None:
        raise RecurrenceInvalid(new.recurrence, "names no occurrence after now")
    return due_at


_COLUMNS = [
    field.name
    for field in fields(NewDeadline)
    if field.name in {"name", "team_id", "target_type", "target_id", "calendar", "metadata", "created_by"}
]
