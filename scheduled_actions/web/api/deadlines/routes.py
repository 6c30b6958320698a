"""Deadlines over HTTP: set, list, show, complete, move, cancel, pause, resume, acknowledge, reassign."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING
from uuid import UUID

from scheduled_actions.core.errors import (
    HandlerBroken,
    InvalidArgument,
    NeverOccurs,
    PayloadInvalid,
    RecurrenceInvalid,
    RegistryInvalid,
    TooLarge,
    TypeNotOpen,
    UnknownActionType,
    UnknownDeadline,
    WrongDeadlineStatus,
)
from scheduled_actions.core.pages import page_of
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.deadlines import models
from scheduled_actions.web.api.requests.etags import as_it_was_seen, etag_of
from scheduled_actions.web.api.routing import Answer, Call, Route

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from scheduled_actions.deadlines.model import Deadline
    from scheduled_actions.deadlines.preview import Foreseen


def list_deadlines(call: Call) -> Answer:
    """Answer a page of the deadlines that match; of another team there are none."""
    query: models.DeadlinesQuery = call.query
    if not call.caller.sees(query.team_id):
        return Answer(models.DeadlinesPage(deadlines=[], next_cursor=None))
    given = query.model_dump(exclude={"overdue", "team_id", "target_type", "target_id", "limit"})
    target = None if query.target_type is None else {"type": query.target_type, "id": query.target_id or ""}
    team_id = call.caller.team_id or query.team_id
    read = partial(call.runtime.deadlines.find, **given, is_overdue=query.overdue, target=target, team_id=team_id)
    found, next_cursor = page_of(lambda limit: read(limit=limit), query.limit)
    return Answer(
        models.DeadlinesPage(deadlines=[models.Deadline.model_validate(one) for one in found], next_cursor=next_cursor)
    )


def set_one(call: Call) -> Answer:
    """Set a deadline, or bring the unresolved one of the same name up to date."""
    given: models.NewDeadline = call.body
    arguments = {"created_by": call.caller.name, **given.arguments(), "team_id": call.caller.team_for(given.team_id)}
    with call.borrowed() as connection:
        made, is_new = call.runtime.deadlines.set(arguments, requester=call.caller.requester, connection=connection)
    answer = _answer(made)
    status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    return replace(answer, status=status, headers={**answer.headers, "Location": f"{call.base}/deadlines/{made.id}"})


def show(call: Call) -> Answer:
    """Answer one deadline with its timeline."""
    deadlines = call.runtime.deadlines
    deadline = deadlines.get(call.path["id"], team_id=call.caller.team_id)
    steps = [models.Step.model_validate(one) for one in deadlines.timeline(deadline)]
    shown = models.Deadline.model_validate(deadline)
    notices = [models.NotificationReceipt.model_validate(one) for one in reversed(deadlines.notices(deadline))]
    whole = models.DeadlineWithTimeline(**dict(shown), timeline=steps, notices=notices, history=list(deadline.history))
    return Answer(whole, headers={"ETag": etag_of(shown)})


def list_notices(call: Call) -> Answer:
    """Answer a page of what was sent of one deadline, the newest first."""
    query: models.NoticesQuery = call.query
    deadlines = call.runtime.deadlines
    deadline = deadlines.get(call.path["id"], team_id=call.caller.team_id)
    found, next_cursor = page_of(
        lambda limit: deadlines.notices(deadline, before=query.cursor, limit=limit), query.limit
    )
    shown = [models.NotificationReceipt.model_validate(one) for one in found]
    return Answer(models.NoticesPage(notices=shown, next_cursor=next_cursor))


def foresee(call: Call) -> Answer:
    """Answer what would come of a new deadline."""
    given: models.NewDeadline = call.body
    team_id = call.caller.team_for(given.team_id)
    return _foreseen(
        call.runtime.deadlines.foresee({**given.arguments(), "team_id": team_id}, requester=call.caller.requester)
    )


def foresee_change(call: Call) -> Answer:
    """Answer what would come of a deadline if it were changed."""
    changes = {name: value for name, value in call.body.arguments().items() if name != "note"}
    caller = call.caller
    return _foreseen(
        call.runtime.deadlines.foresee_change(
            call.path["id"], changes, team_id=caller.team_id, requester=caller.requester
        )
    )


def _foreseen(found: Foreseen) -> Answer:
    return Answer(models.ForeseenDeadline.model_validate(found))


def change(call: Call) -> Answer:
    """Change what is given of it, and of those that follow it in its series."""
    change = partial(call.runtime.deadlines.update, requester=call.caller.requester)
    return _told(call, change, **call.body.arguments())


def complete(call: Call) -> Answer:
    """Complete it."""
    return _told(call, call.runtime.deadlines.complete, at=call.body.at, note=call.body.note)


def cancel(call: Call) -> Answer:
    """Cancel it, or its series from it on."""
    return _told(call, call.runtime.deadlines.cancel, reason=call.body.note, series=call.body.series)


def move(call: Call) -> Answer:
    """Give it another due instant."""
    given: models.Moving = call.body
    due_at = given.due_at if given.due_at is not None else given.delay
    return _told(call, call.runtime.deadlines.move, due_at=due_at, again=given.again, note=given.note)


def move_many(call: Call) -> Answer:
    """Give many other due instants."""
    given: models.MovingMany = call.body
    moved = call.runtime.deadlines.move_many(
        {UUID(one): at for one, at in given.moves.items()},
        again=given.again,
        note=given.note,
        by=call.caller.name,
        team_id=call.caller.team_id,
    )
    return Answer(models.Moved(moved=moved))


def pause(call: Call) -> Answer:
    """Let its clock stand still."""
    return _told(call, call.runtime.deadlines.pause, note=call.body.note)


def resume(call: Call) -> Answer:
    """Let its clock go on."""
    return _told(call, call.runtime.deadlines.resume, note=call.body.note)


def acknowledge(call: Call) -> Answer:
    """Silence its nagging."""
    return _told(call, call.runtime.deadlines.acknowledge, until=call.body.until, note=call.body.note)


def reassign(call: Call) -> Answer:
    """Make other people responsible."""
    change = partial(call.runtime.deadlines.reassign, requester=call.caller.requester)
    return _told(call, change, recipients=call.body.recipients, note=call.body.note)


def _told(call: Call, change: Callable[..., Deadline], **arguments: Any) -> Answer:  # noqa: ANN401 - of the change
    with as_it_was_seen(call, call.runtime.deadlines.locked, models.Deadline.model_validate) as connection:
        changed = change(
            call.path["id"], **arguments, by=call.caller.name, team_id=call.caller.team_id, connection=connection
        )
    return _answer(changed)


def _answer(deadline: Deadline) -> Answer:
    shown = models.Deadline.model_validate(deadline)
    return Answer(shown, headers={"ETag": etag_of(shown)})


_MAKING = (
    InvalidArgument, RecurrenceInvalid, NeverOccurs, PayloadInvalid, UnknownActionType, TypeNotOpen, TooLarge,
    HandlerBroken, RegistryInvalid,
)  # fmt: skip
_CHANGING = (UnknownDeadline, WrongDeadlineStatus, InvalidArgument)
_ONE = {HTTPStatus.OK: (models.Deadline, "The deadline as it is now.")}
_ETAG = {"ETag": "For If-Match: names the deadline as it is answered here; its timeline and history do not count."}


def _route(method: str, path: str, function: object, summary: str, **more: object) -> Route:
    usual: dict[str, object] = {"role": Role.OPERATOR, "answers": _ONE, "tag": "Deadlines", "refuses": _CHANGING}
    if path.startswith("/{id}"):
        usual |= {"headers": _ETAG, "takes_if_match": method != "GET"}
    return Route(method=method, path=f"/deadlines{path}", function=function, summary=summary, **usual | more)  # type: ignore[arg-type]


ROUTES = (
    _route(
        "GET", "", list_deadlines, "List deadlines, the newest first", role=Role.VIEWER, query=models.DeadlinesQuery,
        answers={HTTPStatus.OK: (models.DeadlinesPage, "A page.")}, refuses=(),
    ),
    _route(
        "POST", "", set_one, "Set a deadline, or bring the unresolved one of that name up to date",
        body=models.NewDeadline,
        description="All that is planned is an action of the deadline's. Asking again for the same changes nothing.",
        answers={
            HTTPStatus.CREATED: (models.Deadline, "It was set."),
            HTTPStatus.OK: (models.Deadline, "One of that name was there: it is as asked for."),
        },
        headers={**_ETAG, "Location": "Where the deadline is."}, refuses=_MAKING, creates=True,
    ),
    _route(
        "POST", "/move", move_many, "Move many, in one transaction", body=models.MovingMany,
        description="All of them, or none.", answers={HTTPStatus.OK: (models.Moved, "They were moved.")},
    ),
    _route(
        "GET", "/{id}", show, "Show a deadline, by id or name, with its timeline", role=Role.VIEWER,
        answers={HTTPStatus.OK: (models.DeadlineWithTimeline, "The deadline.")}, refuses=(UnknownDeadline,),
    ),
    _route(
        "GET", "/{id}/notices", list_notices, "List what was sent of a deadline, the newest first", role=Role.VIEWER,
        query=models.NoticesQuery, answers={HTTPStatus.OK: (models.NoticesPage, "A page.")}, refuses=(UnknownDeadline,),
        headers={},
    ),
    _route(
        "PATCH", "/{id}", change, "Change a deadline, and those that follow it in its series",
        body=models.DeadlineChanges, refuses=(*_CHANGING, *_MAKING),
        description="What is still to come is planned anew; what was sent stays sent, and due instants stay: POST "
        "…/move moves them. A rule changes what comes after the last one that was made.",
    ),
    _route(
        "POST", "/preview", foresee, "Look at what would come of a new deadline", role=Role.VIEWER,
        body=models.NewDeadline,
        description="Nothing is written; `name` is not looked up.", refuses=_MAKING,
        answers={HTTPStatus.OK: (models.ForeseenDeadline, "When it is due, and its stages.")},
    ),
    _route(
        "POST", "/{id}/preview", foresee_change, "Look at what would come of a deadline if it were changed",
        role=Role.VIEWER, body=models.DeadlineChanges, description="Nothing is written.",
        answers={HTTPStatus.OK: (models.ForeseenDeadline, "When it is due, and its stages.")},
        refuses=(*_CHANGING, *_MAKING), headers={}, takes_if_match=False,
    ),
    _route(
        "POST", "/{id}/complete", complete, "Complete a deadline", body=models.Completing, is_body_optional=True,
        description="Once this has been answered, nothing of it begins to be sent.",
    ),
    _route(
        "POST", "/{id}/cancel", cancel, "Cancel a deadline, or its series from it on", body=models.Cancelling,
        is_body_optional=True,
    ),
    _route(
        "POST", "/{id}/move", move, "Give a deadline another due instant", body=models.Moving,
        description="What is still to come is planned anew; what was sent stays sent.",
    ),
    _route("POST", "/{id}/pause", pause, "Let its clock stand still", body=models.Note, is_body_optional=True),
    _route("POST", "/{id}/resume", resume, "Let its clock go on", body=models.Note, is_body_optional=True),
    _route(
        "POST", "/{id}/acknowledge", acknowledge, "Silence its nagging, not its escalation", body=models.Acknowledging,
        is_body_optional=True,
    ),
    _route(
        "POST", "/{id}/reassign", reassign, "Make other people responsible", body=models.Reassigning,
        description="Once this has been answered, no notice to a former recipient begins to be sent.",
    ),
)  # fmt: skip
