"""Errors as RFC 9457 problem documents: the one place that maps them to HTTP."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from flask import Response

from scheduled_actions.errors import (
    DatabaseUnavailable,
    DeploymentError,
    RequestError,
    ScheduledActionsError,
    StateConflict,
    TooLarge,
    UnknownAction,
)

#: When a caller may try again after a failure of the database, in seconds.
RETRY_AFTER_SECONDS = 5


def problem(status: int, code: str, detail: str, *, headers: dict[str, str] | None = None, **more: Any) -> Response:  # noqa: ANN401 - any JSON
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
    response = Response(json.dumps(document, ensure_ascii=False), status, mimetype="application/problem+json")
    response.headers["Cache-Control"] = "no-store"
    response.headers.update(headers or {})
    return response


def problem_of(error: ScheduledActionsError) -> Response:
    """Return the problem document of one of our own errors."""
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if isinstance(error, DatabaseUnavailable) else None
    return problem(_status(error), error.code, str(error), headers=headers)


def _status(error: ScheduledActionsError) -> int:
    match error:
        case UnknownAction():
            return HTTPStatus.NOT_FOUND
        case TooLarge():
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        case RequestError():
            return HTTPStatus.BAD_REQUEST
        case StateConflict():
            return HTTPStatus.CONFLICT
        case DeploymentError():
            return HTTPStatus.SERVICE_UNAVAILABLE
        case _:
            return HTTPStatus.INTERNAL_SERVER_ERROR
