"""Routes that create, list, preview and change deadlines."""

from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any

from scheduled_actions.core.errors import (
    ActionTypeForbidden,
    BudgetExceeded,
    DeadlineNotApplied,
    DeadlineUnusable,
    FunctionTimedOut,
    HandlerBroken,
    InvalidArgument,
    NeverOccurs,
    PayloadInvalid,
    RecurrenceInvalid,
    TooLarge,
    UnknownActionType,
    UnknownDeadline,
    WrongDeadlineStatus,
)
from scheduled_actions.deadlines import model, operations, preview, reading
from scheduled_actions.deadlines.service import Deadlines
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.deadlines.models import (
    AcknowledgeDeadlineRequest,
    CancelDeadlineRequest,
    CompleteDeadlineRequest,
    CreateDeadlineRequest,
    DeadlineDocument,
    DeadlinePage,
    DeadlinePreviewDocument,
    DeadlinesQuery,
    DeadlineWithTimeline,
    MovedDeadlines,
    MoveDeadlineRequest,
    MoveDeadlinesRequest,
    NotificationPage,
    ReasonRequest,
    ReassignDeadlineRequest,
    UpdateDeadlineRequest,
)
from scheduled_actions.web.api.models import EmptyRequest, PageQuery
from scheduled_actions.web.api.routing import Answer, Call, Route, page_answer, require_if_match


def list_deadlines(call: Call[DeadlinesQuery, EmptyRequest]) -> Answer:
    """Return a page of deadlines, newest first."""
    return page_answer(
        call,
        DeadlinePage,
        partial(
            reading.find,
            call.runtime.database,
            status=call.query.status,
            is_overdue=call.query.overdue,
            team_id=call.team_filter,
            user_id=call.query.user_id,
            target=call.query.target,
            name=call.query.name,
            series_id=call.query.series_id,
            due_from=call.query.due_from,
            due_to=call.query.due_to,
            cursor=call.query.cursor,
        ),
    )


def create_deadline(call: Call[EmptyRequest, CreateDeadlineRequest]) -> Answer:
    """Create a deadline, or update the unresolved deadline of the same name."""
    given = {"created_by": call.caller.name, **call.body.given(), "team_id": call.caller.team_for(call.body.team_id)}
    with call.borrowed() as connection:
        deadline, outcome = call.runtime.deadlines.set(given, requester=call.caller.requester, connection=connection)
    return _answer(deadline).located(f"{call.base}/deadlines/{deadline.id}", is_new=outcome == "created")


def get_deadline(call: Call[EmptyRequest, EmptyRequest]) -> Answer:
    """Return a deadline with its timeline, latest notifications and history."""
    deadline = call.runtime.deadlines.get(call.reference, team_id=call.caller.team_id)
    return _answer(deadline).extended(
        DeadlineWithTimeline,
        timeline=reading.timeline(call.runtime.database, deadline),
        notices=reading.notices(call.runtime.database, deadline)[::-1],
        history=deadline.history,
    )


def list_notices(call: Call[PageQuery, EmptyRequest]) -> Answer:
    """Return a page of the notifications of a deadline, newest first."""
    deadline = call.runtime.deadlines.get(call.reference, team_id=call.caller.team_id)
    return page_answer(
        call,
        NotificationPage,
        partial(reading.notices, call.runtime.database, deadline, before=call.query.cursor),
    )


def preview_deadline(call: Call[EmptyRequest, CreateDeadlineRequest]) -> Answer:
    """Return the due instant and the stages that a new deadline would have."""
    given = {**call.body.given(), "team_id": call.caller.team_for(call.body.team_id)}
    previewed = preview.preview_deadline(call.runtime.deadlines, given, requester=call.caller.requester)
    return Answer(DeadlinePreviewDocument.model_validate(previewed))


def preview_deadline_update(call: Call[EmptyRequest, UpdateDeadlineRequest]) -> Answer:
    """Return the due instant and the stages that a deadline would have after an update."""
    changes = {name: value for name, value in call.body.given().items() if name != "reason"}
    previewed = preview.preview_update(
        call.runtime.deadlines,
        call.reference,
        changes,
        team_id=call.caller.team_id,
        requester=call.caller.requester,
    )
    return Answer(DeadlinePreviewDocument.model_validate(previewed))


def update_deadline(call: Call[EmptyRequest, UpdateDeadlineRequest]) -> Answer:
    """Update a deadline and the later unresolved deadlines of its series."""
    return _change(call, Deadlines.update, requester=call.caller.requester, **call.body.given())


