"""Routes that schedule, list, count, explain, update, cancel, retry, run and delete actions."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from http import HTTPStatus
from typing import Any

from scheduled_actions.actions import management, model, search
from scheduled_actions.core import checks
from scheduled_actions.core.action import FINISHED, Action, Status
from scheduled_actions.core.errors import (
    ActionLocked,
    ActionTypeForbidden,
    FollowUpInvalid,
    HandlerBroken,
    InvalidArgument,
    PayloadInvalid,
    RefusedByDatabase,
    RequestError,
    TooLarge,
    UnknownAction,
    UnknownActionType,
    WrongStatus,
)
from scheduled_actions.database.connection import Connection
from scheduled_actions.operations.explain import service as explaining
from scheduled_actions.web.api.actions.models import (
    BATCH_MOST,
    ActionCountsDocument,
    ActionCountsQuery,
    ActionDocument,
    ActionExplanation,
    ActionPage,
    ActionsQuery,
    BulkResultDocument,
    CancelActionRequest,
    CancelActionsRequest,
    CreateActionRequest,
    CreateActionsRequest,
    DeleteActionsRequest,
    RetryActionsRequest,
    ScheduledAction,
    ScheduledActionsBatch,
    UpdateActionQuery,
    UpdateActionRequest,
)
from scheduled_actions.web.api.models import EmptyRequest, PageQuery
from scheduled_actions.web.api.problems import FieldsInvalid, UnknownActionTypes, field_problems
from scheduled_actions.web.api.routing import Answer, Call, Locked, Route, require_if_match

_BATCH_LIMIT = 4 * 1024 * 1024


def list_actions(call: Call[ActionsQuery, EmptyRequest]) -> Answer:
    """Return a page of actions, newest first; an empty page for a team that the caller may not see."""
    page = search.ActionPage([], None)
    if call.sees_team:
        page = call.runtime.action_operations.page(_filters(call), cursor=call.query.cursor, limit=call.query.limit)
    return Answer(ActionPage.model_validate(page))


def summarize_actions(call: Call[ActionsQuery, EmptyRequest]) -> search.SummaryPage:
    """Return the summaries of the actions that `list_actions` returns, for the dashboard."""
    if not call.sees_team:
        return search.SummaryPage([], None)
    return call.runtime.action_operations.summary_page(_filters(call), cursor=call.query.cursor, limit=call.query.limit)


def _filters(call: Call[ActionsQuery, EmptyRequest]) -> search.ActionFilters:
    return call.query.filters(call.team_filter, *(() if call.query.status is None else (call.query.status,)))


def create_action(call: Call[EmptyRequest, CreateActionRequest]) -> Answer:
    """Schedule an action; return the new action, or the pending one that it was merged into."""
    with call.borrowed() as connection:
        scheduled = call.runtime.scheduler.schedule_action(
            model.NewAction(**_arguments(call, call.body)), requester=call.caller.requester, connection=connection
        )
        action = call.runtime.action_operations.get(scheduled.id, team_id=call.caller.team_id, connection=connection)
    return (
        _answer(action)
        .extended(ScheduledAction, deduplicated=scheduled.deduplicated)
        .located(f"{call.base}/actions/{action.id}", is_new=not scheduled.deduplicated)
    )


def create_actions(call: Call[EmptyRequest, CreateActionsRequest]) -> Answer:
    """Schedule many actions, all of them or none; return their ids."""
    rows: list[dict[str, Any]] = []
    refused: list[tuple[int, RequestError]] = []
    for position, new in enumerate(call.body.actions):
        # Not in the try block: `Forbidden` is an error of the whole request, not of a field.
        arguments = _arguments(call, new)
        try:
            rows.append(call.runtime.action_validator.row(arguments, requester=call.caller.requester))
        except ActionTypeForbidden as error:
            raise error.inside(f"actions.{position}") from None
        except RequestError as error:
            refused.append((position, error))
    if refused:
        problems = [one for position, error in refused for one in field_problems(error, inside=f"actions.{position}")]
        unknown = next((error for _, error in refused if isinstance(error, UnknownActionType)), None)
        if unknown is None:
            raise FieldsInvalid(problems)
        raise UnknownActionTypes(unknown.action_type, unknown.known, problems=problems)
    scheduled = call.runtime.scheduler.schedule_prepared(rows, connection=call.connection)
    return Answer(
        ScheduledActionsBatch.model_validate({"actions": scheduled}),
        HTTPStatus.OK if all(one.deduplicated for one in scheduled) else HTTPStatus.CREATED,
    )


def get_action(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Return an action with its history."""
    return _answer(call.runtime.action_operations.get(call.reference, team_id=call.caller.team_id))


