"""Dispatch requests to the routes of the management API, over HTTP and from the dashboard."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from typing import Any

from flask import Response, request
from werkzeug.routing import Rule

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.secret import bearer
from scheduled_actions.runtime import Runtime
from scheduled_actions.web.api import calendar, executors, facts, installation, limits, pauses, people, tokens
from scheduled_actions.web.api.actions import routes as actions
from scheduled_actions.web.api.auth import Caller, FailedLogins, caller_of_token, client_address
from scheduled_actions.web.api.deadlines import routes as deadlines
from scheduled_actions.web.api.models import EmptyRequest
from scheduled_actions.web.api.problems import MethodNotAllowed, UnknownRoute, problem_response
from scheduled_actions.web.api.requests import (
    IDEMPOTENCY_HEADER,
    check_idempotency_key,
    read_json,
    request_digest,
    run_once,
    validate,
    validate_query,
)
from scheduled_actions.web.api.routing import Answer, Call, CallContext, Route, Router, undecoded_parts
from scheduled_actions.web.api.schedules import routes as schedules
from scheduled_actions.web.api.webhooks import routes as webhooks

#: Every route of the management API.
ROUTES: tuple[Route, ...] = (
    *actions.ROUTES,
    *calendar.ROUTES,
    *deadlines.ROUTES,
    *executors.ROUTES,
    *facts.ROUTES,
    *limits.ROUTES,
    *installation.ROUTES,
    *pauses.ROUTES,
    *people.ROUTES,
    *schedules.ROUTES,
    *tokens.ROUTES,
    *webhooks.ROUTES,
)


#: Finds the routes of a path.
ROUTER = Router(ROUTES)


@cache
def reserved_path_words() -> frozenset[str]:
    """Return the words that take the place of an id in paths, such as `counts` in `/actions/counts`.

    The dashboard finds no resource by such a name.
    """
    before_ids = {route.path.partition("{id}")[0] for route in ROUTES if "{id}" in route.path}
    return frozenset(
        route.path.removeprefix(before).split("/")[0]
        for before in before_ids
        for route in ROUTES
        if route.path.startswith(before)
    ) - {"{id}"}


class InternalApi(CallContext):
    """Calls routes without HTTP, on behalf of one caller of the dashboard."""

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        if_match: str | None = None,
    ) -> Answer:
        """Call a route with the permissions of the caller; return its response.

        Args:
            method: HTTP method.
            path: The path below `/api/v1`.
            query: The query parameters, by name.
            body: The JSON object, parsed.
            if_match: The ETag of the version that the caller has read; None skips the check.

        Raises:
            UnknownRoute: No route has this method and path.
            ScheduledActionsError: Any error of the route, as over HTTP.
        """
        route, call = self.prepare(method, path, query=query, body=body, if_match=if_match)
        if not route.creates:
            return route.function(call)
        with self.runtime.database.connection() as connection, connection.transaction():
            return route.function(replace(call, connection=connection))

    def prepare(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        if_match: str | None = None,
    ) -> tuple[Route, Call[Any, Any]]:
        """Check the permissions and the request as `call` does, with the same errors; return the route and its call."""
        found = ROUTER.find(path)
        if found is None or method not in found[0]:
            raise UnknownRoute(path)
        route = found[0][method]
        self.caller.must_be(route.role)
        return route, Call(
            runtime=self.runtime,
            caller=self.caller,
            base=self.base,
            path=found[1],
            query=validate(route.query, dict(query or {}), whole="query"),
            body=validate(route.body or EmptyRequest, dict(body or {}), whole="body"),
            if_match=if_match,
        )


class Api:
    """Answers HTTP requests to the management API of one project."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._attempts = FailedLogins()

    def answer(self, path: str) -> Response:
        """Answer the current request; convert any error to a problem document.

        Args:
            path: The part of the request's path below `/api/v1`.
        """
        return self._guarded(lambda: self._answer(path))

    def metrics(self) -> Response:
        """Return the metrics for Prometheus; convert any error to a problem document."""
        return self._guarded(self._metrics)

    def _guarded(self, answer: Callable[[], Response]) -> Response:
        try:
            with self._runtime.request_threads.one():
                return answer()
        except Exception as error:  # noqa: BLE001 - the boundary of the API: converted to a response, and logged
            return problem_response(error, path=request.path)

    def _metrics(self) -> Response:
        self._caller().must_have_no_team("metrics cover all teams")
        from scheduled_actions.web import metrics  # noqa: PLC0415 - its library comes with an extra

        return metrics.scraped(self._runtime, accept=request.headers.get("Accept", ""))

    def _caller(self) -> Caller:
        return caller_of_token(
            self._runtime,
            bearer(request.headers.get("Authorization")),
            address=client_address(request, self._runtime.config.settings),
            attempts=self._attempts,
        )

    def _answer(self, path: str) -> Response:
        target = request.environ.get("RAW_URI") or request.environ.get("REQUEST_URI")
        found = ROUTER.find(path, undecoded_parts(path, target))
        if found is None:
            raise UnknownRoute(request.path)
        by_method, named = found
        allowed = [*by_method, *(["HEAD"] if "GET" in by_method else []), "OPTIONS"]
        if request.method == "OPTIONS":
            return Response(
                status=HTTPStatus.NO_CONTENT, headers={"Allow": ", ".join(allowed), "Cache-Control": "no-store"}
            )
        route = by_method.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            raise MethodNotAllowed(request.method, allowed)
        caller = self._caller()
        caller.must_be(route.role)
        return self._run(route, caller, named)

    def _run(self, route: Route, caller: Caller, named: Mapping[str, str]) -> Response:
        query = validate_query(route.query, request.args)
        body = {}
        if route.body is not None:
            body = read_json(request, limit=route.body_limit, is_optional=route.is_body_optional)
        call: Call[Any, Any] = Call(
            runtime=self._runtime,
            caller=caller,
            base=f"{request.script_root}{mounted(request.url_rule)}",
            path=named,
            query=query,
            body=validate(route.body or EmptyRequest, body, whole="body"),
            if_match=request.headers.get("If-Match"),
        )
        if not route.creates:
            return _response(**_answer_of(route, call))
        key = check_idempotency_key(request.headers.get(IDEMPOTENCY_HEADER))
        with self._runtime.database.connection() as connection, connection.transaction():
            call = replace(call, connection=connection)
            if key is None:
                return _response(**_answer_of(route, call))
            answered, is_replayed = run_once(
                connection,
                scope=caller.team_id or "",
                key=key,
                digest=request_digest(route.method, route.path, dict(named), request.args.to_dict(), body),
                answer=lambda: _answer_of(route, call),
                shown_once=route.shown_once,
            )
        response = _response(**answered)
        if is_replayed:
            response.headers["Idempotent-Replayed"] = "true"
        return response


def mounted(rule: Rule | None) -> str:
    """Return the URL path under which the application has mounted the routes: the rule up to its first variable."""
    return "" if rule is None else rule.rule.partition("/<")[0]


def _answer_of(route: Route, call: Call[Any, Any]) -> dict[str, Any]:
    """Run a route; in errors, replace the name of a Python argument with the field of the request."""
    try:
        answer = route.function(call)
    except InvalidArgument as error:
        fields = [model.model_fields.get(error.name) for model in (route.body, route.query) if model is not None]
        aliases = [field.alias for field in fields if field is not None and field.alias]
        raise error.renamed(aliases[0] if aliases else error.name) from error
    return {
        "status": int(answer.status),
        "body": answer.document.model_dump_json(by_alias=True),
        "headers": dict(answer.headers),
    }


def _response(status: int, body: str, headers: Mapping[str, str]) -> Response:
    return Response(body, status, {"Cache-Control": "no-store", **headers}, mimetype="application/json")