def complete_deadline(call: Call[EmptyRequest, CompleteDeadlineRequest]) -> Answer:
    """Complete a deadline, so that none of its stages starts after the response."""
    return _change(call, operations.complete, **dict(call.body))


def cancel_deadline(call: Call[EmptyRequest, CancelDeadlineRequest]) -> Answer:
    """Cancel a deadline; with `series`, also the later unresolved deadlines of its series."""
    return _change(call, operations.cancel, **dict(call.body))


def move_deadline(call: Call[EmptyRequest, MoveDeadlineRequest]) -> Answer:
    """Move a deadline to another due instant."""
    return _change(call, Deadlines.move, **{"due_at": None, **call.body.given()})


def move_deadlines(call: Call[EmptyRequest, MoveDeadlinesRequest]) -> Answer:
    """Move many deadlines in one transaction."""
    return Answer(
        MovedDeadlines(
            moved=call.runtime.deadlines.move_many(
                **dict(call.body),
                by=call.caller.name,
                team_id=call.caller.team_id,
            )
        )
    )


def pause_deadline(call: Call[EmptyRequest, ReasonRequest]) -> Answer:
    """Pause an open deadline: no stage runs until the deadline is resumed."""
    return _change(call, operations.pause, **dict(call.body))


def resume_deadline(call: Call[EmptyRequest, ReasonRequest]) -> Answer:
    """Resume a paused deadline, with as much working time left as when it was paused."""
    return _change(call, operations.resume, **dict(call.body))


def acknowledge_deadline(call: Call[EmptyRequest, AcknowledgeDeadlineRequest]) -> Answer:
    """Mute the repeated reminders of a deadline, and the levels that stop when the deadline is acknowledged."""
    return _change(call, operations.acknowledge, **dict(call.body))


def reassign_deadline(call: Call[EmptyRequest, ReassignDeadlineRequest]) -> Answer:
    """Replace the recipients of a deadline, who are responsible for it, and end its acknowledgement."""
    return _change(call, operations.reassign, requester=call.caller.requester, **dict(call.body))


def _change(call: Call[Any, Any], change: Callable[..., model.Deadline], **arguments: Any) -> Answer:  # noqa: ANN401 - of the change
    one = (call.runtime.deadlines, call.reference)
    team_id = call.caller.team_id
    lock = partial(Deadlines.locked, *one, team_id=team_id)
    with require_if_match(call, lock, DeadlineDocument.model_validate) as connection:
        return _answer(change(*one, **arguments, by=call.caller.name, team_id=team_id, connection=connection))


def _answer(deadline: model.Deadline) -> Answer:
    return Answer.with_etag(DeadlineDocument.model_validate(deadline))


_DEFINING = (
    InvalidArgument, RecurrenceInvalid, NeverOccurs, BudgetExceeded, FunctionTimedOut, PayloadInvalid,
    UnknownActionType, ActionTypeForbidden, TooLarge, HandlerBroken,
)  # fmt: skip
_CHANGING = (
    UnknownDeadline,
    WrongDeadlineStatus,
    DeadlineUnusable,
    DeadlineNotApplied,
    InvalidArgument,
    BudgetExceeded,
)
_PREVIEW = {HTTPStatus.OK: (DeadlinePreviewDocument, "The due instant and the stages.")}
_ETAG = {"ETag": "Version of the deadline, for If-Match; it does not depend on the timeline or the history."}
#: Options of the routes that change a deadline.
_CHANGE: dict[str, Any] = {
    "tag": "Deadlines",
    "answers": {HTTPStatus.OK: (DeadlineDocument, "The deadline.")},
    "headers": _ETAG,
    "takes_if_match": True,
}

