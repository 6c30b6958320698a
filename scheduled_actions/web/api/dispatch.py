"""The management API: one way in for every route, from the request's path to its answer."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from flask import Response, request

from scheduled_actions.actions.management import Management
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.web.api.auth.attempts import FailedAttempts
from scheduled_actions.web.api.auth.authentication import authenticated
from scheduled_actions.web.api.auth.client_address import client_address
from scheduled_actions.web.api.internal import Desk, router
from scheduled_actions.web.api.models import Nothing
from scheduled_actions.web.api.requests import idempotency
from scheduled_actions.web.api.requests.bodies import read_json
from scheduled_actions.web.api.requests.problems import problem_of
from scheduled_actions.web.api.requests.refusals import MethodNotAllowed, UnknownRoute
from scheduled_actions.web.api.requests.validation import checked, checked_query
from scheduled_actions.web.api.routing import parts_as_sent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from werkzeug.routing import Rule

    from scheduled_actions.runtime import Runtime
    from scheduled_actions.web.api.auth.authentication import Caller
    from scheduled_actions.web.api.routing import Call, Route

#: Answered without a route of their own.
_IMPLIED = ("HEAD", "OPTIONS")


class Api:
    """Answers the management API of one project.

    Args:
        runtime: Its parts.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._management = Management(runtime.database, lambda: runtime.scheduler)
        self._router = router()
        self._attempts = FailedAttempts()

    def answer(self, path: str) -> Response:
        """Answer the present request.

        Args:
            path: What of its path stands below `/api/v1`.
        """
        return self._guarded(lambda: self._answer(path))

    def metrics(self) -> Response:
        """Answer a scrape of Prometheus."""
        return self._guarded(self._metrics)

    def _guarded(self, answer: Callable[[], Response]) -> Response:
        """Return an answer, or the problem document of what kept it from being made."""
        try:
            with self._runtime.request_threads.one():
                return answer()
        except Exception as error:  # noqa: BLE001 - told to the caller, and logged, there
            return problem_of(error, path=request.path)

    def _metrics(self) -> Response:
        caller = self._caller()
        caller.must_have_no_team("metrics are of all teams")
        from scheduled_actions.web import metrics  # noqa: PLC0415 - its library comes with an extra

        return metrics.scraped(self._runtime, self._management, accept=request.headers.get("Accept", ""))

    def _caller(self) -> Caller:
        return authenticated(
            self._runtime,
            request.headers.get("Authorization"),
            address=client_address(request, self._runtime.config.settings),
            attempts=self._attempts,
        )

    def _answer(self, path: str) -> Response:
        sent = request.environ.get("RAW_URI") or request.environ.get("REQUEST_URI")
        found = self._router.find(path, parts_as_sent(path, sent))
        if found is None:
            raise UnknownRoute(request.path)
        by_method, named = found
        if request.method == "OPTIONS":
            return Response(
                status=HTTPStatus.NO_CONTENT, headers={"Allow": _allowed(by_method), "Cache-Control": "no-store"}
            )
        route = by_method.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            raise MethodNotAllowed(request.method, _allowed(by_method).split(", "))
        caller = self._caller()
        caller.must_be(route.role)
        return self._carried_out(route, caller, named)

    def _carried_out(self, route: Route, caller: Caller, named: Mapping[str, str]) -> Response:
        query = checked_query(route.query, request.args)
        given = {}
        if route.body is not None:
            given = read_json(request, limit=route.body_limit, is_optional=route.is_body_optional)
        base = f"{request.script_root}{mounted(request.url_rule)}"
        desk = Desk(runtime=self._runtime, management=self._management, caller=caller, base=base)
        call = desk.call(
            named,
            query=query,
            body=checked(route.body or Nothing, given, whole="body"),
            if_match=request.headers.get("If-Match"),
        )
        if not route.creates:
            return _response(**_carried_out(route, call))
        key = idempotency.check_key(request.headers.get(idempotency.HEADER))
        with self._runtime.database.connection() as connection, connection.transaction():
            call = replace(call, connection=connection)
            if key is None:
                return _response(**_carried_out(route, call))
            answered, is_kept = idempotency.once(
                connection,
                scope=caller.team_id or "",
                key=key,
                digest=idempotency.digest_of(route.method, route.path, dict(named), request.args.to_dict(), given),
                answer=lambda: _carried_out(route, call),
                shown_once=route.shown_once,
            )
        response = _response(**answered)
        if is_kept:
            response.headers["Idempotent-Replayed"] = "true"
        return response


def mounted(rule: Rule | None) -> str:
    """Return where the application has put the routes: what of the rule stands before its parts."""
    return "" if rule is None else rule.rule.partition("/<")[0]


def _carried_out(route: Route, call: Call) -> dict[str, Any]:
    try:
        answer = route.function(call)
    except InvalidArgument as error:
        raise error.renamed(_field(error.name, route)) from error
    return {
        "status": int(answer.status),
        "body": answer.document.model_dump_json(),
        "headers": dict(answer.headers),
    }


def _field(name: str, route: Route) -> str:
    """Return what the route calls an argument: its own name where that is no field of the route."""
    for model in (route.body, route.query):
        field = model.model_fields.get(name) if model is not None else None
        if field is not None:
            return field.alias or name
    return name


def _response(status: int, body: str, headers: Mapping[str, str]) -> Response:
    response = Response(body, status, mimetype="application/json")
    response.headers["Cache-Control"] = "no-store"
    response.headers.update(headers)
    return response


def _allowed(by_method: Mapping[str, Route]) -> str:
    implied = [method for method in _IMPLIED if method == "OPTIONS" or "GET" in by_method]
    return ", ".join([*by_method, *implied])
