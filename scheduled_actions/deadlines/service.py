"""Set, update and move deadlines; `deadlines.operations` has the other changes.

Each change locks the deadline first. An action that is about to start takes the same lock, so after a change has
returned, no action that it invalidated can start.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from scheduled_actions.actions.model import UNSET, Unset
from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument, UnknownDeadline
from scheduled_actions.core.requester import Requester, narrower, reach_of
from scheduled_actions.core.wake import Wake
from scheduled_actions.database.connection import Connection, Database, atomic
from scheduled_actions.database.transactions import announce, borrowed_connection
from scheduled_actions.deadlines import changes as change, creation, store
from scheduled_actions.deadlines.changes import SetOutcome, refuse_closed
from scheduled_actions.deadlines.model import Deadline
from scheduled_actions.deadlines.rules.common import CommonArguments
from scheduled_actions.deadlines.rules.definition import ARGUMENT_OF, NewDeadline, changed_deadline, due_instant
from scheduled_actions.deadlines.rules.rows import asked_stages
from scheduled_actions.deadlines.validation import DeadlineValidator
from scheduled_actions.schedules.rules import new_schedule

#: Maximum number of deadlines that one call sets or moves.
MAX_DEADLINES = 20_000
#: Arguments that contain addresses.
_ADDRESS_ARGUMENTS = frozenset({"recipients", "reminders", "escalation"})


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The deadlines of one project; `deadlines.reading` lists them."""

    database: Database
    validator: DeadlineValidator
    #: Starts a tick for stages that may be due now; None leaves them to the cron.
    wake: Wake | None = None

    def get(self, reference: UUID | str, *, team_id: str | None = None) -> Deadline:
        """Return a deadline by id or name.

        If several deadlines have that name, the unresolved one that is due first is returned; if all are resolved, the
        newest.

        Args:
            reference: Id or name.
            team_id: Only within this team. None: by id, any deadline; by name, only a deadline without a team.

        Raises:
            UnknownDeadline: No deadline has that id or name (in that team).
        """
        arguments.check_text("team_id", team_id)
        with borrowed_connection(self.database, None) as borrowed:
            return store.read(borrowed, reference, team_id)

    @contextmanager
    def locked(
        self, reference: UUID | str, *, team_id: str | None, connection: psycopg.Connection[Any] | None = None
    ) -> Iterator[tuple[Deadline, Connection]]:
        """Lock a deadline inside the block; yield the deadline and the connection that holds the lock.

        Args:
            reference: Id or name.
            team_id: Only within this team; None: as for `get`.
            connection: Joins the caller's transaction; None: a new transaction, which ends with the block.

        Raises:
            UnknownDeadline: No deadline has that id or name (in that team).
        """
        with self.changing(reference, team_id, connection) as (lent, deadline, _):
            yield deadline, lent

    @contextmanager
    def changing(
        self, reference: UUID | str, team_id: str | None, connection: psycopg.Connection[Any] | None, *statuses: str
    ) -> Iterator[tuple[Connection, Deadline, datetime]]:
        """Open or join a transaction; yield its connection, the locked deadline, and the database's current time.

        After the commit of its own transaction, a tick is woken.

        Args:
            reference: Id or name.
            team_id: Only within this team; None: as for `get`.
            connection: Joins the caller's transaction; None: a new transaction, which ends with the block.
            statuses: The statuses in which the deadline may be changed; none: every status.

        Raises:
            UnknownDeadline: No deadline has that id or name (in that team).
            WrongDeadlineStatus: `statuses` are given, and the deadline has another status.
            DeadlineUnusable: `statuses` are given, and the stored row is invalid.
            DeadlineNotApplied: `statuses` are given, SQL has reserved the deadline, and no tick has applied the call.
        """
        with borrowed_connection(self.database, connection) as lent, atomic(lent):
            deadline, now = store.lock_one(lent, reference, team_id)
            if statuses:
                refuse_closed(reference, deadline, *statuses)
                store.refuse_reserved(lent, reference, deadline)
            yield lent, deadline, now
        announce(self.wake, connection)

    def set(
        self,
        given: Mapping[str, Any],
        *,
        requester: Requester | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> tuple[Deadline, SetOutcome]:
        """Create a deadline, or update the unresolved deadline with the same name in its team.

        Arguments equal to the stored ones change nothing. A change of a single deadline also has the effects of `move`:
        a missed deadline becomes open again, and an acknowledgement ends. A change of a series also applies to its
        later unresolved deadlines.

        Args:
            given: The arguments of `set_deadline`.
            requester: The token of an HTTP request; None: application code.
            connection: Joins the caller's transaction.

        Returns:
            The deadline, and whether it was created, changed or left unchanged.

        Raises:
            RequestError: An argument is invalid, a type has no handler or is not open to the requester, or a payload is
                invalid; nothing was changed.
            DeadlineUnusable: The stored row of a deadline in the series is invalid; nothing was changed.
            DatabaseUnavailable: The database cannot be reached; nothing was changed.
        """
        new = self.validator.validate(given, requester)
        with borrowed_connection(self.database, connection) as lent, atomic(lent):
            # If another session creates a deadline of this name at the same time, the second attempt updates it.
            result: tuple[Deadline, SetOutcome]
            for _ in range(2):
                if (found := _lock_by_name(lent, new)) is not None:
                    result = change.update_by_name(lent, found, new)
                    break
                if created := creation.create(lent, [new]):
                    result = store.read(lent, created[0]), "created"
                    break
            else:
                raise UnknownDeadline(new.name)
        announce(self.wake, connection)
        return result

    def set_many(
        self, given: Sequence[Mapping[str, Any]], *, connection: psycopg.Connection[Any] | None = None
    ) -> list[UUID]:
        """Create many deadlines, all or none; return their ids in order.

        Args:
            given: At most 20,000 mappings, each with the arguments of `set_deadline`.
            connection: Joins the caller's transaction.

        Raises:
            RequestError: As for `set`, or a name is given twice or belongs to an unresolved deadline of the team. If an
                argument is invalid, a note of the exception contains the position of the deadline in the list.
            DatabaseUnavailable: The database cannot be reached; nothing was created.
        """
        arguments.check_list("deadlines", given, most=MAX_DEADLINES)
        checked: list[NewDeadline] = []
        common = CommonArguments()
        for position, one in enumerate(given):
            try:
                checked.append(self.validator.validate(one, None, common))
            except Exception as error:
                error.add_note(f"in deadlines[{position}]")
                raise
        if not checked:
            return []
        with borrowed_connection(self.database, connection) as lent, atomic(lent):
            created = creation.create(lent, checked)
            if len(created) < len(checked):
                raise InvalidArgument(
                    "name", problem="is given twice, or already in use by an unresolved deadline of the team"
                )
        announce(self.wake, connection)
        return created

    def update(
        self,
        reference: UUID | str,
        *,
        target: Mapping[str, str] | Unset = UNSET,
        reminders: Sequence[Any] | Unset | None = UNSET,
        escalation: Sequence[Any] | Mapping[str, Any] | Unset | None = UNSET,
        auto_actions: Sequence[Mapping[str, Any]] | Unset | None = UNSET,
        recipients: Any = UNSET,  # noqa: ANN401 - addresses, names of roles, objects
        recurrence: str | Unset | None = UNSET,
        timezone: str | Unset | None = UNSET,
        calendar: Mapping[str, Any] | Unset | None = UNSET,
        metadata: Mapping[str, Any] | Unset | None = UNSET,
        by: str | None = None,
        reason: str | None = None,
        team_id: str | None = None,
        requester: Requester | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Deadline:
        """Change the arguments of a deadline and of the later unresolved deadlines in its series; return the deadline.

        Future stages are planned again. A new rule applies after the last existing deadline of the series; existing due
        instants do not change. Omitted arguments keep their values; None restores the default of `set_deadline`.

        Args:
            reference: Id or name.
            target: `{"type", "id"}` of the entity; not None.
            reminders: Replaces all reminders.
            escalation: Replaces all escalation levels.
            auto_actions: Replaces all auto-actions.
            recipients: Replaces the recipients.
            recurrence: The new rule of a series; not None, and not for a single deadline.
            timezone: IANA name.
            calendar: Replaces the working calendar.
            metadata: Replaces the metadata.
            by: Who changes the deadline, for the history.
            reason: The reason, for the history.
            team_id: Only within this team; None: as for `get`.
            requester: The token of an HTTP request; None: application code.
            connection: Joins the caller's transaction.

        Raises:
            UnknownDeadline: No deadline has that id or name (in that team).
            WrongDeadlineStatus: The deadline is completed or cancelled.
            DeadlineUnusable: The stored row is invalid.
            ActionTypeForbidden: The requester may not schedule an auto-action.
            RequestError: A value is invalid; nothing was changed.
        """
        given = {
            "target": target, "reminders": reminders, "escalation": escalation, "auto_actions": auto_actions,
            "recipients": recipients, "recurrence": recurrence, "timezone": timezone, "calendar": calendar,
            "metadata": metadata,
        }  # fmt: skip
        changes = {name: value for name, value in given.items() if value is not UNSET}
        with self.changing(reference, team_id, connection, "open", "missed") as (lent, before, now):
            new = changed_deadline(before, asked_stages(before.definition), changes)
            if not _ADDRESS_ARGUMENTS.isdisjoint(changes):
                new = replace(new, reach=narrower(before.reach, reach_of(requester)))
            new = self.validator.check(new, requester, given=changes)
            named = {"stages" if name in ARGUMENT_OF.values() else name for name in changes} | {"reach"}
            definition = {name: value for name, value in new.definition.items() if name in named}
            change.redefine(lent, store.DeadlineSnapshot(before, now), new, definition, by=by, reason=reason)
            return store.read(lent, before.id)

    def move(
        self,
        reference: UUID | str,
        due_at: datetime | date | str | timedelta,
        *,
        resend: bool | None = None,
        by: str | None = None,
        reason: str | None = None,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Deadline:
        """Change the due instant of a deadline and plan its stages again; return the deadline.

        A missed deadline becomes open again, and an acknowledgement ends.

        Args:
            reference: Id or name.
            due_at: A time with an offset or in the deadline's time zone, a day (its last second in that time zone), or
                a timedelta from now.
            resend: Whether to plan stages again that have already run; None: only if the deadline was missed.
            by: Who moves the deadline, for the history.
            reason: The reason, for the history.
            team_id: Only within this team; None: as for `get`.
            connection: Joins the caller's transaction.

        Raises:
            UnknownDeadline: No deadline has that id or name (in that team).
            WrongDeadlineStatus: The deadline is completed or cancelled.
            DeadlineUnusable: The stored row is invalid.
            InvalidArgument: The due instant is invalid, or a stage has no instant for it.
            BudgetExceeded: Planning the stages takes too many steps.
        """
        with self.changing(reference, team_id, connection, "open", "missed") as (lent, deadline, now):
            to = due_instant(due_at, deadline.timezone, now=now)
            change.move(lent, [(deadline, deadline, to)], now, by=by, reason=reason, resend=resend)
            return store.read(lent, deadline.id)

    def move_many(
        self,
        moves: Mapping[UUID | str, datetime | date | str | timedelta],
        *,
        resend: bool | None = None,
        by: str | None = None,
        reason: str | None = None,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> int:
        """Change the due instants of many deadlines, all or none; return the number of deadlines.

        Args:
            moves: The new due instant of each deadline, by id; due instants are given as for `move`.
            resend: As for `move`.
            by: Who moves the deadlines, for the history.
            reason: The reason, for the history.
            team_id: Only within this team; None: any deadline.
            connection: Joins the caller's transaction.

        Raises:
            UnknownDeadline: A deadline does not exist (in that team).
            WrongDeadlineStatus: A deadline is completed or cancelled.
            DeadlineUnusable: A stored row is invalid.
            InvalidArgument: A due instant or an id is invalid, a stage has no instant for its new due instant, or there
                are more than 20,000 deadlines.
            BudgetExceeded: Planning the stages takes too many steps.
        """
        if not isinstance(moves, Mapping):
            raise InvalidArgument("moves", moves, "an object that maps the ids of deadlines to new due instants")
        if len(moves) > MAX_DEADLINES:
            raise InvalidArgument(
                "moves", len(moves), problem=f"has {len(moves):,} deadlines; the maximum is {MAX_DEADLINES:,}"
            )
        by_id = {_id_of(given): due_at for given, due_at in moves.items()}
        moved = []
        with borrowed_connection(self.database, connection) as lent, atomic(lent):
            rows = {one.deadline.id: one for one in store.lock(lent, by_id, team_id=team_id)}
            for deadline_id, due_at in by_id.items():
                if deadline_id not in rows:
                    raise UnknownDeadline(deadline_id)
                deadline, now = rows[deadline_id]
                refuse_closed(deadline_id, deadline)
                store.refuse_reserved(lent, deadline_id, deadline)
                moved.append((deadline, deadline, due_instant(due_at, deadline.timezone, now=now)))
            if moved:
                change.move(lent, moved, next(iter(rows.values())).now, by=by, reason=reason, resend=resend)
        announce(self.wake, connection)
        return len(moved)


def _lock_by_name(connection: Connection, new: NewDeadline) -> store.DeadlineSnapshot | None:
    """Return the unresolved deadline with that name in its team, locked; None if there is none."""
    found = None if new.name is None else store.get(connection, new.name, new.team_id)
    if found is None or not found.deadline.is_unresolved:
        return None
    # None if another session has just replaced the row, which had only reserved the name.
    locked = next(iter(store.lock(connection, [found.deadline.id])), None)
    return locked if locked is not None and locked.deadline.is_unresolved else None


def _id_of(given: UUID | str) -> UUID:
    deadline_id, _ = new_schedule.reference(given)
    if deadline_id is None:
        raise InvalidArgument("moves", given, "the id of a deadline; to move a deadline by name, use move_deadline")
    return deadline_id
