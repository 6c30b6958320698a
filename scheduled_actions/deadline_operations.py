"""What is done to deadlines that are there: complete, move, cancel, pause, resume, acknowledge, reassign.

Each locks the deadline first. Whatever is about to begin to be sent holds the same lock the other way round, so that a
change returns only when nothing that no longer holds can begin.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scheduled_actions import arguments
from scheduled_actions import deadline_book as book
from scheduled_actions.deadline_rules import planning
from scheduled_actions.deadline_rules import stages as stage_rules
from scheduled_actions.deadline_rules.definition import due_instant
from scheduled_actions.errors import InvalidArgument, UnknownDeadline, WrongDeadlineStatus
from scheduled_actions.scheduler import borrowed_connection
from scheduled_actions.store import deadlines as store
from scheduled_actions.store.connection import whole

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import timedelta
    from uuid import UUID

    import psycopg

    from scheduled_actions.deadline import Deadline, Stage
    from scheduled_actions.notifications import Notifications
    from scheduled_actions.registry import Registry
    from scheduled_actions.store.connection import Connection, Database

_NOT_ACKNOWLEDGED: dict[str, Any] = dict.fromkeys(("acknowledged_at", "acknowledged_by", "acknowledged_until"))


class DeadlineOperations:
    """Deadlines of one project, as those who keep them see them.

    Args:
        database: Where the tables are.
        registry: Validates the payloads of auto-actions.
        notifications: Knows who can be told.
    """

    def __init__(self, database: Database, registry: Registry, notifications: Notifications) -> None:
        self._database = database
        self._registry = registry
        self._notifications = notifications

    def _borrowed(self, connection: psycopg.Connection[Any] | None) -> AbstractContextManager[Connection]:
        return borrowed_connection(self._database, connection)

    # -- ending --------------------------------------------------------------------------------------------------------

    def complete(
        self,
        reference: UUID | str,
        *,
        at: datetime | None = None,
        by: str | None = None,
        note: str | None = None,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Deadline:
        """Complete a deadline: nothing of it is sent or begun any more. Return it; `days_late` says whether in time.

        A completed one stays as it is. The next of a series is made, unless it is there.

        Args:
            reference: Id or name.
            at: When it was done, aware and not in the future; None: now.
            by: Who says so, for the history.
            note: Why, or how.
            team_id: Only within this team.
            connection: Joins the caller's own transaction: what waits is held back until that ends.

        Raises:
            UnknownDeadline: There is none of that id or name (in that team).
            WrongDeadlineStatus: It was cancelled.
            InvalidArgument: `at` lies in the future.
        """
        done_at = arguments.check_aware("at", at)
        by, note = arguments.check_text("by", by), arguments.check_text("note", note)
        with self._borrowed(connection) as borrowed, whole(borrowed):
            deadline, now = book.locked(borrowed, reference, team_id)
            if deadline.status == "completed":
                return deadline
            if deadline.status == "cancelled":
                raise WrongDeadlineStatus(reference, deadline.status, "open and missed")
            closed_at = now if done_at is None else done_at.astimezone(UTC)
            if closed_at > now:
                raise InvalidArgument("at", at, "now or earlier")
            due_at = planning.resumed_due(deadline, closed_at)
            late = planning.days_late(due_at, closed_at)
            changes = {"due_at": due_at, "days_late": late, "note": note, "closed_at": closed_at}
            entry = book.entry("completed", now, by=by, note=note, days_late=late)
            return self._closed(borrowed, deadline, now, changes, entry)

    def cancel(
        self,
        reference: UUID | str,
        *,
        reason: str | None = None,
        by: str | None = None,
        series: bool = False,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Deadline:
        """Cancel a deadline: it need not be met. Return it; a cancelled one stays as it is.

        Args:
            reference: Id or name.
            reason: Why.
            by: Who says so, for the history.
            series: With it the series ends: those that follow are cancelled, too, and none is made any more.
            team_id: Only within this team.
            connection: Joins the caller's own transaction.

        Raises:
            UnknownDeadline: There is none of that id or name (in that team).
            WrongDeadlineStatus: It was completed (and the series is to go on).
        """
        by, reason = arguments.check_text("by", by), arguments.check_text("reason", reason)
        with self._borrowed(connection) as borrowed, whole(borrowed):
            deadline, now = book.locked(borrowed, reference, team_id)
            if deadline.status == "completed" and not series:
                raise WrongDeadlineStatus(reference, deadline.status, "open and missed")
            if series:
                self._end_series(borrowed, deadline, now, reason=reason, by=by)
                return book.read(borrowed, deadline.id)
            if deadline.status == "cancelled":
                return deadline
            entry = book.entry("cancelled", now, by=by, reason=reason)
            return self._closed(borrowed, deadline, now, {"note": reason}, entry)

    def _closed(
        self,
        connection: Connection,
        deadline: Deadline,
        now: datetime,
        changes: Mapping[str, Any],
        entry: Mapping[str, Any],
    ) -> Deadline:
        status = entry["what"]
        values = {
            "status": status,
            "closed_at": now,
            "closed_by": entry.get("by"),
            "paused_at": None,
            "stages": _withdrawn(deadline.stages),
            "revisions": 1,
            "entry": entry,
            **changes,
        }
        store.write(connection, {deadline.id: values})
        store.withdraw(connection, [deadline.id], reason=f"the deadline is {status}", by=entry.get("by"))
        book.succeed(connection, deadline, now)
        return book.read(connection, deadline.id)

    def _end_series(
        self, connection: Connection, deadline: Deadline, now: datetime, *, reason: str | None, by: str | None
    ) -> None:
        """Cancel a deadline and those that follow it, and let none follow."""
        ids = {deadline.id}
        if deadline.series_id is not None and deadline.occurrence_at is not None:
            ids |= set(store.ids_of_series(connection, deadline.series_id, since=deadline.occurrence_at))
        found = [one.deadline for one in store.lock(connection, ids)]
        entry = book.entry("cancelled", now, by=by, reason=reason, series=True)
        closing = {"status": "cancelled", "closed_at": now, "closed_by": by, "note": reason, "paused_at": None}
        # The last one names itself as the one that follows: nothing is made after it.
        store.write(
            connection,
            {
                one.id: {"entry": entry, "revisions": 1, "next_id": one.next_id or one.id}
                | ({"stages": _withdrawn(one.stages), **closing} if one.is_unresolved else {})
                for one in found
            },
        )
        store.withdraw(connection, ids, reason="the series is cancelled", by=by)

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
            _refuse_closed(reference, deadline)
            moved_to = due_instant(due_at, deadline.timezone, now=now)
            self._move(borrowed, [(deadline, deadline, moved_to)], now=now, what="moved", by=by, note=note, again=again)
            return book.read(borrowed, deadline.id)

    def move_many(
        self,
        moves: Mapping[UUID, datetime | timedelta],
        *,
        again: bool | None = None,
        by: str | None = None,
        note: str | None = None,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> int:
        """Give many deadlines other due instants in one transaction; return how many. All of them, or none.

        Raises:
            UnknownDeadline: One is not there (in that team).
            WrongDeadlineStatus: One was completed or cancelled.
            InvalidArgument: A due instant cannot be, or they are more than 20,000.
        """
        if len(moves) > MOVED_MOST:
            raise InvalidArgument("moves", len(moves), f"at most {MOVED_MOST:,} at once")
        by, note = arguments.check_text("by", by), arguments.check_text("note", note)
        with self._borrowed(connection) as borrowed, whole(borrowed):
            rows = store.lock(borrowed, moves, team_id=team_id)
            found = {one.deadline.id: one.deadline for one in rows}
            moved = []
            for deadline_id, due_at in moves.items():
                if deadline_id not in found:
                    raise UnknownDeadline(deadline_id)
                deadline, now = found[deadline_id], rows[0].now
                _refuse_closed(deadline_id, deadline)
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
        for before, deadline, due_at in moves:
            is_again = before.status == "missed" if again is None else again
            stages = [
                _once_more(deadline, one) if _comes_again(before, one, is_again) else one for one in deadline.stages
            ]
            stages = list(_counted(replace(deadline, stages=tuple(stages), due_at=due_at), now))
            entry = book.entry(what, now, by=by, note=note, due_at=due_at, before=before.due_at)
            written[before.id] = {
                **(changes or {}), **_NOT_ACKNOWLEDGED,
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
            if deadline.paused_at is None:
                return deadline
            due_at = planning.resumed_due(deadline, now)
            stages = _counted(replace(deadline, due_at=due_at), now)
            entry = book.entry("resumed", now, by=by, note=note, due_at=due_at, before=deadline.due_at)
            changes = {"paused_at": None, "due_at": due_at, "stages": stages, "revisions": 1, "entry": entry}
            store.write(borrowed, {deadline.id: changes})
            store.plan(borrowed, deadline.id, stages)
            return book.read(borrowed, deadline.id)

    # -- people --------------------------------------------------------------------------------------------------------

    def acknowledge(
        self,
        reference: UUID | str,
        *,
        until: datetime | timedelta | None = None,
        by: str | None = None,
        note: str | None = None,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Deadline:
        """Silence the nagging of a deadline that somebody works on; the escalation goes on. Return it.

        Args:
            reference: Id or name.
            until: Aware, or naive on the deadline's own clock; a timedelta counts from now. None: until it is resolved
                or moved.
            by: Who works on it.
            note: What they say.
            team_id: Only within this team.
            connection: Joins the caller's own transaction.

        Raises:
            UnknownDeadline: There is none of that id or name (in that team).
            WrongDeadlineStatus: It was completed or cancelled.
            InvalidArgument: `until` is not in the future.
        """
        by, note = arguments.check_text("by", by), arguments.check_text("note", note)
        with self._borrowed(connection) as borrowed, whole(borrowed):
            deadline, now = book.locked(borrowed, reference, team_id)
            _refuse_closed(reference, deadline)
            end = None
            if until is not None:
                end = _end(until, deadline.timezone, now)
            changes = {
                "acknowledged_at": now,
                "acknowledged_by": by,
                "acknowledged_until": end,
                "entry": book.entry("acknowledged", now, by=by, note=note, until=end),
            }
            store.write(borrowed, {deadline.id: changes})
            return book.read(borrowed, deadline.id)

    def reassign(
        self,
        reference: UUID | str,
        recipients: Any,  # noqa: ANN401 - addresses, names of roles, objects
        *,
        by: str | None = None,
        note: str | None = None,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Deadline:
        """Make other people responsible: what is still to come goes to them. Return the deadline.

        Raises:
            UnknownDeadline: There is none of that id or name (in that team).
            WrongDeadlineStatus: It was completed or cancelled.
            InvalidArgument: The recipients are none.
        """
        to = stage_rules.recipients_of("recipients", recipients)
        if not to:
            raise InvalidArgument("recipients", recipients, "somebody: an address, or a list of them")
        by, note = arguments.check_text("by", by), arguments.check_text("note", note)
        with self._borrowed(connection) as borrowed, whole(borrowed):
            deadline, now = book.locked(borrowed, reference, team_id)
            _refuse_closed(reference, deadline)
            self._notifications.check(to, name="recipients", team_id=deadline.team_id)
            entry = book.entry("reassigned", now, by=by, note=note, to=list(to), before=list(deadline.recipients))
            store.write(borrowed, {deadline.id: {"recipients": list(to), "entry": entry, **_NOT_ACKNOWLEDGED}})
            return book.read(borrowed, deadline.id)


#: Deadlines that one call may move.
MOVED_MOST = 20_000


def _refuse_closed(reference: object, deadline: Deadline) -> None:
    if not deadline.is_unresolved:
        raise WrongDeadlineStatus(reference, deadline.status, "open and missed")


def _end(until: datetime | timedelta, timezone: str, now: datetime) -> datetime:
    try:
        at = due_instant(until, timezone, now=now)
    except InvalidArgument as error:
        raise InvalidArgument("until", until, error.expected) from None
    if at <= now:
        raise InvalidArgument("until", until, "after now")
    return at


def _counted(deadline: Deadline, now: datetime) -> tuple[Stage, ...]:
    return book.counted(
        deadline.stages,
        due_at=deadline.due_at,
        clock=planning.Clock.of(deadline),
        now=now,
        following=book.following_of(deadline) if deadline.next_id is None else None,
    )


def _withdrawn(stages: Collection[Stage]) -> list[Stage]:
    return [replace(stage, state="withdrawn") if stage.state in {"planned", "left_out"} else stage for stage in stages]


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
