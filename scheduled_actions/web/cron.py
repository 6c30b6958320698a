"""`/cron/process`: one tick."""

from __future__ import annotations

import logging
import os
import select
import socket
import time
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import psycopg
from flask import Response, request

from scheduled_actions.core import signing
from scheduled_actions.core.errors import NotConfigured, RequestError, ScheduledActionsError, TooLarge
from scheduled_actions.core.secret import SECRET_MIN_LENGTH, bearer
from scheduled_actions.ticks import wake
from scheduled_actions.web.api.requests.bodies import receiving
from scheduled_actions.web.api.requests.problems import problem, problem_of
from scheduled_actions.web.api.requests.refusals import NotAuthorised

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduled_actions.core.secret import Secret
    from scheduled_actions.runtime import Runtime

log = logging.getLogger("scheduled_actions")

#: A ping needs no body; one that signs itself needs a small one.
BODY_LIMIT = 64 * 1024
_ALLOW = "GET, POST"
#: Where servers put the connection: gunicorn, and Flask's own for development.
_SOCKETS = ("gunicorn.socket", "werkzeug.socket")


def process(runtime: Runtime) -> Response:
    """Run one tick for an authorised GET or POST; answer 200 whenever the tick ran, also when actions failed."""
    match request.method:
        case "GET" | "POST":
            return _tick(runtime)
        case "HEAD" | "OPTIONS":
            response = Response(status=HTTPStatus.NO_CONTENT)
            response.headers["Allow"] = _ALLOW
            response.headers["Cache-Control"] = "no-store"
            return response
        case _:
            return problem(
                HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", "use GET or POST", headers={"Allow": _ALLOW}
            )


def _tick(runtime: Runtime) -> Response:
    try:
        _authorise(runtime)
        report = runtime.processor.tick(
            caller=_caller(),
            host_seconds=host_seconds(),
            lingers=wake.HEADER not in request.headers,
            is_gone=_disconnect_check(request.environ),
        )
    except NotAuthorised as error:
        runtime.refusals.count(_caller(), is_without=error.shows_nothing)
        return problem(HTTPStatus.UNAUTHORIZED, error.code, str(error), headers={"WWW-Authenticate": "Bearer"})
    except ScheduledActionsError as error:
        log.warning("tick.refused code=%s error=%s", error.code, error)
        return problem_of(error)
    except psycopg.Error as error:
        log.exception("tick.database_error")
        detail = f"the database refused a statement ({type(error).__name__}, SQLSTATE {error.sqlstate}); see the log"
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, "database_error", detail, headers={"Retry-After": "60"})
    except Exception:
        log.exception("tick.broken")
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", "the tick broke; the log says how")
    response = Response(report.as_text(), HTTPStatus.OK, mimetype="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response


def _authorise(runtime: Runtime) -> None:
    secret = runtime.config.cron_secret
    if not secret.is_usable:
        raise NotConfigured(
            "CRON_SECRET", f"set it to {SECRET_MIN_LENGTH} random characters or more; until then nothing may ping"
        )
    _check(secret, dict(request.headers), _body, now=time.time())


def _check(secret: Secret, headers: Mapping[str, str], read_body: Callable[[], bytes], *, now: float) -> None:
    """Return if the request shows the secret, or is signed with it.

    Args:
        secret: `CRON_SECRET`; during rotation any of its values will do.
        headers: Of the request, in any case.
        read_body: Reads the body; called for signed requests only.
        now: Seconds since 1970, for the age of a signature.

    Raises:
        NotAuthorised: It does neither.
        RequestError: The body cannot be read.
    """
    headers = {name.lower(): value for name, value in headers.items()}
    presented = [headers.get("x-cron-secret"), bearer(headers.get("authorization"))]
    shown = [one for one in presented if one]
    if any(secret.matches(one) for one in shown):
        return
    if headers.get(signing.SIGNATURE_HEADER):
        body = read_body()
        try:
            signing.verify(body, headers, secret.accepted, now=now)
        except RequestError as error:
            raise NotAuthorised(str(error)) from error
        return
    if shown:
        raise NotAuthorised("the secret is not the one that CRON_SECRET holds")
    how = "send CRON_SECRET as x-cron-secret or as Authorization: Bearer, or sign the request with it"
    raise NotAuthorised(how, shows_nothing=True)


def _body() -> bytes:
    """Return the body of a signed request.

    Raises:
        TooLarge: It is over the limit; no more than that is read.
    """
    length = request.content_length
    if (length or 0) > BODY_LIMIT:
        raise TooLarge("the body", length or 0, BODY_LIMIT)
    # A stream without an end of its own is read no further than it was announced: not every server stops there.
    most = BODY_LIMIT + 1 if length is None else length
    with receiving(BODY_LIMIT):
        body = request.environ["wsgi.input"].read(most) if _has_body() else b""
    if len(body) > BODY_LIMIT:
        raise TooLarge("the body", len(body), BODY_LIMIT)
    return bytes(body)


def _has_body() -> bool:
    # Without either of these a server's stream may never end.
    return request.content_length is not None or bool(request.environ.get("wsgi.input_terminated"))


def _caller() -> str:
    return (request.headers.get("user-agent") or "")[:200]


def host_seconds() -> float | None:
    """Return what the host leaves this call, in seconds; None where it sets no limit that we know of."""
    if not os.environ.get("VERCEL"):
        return None
    try:
        from vercel_runtime.deadline import get_deadline  # type: ignore[import-not-found]  # noqa: PLC0415 - there on Vercel only
    except ImportError:
        return None
    deadline = get_deadline()
    return None if deadline is None else max(0.0, (deadline - datetime.now(UTC)).total_seconds())


def _disconnect_check(environ: Mapping[str, Any]) -> Callable[[], bool] | None:
    """Return a function that says whether the caller has hung up; None where the connection cannot be seen.

    A reverse proxy hangs up on us when its own caller does, unless it is told to go on.
    """
    found = next((environ[name] for name in _SOCKETS if isinstance(environ.get(name), socket.socket)), None)
    if found is None or not hasattr(select, "poll") or type(found) is not socket.socket:
        # Nothing can be peeked at behind TLS.
        return None
    connection: socket.socket = found
    return lambda: _is_gone(connection)


def _is_gone(connection: socket.socket) -> bool:
    poll = select.poll()
    try:
        poll.register(connection, select.POLLIN)
        # What can be read is the next request, or the goodbye.
        return bool(poll.poll(0)) and not connection.recv(1, socket.MSG_PEEK)
    except (OSError, ValueError):
        return True
