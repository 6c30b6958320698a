"""Deadlines that get another due instant, or whose clock stands still: what is still to come is planned anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import DeadlineUnusable, InvalidArgument, UnknownDeadline, WrongDeadlineStatus
from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget
from scheduled_actions.database.connection import whole
from scheduled_actions.database.transactions import borrowed_connection
from scheduled_actions.deadlines import shared as book
from scheduled_actions.deadlines import store
from scheduled_actions.deadlines.rules import planning
from scheduled_actions.deadlines.rules.definition import due_instant
from scheduled_actions.schedules.rules import new_schedule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta
    from uuid import UUID

    import psycopg

    from scheduled_actions.actions.validation import PayloadAccess
    from scheduled_actions.database.connection import Connection, Database
    from scheduled_actions.deadlines.model import Deadline, Stage
    from scheduled_actions.notifications.planning import Notifications


NOT_ACKNOWLEDGED: dict[str, Any] = dict.fromkeys(("acknowledged_at", "acknowledged_by", "acknowledged_until"))
#: Deadlines that one call may move.
MOVED_MOST = 20_000
#: What a usual deadline takes of the budget of a move: where very many move, it grows with them.
_STEPS_EACH = 100


class DeadlineMoves:
    """Deadlines of one project, as they are moved, paused and resumed.

    Args:
        database: Where the tables are.
        payloads: Validates the types and payloads of auto-actions.
        notifications: Knows who can be told.
    """

    def __init__(self, database: Database, payloads: PayloadAccess, notifications: Notifications) -> None:
        self._database = database
        self._payloads = payloads
        self._notifications = notifications

    def _borrowed(self, connection: psycopg.Connection[Any] | None) -> AbstractContextManager[Connection]:
        return borrowed_connection(self._database, connection)

    # -- moving --------------------------------------------------------------------------------------------------------

    def move(
        self,
        reference: UUID | str,
        due_at: datetime | timedelta,
        *,
        again: bool | None = None,
        by: str | None = None,
        note: str | None = None,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Deadline:
        """Give a deadline another due instant; all that is still to come is planned anew. Return it.

        Args:
            reference: Id or name.
            due_at: Aware, or naive on the deadline's own clock; a timedelta counts from now.
            again: Whether what was sent is planned again, too, where it lies ahead. None: only where the deadline had
                been missed: it begins anew.
            by: Who moves it, for the history.
            note: Why.
            team_id: Only within this team.
            connection: Joins the caller's own transaction.

        Raises:
            UnknownDeadline: There is none of that id or name (in that team).
            WrongDeadlineStatus: It was completed or cancelled.
            InvalidArgument: The due instant cannot be.
        """
        by, note = arguments.check_text("by", by), arguments.check_text("note", note)
        with self._borrowed(connection) as borrowed, whole(borrowed):
            deadline, now = book.locked(borrowed, reference, team_id)
            refuse_closed(reference, deadline)
            moved_to = due_instant(due_at, deadline.timezone, now=now)
            self._move(borrowed, [(deadline, deadline, moved_to)], now=now, what="moved", by=by, note=note, again=again)
            return book.read(borrowed, deadline.id)

    def move_many(
        self,
        moves: Mapping[UUID | str, datetime | timedelta],
        *,
        again: bool | None = None,
        by: str | None = None,
        note: str | None = None,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> int:
        """Give many deadlines, by their ids, other due instants in one transaction; return how many. All, or none.

        Raises:
            UnknownDeadline: One is not there (in that team).
            WrongDeadlineStatus: One was completed or cancelled.
            InvalidArgument: A due instant cannot be, what should be an id is none, or they are more than 20,000.
            BudgetExceeded: Their stages together take too many steps to plan.
        """
        if not isinstance(moves, Mapping):
            raise InvalidArgument("moves", moves, "an object of new due instants by the deadlines' ids")
        if len(moves) > MOVED_MOST:
            raise InvalidArgument("moves", len(moves), f"at most {MOVED_MOST:,} at once")
        by, note = arguments.check_text("by", by), arguments.check_text("note", note)
        by_id = {_id_of(given): due_at for given, due_at in moves.items()}
        with self._borrowed(connection) as borrowed, whole(borrowed):
            rows = store.lock(borrowed, by_id, team_id=team_id)
            found = {one.deadline.id: one.deadline for one in rows}
            moved = []
            for deadline_id, due_at in by_id.items():
                if deadline_id not in found:
                    raise UnknownDeadline(deadline_id)
                deadline, now = found[deadline_id], rows[0].now
                refuse_closed(deadline_id, deadline)
                moved.append((deadline, deadline, due_instant(due_at, deadline.timezone, now=now)))
            if moved:
                self._move(borrowed, moved, now=rows[0].now, what="moved", by=by, note=note, again=again)
            return len(moved)

    def _move(
        self,
        connection: Connection,
        moves: Sequence[tuple[Deadline, Deadline, datetime]],
        *,
        now: datetime,
        what: str,
        by: str | None = None,
        note: str | None = None,
        again: bool | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> None:
        """Give deadlines, as they were and as they are to be, their due instants, and plan what is still to come."""
        written: dict[UUID, Mapping[str, Any]] = {}
        planned: dict[UUID, Sequence[Stage]] = {}
        gone: set[store.Name] = set()
        budget = EvaluationBudget("the move", steps=max(STEPS, _STEPS_EACH * len(moves)))
        for before, deadline, due_at in moves:
            is_again = before.status == "missed" if again is None else again
            stages = [
                _once_more(deadline, one) if _comes_again(before, one, is_again) else one for one in deadline.stages
            ]
            stages = list(counted(replace(deadline, stages=tuple(stages), due_at=due_at), now, budget))
            entry = book.entry(what, now, by=by, note=note, due_at=due_at, before=before.due_at)
            written[before.id] = {
                **(changes or {}), **NOT_ACKNOWLEDGED,
                "due_at": due_at, "status": "open", "missed_at": None, "stages": stages, "revisions": 1, "entry": entry,
            }  # fmt: skip
            planned[before.id] = stages if before.paused_at is None else []
            gone |= store.names_of(before.id, before.stages) - store.names_of(before.id, planned[before.id])
        store.write(connection, written)
        store.drop(connection, gone)
        store.plan_many(connection, planned)

    # -- the clock -----------------------------------------------------------------------------------------------------

    def pause(
        self,
        reference: UUID | str,
        *,
        by: str | None = None,
        note: str | None = None,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Deadline:
        """Let a deadline's clock stand still: nothing of it comes until it is resumed. Return it.

        Raises:
            UnknownDeadline: There is none of that id or name (in that team).
            WrongDeadlineStatus: It is not open.
        """
        by, note = arguments.check_text("by", by), arguments.check_text("note", note)
        with self._borrowed(connection) as borrowed, whole(borrowed):
            deadline, now = book.locked(borrowed, reference, team_id)
            if deadline.status != "open":
                raise WrongDeadlineStatus(reference, deadline.status, "open")
            refuse_unusable(reference, deadline)
            if deadline.paused_at is not None:
                return deadline
            changes = {"paused_at": now, "revisions": 1, "entry": book.entry("paused", now, by=by, note=note)}
            store.write(borrowed, {deadline.id: changes})
            # The next of a series is made all the same.
            stages = [stage for stage in deadline.stages if stage.kind != "renewal"]
            store.drop(borrowed, store.names_of(deadline.id, stages))
            return book.read(borrowed, deadline.id)

    def resume(
        self,
        reference: UUID | str,
        *,
        by: str | None = None,
        note: str | None = None,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Deadline:
        """Let a deadline's clock go on: as much working time lies ahead as when it was paused. Return it.

        In a calendar working time is that of its business days and hours; without one it is all time.

        Raises:
            UnknownDeadline: There is none of that id or name (in that team).
            WrongDeadlineStatus: It was completed, cancelled or missed.
        """
        by, note = arguments.check_text("by", by), arguments.check_text("note", note)
        with self._borrowed(connection) as borrowed, whole(borrowed):
            deadline, now = book.locked(borrowed, reference, team_id)
            if deadline.status != "open":
                raise WrongDeadlineStatus(reference, deadline.status, "open")
            refuse_unusable(reference, deadline)
            if deadline.paused_at is None:
                return deadline
            due_at = planning.resumed_due(deadline, now)
            stages = counted(replace(deadline, due_at=due_at), now)
            entry = book.entry("resumed", now, by=by, note=note, due_at=due_at, before=deadline.due_at)
            changes = {"paused_at": None, "due_at": due_at, "stages": stages, "revisions": 1, "entry": entry}
            store.write(borrowed, {deadline.id: changes})
            store.plan(borrowed, deadline.id, stages)
            return book.read(borrowed, deadline.id)


def _id_of(given: UUID | str) -> UUID:
    deadline_id, _ = new_schedule.reference(given)
    if deadline_id is None:
        raise InvalidArgument("moves", given, "the id of a deadline: names move one by one, by `move_deadline`")
    return deadline_id


def refuse_closed(reference: object, deadline: Deadline) -> None:
    """Raise where a deadline is completed or cancelled, or its row cannot be used."""
    if not deadline.is_unresolved:
        raise WrongDeadlineStatus(reference, deadline.status, "open and missed")
    refuse_unusable(reference, deadline)


def refuse_unusable(reference: object, deadline: Deadline) -> None:
    """Raise where the row of a deadline cannot be used: a change would write back less than it holds."""
    if deadline.problem is not None:
        raise DeadlineUnusable(reference, deadline.problem)


def counted(deadline: Deadline, now: datetime, budget: EvaluationBudget | None = None) -> tuple[Stage, ...]:
    """Return a deadline's stages with the instants of what is still to come.

    Raises:
        BudgetExceeded: They take more steps than the budget, or one of the deadline's own, has left.
    """
    return book.counted(
        deadline.stages,
        due_at=deadline.due_at,
        clock=planning.Clock.of(deadline, budget),
        now=now,
        following=book.following_of(deadline, budget) if deadline.next_id is None else None,
    )


def _comes_again(before: Deadline, stage: Stage, is_again: bool) -> bool:  # noqa: FBT001 - what a move asks of each stage
    if stage.state != "begun" or stage.kind == "renewal":
        return False
    # A deadline that was missed can be missed again.
    return is_again or (stage.kind == "due" and before.status == "missed")


def _once_more(deadline: Deadline, stage: Stage) -> Stage:
    """Return a stage of which all had begun, as it was before: its occurrences are counted on."""
    asked = {one["key"]: one for one in deadline.definition.get("stages", ())}.get(stage.key, {})
    times = asked.get("times")
    return replace(
        stage, state="planned", occurrence=stage.begun + 1, times=None if times is None else stage.begun + times
    )
