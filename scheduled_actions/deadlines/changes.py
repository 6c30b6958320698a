"""Deadlines that are to be something else than was asked for at first: what is still to come is planned anew."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scheduled_actions.core import checks as arguments
from scheduled_actions.core import json_text
from scheduled_actions.core.errors import InvalidArgument, TypeNotOpen
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.core.requester import narrower, reach_of
from scheduled_actions.database.connection import whole
from scheduled_actions.database.transactions import borrowed_connection
from scheduled_actions.deadlines import shared as book
from scheduled_actions.deadlines import store
from scheduled_actions.deadlines.moves import counted, refuse_closed
from scheduled_actions.deadlines.operations import DeadlineOperations
from scheduled_actions.deadlines.rules import planning
from scheduled_actions.deadlines.rules.definition import ARGUMENT_OF, HOW_TO_BEGIN, HOW_TO_END, changed_deadline
from scheduled_actions.deadlines.rules.rows import asked_stages

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    import psycopg

    from scheduled_actions.core.requester import Requester
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.deadlines.model import Deadline, Stage
    from scheduled_actions.deadlines.rules.definition import NewDeadline

#: What a change of these asks for: notices on their way hold no more.
_SHAPING = ("stages", "timezone", "calendar")


class DeadlineChanges(DeadlineOperations):
    """Deadlines of one project, as their definitions change."""

    def update(
        self,
        reference: UUID | str,
        *,
        by: str | None = None,
        note: str | None = None,
        team_id: str | None = None,
        requester: Requester | None = None,
        connection: psycopg.Connection[Any] | None = None,
        **changes: Any,  # noqa: ANN401 - checked by name
    ) -> Deadline:
        """Change what is given of a deadline, and of those that follow it in its series; return it.

        What was sent stays sent, and what is still to come is planned anew. A rule changes what comes after the last
        deadline that was made: those that are there keep their due instants.

        Args:
            reference: Id or name.
            by: Who changes it, for the history.
            note: Why.
            team_id: Only within this team.
            requester: The token that asks over HTTP; None: application code.
            connection: Joins the caller's own transaction.
            changes: `target`, `reminders`, `escalation`, `auto_actions`, `recipients`, `recurrence`, `timezone`,
                `calendar`, `metadata`, as for `set_deadline`; None takes one back to its default.

        Raises:
            UnknownDeadline: There is none of that id or name (in that team).
            WrongDeadlineStatus: It was completed or cancelled.
            TypeNotOpen: The requester may not give it these auto-actions.
            RequestError: A new value cannot be; nothing was changed.
        """
        by, note = arguments.check_text("by", by), arguments.check_text("note", note)
        with self._borrowed(connection) as borrowed, whole(borrowed):
            found = book.locked(borrowed, reference, team_id)
            refuse_closed(reference, found.deadline)
            new = changed_deadline(found.deadline, asked_stages(found.deadline.definition), changes)
            if not _OF_PEOPLE.isdisjoint(changes):
                new = replace(new, reach=narrower(found.deadline.reach, reach_of(requester)))
            new = self._validated(new, set(), requester, given=changes)
            named = {"stages" if name in _STAGES else name for name in changes} | {"reach"}
            definition = {name: value for name, value in new.definition.items() if name in named}
            self._redefine(borrowed, found, new, definition, by=by, note=note)
            return book.read(borrowed, found.deadline.id)

    @contextmanager
    def locked(
        self, reference: UUID | str, *, team_id: str | None, connection: Connection | None = None
    ) -> Iterator[tuple[Deadline, Connection]]:
        """Give the deadline and a connection in whose transaction nobody else changes it.

        Raises:
            UnknownDeadline: There is none of that id or name (in that team).
        """
        with borrowed_connection(self._database, connection) as lent, lent.transaction():
            yield book.locked(lent, reference, team_id).deadline, lent

    def _brought_up_to_date(self, connection: Connection, found: store.Found, new: NewDeadline) -> Deadline:
        """Make a deadline what is asked for under its name."""
        before, now = found
        definition = new.definition
        if _is_alike(before.definition, definition) and before.problem is None:
            return before
        if before.series_id is not None:
            _refuse_another_start(before, new)
            self._redefine(connection, found, new, definition, by=new.created_by)
            return book.read(connection, before.id)
        if new.recurrence is not None:
            raise InvalidArgument("recurrence", new.recurrence, HOW_TO_BEGIN)
        changes = _columns(new) | {"recipients": list(new.recipients), "definition": definition}
        due_at = new.due_at if new.due_at is not None else now + (new.delay or now - now)
        changed = redefined(before, new, definition)
        self._move(connection, [(before, changed, due_at)], now=now, changes=changes, what="changed", by=new.created_by)
        return book.read(connection, before.id)

    def _redefine(
        self,
        connection: Connection,
        found: store.Found,
        new: NewDeadline,
        definition: Mapping[str, Any],
        *,
        by: str | None = None,
        note: str | None = None,
    ) -> None:
        """Give a deadline, and those that follow it, what is changed of their definition; their due instants stay."""
        first, now = found
        changed = {name for name, value in definition.items() if first.definition.get(name) != value}
        if not changed:
            return
        befores = self._from_it_on(connection, first)
        shared: dict[str, Any] = _columns(new) | {"revisions": int(not changed.isdisjoint(_SHAPING))}
        if "recipients" in changed:
            shared["recipients"] = list(new.recipients)
        if "recurrence" in changed:
            shared |= {"recurrence": new.recurrence, "anchor_at": max(one.occurrence_at or now for one in befores)}
        written: dict[UUID, Mapping[str, Any]] = {}
        planned: dict[UUID, Sequence[Stage]] = {}
        gone: set[store.Name] = set()
        budget = EvaluationBudget("the change")
        for before in befores:
            after = redefined(before, new, {**before.definition, **definition})
            if "recurrence" in changed:
                after = replace(after, recurrence=new.recurrence, anchor_at=shared["anchor_at"])
            stages = counted(after, now, budget)
            if after.recurrence is not None:
                refuse_a_crowd(after.recurrence, stages, planning.Clock.of(after, budget), after.due_at)
            entry = book.entry("changed", now, by=by, note=note, changes=sorted(changed - {"reach"}))
            written[before.id] = shared | {"definition": after.definition, "stages": stages, "entry": entry}
            planned[before.id] = stages if before.paused_at is None else []
            gone |= store.names_of(before.id, before.stages) - store.names_of(before.id, planned[before.id])
        store.write(connection, written)
        store.drop(connection, gone)
        store.plan_many(connection, planned)

    @staticmethod
    def _from_it_on(connection: Connection, first: Deadline) -> list[Deadline]:
        """Return a deadline and those that follow it in its series and are unresolved, all of them locked."""
        if first.series_id is None or first.occurrence_at is None:
            return [first]
        ids = store.ids_of_series(connection, first.series_id, since=first.occurrence_at)
        return [one.deadline for one in store.lock(connection, ids) if one.deadline.is_unresolved]

    # -- checking ------------------------------------------------------------------------------------------------------

    def _validated(
        self,
        new: NewDeadline,
        known: set[str],
        requester: Requester | None = None,
        *,
        given: Collection[str] | None = None,
    ) -> NewDeadline:
        """Return what is asked for; every type has a handler, every payload is one that it takes.

        Args:
            new: What the deadline is to be.
            known: Recipients that were checked before, as text; those of this one are added.
            requester: The token that asks over HTTP; None: application code.
            given: The arguments that the requester gives; None: all. The others were there before.
        """

        def asking(argument: str | None) -> Requester | None:
            return requester if given is None or argument in given else None

        told = [("recipients", new.recipients, asking("recipients"))]
        for stage in new.stages:
            asker = asking(ARGUMENT_OF.get(stage.kind))
            told += [
                (f"{stage.key}.{name}", to, asker) for name, to in (("to", stage.to), ("assign", stage.assign)) if to
            ]
        for name, recipients, asker in told:
            reach = reach_of(asker)
            text = f"{new.team_id is None} {reach} {recipients!r}"
            if text not in known:
                self._notifications.recipients.check(recipients, name=name, team_id=new.team_id, reach=reach)
                known.add(text)
        return replace(
            new, stages=tuple(self._with_payload(stage, asking(ARGUMENT_OF.get(stage.kind))) for stage in new.stages)
        )

    def _with_payload(self, stage: Stage, requester: Requester | None) -> Stage:
        if stage.kind != "action":
            self._payloads.handler(stage.action_type, requester=None)
            return stage
        try:
            prepared = self._payloads.prepare(stage.action_type, stage.payload, requester=requester)
        except TypeNotOpen as error:
            raise error.inside("auto_actions") from None
        return replace(stage, payload=json_text.decode(prepared.text))


_STAGES = frozenset({"reminders", "escalation", "auto_actions"})
#: Arguments that hold addresses.
_OF_PEOPLE = frozenset({"recipients", "reminders", "escalation"})


def _columns(new: NewDeadline) -> dict[str, Any]:
    names = ("timezone", "calendar", "target_type", "target_id", "metadata")
    return {name: getattr(new, name) for name in names}


def redefined(before: Deadline, new: NewDeadline, definition: Mapping[str, Any]) -> Deadline:
    """Return a deadline as it is to be, its stages as far as they had come."""
    stages = tuple(_with_progress(stage, before.stage(stage.key)) for stage in new.stages)
    return replace(before, timezone=new.timezone, calendar=new.calendar, stages=stages, definition=definition)


def _is_alike(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether both define the same; how far addresses reach stays as it was when they were first given."""
    return {**before, "reach": None} == {**after, "reach": None}


