"""Add the routes of Scheduled Actions to a Flask application."""

import logging
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from flask import Blueprint, Flask, Response, redirect, request
from werkzeug.routing import PathConverter

from scheduled_actions.runtime import Runtime, current
from scheduled_actions.web import cron

#: All methods are routed, so that Flask never returns its own error page.
_METHODS = ["GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "QUERY"]
#: Loggers of gunicorn and of Flask's development server. They log request paths; the path of a feed has its secret.
_LOGGERS = ("gunicorn.error", "gunicorn.access", "werkzeug")
#: A token or feed secret; its prefix and first characters are its public hint.
_SECRET = re.compile(r"\b(sa[tf]_[A-Za-z0-9_-]{4})[A-Za-z0-9_-]{30,}")


class ScheduledActions:
    """Flask extension that adds the routes of Scheduled Actions to an application.

    ```python
    app = Flask(__name__)
    ScheduledActions(app)                      # /cron/process, /api/v1, /dashboard, /healthz, …
    ScheduledActions(app, url_prefix="/scheduled")  # /scheduled/cron/process, …
    ```

    Args:
        app: The application; None: call `init_app` later.
        url_prefix: The prefix of the routes; None: no prefix.
        runtime: The runtime of a project; None: the current runtime when `init_app` is called.

    Raises:
        ConfigInvalid: `app` is given, and the settings of the project are invalid.
    """

    def __init__(
        self, app: Flask | None = None, *, url_prefix: str | None = None, runtime: Runtime | None = None
    ) -> None:
        self._url_prefix = url_prefix
        self._runtime = runtime
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask, *, url_prefix: str | None = None) -> None:
        """Add the routes to an application.

        Args:
            app: The application.
            url_prefix: The prefix of the routes; None: that of the constructor.

        Raises:
            ConfigInvalid: The settings of the project are invalid.
        """
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_mask_secrets)
        runtime = self._runtime or current()
        prefix = url_prefix or self._url_prefix
        app.register_blueprint(_routes(runtime), url_prefix=prefix)
        if prefix:
            add_home(app, prefix)
        app.extensions["scheduled_actions"] = runtime


def add_home(app: Flask, prefix: str = "") -> None:
    """Redirect the root of the prefix to the dashboard; without a prefix, that is the root of the application."""
    prefix = f"/{prefix.strip('/')}" if prefix else ""
    app.add_url_rule(
        f"{prefix}/",
        endpoint=f"scheduled_actions_home{prefix}",
        # A proxy or a dispatcher that mounts the whole application below a path sets the script root.
        view_func=lambda: redirect(f"{request.script_root}{prefix}/dashboard/"),
        strict_slashes=False,
    )


class _AnyPath(PathConverter):
    """Matches the rest of any path, even line breaks and leading slashes, so that Flask never answers a 404 itself."""

    part_isolating = False
    regex = r"[\s\S]*?"


def _routes(runtime: Runtime) -> Blueprint:  # noqa: C901 - a function for each kind of route
    """Return the routes of a project. The cron endpoint imports neither the models of the API nor the dashboard."""
    routes = Blueprint("scheduled_actions", __name__)
    routes.record_once(lambda state: state.app.url_map.converters.update(scheduled_actions_any=_AnyPath))

    def add(rule: str, view: Callable[..., Response], methods: list[str] | None = None) -> None:
        # Without a method list, Flask answers HEAD and OPTIONS itself. A trailing slash causes no redirect.
        routes.add_url_rule(
            rule,
            endpoint=re.sub(r"\W+", "_", rule),
            view_func=view,
            methods=methods,
            strict_slashes=False,
            provide_automatic_options=methods is None,
        )

    @cache
    def api() -> Any:  # noqa: ANN401 - imported with the first request
        from scheduled_actions.web.api.dispatch import Api  # noqa: PLC0415 - slow to import

        return Api(runtime)

    @cache
    def dashboard() -> Any:  # noqa: ANN401 - as above
        from scheduled_actions.web.dashboard.site import Dashboard  # noqa: PLC0415 - slow to import

        return Dashboard(runtime)

    def answer(part: Callable[[], Any], path: str = "") -> Response:
        with runtime.serving():
            return part().answer(path)  # type: ignore[no-any-return]

    def answer_feed(secret: str) -> Response:
        from scheduled_actions.web.api import calendar as feeds  # noqa: PLC0415 - slow to import

        with runtime.serving():
            return feeds.calendar(runtime, secret)

    def answer_health(name: str) -> Response:
        from scheduled_actions.web import health  # noqa: PLC0415 - slow to import

        return health.ready(runtime) if name == "readyz" else health.alive(runtime)

    def answer_description(name: str) -> Response:
        from scheduled_actions.web.api.openapi import pages  # noqa: PLC0415 - slow to import

        return pages.documentation_page() if name == "docs" else pages.openapi_json()

    for rule in ("/cron/process", "/api/v1/cron/process"):
        add(rule, partial(cron.process, runtime), _METHODS)
    for rest in ("", "/<scheduled_actions_any:path>"):
        add(f"/api/v1{rest}", partial(answer, api), _METHODS)
        add(f"/dashboard{rest}", partial(answer, dashboard), ["GET", "POST"])
    add("/calendar/<secret>.ics", answer_feed)
    add("/metrics", lambda: api().metrics())
    for name in ("healthz", "readyz"):
        add(f"/{name}", partial(answer_health, name))
    add("/openapi.json", partial(answer_description, "openapi"))
    add("/docs", partial(answer_description, "docs"))
    return routes


def _mask_secrets(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    if _SECRET.search(text):
        record.msg, record.args = _SECRET.sub(r"\1…", text), ()
    return True
