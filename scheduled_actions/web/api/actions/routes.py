"""Actions over HTTP: schedule, list, show, change, cancel, remove, retry."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from scheduled_actions.actions.management import Counts
from scheduled_actions.actions.model import NewAction
from scheduled_actions.actions.search import Page
from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import (
    ActionLocked,
    FollowUpInvalid,
    HandlerBroken,
    InvalidArgument,
    PayloadInvalid,
    RefusedByDatabase,
    RegistryInvalid,
    RequestError,
    TooLarge,
    TypeNotOpen,
    UnknownAction,
    UnknownActionType,
    WrongStatus,
)
from scheduled_actions.operations.explain import service as explaining
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.actions import models
from scheduled_actions.web.api.requests.etags import as_it_was_seen, etag_of
from scheduled_actions.web.api.requests.problems import field_problems
from scheduled_actions.web.api.requests.refusals import FieldsInvalid, UnknownActionTypes
from scheduled_actions.web.api.routing import Answer, Call, Route

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from scheduled_actions.core.action import Action
    from scheduled_actions.database.connection import Connection

_BATCH_LIMIT = 4 * 1024 * 1024


def list_actions(call: Call) -> Answer:
    """Answer a page of the actions that match; of another team there are none."""
    query: models.ListQuery = call.query
    if call.caller.sees(query.team_id):
        filters = replace(query.filters(), team_id=call.caller.team_id or query.team_id)
        page = call.management.page(filters, cursor=query.cursor, limit=query.limit)
    else:
        page = Page([], None)
    return Answer(models.ActionsPage.model_validate(page))


def schedule(call: Call) -> Answer:
    """Schedule one action; answer it, or the one that it was merged into."""
    with call.borrowed() as connection:
        new = NewAction(**_arguments(call, call.body))
        scheduled = call.runtime.scheduler.schedule_action(new, requester=call.caller.requester, connection=connection)
        action = call.management.get(scheduled.id, team_id=call.caller.team_id, connection=connection)
    shown = models.Action.model_validate(action)
    return Answer(
        models.ScheduledAction(**dict(shown), deduplicated=scheduled.deduplicated),
        HTTPStatus.OK if scheduled.deduplicated else HTTPStatus.CREATED,
        {"ETag": etag_of(shown), "Location": f"{call.base}/actions/{action.id}"},
    )


def schedule_many(call: Call) -> Answer:
    """Schedule many actions, all of them or none; answer their ids in their order."""
    rows: list[dict[str, Any]] = []
    refused: list[tuple[int, RequestError]] = []
    for position, new in enumerate(call.body.actions):
        arguments = _arguments(call, new)
        try:
            rows.append(call.runtime.preparation.row(arguments, requester=call.caller.requester))
        except TypeNotOpen as error:
            raise error.inside(f"actions.{position}") from None
        except RequestError as error:
            refused.append((position, error))
    if refused:
        problems = [one for position, error in refused for one in field_problems(error, inside=f"actions.{position}")]
        unknown = next((error for _, error in refused if isinstance(error, UnknownActionType)), None)
        raise FieldsInvalid(problems) if unknown is None else UnknownActionTypes(unknown, problems)
    scheduled = call.runtime.scheduler.schedule_prepared(rows, connection=call.connection)
    document = models.ScheduledActions(
        actions=[models.Scheduled(id=one.id, deduplicated=one.deduplicated) for one in scheduled]
    )
    is_new = any(not one.deduplicated for one in scheduled)
    return Answer(document, HTTPStatus.CREATED if is_new else HTTPStatus.OK)


def show(call: Call) -> Answer:
    """Answer one action with its whole history."""
    return _told(call.management.get(call.path["id"], team_id=call.caller.team_id))


def explain(call: Call) -> Answer:
    """Answer why one action has not run, or how it ended."""
    found = explaining.explain(call.runtime, call.path["id"], team_id=call.caller.team_id)
    return Answer(
        models.Explanation(
            id=arguments.check_id(call.path["id"]),
            code=found.code,
            sentence=found.sentence,
            remedy=found.remedy,
            details=found.details,
        )
    )


def follow_ups(call: Call) -> Answer:
    """Answer a page of what one action scheduled."""
    query: models.FollowUpsQuery = call.query
    page = call.management.scheduled_by(
        call.path["id"], team_id=call.caller.team_id, cursor=query.cursor, limit=query.limit
    )
    return Answer(models.ActionsPage.model_validate(page))


def change(call: Call) -> Answer:
    """Change what is given of a pending action; where nothing is, answer it as it is."""
    arguments = call.body.arguments()
    is_forced = arguments.pop("force", False) or call.query.force
    with _as_it_was_seen(call) as connection:
        if arguments.keys() <= {"timezone"}:
            return _told(call.management.get(call.path["id"], team_id=call.caller.team_id, connection=connection))
        action = call.runtime.scheduler.update_action(
            call.path["id"],
            **arguments,
            by=call.caller.name,
            team_id=call.caller.team_id,
            edit_lock_seconds=None if is_forced else call.runtime.config.settings.edit_lock_seconds,
            requester=call.caller.requester,
            connection=connection,
        )
    return _told(action)


def delete(call: Call) -> Answer:
    """Cancel a waiting action, or remove a finished one; answer what it is, or was."""
    query: models.DeleteQuery = call.query
    team_id = call.caller.team_id
    with _as_it_was_seen(call) as connection:
        if query.purge:
            return _told(call.management.purge(call.path["id"], team_id=team_id, connection=connection))
        action = call.runtime.scheduler.cancel_action(
            call.path["id"],
            reason=query.reason,
            by=call.caller.name,
            also_running=False,
            team_id=team_id,
            edit_lock_seconds=None if query.force else call.runtime.config.settings.edit_lock_seconds,
            connection=connection,
        )
    return _told(action)


def retry(call: Call) -> Answer:
    """Make a finished action pending again."""
    caller = call.caller
    with _as_it_was_seen(call) as connection:
        action = call.runtime.scheduler.retry_action(
            call.path["id"], by=caller.name, team_id=caller.team_id, connection=connection
        )
    return _told(action)


def run_now(call: Call) -> Answer:
    """Make a pending action due."""
    caller = call.caller
    with _as_it_was_seen(call) as connection:
        action = call.management.run_now(call.path["id"], by=caller.name, team_id=caller.team_id, connection=connection)
    return _told(action)


def count(call: Call) -> Answer:
    """Answer how many actions there are; of another team there are none."""
    query: models.CountsQuery = call.query
    if call.caller.sees(query.team_id):
        team_id = call.caller.team_id or query.team_id
        counts = call.management.counts(team_id=team_id, overdue_seconds=query.overdue_seconds)
        lateness = call.management.lateness(team_id=team_id)
    else:
        counts, lateness = Counts(), []
    return Answer(
        models.Counts(
            **{status.value: number for status, number in counts.by_status.items()},
            due=counts.due,
            overdue=counts.overdue,
            oldest_due_seconds=counts.oldest_due_seconds,
            by_type=dict(sorted(counts.by_type.items())),
            capped=counts.capped,
            lateness={
                one.action_type: models.Lateness(
                    measured=one.number,
                    p50_seconds=one.p50_seconds,
                    p95_seconds=one.p95_seconds,
                    max_seconds=one.max_seconds,
                )
                for one in lateness
            },
        )
    )


def _arguments(call: Call, new: models.NewAction) -> dict[str, Any]:
    given = new.arguments()
    team_id = call.caller.team_for(given.pop("team_id", None))
    return {"created_by": call.caller.name} | given | ({} if team_id is None else {"team_id": team_id})


def _told(action: Action) -> Answer:
    shown = models.Action.model_validate(action)
    return Answer(shown, headers={"ETag": etag_of(shown)})


def _as_it_was_seen(call: Call) -> AbstractContextManager[Connection | None]:
    return as_it_was_seen(call, call.management.locked, models.Action.model_validate)


_SCHEDULING = (
    PayloadInvalid, InvalidArgument, FollowUpInvalid, RefusedByDatabase, UnknownActionType, TypeNotOpen, TooLarge,
    HandlerBroken, RegistryInvalid,
)  # fmt: skip
_ETAG = {"ETag": "For If-Match: names the action as it is answered here."}

ROUTES = (
    Route(
        method="GET",
        path="/actions",
        function=list_actions,
        role=Role.VIEWER,
        tag="Actions",
        summary="List actions, the newest first",
        description="Every filter given must match. Go on with `next_cursor` until it is null: a page looks at a "
        "bounded number of actions, so that a short one, even an empty one, may not be the last.",
        query=models.ListQuery,
        answers={HTTPStatus.OK: (models.ActionsPage, "A page.")},
    ),
    Route(
        method="POST",
        path="/actions",
        function=schedule,
        role=Role.OPERATOR,
        tag="Actions",
        summary="Schedule an action",
        body=models.NewAction,
        answers={
            HTTPStatus.CREATED: (models.ScheduledAction, "It was scheduled."),
            HTTPStatus.OK: (models.ScheduledAction, "It was merged into one that already waited."),
        },
        headers={**_ETAG, "Location": "Where the action is."},
        refuses=_SCHEDULING,
        creates=True,
    ),
    Route(
        method="POST",
        path="/actions/batch",
        function=schedule_many,
        role=Role.OPERATOR,
        tag="Actions",
        summary="Schedule many actions, all of them or none",
        description=f"Up to {models.BATCH_MOST:,} actions; every refused one is named by its position.",
        body=models.NewActions,
        body_limit=_BATCH_LIMIT,
        answers={
            HTTPStatus.CREATED: (models.ScheduledActions, "They were scheduled, or merged, in their order."),
            HTTPStatus.OK: (models.ScheduledActions, "All of them were merged into actions that already waited."),
        },
        refuses=_SCHEDULING,
        creates=True,
    ),
    Route(
        method="GET",
        path="/actions/counts",
        function=count,
        role=Role.VIEWER,
        tag="Actions",
        summary="Count actions by status and type, and those that are due",
        description="Each status is counted to 10,000; `capped` names the counts that stopped there.",
        query=models.CountsQuery,
        answers={HTTPStatus.OK: (models.Counts, "The counts.")},
    ),
    Route(
        method="GET",
        path="/actions/{id}",
        function=show,
        role=Role.VIEWER,
        tag="Actions",
        summary="Show an action with its history",
        answers={HTTPStatus.OK: (models.Action, "The action.")},
        headers=_ETAG,
        refuses=(UnknownAction,),
    ),
    Route(
        method="GET",
        path="/actions/{id}/explain",
        function=explain,
        role=Role.VIEWER,
        tag="Actions",
        summary="Say why an action has not run, or how it ended",
        description="The one reason that holds it where it is; docs/reference/explain.md says what each `code` means.",
        answers={HTTPStatus.OK: (models.Explanation, "The reason.")},
        refuses=(UnknownAction,),
    ),
    Route(
        method="GET",
        path="/actions/{id}/scheduled",
        function=follow_ups,
        role=Role.VIEWER,
        tag="Actions",
        summary="List what an action scheduled, the newest first",
        description="What its handler scheduled with its context, an event's deliveries among them, and what follows "
        "its end. What was merged into an action that already waited is not among them.",
        query=models.FollowUpsQuery,
        answers={HTTPStatus.OK: (models.ActionsPage, "A page.")},
        refuses=(UnknownAction,),
    ),
    Route(
        method="PATCH",
        path="/actions/{id}",
        function=change,
        role=Role.OPERATOR,
        tag="Actions",
        summary="Change a pending action",
        description="One that is due within `edit_lock_seconds` is locked, unless `force` is true.",
        query=models.ChangeQuery,
        body=models.ActionChanges,
        answers={HTTPStatus.OK: (models.Action, "The action as it is now.")},
        headers=_ETAG,
        refuses=(UnknownAction, WrongStatus, ActionLocked, *_SCHEDULING),
        takes_if_match=True,
    ),
    Route(
        method="DELETE",
        path="/actions/{id}",
        function=delete,
        role=Role.OPERATOR,
        tag="Actions",
        summary="Cancel a waiting action, or remove a finished one",
        description="Without `purge` the action is cancelled, and stays to be seen until it is pruned.",
        query=models.DeleteQuery,
        answers={HTTPStatus.OK: (models.Action, "The action as it is now; with `purge`, as it was.")},
        headers=_ETAG,
        refuses=(UnknownAction, WrongStatus, ActionLocked),
        takes_if_match=True,
    ),
    Route(
        method="POST",
        path="/actions/{id}/retry",
        function=retry,
        role=Role.OPERATOR,
        tag="Actions",
        summary="Make a failed, cancelled or skipped action pending again",
        description="It is due at once, its attempts back to zero.",
        answers={HTTPStatus.OK: (models.Action, "The action as it is now.")},
        headers=_ETAG,
        refuses=(UnknownAction, WrongStatus),
        creates=True,
        takes_if_match=True,
    ),
    Route(
        method="POST",
        path="/actions/{id}/run-now",
        function=run_now,
        role=Role.OPERATOR,
        tag="Actions",
        summary="Make a pending action due",
        description="The next tick takes it; one that is due already keeps its place.",
        answers={HTTPStatus.OK: (models.Action, "The action as it is now.")},
        headers=_ETAG,
        refuses=(UnknownAction, WrongStatus),
        creates=True,
        takes_if_match=True,
    ),
)