def _refuse_another_start(before: Deadline, new: NewDeadline) -> None:
    """Raise where what is asked for under the name of a series is another series."""
    if new.recurrence is None:
        raise InvalidArgument("recurrence", None, HOW_TO_END)
    for name in ("due_at", "delay"):
        asked, was = new.definition[name], before.definition.get(name)
        if asked != was:
            how = "move_deadline moves this one; cancel_deadline with series=True and set_deadline begin anew"
            raise InvalidArgument("due_at", asked, f"{was!r}, as it was: a series keeps its start; {how}")


def refuse_a_crowd(recurrence: str, stages: Sequence[Stage], clock: planning.Clock, due_at: datetime) -> None:
    """Refuse a series whose deadlines would be open beside one another by the hundred."""
    opens = planning.lead(stages, due_at=due_at, clock=clock)
    at: datetime | None = due_at
    for _ in range(planning.AHEAD_MOST):
        if at is None or at - due_at > due_at - opens:
            return
        at = planning.next_of_series(
            recurrence,
            timezone=clock.zone.key,
            anchor=due_at,
            calendar=clock.calendar,
            after=at,
            budget=clock.budget,
        )
    raise InvalidArgument(
        "recurrence", recurrence, f"rarer: before one is due, {planning.AHEAD_MOST} that follow it would be open"
    )


def _with_progress(stage: Stage, before: Stage | None) -> Stage:
    """Return a stage that has come as far as it had before it was changed."""
    if before is None:
        return stage
    return replace(
        stage,
        state=before.state,
        at=before.at,
        occurrence=before.occurrence,
        begun=before.begun,
        last_at=before.last_at,
    )
