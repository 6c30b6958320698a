"""The routes, as a Flask blueprint that an application may mount where it likes."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from flask import Blueprint
from werkzeug.routing import PathConverter

from scheduled_actions.web import cron

if TYPE_CHECKING:
    from flask import Response

    from scheduled_actions.runtime import Runtime
    from scheduled_actions.web.api.dispatch import Api

#: Every method is routed, so that none is answered by the framework's own page.
_METHODS = ["GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "QUERY"]


class _Anything(PathConverter):
    """Any rest of a path, line breaks and slashes at its beginning included: what is no route is told so by the API."""

    part_isolating = False
    regex = r"[\s\S]*?"


def blueprint(runtime: Runtime) -> Blueprint:
    """Return the routes of a project; no slash at the end redirects."""
    routes = Blueprint("scheduled_actions", __name__)

    for rule in ("/cron/process", "/api/v1/cron/process"):
        routes.add_url_rule(
            rule,
            endpoint=f"process{rule.replace('/', '_')}",
            view_func=partial(cron.process, runtime),
            methods=_METHODS,
            strict_slashes=False,
            provide_automatic_options=False,
        )

    @cache
    def management() -> Api:
        from scheduled_actions.web.api.dispatch import Api  # noqa: PLC0415 - a cold tick does without its models

        return Api(runtime)

    def manage(path: str = "") -> Response:
        with runtime.serving():
            return management().answer(path)

    routes.record_once(lambda state: state.app.url_map.converters.update(scheduled_actions_any=_Anything))
    for rule in ("/api/v1", "/api/v1/<scheduled_actions_any:path>"):
        routes.add_url_rule(
            rule,
            endpoint=f"manage{len(rule)}",
            view_func=manage,
            methods=_METHODS,
            strict_slashes=False,
            provide_automatic_options=False,
        )

    def openapi() -> Response:
        from scheduled_actions.web.api.openapi.pages import described_for_programs  # noqa: PLC0415 - as above

        return described_for_programs()

    def docs() -> Response:
        from scheduled_actions.web.api.openapi.pages import described_for_people  # noqa: PLC0415 - as above

        return described_for_people()

    _add_feeds(routes, runtime)

    def metrics() -> Response:
        return management().metrics()

    routes.add_url_rule("/metrics", view_func=metrics, strict_slashes=False)
    routes.add_url_rule("/openapi.json", view_func=openapi, strict_slashes=False)
    routes.add_url_rule("/docs", view_func=docs, strict_slashes=False)
    _add_health(routes, runtime)
    return routes


def _add_health(routes: Blueprint, runtime: Runtime) -> None:
    def healthz() -> Response:
        from scheduled_actions.web import health  # noqa: PLC0415 - a cold tick does without

        return health.alive(runtime)

    def readyz() -> Response:
        from scheduled_actions.web import health  # noqa: PLC0415 - a cold tick does without

        return health.ready(runtime)

    routes.add_url_rule("/healthz", view_func=healthz, strict_slashes=False)
    routes.add_url_rule("/readyz", view_func=readyz, strict_slashes=False)


def _add_feeds(routes: Blueprint, runtime: Runtime) -> None:
    """Add the calendars behind private addresses."""

    def calendar(secret: str) -> Response:
        from scheduled_actions.web.api.calendar import feeds  # noqa: PLC0415 - a cold tick does without

        with runtime.serving():
            return feeds.calendar(runtime, secret)

    routes.add_url_rule("/calendar/<secret>.ics", view_func=calendar)
