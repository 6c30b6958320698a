"""Schedule, read and change actions, for application code and the API."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import psycopg

from scheduled_actions.actions import store
from scheduled_actions.actions.dependencies import changed_dependencies
from scheduled_actions.actions.model import (
    UNSET,
    NewAction,
    Unset,
    check_max_attempts,
    check_priority,
    expires_too_early,
    is_due,
)
from scheduled_actions.actions.search import ActionFilters, ActionList, SearchBounds, page
from scheduled_actions.actions.settling import Settler
from scheduled_actions.actions.validation import ActionValidator
from scheduled_actions.core import checks, json_text
from scheduled_actions.core.action import RESULT_LIMIT, Action, Scheduled, Status
from scheduled_actions.core.errors import ActionLocked, InvalidArgument, StateConflict, WrongStatus
from scheduled_actions.core.requester import Requester
from scheduled_actions.core.retry import RetryPolicy
from scheduled_actions.core.wake import Wake
from scheduled_actions.database.clock import now as database_now
from scheduled_actions.database.connection import Connection, Database, atomic
from scheduled_actions.database.transactions import announce, borrowed_connection, commits_itself

#: The statuses of actions that can be cancelled without, and with those that are running.
_WAITING = (Status.PENDING, Status.NO_ACTION)
_CANCELLABLE = (*_WAITING, Status.PROCESSING)
#: Due at any time: the instant of an action without `scheduled_at`.
_ALWAYS = datetime.min.replace(tzinfo=UTC)
#: Application code waits up to ten seconds for a full list; the API returns a short page after half a second.
_PATIENT = SearchBounds(page_seconds=10.0)


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Schedules, reads and changes the actions of one project.

    Args:
        database: Holds the actions.
        validator: Validates new actions, and new payloads of existing ones.
        settler: Cancels actions and calls the hooks of features.
        wake: Starts a tick for actions that are due now; None leaves that to the cron.
    """

    database: Database
    validator: ActionValidator
    settler: Settler
    wake: Wake | None = None

    def schedule_action(
        self,
        new: NewAction | Mapping[str, Any],
        *,
        requester: Requester | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Scheduled:
        """Schedule one action, or merge it into a pending one; return the id of that action, and whether it was merged.

        Args:
            new: The action, or its arguments by name.
            requester: The API token; None: application code.
            connection: Your own connection; the action exists once its transaction commits.

        Raises:
            RequestError: The type is unknown or not open to the requester, or the payload or an argument is invalid.
            HandlerBroken: The handler, or that of a follow-up, cannot be loaded.
            DatabaseUnavailable: The database cannot be reached. If the connection was lost during the call, the action
                may have been scheduled.
        """
        row = self.validator.row(new, requester=requester)
        with borrowed_connection(self.database, connection) as borrowed:
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
        """Schedule many actions in one round trip, all or none; return the results in the same order.

        Raises:
            RequestError, HandlerBroken: As for `schedule_action`; a note or the message names the position of the
                action.
            DatabaseUnavailable: As for `schedule_action`.
        """
        checks.check_list("new_actions", new_actions)
        return self.schedule_prepared(self._rows(new_actions, requester), connection=connection)

    def _rows(
        self, new_actions: Sequence[NewAction | Mapping[str, Any]], requester: Requester | None
    ) -> Iterator[dict[str, Any]]:
        for position, new in enumerate(new_actions):
            try:
                row = self.validator.row(new, requester=requester)
            except Exception as error:
                error.add_note(f"in new_actions[{position}]")
                raise
            yield row

    def schedule_prepared(
        self, rows: Iterable[dict[str, Any]], *, connection: psycopg.Connection[Any] | None = None
    ) -> list[Scheduled]:
        """Schedule rows from `ActionValidator.row`, all or none; return the results in the same order.

        Raises:
            RequestError: The database rejects a row; nothing was scheduled.
            DatabaseUnavailable: As for `schedule_action`.
        """
        # Each row becomes text at once: thousands of dicts would occupy the garbage collector.
        elements, first, first_at = [], 0, None
        for position, row in enumerate(rows):
            elements.append(store.element(row))
            if first_at is _ALWAYS:
                continue  # no other action is due earlier
            at = None if row.get("delay") else row.get("scheduled_at") or _ALWAYS
            if at is not None and (first_at is None or at < first_at):
                first, first_at = position, at
        if not elements:
            return []
        with borrowed_connection(self.database, connection) as borrowed:
            scheduled = store.schedule_elements(borrowed, elements)
        # The actions commit together: once one is visible, all are.
        if first_at is not None and first_at <= datetime.now(UTC):
            self._announce([scheduled[first].id], connection)
        return scheduled

    def get_action(self, action_id: UUID | str, *, team_id: str | None = None) -> Action:
        """Return one action.

        Raises:
            UnknownAction: No action has this id (in that team).
        """
        wanted = checks.check_id(action_id)
        with borrowed_connection(self.database, None) as borrowed:
            return store.get(borrowed, wanted, team_id=checks.check_text("team_id", team_id))

    def list_actions(
        self,
        *,
        status: str | None = None,
        action_type: str | None = None,
        team_id: str | None = None,
        lock_group: str | None = None,
        user_id: str | None = None,
        target: Mapping[str, str] | None = None,
        schedule_id: UUID | str | None = None,
        deadline_id: UUID | str | None = None,
        scheduled_by: UUID | str | None = None,
        due_from: datetime | date | str | None = None,
        due_to: datetime | date | str | None = None,
        completed_to: datetime | date | str | None = None,
        q: str | None = None,
        cursor: UUID | str | None = None,
        limit: int = 100,
    ) -> ActionList:
        """Return the newest actions that match every filter, as a list with a `next_cursor`.

        Rows are read in small statements. If fewer than `limit` matches are found within ten seconds, the list is
        short, and its `next_cursor` continues the search.

        Args:
            status: Filter by status.
            action_type: Filter by exact type.
            team_id: Filter by team.
            lock_group: Filter by lock group.
            user_id: Filter by user.
            target: Filter by target: `{"type", "id"}`.
            schedule_id: Filter by schedule.
            deadline_id: Filter by deadline.
            scheduled_by: The id of the action whose handler scheduled them, or that they follow.
            due_from: `scheduled_at` is this instant or later: with an offset, or a day (its start in UTC).
            due_to: `scheduled_at` is before this instant, in the same forms.
            completed_to: `completed_at` is before this instant, in the same forms.
            q: Part of the type, the dedup key or the lock group, or the beginning of the id.
            cursor: `next_cursor` of the previous page, or the id of its last action.
            limit: 1 to 100.

        Raises:
            InvalidArgument: A filter, the cursor or the limit is invalid.
        """
        checks.check_limit(limit, most=100)
        checks.target_text(target)
        wanted = checks.check_status(status)
        filters = ActionFilters(
            statuses=None if wanted is None else (wanted,),
            action_type=checks.check_text("action_type", action_type),
            team_id=checks.check_text("team_id", team_id),
            lock_group=checks.check_text("lock_group", lock_group),
            user_id=checks.check_text("user_id", user_id),
            target=target,
            schedule_id=checks.check_uuid("schedule_id", schedule_id),
            deadline_id=checks.check_uuid("deadline_id", deadline_id),
            scheduled_by=checks.check_uuid("scheduled_by", scheduled_by),
            due_from=checks.check_instant("due_from", due_from),
            due_to=checks.check_instant("due_to", due_to),
            completed_to=checks.check_instant("completed_to", completed_to),
            q=checks.check_text("q", q),
        )
        with borrowed_connection(self.database, None) as borrowed:
            return ActionList(
                page(
                    borrowed,
                    filters,
                    _PATIENT,
                    cursor=None if cursor is None else checks.check_cursor(cursor),
                    limit=limit,
                    least=limit,
                )
            )

    def update_action(
        self,
        action_id: UUID | str,
        *,
        payload: Any = None,  # noqa: ANN401 - any model
        scheduled_at: datetime | date | str | timedelta | None = None,
        timezone: str | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        retry: RetryPolicy | Mapping[str, Any] | Sequence[float] | None = None,
        metadata: Mapping[str, Any] | None = None,
        condition: Mapping[str, Any] | Unset | None = UNSET,
        after: UUID | str | Sequence[UUID | str] | Unset | None = UNSET,
        on_success: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Unset | None = UNSET,
        on_failure: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Unset | None = UNSET,
        limit: str | Sequence[str] | Unset | None = UNSET,
        expires_at: datetime | date | str | Unset | None = UNSET,
        by: str | None = None,
        team_id: str | None = None,
        edit_lock_seconds: int | None = None,
        requester: Requester | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Action:
        """Change a pending action; omitted arguments keep their values. Return the action.

        Args:
            action_id: The action.
            payload: Replaces the whole payload; validated like that of a new action.
            scheduled_at: As for `schedule_action`.
            timezone: IANA time zone of times without an offset.
            priority: Lower numbers run first.
            max_attempts: The maximum number of attempts, including the first.
            retry: The retry policy of this action.
            metadata: Replaces the stored metadata.
            condition: The new condition; None removes it. If the action already waits for its condition or its
                predecessors, a change of `condition` or `after` makes it due now, unless `scheduled_at` is given.
            after: The ids of the actions that must complete first; None removes them.
            on_success: The follow-ups to schedule when the action completes; None removes them.
            on_failure: The follow-ups to schedule when the action fails permanently; None removes them.
            limit: One to three limit keys; None removes them. A queued action moves to the queue of its first key.
            expires_at: No attempt starts from then on; later than now and than `scheduled_at`. None: the action does
                not expire.
            by: Who changes the action; stored in its history.
            team_id: Only within this team.
            edit_lock_seconds: Reject the change if the action is due within this time or overdue; None: never reject.
            requester: The API token; None: application code.
            connection: Your own connection; the change takes effect once its transaction commits.

        Raises:
            UnknownAction: No action has this id (in that team).
            WrongStatus: The action is not pending.
            ActionLocked: The action is due within `edit_lock_seconds`, or overdue.
            ActionTypeForbidden: The requester may not schedule the type with this payload, or one of the follow-ups.
            RequestError: A new value is invalid; nothing was changed.
            HandlerBroken: The handler, or that of a follow-up, cannot be loaded.
        """
        wanted = checks.check_id(action_id)
        given = {"condition": condition, "after": after, "on_success": on_success, "on_failure": on_failure}
        dependencies = {name: value for name, value in given.items() if value is not UNSET}
        with (
            borrowed_connection(self.database, connection) as borrowed,
            atomic(borrowed) if dependencies else nullcontext(),
        ):
            at, delay = checks.check_scheduled_at(scheduled_at, timezone=timezone)
            text = None
            if payload is not None:
                action_type = store.get(borrowed, wanted, team_id=team_id).action_type
                _, text = self.validator.payloads.prepare(action_type, payload, requester=requester, where="payload")
            changes: dict[str, Any] = {
                "payload": text,
                "scheduled_at": at,
                "delay": delay,
                "priority": check_priority(priority),
                "max_attempts": check_max_attempts(max_attempts),
                "retry": checks.retry_text(retry),
                "metadata": checks.document_text("metadata", metadata),
            }
            named = {"scheduled_at" if name == "delay" else name for name, one in changes.items() if one is not None}
            if limit is not UNSET:
                changes |= {"sets_limit": True, "limit": self.validator.check_limit(limit)}
                named.add("limit")
            if expires_at is not UNSET:
                expiry = checks.check_end("expires_at", expires_at, timezone=timezone)
                changes |= {"sets_expires_at": True, "expires_at": expiry}
                named.add("expires_at")
            if dependencies:
                changes |= changed_dependencies(
                    borrowed,
                    wanted,
                    dependencies,
                    partial(self.validator.dependencies, requester=requester),
                    team_id=team_id,
                )
            changes |= {
                "by": checks.check_text("by", by),
                "team_id": team_id,
                "edit_lock_seconds": edit_lock_seconds,
                "changes": json_text.encode("changes", sorted({*named, *dependencies}), limit=RESULT_LIMIT),
            }
            updated = store.update(borrowed, wanted, changes)
            if updated is None:
                raise _refusal_of_update(borrowed, wanted, changes)
        if (dependencies or limit is not UNSET) and updated.scheduled_at <= datetime.now(UTC):
            self._announce([wanted], connection)
        return updated

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
        """Cancel an action that no tick or worker has started, or request that a running one stop; return the action.

        Args:
            action_id: The action.
            reason: Stored in the history of the action, and shown to users.
            by: Who cancels the action; stored in its history.
            also_running: Whether a running action is requested to stop; if False, it causes `WrongStatus`.
            team_id: Only within this team.
            edit_lock_seconds: As for `update_action`.
            connection: Your own connection; the change takes effect once its transaction commits.

        Raises:
            UnknownAction: No action has this id (in that team).
            WrongStatus: The action has ended; or it is running, and `also_running` is false or `edit_lock_seconds` is
                given.
            ActionLocked: The action is pending, and due within `edit_lock_seconds` or overdue.
        """
        wanted = checks.check_id(action_id)
        with borrowed_connection(self.database, connection) as borrowed:
            cancelled = self.settler.cancel(
                borrowed,
                wanted,
                by=checks.check_text("by", by),
                reason=checks.check_text("reason", reason),
                statuses=_CANCELLABLE if also_running else _WAITING,
                team_id=team_id,
                edit_lock_seconds=edit_lock_seconds,
            )
            if cancelled is None:
                raise _refusal(borrowed, wanted, team_id, edit_lock_seconds, "pending or no_action")
        if connection is None:
            self.run_deferred()
        return cancelled

    def run_deferred(self) -> None:
        """Run the work that hooks deferred until after the commit; in a handler's transaction, leave it to the tick."""
        if commits_itself(None):
            self.settler.run_deferred()

    def retry_action(
        self,
        action_id: UUID | str,
        *,
        by: str | None = None,
        team_id: str | None = None,
        connection: psycopg.Connection[Any] | None = None,
    ) -> Action:
        """Make a failed, cancelled or skipped action due now, with no attempts used and no state; return the action.

        Args:
            action_id: The action.
            by: Who retries the action; stored in its history.
            team_id: Only within this team.
            connection: Your own connection; the change takes effect once its transaction commits.

        Raises:
            UnknownAction: No action has this id (in that team).
            WrongStatus: The action is not failed, cancelled or skipped.
        """
        wanted = checks.check_id(action_id)
        with borrowed_connection(self.database, connection) as borrowed:
            pending = store.change(
                borrowed,
                "retry_action",
                wanted,
                team_id=team_id,
                wanted_status="failed, cancelled or skipped",
                by=checks.check_text("by", by),
            )
        self._announce([wanted], connection)
        return pending

    def _announce(self, action_ids: list[UUID], connection: psycopg.Connection[Any] | None) -> None:
        """Start a tick now or, within a caller's transaction, after its commit."""
        announce(self.wake, connection)
        if self.wake is not None and not commits_itself(connection):
            self.wake.notify_after_commit(action_ids)


def _refusal_of_update(
    connection: Connection, action_id: UUID, changes: Mapping[str, Any]
) -> StateConflict | InvalidArgument:
    """Return the error for an action that could not be changed; `changes` are the parameters of `update_action.sql`."""
    action, now = store.get(connection, action_id, team_id=changes["team_id"]), database_now(connection)
    lock = changes["edit_lock_seconds"]
    if action.status is not Status.PENDING:
        return WrongStatus(action_id, action.status, "pending")
    if lock is not None and action.scheduled_at <= now + timedelta(seconds=lock):
        return ActionLocked(action_id, lock)
    expires_at = changes.get("expires_at") or action.expires_at
    if expires_at is None:
        # Another request has changed it meanwhile.
        return WrongStatus(action_id, action.status, "pending")
    delay = changes["delay"]
    due = changes["scheduled_at"] or (action.scheduled_at if delay is None else now + delay)
    return expires_too_early(expires_at, max(now, due) if action.waiting is None else now)


def _refusal(
    connection: Connection, action_id: UUID, team_id: str | None, edit_lock_seconds: int | None, wanted_status: str
) -> StateConflict:
    """Return the error for an action that could not be changed."""
    status = store.get(connection, action_id, team_id=team_id).status
    is_unstarted = status is Status.PENDING or (status is Status.PROCESSING and store.is_untaken(connection, action_id))
    if edit_lock_seconds is not None and is_unstarted:
        return ActionLocked(action_id, edit_lock_seconds)
    return WrongStatus(action_id, status, wanted_status)
