"""The routes, as a Flask blueprint that an application may mount where it likes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint

from scheduled_actions.api import cron

if TYPE_CHECKING:
    from flask import Response

    from scheduled_actions.runtime import Runtime

#: Every method is routed, so that none is answered by the framework's own page.
_METHODS = ["GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"]


def blueprint(runtime: Runtime) -> Blueprint:
    """Return the routes of a project; no slash at the end redirects."""
    routes = Blueprint("scheduled_actions", __name__)

    def process() -> Response:
        return cron.process(runtime)

    for rule in ("/cron/process", "/api/v1/cron/process"):
        routes.add_url_rule(
            rule,
            endpoint=f"process{rule.replace('/', '_')}",
            view_func=process,
            methods=_METHODS,
            strict_slashes=False,
            provide_automatic_options=False,
        )

    def healthz() -> Response:
        from scheduled_actions.api import health  # noqa: PLC0415 - a cold tick does without

        return health.alive(runtime)

    def readyz() -> Response:
        from scheduled_actions.api import health  # noqa: PLC0415 - a cold tick does without

        return health.ready(runtime)

    routes.add_url_rule("/healthz", view_func=healthz, strict_slashes=False)
    routes.add_url_rule("/readyz", view_func=readyz, strict_slashes=False)
    return routes
