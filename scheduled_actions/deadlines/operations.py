"""What is done to deadlines that are there: complete, cancel, acknowledge, reassign; and what moves them.

Each locks the deadline first. Whatever is about to begin to be sent holds the same lock the other way round, so that a
change returns only when nothing that no longer holds can begin.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument, WrongDeadlineStatus
from scheduled_actions.core.requester import narrower, reach_of
from scheduled_actions.database.connection import whole
from scheduled_actions.deadlines import shared as book
from scheduled_actions.deadlines import store
from scheduled_actions.deadlines.moves import NOT_ACKNOWLEDGED, DeadlineMoves, refuse_closed
from scheduled_actions.deadlines.rules import planning
from scheduled_actions.deadlines.rules import stages as stage_rules
from scheduled_actions.deadlines.rules.definition import due_instant

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import timedelta
    from uuid import UUID

    import psycopg

    from scheduled_actions.core.requester import Requester
    from scheduled_actions.database.connection import Connection
    from scheduled_actions.deadlines.model import Deadline, Stage


class DeadlineOperations(DeadlineMoves):
    """Deadlines of one project, as those who keep them see them."""

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
            refuse_closed(reference, deadline)
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
        requester: Requester | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Deadline:
        """Make other people responsible: what is still to come goes to them. Return the deadline.

        Once this has returned, no notice to those who are no recipients any more begins to be sent.

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
            refuse_closed(reference, deadline)
            reach = reach_of(requester)
            self._notifications.recipients.check(to, name="recipients", team_id=deadline.team_id, reach=reach)
            entry = book.entry("reassigned", now, by=by, note=note, to=list(to), before=list(deadline.recipients))
            changes: dict[str, Any] = {"recipients": list(to), "entry": entry, **NOT_ACKNOWLEDGED}
            if reach is not None:
                changes["definition"] = {**deadline.definition, "reach": narrower(deadline.reach, reach)}
            store.write(borrowed, {deadline.id: changes})
            return book.read(borrowed, deadline.id)


def _end(until: datetime | timedelta, timezone: str, now: datetime) -> datetime:
    try:
        at = due_instant(until, timezone, now=now)
    except InvalidArgument as error:
        raise InvalidArgument("until", until, error.expected) from None
    if at <= now:
        raise InvalidArgument("until", until, "after now")
    return at


def _withdrawn(stages: Collection[Stage]) -> list[Stage]:
    return [replace(stage, state="withdrawn") if stage.state in {"planned", "left_out"} else stage for stage in stages]
