"""Scheduling, reading and changing actions: what application code calls."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from scheduled_actions.actions import store
from scheduled_actions.actions.dependency_changes import changed_extras
from scheduled_actions.actions.model import KEPT, Kept, check_max_attempts, check_priority, is_due
from scheduled_actions.actions.search import Bounds, Filters, Listed, page
from scheduled_actions.core import checks as arguments
from scheduled_actions.core import json_text
from scheduled_actions.core.action import RESULT_LIMIT, Action, Scheduled, Status
from scheduled_actions.core.errors import ActionLocked, UnknownAction, WrongStatus
from scheduled_actions.database.connection import whole
from scheduled_actions.database.transactions import borrowed_connection, is_own

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import timedelta
    from uuid import UUID

    import psycopg

    from scheduled_actions.actions.model import NewAction
    from scheduled_actions.actions.settling import Settler
    from scheduled_actions.actions.validation import PayloadAccess, Preparation
    from scheduled_actions.core.requester import Requester
    from scheduled_actions.core.retry import RetryPolicy
    from scheduled_actions.core.wake import Wake
    from scheduled_actions.database.connection import Connection, Database

#: Code that asks for a list wants all of it; a person at a page would rather see what there is.
_PATIENT = Bounds(page_seconds=10.0)


class Scheduler:
    """Actions of one project.

    Args:
        database: Where the tables are.
        payloads: Validates new payloads of actions that are there.
        preparation: Checks what is asked for.
        settler: Cancels, and what features add to that.
        wake: Has a tick look at once for what is due now; None leaves it to the cron.
    """

    def __init__(
        self,
        database: Database,
        payloads: PayloadAccess,
        preparation: Preparation,
        settler: Settler,
        wake: Wake | None = None,
    ) -> None:
        self._wake = wake
        self._settler = settler
        self._database = database
        self._payloads = payloads
        self._preparation = preparation

    def schedule_action(
        self,
        new: NewAction,
        *,
        requester: Requester | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Scheduled:
        """Put one action in the table, or merge it into one that waits.

        Args:
            new: The action.
            requester: The token that asks over HTTP; None: application code.
            connection: Joins the caller's own transaction.

        Raises:
            RequestError: Unknown type, payload the handler's model refuses, an argument out of range, or a type that
                the requester may not schedule.
            DatabaseUnavailable: The database cannot be reached; nothing was scheduled.
        """
        row = self._preparation.row(new, requester=requester)
        with self._borrowed(connection) as borrowed:
            scheduled = store.schedule(borrowed, row)
        if is_due(row, now=datetime.now(UTC)):
            self._announce([scheduled.id], connection)
        return scheduled

    def schedule_actions(
        self,
        new_actions: Sequence[NewAction | Mapping[str, Any]],
        *,
        requester: Requester | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> list[Scheduled]:
        """Put many actions in the table in one round trip: all of them, or none. Answered in their order.

        Raises:
            RequestError: As `schedule_action`; the message names the position of the one refused.
            DatabaseUnavailable: The database cannot be reached; nothing was scheduled.
        """
        arguments.check_list("new_actions", new_actions)
        rows = [
            self._preparation.element(position, new, requester=requester) for position, new in enumerate(new_actions)
        ]
        return self.schedule_prepared(rows, connection=connection)

    def schedule_prepared(
        self, rows: Sequence[dict[str, Any]], *, connection: psycopg.Connection[Any] | None = None
    ) -> list[Scheduled]:
        """Put in the table what `prepare` returned: all of it, or nothing. Answered in its order."""
        if not rows:
            return []
        with self._borrowed(connection) as borrowed:
            scheduled = store.schedule_many(borrowed, rows)
        now = datetime.now(UTC)
        # One that can be seen stands for all of them: they are committed together.
        due = next((one.id for one, row in zip(scheduled, rows, strict=True) if is_due(row, now=now)), None)
        if due is not None:
            self._announce([due], connection)
        return scheduled

    def prepare(
        self,
        action_type: str,
        payload: Any,  # noqa: ANN401 - any JSON
        /,
        *,
        requester: Requester | None = None,
        **options: Any,  # noqa: ANN401 - checked by name
    ) -> dict[str, Any]:
        """Return a follow-up, validated, as one element of the SQL function `schedule_actions`."""
        return self._preparation.row({**options, "action_type": action_type, "payload": payload}, requester=requester)

    def get_action(self, action_id: UUID | str, *, team_id: str | None = None) -> Action:
        """Return one action.

        Raises:
            UnknownAction: There is none of that id (in that team).
        """
        wanted = arguments.check_id(action_id)
        with self._borrowed(None) as borrowed:
            found = store.get(borrowed, wanted, team_id=arguments.check_text("team_id", team_id))
        if found is None:
            raise UnknownAction(action_id)
        return found

    def list_actions(
        self,
        *,
        status: str | None = None,
        action_type: str | None = None,
        team_id: str | None = None,
        lock_group: str | None = None,
        scheduled_from: datetime | None = None,
        scheduled_to: datetime | None = None,
        q: str | None = None,
        cursor: UUID | str | None = None,
        limit: int = 100,
    ) -> Listed:
        """Return the newest actions that match every filter given, as a list with a `next_cursor`.

        However many actions there are, it reads them in small statements. Where that has not found `limit` of them
        after ten seconds, the list is short, and its `next_cursor` still leads on.

        Args:
            status: One of the statuses.
            action_type: Exactly this type.
            team_id: Of this team only.
            lock_group: Of this lock group only.
            scheduled_from: `scheduled_at` is this instant or later; aware.
            scheduled_to: `scheduled_at` is before this instant; aware.
            q: Part of the type, the dedup key or the lock group, or the beginning of the id.
            cursor: `next_cursor` of the page before, or the id of its last action.
            limit: 1 to 100.

        Raises:
            InvalidArgument: A filter cannot be.
        """
        arguments.check_limit(limit, most=100)
        wanted = arguments.check_status(status)
        filters = Filters(
            statuses=None if wanted is None else (wanted,),
            action_type=arguments.check_text("action_type", action_type),
            team_id=arguments.check_text("team_id", team_id),
            lock_group=arguments.check_text("lock_group", lock_group),
            scheduled_from=arguments.check_aware("scheduled_from", scheduled_from),
            scheduled_to=arguments.check_aware("scheduled_to", scheduled_to),
            q=arguments.check_text("q", q),
        )
        before = None if cursor is None else arguments.check_cursor(cursor)
        with self._borrowed(None) as borrowed:
            return Listed(page(borrowed, filters, _PATIENT, cursor=before, limit=limit, least=limit))

    def update_action(
        self,
        action_id: UUID | str,
        *,
        payload: Any = None,  # noqa: ANN401 - any model
        scheduled_at: datetime | timedelta | None = None,
        timezone: str | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        retry: RetryPolicy | Mapping[str, Any] | Sequence[float] | None = None,
        metadata: Mapping[str, Any] | None = None,
        condition: Mapping[str, Any] | Kept | None = KEPT,
        after: UUID | str | Sequence[UUID | str] | Kept | None = KEPT,
        on_success: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Kept | None = KEPT,
        on_failure: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Kept | None = KEPT,
        by: str | None = None,
        team_id: str | None = None,
        edit_lock_seconds: int | None = None,
        requester: Requester | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Action:
        """Change what is given of a pending action; return it as it is now.

        Args:
            action_id: Which.
            payload: The whole new payload; validated like a new one.
            scheduled_at: As for `schedule_action`.
            timezone: Of a naive `scheduled_at`.
            priority: The lower number goes first.
            max_attempts: The first included.
            retry: The policy for this action alone.
            metadata: Replaces what was there.
            condition: What must hold from now on, looked at anew; None: nothing must. One that waits already is looked
                at by the next tick, or is due at once.
            after: The actions it comes after; None: none.
            on_success: What follows its completion; None: nothing.
            on_failure: What follows its final failure; None: nothing.
            by: Who changes it, for the history.
            team_id: Only within this team.
            edit_lock_seconds: Refuse when it is due sooner; None: code decides for itself.
            requester: The token that asks over HTTP; None: application code.
            connection: Joins the caller's own transaction.

        Raises:
            UnknownAction: There is none of that id (in that team).
            WrongStatus: It is not pending.
            ActionLocked: It is due within `edit_lock_seconds`.
            TypeNotOpen: The requester may not give it this payload or these follow-ups.
            RequestError: A new value cannot be; nothing was changed.
        """
        wanted = arguments.check_id(action_id)
        asked = {"condition": condition, "after": after, "on_success": on_success, "on_failure": on_failure}
        extras = {name: value for name, value in asked.items() if value is not KEPT}
        with self._borrowed(connection) as borrowed, whole(borrowed) if extras else nullcontext():
            at, delay = arguments.check_when(scheduled_at, timezone)
            changes: dict[str, Any] = {
                "payload": None
                if payload is None
                else self._payload_text(borrowed, wanted, payload, team_id, requester),
                "scheduled_at": at,
                "delay": delay,
                "priority": check_priority(priority),
                "max_attempts": check_max_attempts(max_attempts),
                "retry": arguments.retry_text(retry),
                "metadata": arguments.document_text("metadata", metadata),
            }
            named = {"scheduled_at" if name == "delay" else name for name, one in changes.items() if one is not None}
            if extras:
                prepare = partial(self._preparation.extras, requester=requester)
                changes |= changed_extras(borrowed, wanted, extras, prepare, team_id=team_id)
            changes |= {
                "by": arguments.check_text("by", by),
                "team_id": team_id,
                "edit_lock_seconds": edit_lock_seconds,
                "changes": json_text.encode("changes", sorted({*named, *extras}), limit=RESULT_LIMIT),
            }
            updated = store.update(borrowed, wanted, changes) or self._refuse(
                borrowed, wanted, team_id, edit_lock_seconds, wanted_status="pending"
            )
        if extras and updated.scheduled_at <= datetime.now(UTC):
            self._announce([wanted], connection)
        return updated

    def _payload_text(
        self,
        connection: Connection,
        action_id: UUID,
        payload: Any,  # noqa: ANN401 - any model
        team_id: str | None,
        requester: Requester | None,
    ) -> str:
        found = store.get(connection, action_id, team_id=team_id)
        if found is None:
            raise UnknownAction(action_id)
        return self._payloads.prepare(found.action_type, payload, requester=requester, where="payload").text

    def cancel_action(
        self,
        action_id: UUID | str,
        *,
        reason: str | None = None,
        by: str | None = None,
        also_running: bool = True,
        team_id: str | None = None,
        edit_lock_seconds: int | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Action:
        """Cancel a waiting action; ask a running one to stop, after which it is not retried. Return it as it is now.

        Raises:
            UnknownAction: There is none of that id (in that team).
            WrongStatus: It has ended.
            ActionLocked: It is due within `edit_lock_seconds`.
        """
        wanted = arguments.check_id(action_id)
        with self._borrowed(connection) as borrowed:
            cancelled = self._settler.cancel(
                borrowed,
                wanted,
                by=arguments.check_text("by", by),
                reason=arguments.check_text("reason", reason),
                also_running=also_running,
                team_id=team_id,
                edit_lock_seconds=edit_lock_seconds,
            )
            if cancelled is None:
                return self._refuse(borrowed, wanted, team_id, edit_lock_seconds, wanted_status="pending or no_action")
        if connection is None:
            self.finish_left()
        return cancelled

    def finish_left(self) -> None:
        """Do what features left for after the commit, unless this is a handler's transaction: then its tick does it."""
        if is_own(None):
            self._settler.finish_left()

    def retry_action(
        self,
        action_id: UUID | str,
        *,
        by: str | None = None,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Action:
        """Make a failed, cancelled or skipped action pending again, its attempts back to zero; return it.

        Raises:
            UnknownAction: There is none of that id (in that team).
            WrongStatus: It is none of these.
        """
        wanted = arguments.check_id(action_id)
        with self._borrowed(connection) as borrowed:
            pending = store.retry(borrowed, wanted, by=arguments.check_text("by", by), team_id=team_id)
            if pending is None:
                return self._refuse(borrowed, wanted, team_id, None, wanted_status="failed, cancelled or skipped")
        self._announce([wanted], connection)
        return pending

    def _announce(self, action_ids: list[UUID], connection: psycopg.Connection[Any] | None) -> None:
        """Have a tick look at once: now, or when a transaction that is not ours has committed."""
        if self._wake is None:
            return
        if is_own(connection):
            self._wake.committed()
        else:
            self._wake.uncommitted(action_ids)

    def _refuse(
        self,
        connection: Connection,
        action_id: UUID,
        team_id: str | None,
        edit_lock_seconds: int | None,
        *,
        wanted_status: str,
    ) -> Action:
        found = store.get(connection, action_id, team_id=team_id)
        if found is None:
            raise UnknownAction(action_id)
        if edit_lock_seconds is not None and found.status is Status.PENDING and "pending" in wanted_status:
            raise ActionLocked(action_id, edit_lock_seconds)
        raise WrongStatus(action_id, found.status, wanted_status)

    def _borrowed(self, connection: psycopg.Connection[Any] | None) -> AbstractContextManager[Connection]:
        return borrowed_connection(self._database, connection)
