"""Errors as RFC 9457 problem documents: the one place that maps them to HTTP."""

from __future__ import annotations

import json
import logging
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from flask import Response

from scheduled_actions.core.errors import (
    ActionLocked,
    BudgetExceeded,
    ConflictingChange,
    DatabaseUnavailable,
    DeploymentError,
    FieldProblem,
    FollowUpInvalid,
    InvalidArgument,
    PayloadInvalid,
    RecurrenceInvalid,
    RefusedByDatabase,
    RequestError,
    RowLocked,
    ScheduledActionsError,
    StateConflict,
    TooBusy,
    TooLarge,
    TypeNotOpen,
    UnknownAction,
    UnknownActionType,
    UnknownDeadline,
    UnknownDelivery,
    UnknownEndpoint,
    UnknownFact,
    UnknownFeed,
    UnknownSchedule,
    UnknownToken,
    WrongStatus,
)
from scheduled_actions.database.failures import refusal_of_the_moment
from scheduled_actions.database.transactions import refused
from scheduled_actions.web.api.requests import refusals
from scheduled_actions.web.api.requests.refusals import NotAuthorised

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger("scheduled_actions")

#: How SQL functions name what they refuse: `after: …`, or of many at once `new_actions[3]: after: …`.
_OF_SQL = re.compile(r"(?:new_actions\[([0-9]+)\]: )?([a-z_]+): (.+)", re.DOTALL)
#: When a caller may try again after a failure of the database, in seconds.
RETRY_AFTER_SECONDS = 5

#: What each error answers with; the nearest class of those it descends from decides.
_STATUSES: dict[type[ScheduledActionsError], HTTPStatus] = {
    ScheduledActionsError: HTTPStatus.INTERNAL_SERVER_ERROR,
    RequestError: HTTPStatus.BAD_REQUEST,
    StateConflict: HTTPStatus.CONFLICT,
    DeploymentError: HTTPStatus.SERVICE_UNAVAILABLE,
    NotAuthorised: HTTPStatus.UNAUTHORIZED,
    refusals.Forbidden: HTTPStatus.FORBIDDEN,
    TypeNotOpen: HTTPStatus.FORBIDDEN,
    BudgetExceeded: HTTPStatus.UNPROCESSABLE_ENTITY,
    UnknownAction: HTTPStatus.NOT_FOUND,
    UnknownActionType: HTTPStatus.UNPROCESSABLE_ENTITY,
    refusals.NoSuchTypePage: HTTPStatus.NOT_FOUND,
    UnknownDeadline: HTTPStatus.NOT_FOUND,
    UnknownDelivery: HTTPStatus.NOT_FOUND,
    UnknownEndpoint: HTTPStatus.NOT_FOUND,
    UnknownFact: HTTPStatus.NOT_FOUND,
    UnknownSchedule: HTTPStatus.NOT_FOUND,
    UnknownFeed: HTTPStatus.NOT_FOUND,
    UnknownToken: HTTPStatus.NOT_FOUND,
    refusals.UnknownRoute: HTTPStatus.NOT_FOUND,
    refusals.MethodNotAllowed: HTTPStatus.METHOD_NOT_ALLOWED,
    refusals.PreconditionFailed: HTTPStatus.PRECONDITION_FAILED,
    TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    refusals.UnsupportedMediaType: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    refusals.IdempotencyKeyReused: HTTPStatus.UNPROCESSABLE_ENTITY,
    refusals.TooManyAttempts: HTTPStatus.TOO_MANY_REQUESTS,
}


def problem(status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> Response:  # noqa: ANN401 - any JSON
    """Return a problem document.

    Args:
        status: HTTP status.
        code: Short name of the fact, in snake case.
        detail: What is wrong here and what would be right.
        headers: Further headers.
        more: Further members, such as the invalid fields.
    """
    document = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        **more,
    }
    response = Response(json.dumps(document), status, mimetype="application/problem+json")
    response.headers["Cache-Control"] = "no-store"
    response.headers.update(headers or {})
    return response


def problem_of(error: Exception, *, path: str = "") -> Response:
    """Return the problem document of an error."""
    told = tell(error, path=path)
    return problem(told.status, told.code, told.detail, headers=told.headers, **told.members)


class Told(NamedTuple):
    """An error as a caller may know it."""

    status: HTTPStatus
    #: Short name of the fact, in snake case.
    code: str
    #: What is wrong, and what would be right.
    detail: str
    headers: Mapping[str, str]
    #: Further members of a problem document.
    members: Mapping[str, Any]