def explain_action(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Return an explanation of why an action has not run, or of how it ended."""
    found = explaining.explain(call.runtime, call.reference, team_id=call.caller.team_id)
    return Answer(ActionExplanation.model_validate({"id": checks.check_id(call.reference), **asdict(found)}))


def list_scheduled_actions(call: Call[PageQuery, EmptyRequest]) -> Answer:
    """Return a page of the actions that an action scheduled, in its handler or as follow-ups, newest first."""
    return Answer(
        ActionPage.model_validate(
            call.runtime.action_operations.scheduled_by(
                call.reference, team_id=call.caller.team_id, cursor=call.query.cursor, limit=call.query.limit
            )
        )
    )


def update_action(call: Call[UpdateActionQuery, UpdateActionRequest]) -> Answer:
    """Update a pending action."""
    arguments = call.body.given()
    is_forced = arguments.pop("force", False) or call.query.force
    with _require_if_match(call) as connection:
        if arguments.keys() <= {"timezone"}:
            return _answer(
                call.runtime.action_operations.get(call.reference, team_id=call.caller.team_id, connection=connection)
            )
        return _answer(
            call.runtime.scheduler.update_action(
                call.reference,
                **arguments,
                **_change(call, connection),
                edit_lock_seconds=_edit_lock(call, is_forced=is_forced),
                requester=call.caller.requester,
            )
        )


def cancel_action(call: Call[EmptyRequest, CancelActionRequest]) -> Answer:
    """Cancel an action that is pending or has no handler."""
    with _require_if_match(call) as connection:
        return _answer(
            call.runtime.scheduler.cancel_action(
                call.reference,
                reason=call.body.reason,
                also_running=False,
                **_change(call, connection),
                edit_lock_seconds=_edit_lock(call, is_forced=call.body.force),
            )
        )


def delete_action(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Delete a finished action and return its last state."""
    with _require_if_match(call) as connection:
        return _answer(
            call.runtime.action_operations.purge(call.reference, team_id=call.caller.team_id, connection=connection)
        )


def retry_action(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Make a failed, cancelled or skipped action due now, with no attempts used."""
    with _require_if_match(call) as connection:
        return _answer(call.runtime.scheduler.retry_action(call.reference, **_change(call, connection)))


def run_action(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Make a pending action due now; an action that is already due is unchanged."""
    with _require_if_match(call) as connection:
        return _answer(call.runtime.action_operations.run_now(call.reference, **_change(call, connection)))


def count_actions(call: Call[ActionCountsQuery, EmptyRequest]) -> Answer:
    """Count actions by status and type, and due and overdue actions; zeros for a team that the caller may not see."""
    counts, lateness = management.ActionCounts(), []
    if call.sees_team:
        counts = call.runtime.action_operations.counts(
            team_id=call.team_filter, overdue_seconds=call.query.overdue_seconds
        )
        lateness = call.runtime.action_operations.lateness(team_id=call.team_filter)
    return Answer(
        ActionCountsDocument.model_validate(
            {**counts.by_status, **asdict(counts), "lateness": {one.action_type: one for one in lateness}}
        )
    )


def retry_actions(call: Call[EmptyRequest, RetryActionsRequest]) -> Answer:
    """Retry the matching actions of one status (failed, cancelled or skipped), up to the limit of the request."""
    retry = partial(call.runtime.action_operations.retry_matching, by=call.caller.name)
    return _bulk_change(call, retry, Status(call.body.status))


def cancel_actions(call: Call[EmptyRequest, CancelActionsRequest]) -> Answer:
    """Cancel matching actions that are pending or have no handler, up to the limit of the request."""
    statuses = (Status(call.body.status),) if call.body.status else (Status.PENDING, Status.NO_ACTION)
    cancel = partial(call.runtime.action_operations.cancel_matching, by=call.caller.name, reason=call.body.reason)
    return _bulk_change(call, cancel, *statuses, unlocked_for_seconds=_edit_lock(call, is_forced=call.body.force))


def delete_actions(call: Call[EmptyRequest, DeleteActionsRequest]) -> Answer:
    """Delete matching actions that have ended, up to the limit of the request."""
    statuses = (Status(call.body.status),) if call.body.status else tuple(FINISHED)
    return _bulk_change(call, call.runtime.action_operations.delete_matching, *statuses)


def _bulk_change(
    call: Call[Any, Any],
    change: Callable[..., management.BulkResult],
    *statuses: Status,
    unlocked_for_seconds: int | None = None,
) -> Answer:
    """Change the matching actions, or count them in a dry run; none for a team that the caller may not see."""
    given = call.body
    filters = given.filters(call.caller.team_id or given.team_id, *statuses, unlocked_for_seconds=unlocked_for_seconds)
    if not call.caller.sees(given.team_id):
        result = management.BulkResult(matched=0, changed=0, more=False, next_cursor=None)
    elif given.dry_run:
        result = call.runtime.action_operations.count_matching(filters)
    else:
        result = change(filters, limit=given.limit, cursor=given.cursor)
    return Answer(BulkResultDocument(**asdict(result), dry_run=given.dry_run))


def _arguments(call: Call[Any, Any], new: CreateActionRequest) -> dict[str, Any]:
    """Return the arguments of `schedule_action`."""
    given = {name: value for name, value in new.given().items() if value is not None}
    team_id = call.caller.team_for(given.pop("team_id", None))
    return {"created_by": call.caller.name} | given | ({} if team_id is None else {"team_id": team_id})


def _change(call: Call[Any, Any], connection: Connection | None) -> dict[str, Any]:
    """Return the arguments that all changes share."""
    return {"by": call.caller.name, "team_id": call.caller.team_id, "connection": connection}


def _edit_lock(call: Call[Any, Any], *, is_forced: bool) -> int | None:
    return None if is_forced else call.runtime.config.settings.edit_lock_seconds


def _answer(action: Action) -> Answer:
    return Answer.with_etag(ActionDocument.model_validate(action))


def _require_if_match(call: Call[Any, Any]) -> Locked:
    lock = partial(call.runtime.action_operations.locked, call.reference, team_id=call.caller.team_id)
    return require_if_match(call, lock, ActionDocument.model_validate)


_SCHEDULING = (
    PayloadInvalid, InvalidArgument, FollowUpInvalid, RefusedByDatabase, UnknownActionType, ActionTypeForbidden,
    TooLarge, HandlerBroken,
)  # fmt: skip
_ETAG = {"ETag": "Version of the action, for If-Match."}
#: Options of the routes that return an action.
_ONE: dict[str, Any] = {
    "tag": "Actions",
    "answers": {HTTPStatus.OK: (ActionDocument, "The action.")},
    "headers": _ETAG,
}
_CHANGING = (UnknownAction, WrongStatus)
_BULK = (
    "Requires a filter, or `all`. With `dry_run`, the matching actions are only counted: up to 10,000, regardless of "
    "`limit` and `cursor`. Otherwise, a request changes at most `limit` actions and starts no further batch after five "
    "seconds; while `more` is true, repeat the request with `next_cursor` as `cursor`. Actions that another client "
    "changes at the same time count as matched but not as changed."
)

ROUTES = (
    Route(
        "GET", "/actions", list_actions, "List actions, newest first", tag="Actions",
        description="All given filters must match. A page examines a limited number of actions, so a short or empty "
        "page may not be the last: continue until `next_cursor` is null.",
        query=ActionsQuery, answers={HTTPStatus.OK: (ActionPage, "A page of actions.")},
    ),
    Route(
        "POST", "/actions", create_action, "Schedule an action", tag="Actions", body=CreateActionRequest,
        answers={
            HTTPStatus.CREATED: (ScheduledAction, "The action was scheduled."),
            HTTPStatus.OK: (ScheduledAction, "The action was merged into an existing pending action."),
        },
        headers={**_ETAG, "Location": "Path of the action."}, refuses=_SCHEDULING, creates=True,
    ),
    Route(
        "POST", "/actions/batch", create_actions, "Schedule many actions, all of them or none", tag="Actions",
        description=f"Accepts up to {BATCH_MOST:,} actions. Errors contain the position of the invalid action, counted "
        "from 0, such as `actions.0.payload`.",
        body=CreateActionsRequest, body_limit=_BATCH_LIMIT,
        answers={
            HTTPStatus.CREATED: (ScheduledActionsBatch, "The actions were scheduled or merged."),
            HTTPStatus.OK: (ScheduledActionsBatch, "All actions were merged into existing pending actions."),
        },
        refuses=_SCHEDULING, creates=True,
    ),
    Route(
        "GET", "/actions/counts", count_actions, "Count actions by status and type, and due actions", tag="Actions",
        description="Counts by status, and of due and overdue actions, stop at 10,000; `capped` lists the counts that "
        "were cut off there. For one team, the values of due and overdue actions cover only the newest 10,000 pending "
        "actions.",
        query=ActionCountsQuery, answers={HTTPStatus.OK: (ActionCountsDocument, "The counts.")},
    ),
    Route("GET", "/actions/{id}", get_action, "Get an action with its history", refuses=(UnknownAction,), **_ONE),
    Route(
        "GET", "/actions/{id}/explain", explain_action, "Explain why an action has not run, or how it ended",
        tag="Actions", description='The page "Why an action has not run" of the documentation describes each `code`.',
        answers={HTTPStatus.OK: (ActionExplanation, "The explanation.")}, refuses=(UnknownAction,),
    ),
    Route(
        "GET", "/actions/{id}/scheduled", list_scheduled_actions,
        "List the actions that an action scheduled, newest first", tag="Actions",
        description="Includes the actions that the handler scheduled, such as the deliveries of an event, and the "
        "follow-ups; excludes actions that were merged into pending ones.",
        query=PageQuery, answers={HTTPStatus.OK: (ActionPage, "A page of actions.")}, refuses=(UnknownAction,),
    ),
    Route(
        "PATCH", "/actions/{id}", update_action, "Update a pending action",
        description="An action that is overdue, or due within `edit_lock_seconds`, is locked unless `force` is true.",
        query=UpdateActionQuery, body=UpdateActionRequest, refuses=(*_CHANGING, ActionLocked, *_SCHEDULING),
        takes_if_match=True, **_ONE,
    ),
    Route(
        "POST", "/actions/{id}/cancel", cancel_action, "Cancel an action that is pending or has no handler",
        description="A pending action that is overdue, or due within `edit_lock_seconds`, is locked unless `force` is "
        "true. "
        "The cancelled action is kept until it is pruned.",
        body=CancelActionRequest, is_body_optional=True, refuses=(*_CHANGING, ActionLocked), creates=True,
        takes_if_match=True, **_ONE,
    ),
    Route(
        "DELETE", "/actions/{id}", delete_action, "Delete a finished action", tag="Actions",
        answers={HTTPStatus.OK: (ActionDocument, "The deleted action.")}, headers=_ETAG, refuses=_CHANGING,
        takes_if_match=True,
    ),
    Route(
        "POST", "/actions/{id}/retry", retry_action, "Retry a failed, cancelled or skipped action",
        description="The action becomes due now, its attempt count is reset to 0, and its `state` is deleted.",
        refuses=_CHANGING, creates=True, takes_if_match=True, **_ONE,
    ),
    Route(
        "POST", "/actions/{id}/run", run_action, "Make a pending action due now",
        description="The next tick can run the action. An action that is already due is not changed.",
        refuses=_CHANGING, creates=True, takes_if_match=True, **_ONE,
    ),
    Route(
        "POST", "/actions/retry", retry_actions, "Retry the actions of one status that match a filter",
        tag="Actions", description=_BULK, body=RetryActionsRequest,
        answers={HTTPStatus.OK: (BulkResultDocument, "The result.")},
    ),
    Route(
        "POST", "/actions/cancel", cancel_actions,
        "Cancel the actions that match a filter and are pending or have no handler", tag="Actions",
        description=f"{_BULK} Pending actions that are overdue or due within `edit_lock_seconds` are left out unless "
        "`force` is true.",
        body=CancelActionsRequest, answers={HTTPStatus.OK: (BulkResultDocument, "The result.")},
    ),
    Route(
        "POST", "/actions/delete", delete_actions, "Delete the finished actions that match a filter", tag="Actions",
        description=_BULK, body=DeleteActionsRequest,
        answers={HTTPStatus.OK: (BulkResultDocument, "The result.")},
    ),
)  # fmt: skip