ROUTES = (
    Route(
        "GET", "/deadlines", list_deadlines, "List deadlines, newest first", tag="Deadlines", query=DeadlinesQuery,
        answers={HTTPStatus.OK: (DeadlinePage, "A page of deadlines.")},
    ),
    Route(
        "POST", "/deadlines", create_deadline, "Create or update a deadline by name", tag="Deadlines",
        description="Plans each stage as an action of the deadline. An identical request changes nothing. Changing a "
        "deadline outside a series also reopens it if it was missed, and ends its acknowledgement.",
        body=CreateDeadlineRequest,
        answers={
            HTTPStatus.CREATED: (DeadlineDocument, "The deadline was created."),
            HTTPStatus.OK: (DeadlineDocument, "The unresolved deadline of that name was updated."),
        },
        headers={**_ETAG, "Location": "Path of the deadline."}, refuses=_DEFINING, creates=True,
    ),
    Route(
        "POST", "/deadlines/move", move_deadlines, "Move many deadlines in one transaction", tag="Deadlines",
        description="Moves either all of the deadlines or none.", body=MoveDeadlinesRequest,
        answers={HTTPStatus.OK: (MovedDeadlines, "The number of moved deadlines.")}, refuses=_CHANGING,
    ),
    Route(
        "GET", "/deadlines/{id}", get_deadline, "Get a deadline by id or name, with its timeline", tag="Deadlines",
        description="Of several deadlines with one name, returns the unresolved one that is due first or, if all are "
        "resolved, the newest.",
        answers={HTTPStatus.OK: (DeadlineWithTimeline, "The deadline.")}, refuses=(UnknownDeadline,), headers=_ETAG,
    ),
    Route(
        "GET", "/deadlines/{id}/notices", list_notices, "List the notifications of a deadline, newest first",
        tag="Deadlines", query=PageQuery, answers={HTTPStatus.OK: (NotificationPage, "A page of notifications.")},
        refuses=(UnknownDeadline,),
    ),
    Route(
        "PATCH", "/deadlines/{id}", update_deadline, "Update a deadline and the later deadlines of its series",
        description="Plans the future stages again; sent notifications and due instants do not change (POST …/move "
        "changes a due instant). A new rule applies after the last existing deadline of the series.",
        body=UpdateDeadlineRequest, refuses=(*_CHANGING, *_DEFINING), **_CHANGE,
    ),
    Route(
        "POST", "/deadlines/preview", preview_deadline, "Preview a new deadline", tag="Deadlines",
        description="Nothing is stored; an existing deadline of the same name is ignored.", least_role=Role.VIEWER,
        body=CreateDeadlineRequest, answers=_PREVIEW, refuses=_DEFINING,
    ),
    Route(
        "POST", "/deadlines/{id}/preview", preview_deadline_update, "Preview an update of a deadline", tag="Deadlines",
        description="Nothing is stored.", least_role=Role.VIEWER, body=UpdateDeadlineRequest, answers=_PREVIEW,
        refuses=(*_CHANGING, *_DEFINING),
    ),
    Route(
        "POST", "/deadlines/{id}/complete", complete_deadline, "Complete a deadline",
        description="After the response, no notification of the deadline is sent.",
        body=CompleteDeadlineRequest, is_body_optional=True, refuses=_CHANGING, **_CHANGE,
    ),
    Route(
        "POST", "/deadlines/{id}/cancel", cancel_deadline,
        "Cancel a deadline, optionally with the later deadlines of its series",
        description="With `series`, the later unresolved deadlines are also cancelled, and no further deadline is "
        "created; without it, the series continues.",
        body=CancelDeadlineRequest, is_body_optional=True, refuses=_CHANGING, **_CHANGE,
    ),
    Route(
        "POST", "/deadlines/{id}/move", move_deadline, "Move a deadline to another due instant",
        description="Plans the future stages again; `resend` selects whether stages that have already run are "
        "repeated. A missed deadline becomes open again, and an acknowledgement ends.",
        body=MoveDeadlineRequest, refuses=_CHANGING, **_CHANGE,
    ),
    Route(
        "POST", "/deadlines/{id}/pause", pause_deadline, "Pause a deadline", body=ReasonRequest,
        description="Only an open deadline can be paused. No stage runs until the deadline is resumed; the next "
        "deadline of a series is still created.",
        is_body_optional=True, refuses=_CHANGING, **_CHANGE,
    ),
    Route(
        "POST", "/deadlines/{id}/resume", resume_deadline, "Resume a deadline", body=ReasonRequest,
        description="Moves the due instant so that as much working time is left as when the deadline was paused.",
        is_body_optional=True, refuses=_CHANGING, **_CHANGE,
    ),
    Route(
        "POST", "/deadlines/{id}/acknowledge", acknowledge_deadline, "Mute the repeated reminders of a deadline",
        description="Escalation continues, except for levels that stop when the deadline is acknowledged.",
        body=AcknowledgeDeadlineRequest, is_body_optional=True, refuses=_CHANGING, **_CHANGE,
    ),
    Route(
        "POST", "/deadlines/{id}/reassign", reassign_deadline, "Change the responsible people of a deadline",
        description="After the response, reminders without `to` notify only the new recipients. An acknowledgement "
        "ends.",
        body=ReassignDeadlineRequest, refuses=_CHANGING, **_CHANGE,
    ),
)  # fmt: skip