def tell(error: Exception, *, path: str) -> Told:
    """Return what a caller is told of an error; one that is a fault of ours or of the database's goes to the log.

    Args:
        error: Any.
        path: Of the request, for the log.
    """
    match error:
        case ActionLocked():
            forced = "add force=true to change it all the same, unless a tick takes it first"
            return Told(status_of(type(error)), error.code, f"{error}: {forced}", {}, {})
        case ScheduledActionsError():
            return Told(status_of(type(error)), error.code, str(error), _headers(error), _members(error))
        case psycopg.Error():
            return _of_database(error, path=path)
        case _:
            log.error("api.broken path=%s", path, exc_info=error)
            return Told(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", "the API broke; the log says how", {}, {})


def _of_database(error: psycopg.Error, *, path: str) -> Told:
    """Convert a failed statement to the answer to its caller."""
    if (refusal := refusal_of_the_moment(error)) is not None:
        log.warning("api.busy path=%s error=%s", path, type(error).__name__)
        return tell(refusal, path=path)
    match error:
        case psycopg.DataError() | psycopg.errors.CheckViolation() | psycopg.errors.NotNullViolation():
            # A value that passed every check of ours, and that the database cannot take.
            return tell(refused(error), path=path)
        case psycopg.IntegrityError():
            log.warning("api.conflict path=%s constraint=%s", path, error.diag.constraint_name)
            return tell(ConflictingChange(error.diag.constraint_name), path=path)
        case _:
            log.error("api.database_error path=%s", path, exc_info=error)
            said = f"the database refused a statement ({type(error).__name__}, SQLSTATE {error.sqlstate}); see the log"
            retry = {"Retry-After": str(RETRY_AFTER_SECONDS)}
            return Told(HTTPStatus.SERVICE_UNAVAILABLE, "database_error", said, retry, {})


def status_of(kind: type[ScheduledActionsError]) -> HTTPStatus:
    """Return what an error of this kind is answered with."""
    return next(_STATUSES[ancestor] for ancestor in kind.__mro__ if ancestor in _STATUSES)


def _headers(error: ScheduledActionsError) -> dict[str, str]:
    match error:
        case DatabaseUnavailable() | RowLocked() | refusals.IdempotencyKeyInUse() | TooBusy():
            return {"Retry-After": str(RETRY_AFTER_SECONDS)}
        case refusals.TooManyAttempts(retry_after_seconds=seconds):
            return {"Retry-After": str(seconds)}
        case refusals.MethodNotAllowed(allowed=allowed):
            return {"Allow": ", ".join(allowed)}
        case refusals.PreconditionFailed(etag=etag):
            return {"ETag": etag}
        case NotAuthorised():
            return {"WWW-Authenticate": "Bearer"}
        case _:
            return {}


def _members(error: ScheduledActionsError) -> dict[str, Any]:
    match error:
        case WrongStatus(status=status):
            return {"action_status": str(status)}
        case RequestError():
            fields = field_problems(error)
            return {"errors": [{"field": one.where, "message": one.message} for one in fields]} if fields else {}
        case _:
            return {}


def field_problems(error: RequestError, *, inside: str = "") -> list[FieldProblem]:
    """Return the fields that a refusal is about, each with its whole path; none where it is about no field.

    Args:
        error: The refusal.
        inside: The path of what was refused.
    """
    match error:
        case refusals.FieldsInvalid(problems=problems) | refusals.UnknownActionTypes(problems=problems):
            found = [(one.where, one.message) for one in problems]
        case PayloadInvalid(problems=problems):
            found = [(f"payload.{one.where}".rstrip("."), one.message) for one in problems]
        case InvalidArgument(name=name, expected=expected):
            found = [(name, f"is not {expected}")]
        case refusals.BodyUnreadable(field=field, problem=problem) if field:
            found = [(field, problem.removeprefix(f"body.{field}: "))]
        case RefusedByDatabase() if named := _OF_SQL.match(str(error)):
            found = [(f"actions.{named[1]}.{named[2]}" if named[1] else named[2], named[3])]
        case RecurrenceInvalid(name=name, problem=problem):
            found = [(name, problem.removeprefix(f"{name}: "))]
        case TooLarge(name=name):
            found = [(name, str(error).removeprefix(f"{name} "))]
        case TypeNotOpen() | UnknownActionType():
            found = [(error.where, str(error).removeprefix(f"{error.where}: "))]
        case FollowUpInvalid(where=where, problem=problem):
            found = [(one.where, one.message) for one in field_problems(problem, inside=where)]
        case _:
            found = []
    return [
        FieldProblem(".".join(part for part in (inside, _dotted(where)) if part), message) for where, message in found
    ]


def _dotted(where: str) -> str:
    """Return a path with its places in lists as all paths have them here: `recipients.1`."""
    return re.sub(r"\[([0-9]+)\]", r".\1", where)
