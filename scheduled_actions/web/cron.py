"""Answer `/cron/process`: authorise a ping, and run one tick or the due actions of an executor."""

import os
import select
import socket
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import Any

import psycopg
from flask import Response, request

from scheduled_actions.core import signing
from scheduled_actions.core.errors import InvalidArgument, RequestError, ScheduledActionsError, TooLarge
from scheduled_actions.core.log import log
from scheduled_actions.core.secret import bearer
from scheduled_actions.runtime import Runtime
from scheduled_actions.ticks import wake
from scheduled_actions.web.api.problems import Unauthorized, problem, problem_response, receiving

#: The largest body of a signed ping, in bytes.
BODY_LIMIT = 64 * 1024
_ALLOW = "GET, POST"
#: The keys of the WSGI environment under which gunicorn and Flask's development server pass the connection.
_SOCKETS = ("gunicorn.socket", "werkzeug.socket")


def process(runtime: Runtime) -> Response:
    """Run one tick for an authorised GET or POST; answer HEAD and OPTIONS without a tick, other methods with 405.

    With the query parameter `executor`, due actions of that executor run instead, as by one of its workers.

    Returns:
        200 with a report, even if actions failed, another tick is running, or processing is disabled; 204 for HEAD and
        OPTIONS; otherwise a problem document, for example with 401 (wrong secret) or 503 (database unavailable).
    """
    match request.method:
        case "GET" | "POST":
            return _tick(runtime)
        case "HEAD" | "OPTIONS":
            return Response(status=HTTPStatus.NO_CONTENT, headers={"Allow": _ALLOW, "Cache-Control": "no-store"})
        case _:
            return problem(
                HTTPStatus.METHOD_NOT_ALLOWED,
                "method_not_allowed",
                f"method {request.method} is not allowed here; use GET or POST",
                headers={"Allow": _ALLOW},
            )


def _tick(runtime: Runtime) -> Response:
    caller = (request.headers.get("user-agent") or "")[:200]
    try:
        _authorise(runtime)
        if (executor := _executor()) is not None:
            report = runtime.executors.ping(executor, caller=caller, host_seconds=host_seconds())
        else:
            report = runtime.processor.tick(
                caller=caller,
                host_seconds=host_seconds(),
                lingers=wake.HEADER not in request.headers,
                is_gone=_disconnect_check(request.environ),
            )
    except Unauthorized as error:
        runtime.rejected_pings.count(caller, is_without=error.shows_nothing)
        return problem(HTTPStatus.UNAUTHORIZED, error.code, str(error), headers={"WWW-Authenticate": "Bearer"})
    except ScheduledActionsError as error:
        log.warning("tick.refused code=%s error=%s", error.code, error)
        return problem_response(error)
    except psycopg.Error as error:
        log.exception("tick.database_error")
        detail = f"database error ({type(error).__name__}, SQLSTATE {error.sqlstate or 'unknown'}); see the server log"
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, "database_error", detail, headers={"Retry-After": "60"})
    except Exception:
        log.exception("tick.broken")
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", "internal server error; see the server log")
    return Response(report.as_text(), mimetype="application/json", headers={"Cache-Control": "no-store"})


def _executor() -> str | None:
    """Return the executor of the query; None without one.

    Raises:
        InvalidArgument: The query has several.
    """
    match request.args.getlist("executor"):
        case []:
            return None
        case [name]:
            return name
        case _:
            raise InvalidArgument("executor", problem="is given more than once: ping each executor by itself")


def _authorise(runtime: Runtime) -> None:
    """Check that the request carries `CRON_SECRET`, or is signed with it; any value of a rotation is accepted.

    Raises:
        NotConfigured: `CRON_SECRET` is not set or too short.
        Unauthorized: The secret is missing or wrong, or the signature is invalid.
        RequestError: The body of a signed request is too large or cannot be read.
    """
    secret = runtime.config.cron_secret
    secret.check_usable("; until then every ping is refused")
    headers = request.headers
    presented = filter(None, (headers.get("x-cron-secret"), bearer(headers.get("authorization"))))
    matches = [secret.matches(one) for one in presented]
    if any(matches):
        return
    if headers.get(signing.SIGNATURE_HEADER):
        body = _body()
        try:
            signing.verify(body, dict(headers.items()), secret.accepted, now=time.time())
        except RequestError as error:
            raise Unauthorized(str(error)) from error
    elif matches:
        raise Unauthorized("the secret does not match CRON_SECRET")
    else:
        raise Unauthorized(
            "send CRON_SECRET as x-cron-secret or as Authorization: Bearer, or sign the request with it",
            shows_nothing=True,
        )


def _body() -> bytes:
    """Return the body of a signed request; empty if its length is unknown and the server does not mark its end.

    Raises:
        TooLarge: The body exceeds `BODY_LIMIT`.
        BodyUnreadable: The body is incomplete, or its chunks are malformed.
    """
    length = request.content_length
    if (length or 0) > BODY_LIMIT:
        raise TooLarge("the body", length or 0, BODY_LIMIT)
    if length is None and not request.environ.get("wsgi.input_terminated"):
        # Without a length or this flag, reading from some servers never ends.
        return b""
    with receiving(BODY_LIMIT):
        # Some servers do not end the stream at the announced length.
        body = request.environ["wsgi.input"].read(BODY_LIMIT + 1 if length is None else length)
    if len(body) > BODY_LIMIT:
        raise TooLarge("the body", len(body), BODY_LIMIT)
    return bytes(body)


def host_seconds() -> float | None:
    """Return the seconds until the host ends this request; None if unknown, as outside Vercel and AWS Lambda."""
    if (invocation := request.environ.get("apig_wsgi.context")) is not None:
        return float(invocation.get_remaining_time_in_millis() / 1000)
    if not os.environ.get("VERCEL"):
        return None
    try:
        from vercel_runtime.deadline import get_deadline  # type: ignore[import-not-found]  # noqa: PLC0415 - exists on Vercel only
    except ImportError:
        return None
    deadline = get_deadline()
    return None if deadline is None else max(0.0, (deadline - datetime.now(UTC)).total_seconds())


def _disconnect_check(environ: Mapping[str, Any]) -> Callable[[], bool] | None:
    """Return a function that checks whether the caller has disconnected; None if the connection is not accessible.

    Most reverse proxies disconnect when their own client disconnects.
    """
    # Not `isinstance`: TLS connections are a subclass, and do not support MSG_PEEK.
    found = next((environ[name] for name in _SOCKETS if type(environ.get(name)) is socket.socket), None)
    return None if found is None or not hasattr(select, "poll") else partial(_is_gone, found)


def _is_gone(connection: socket.socket) -> bool:
    poll = select.poll()
    try:
        poll.register(connection, select.POLLIN)
        # A readable connection has received another request or was closed; only a closed one returns no bytes.
        return bool(poll.poll(0)) and not connection.recv(1, socket.MSG_PEEK)
    except (OSError, ValueError):
        return True
