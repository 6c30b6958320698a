"""Errors of the HTTP layer, and the conversion of every error to an RFC 9457 problem document."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple

import psycopg
from flask import Response
from werkzeug.exceptions import ClientDisconnected, RequestEntityTooLarge

from scheduled_actions.core.errors import (
    ActionLocked,
    ActionTypeForbidden,
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
    UnknownAction,
    UnknownActionType,
    UnknownDeadline,
    UnknownDelivery,
    UnknownEndpoint,
    UnknownExecutor,
    UnknownFact,
    UnknownFeed,
    UnknownPause,
    UnknownSchedule,
    UnknownToken,
    WrongCarrier,
    WrongStatus,
)
from scheduled_actions.core.errors.families import error_class
from scheduled_actions.core.log import log
from scheduled_actions.core.messages import counted
from scheduled_actions.database import boundary, transactions

#: Errors of SQL functions name the argument: `after: …`, or, for several actions, `new_actions[3]: after: …`.
_SQL_ARGUMENT = re.compile(r"(?:new_actions\[([0-9]+)\]: )?([a-z_]+): (.+)", re.DOTALL)
#: The Retry-After header, in seconds, of errors that may pass: a failed database, a locked row, or too many requests.
RETRY_AFTER_SECONDS = 5
#: Maximum number of invalid fields in `detail`; `errors` lists more.
_MAX_DETAILED = 5


@error_class
class Unauthorized(RequestError):
    """The request has no valid token, secret or signature."""

    message = "{detail}"
    detail: str
    #: Whether the request has no credentials, rather than wrong ones.
    shows_nothing: bool = field(default=False, kw_only=True)


@error_class
class Forbidden(RequestError):
    """The token is valid but lacks the permission."""

    message = "{detail}"
    detail: str


@error_class
class TooManyAttempts(RequestError):
    """Too many wrong tokens came from one address; valid tokens are still accepted."""

    retry_after_seconds: int

    def __str__(self) -> str:
        return f"too many wrong tokens from this address: try again in {counted(self.retry_after_seconds, 'second')}"


@error_class
class UnknownRoute(RequestError):
    """No route has this path."""

    message = "there is no route {path:.200}; /openapi.json lists all routes"
    path: str


@error_class
class MethodNotAllowed(RequestError):
    """The path exists, but not for this method."""

    method: str
    allowed: Sequence[str]

    def __str__(self) -> str:
        return f"method {self.method[:20]} is not allowed here; use {', '.join(self.allowed)}"


@error_class
class UnsupportedMediaType(RequestError):
    """The body is not declared as JSON in UTF-8."""

    content_type: str

    def __str__(self) -> str:
        given = f", not {self.content_type[:80]!r}" if self.content_type else "; the request has no Content-Type"
        return f"send the body as Content-Type: application/json{given}"


@error_class
class BodyUnreadable(RequestError):
    """The body is not JSON that can be parsed and stored."""

    message = "the body cannot be read: {problem}"
    problem: str
    #: The path of a value that cannot be stored; empty if the body is not JSON.
    field: str = field(default="", kw_only=True)


@error_class
class FieldsInvalid(RequestError):
    """Fields of the request are invalid; the message contains the first five."""

    problems: Sequence[FieldProblem]

    def __str__(self) -> str:
        listed = "; ".join(map(str, self.problems[:_MAX_DETAILED]))
        left = len(self.problems) - _MAX_DETAILED
        return f"{listed}; and {left} more" if left > 0 else listed


class UnknownActionTypePage(UnknownActionType):
    """The URL of a page contains an action type without a handler in this build."""


@dataclass(eq=False, repr=False)
class UnknownActionTypes(UnknownActionType):
    """Actions of a batch have no handler in this build; `problems` has all errors of the batch."""

    problems: Sequence[FieldProblem] = field(default=(), kw_only=True)


@error_class
class PreconditionFailed(StateConflict):
    """The resource has changed since the caller read it."""

    message = "{reference} has changed: its ETag is now {etag}; read it again"
    reference: object
    etag: str


@error_class
class IdempotencyKeyReused(RequestError):
    """The key was sent before with another request."""

    message = 'Idempotency-Key "{key}" was already used for another request: send a new key with each new request'
    key: str


@error_class
class IdempotencyKeyInUse(StateConflict):
    """The first request with the key is still running, or the key has just been pruned."""

    message = 'the first request with Idempotency-Key "{key}" is still running: try again'
    key: str


#: HTTP statuses by error class; a class without an entry has the status of its nearest base class.
_STATUSES: dict[type[ScheduledActionsError], HTTPStatus] = {
    ScheduledActionsError: HTTPStatus.INTERNAL_SERVER_ERROR,
    RequestError: HTTPStatus.BAD_REQUEST,
    StateConflict: HTTPStatus.CONFLICT,
    DeploymentError: HTTPStatus.SERVICE_UNAVAILABLE,
    Unauthorized: HTTPStatus.UNAUTHORIZED,
    Forbidden: HTTPStatus.FORBIDDEN,
    ActionTypeForbidden: HTTPStatus.FORBIDDEN,
    BudgetExceeded: HTTPStatus.UNPROCESSABLE_ENTITY,
    UnknownActionType: HTTPStatus.UNPROCESSABLE_ENTITY,
    UnknownExecutor: HTTPStatus.UNPROCESSABLE_ENTITY,
    WrongCarrier: HTTPStatus.UNPROCESSABLE_ENTITY,
    **dict.fromkeys(
        (
            UnknownAction, UnknownActionTypePage, UnknownDeadline, UnknownDelivery, UnknownEndpoint, UnknownFact,
            UnknownFeed, UnknownPause, UnknownRoute, UnknownSchedule, UnknownToken,
        ),
        HTTPStatus.NOT_FOUND,
    ),
    MethodNotAllowed: HTTPStatus.METHOD_NOT_ALLOWED,
    PreconditionFailed: HTTPStatus.PRECONDITION_FAILED,
    TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    UnsupportedMediaType: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    IdempotencyKeyReused: HTTPStatus.UNPROCESSABLE_ENTITY,
    TooManyAttempts: HTTPStatus.TOO_MANY_REQUESTS,
}  # fmt: skip


def problem(status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> Response:  # noqa: ANN401 - any JSON
    """Return a problem document.

    Args:
        status: HTTP status.
        code: Identifies the error, in snake case.
        detail: What is wrong and what to do.
        headers: Additional response headers.
        more: Additional members of the document, such as the invalid fields.
    """
    document = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        **more,
    }
    return Response(
        json.dumps(document),
        status,
        {"Cache-Control": "no-store", **(headers or {})},
        mimetype="application/problem+json",
    )


def problem_response(error: Exception, *, path: str = "") -> Response:
    """Convert an error to a problem document."""
    details = problem_details(error, path=path)
    return problem(details.status, details.code, details.detail, headers=details.headers, **details.members)


class ProblemDetails(NamedTuple):
    """The parts of an error that a response contains."""

    status: HTTPStatus
    code: str
    detail: str
    headers: Mapping[str, str]
    #: Additional members of the problem document.
    members: Mapping[str, Any]


def problem_details(error: Exception, *, path: str) -> ProblemDetails:
    """Convert an error to the details of its response; log unexpected errors and failures of the database.

    Args:
        error: Any exception.
        path: The path of the request, for the log.
    """
    match error:
        case ScheduledActionsError():
            hint = ": set force=true to override the lock" if isinstance(error, ActionLocked) else ""
            return ProblemDetails(
                status_of(type(error)), error.code, f"{error}{hint}", _headers(error), _members(error)
            )
        case psycopg.Error():
            return _database_problem(error, path=path)
        case _:
            log.error("api.broken path=%s", path, exc_info=error)
            return ProblemDetails(
                HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", "internal server error; see the server log", {}, {}
            )


def _database_problem(error: psycopg.Error, *, path: str) -> ProblemDetails:
    if (refusal := boundary.temporary_refusal(error)) is not None:
        log.warning("api.busy path=%s error=%s", path, type(error).__name__)
        return problem_details(refusal, path=path)
    match error:
        case psycopg.DataError() | psycopg.errors.CheckViolation() | psycopg.errors.NotNullViolation():
            # The value passed validation, but the database rejects it.
            return problem_details(transactions.database_refusal(error), path=path)
        case psycopg.IntegrityError():
            log.warning("api.conflict path=%s constraint=%s", path, error.diag.constraint_name)
            return problem_details(ConflictingChange(error.diag.constraint_name), path=path)
        case _:
            log.error("api.database_error path=%s", path, exc_info=error)
            return ProblemDetails(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "database_error",
                f"database error ({type(error).__name__}, SQLSTATE {error.sqlstate or 'unknown'}); see the server log",
                {"Retry-After": str(RETRY_AFTER_SECONDS)},
                {},
            )


def status_of(kind: type[ScheduledActionsError]) -> HTTPStatus:
    """Return the HTTP status of an error class."""
    return next(_STATUSES[ancestor] for ancestor in kind.__mro__ if ancestor in _STATUSES)


def _headers(error: ScheduledActionsError) -> dict[str, str]:
    match error:
        case DatabaseUnavailable() | RowLocked() | IdempotencyKeyInUse() | TooBusy():
            return {"Retry-After": str(RETRY_AFTER_SECONDS)}
        case TooManyAttempts(retry_after_seconds=seconds):
            return {"Retry-After": str(seconds)}
        case MethodNotAllowed(allowed=allowed):
            return {"Allow": ", ".join(allowed)}
        case PreconditionFailed(etag=etag):
            return {"ETag": etag}
        case Unauthorized():
            return {"WWW-Authenticate": "Bearer"}
        case _:
            return {}


def _members(error: ScheduledActionsError) -> dict[str, Any]:
    if isinstance(error, WrongStatus):
        return {"action_status": str(error.status)}
    fields = field_problems(error) if isinstance(error, RequestError) else []
    return {"errors": [{"field": one.where, "message": one.message} for one in fields]} if fields else {}


def field_problems(error: RequestError, *, inside: str = "") -> list[FieldProblem]:
    """Return the invalid fields that an error names, with their full paths; empty if the error names no field.

    Args:
        error: Any request error.
        inside: The path of the part of the request that caused the error.
    """
    match error:
        case FieldsInvalid(problems=problems) | UnknownActionTypes(problems=problems):
            found = [(one.where, one.message) for one in problems]
        case PayloadInvalid(problems=problems):
            found = [(f"payload.{one.where}".rstrip("."), one.message) for one in problems]
        case InvalidArgument(name=name, expected=expected, problem=problem):
            found = [(name, problem or f"is not {expected}")]
        case BodyUnreadable(field=field, problem=problem) if field:
            found = [(field, re.sub(rf"^body\.{re.escape(field)}:? ", "", problem))]
        case RefusedByDatabase() if named := _SQL_ARGUMENT.match(str(error)):
            found = [(f"actions.{named[1]}.{named[2]}" if named[1] else named[2], named[3])]
        case RecurrenceInvalid(name=name, problem=problem):
            found = [(name, problem)]
        case TooLarge(name=name):
            found = [(name.removeprefix("the "), str(error).removeprefix(f"{name} "))]
        case ActionTypeForbidden() | UnknownActionType():
            found = [(error.where, str(error).removeprefix(f"{error.where}: "))]
        case FollowUpInvalid(where=where, problem=problem):
            found = [(one.where, one.message) for one in field_problems(problem, inside=where)]
        case _:
            found = []
    # In the paths of fields, list indexes have the form `recipients.1`.
    dotted = [(re.sub(r"\[([0-9]+)\]", r".\1", where), message) for where, message in found]
    return [FieldProblem(".".join(filter(None, (inside, where))), message) for where, message in dotted]


@contextmanager
def receiving(limit: int) -> Iterator[None]:
    """Raise a request error in place of any error that occurs while the web server receives a body.

    Args:
        limit: The maximum size of the body, in bytes.

    Raises:
        TooLarge: The body exceeds the limit.
        BodyUnreadable: The body cannot be received: for example, it is incomplete, or its chunks are malformed.
    """
    try:
        yield
    except RequestEntityTooLarge:
        raise TooLarge("the body", limit + 1, limit) from None
    except ClientDisconnected:
        raise BodyUnreadable("it ended before its Content-Length") from None
    except Exception as error:  # each server has its own errors for malformed chunks, without a common class
        raise BodyUnreadable(
            f"it cannot be received ({type(error).__name__}): it is incomplete, or its chunks are malformed"
        ) from error
