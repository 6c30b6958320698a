"""Scheduled Actions as a Flask extension."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from flask import Blueprint

from scheduled_actions.runtime import current
from scheduled_actions.web.blueprint import blueprint
from scheduled_actions.web.server_logs import mask_secrets

if TYPE_CHECKING:
    from flask import Flask, Response

    from scheduled_actions.runtime import Runtime
    from scheduled_actions.web.dashboard.site import Dashboard


class ScheduledActions:
    """Adds the cron endpoint to an application.

    ```python
    app = Flask(__name__)
    ScheduledActions(app)                      # /cron/process, /api/v1, /dashboard, /healthz, …
    ScheduledActions(app, url_prefix="/scheduled")  # /scheduled/cron/process, …
    ```

    Args:
        app: The application; None: call `init_app` later.
        url_prefix: Where the routes hang.
        runtime: A project's parts; None: the process's own, from the project directory.
    """

    def __init__(
        self, app: Flask | None = None, *, url_prefix: str | None = None, runtime: Runtime | None = None
    ) -> None:
        self._url_prefix = url_prefix
        self._runtime = runtime
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask, *, url_prefix: str | None = None) -> None:
        """Add the routes to `app`.

        Raises:
            ConfigInvalid: The project's settings cannot be used.
        """
        mask_secrets()
        runtime = self._runtime or current()
        prefix = url_prefix or self._url_prefix
        app.register_blueprint(blueprint(runtime), url_prefix=prefix)
        app.register_blueprint(_dashboard(runtime), url_prefix=prefix)
        app.extensions["scheduled_actions"] = runtime


def _dashboard(runtime: Runtime) -> Blueprint:
    """Return the routes of the dashboard, which is loaded when somebody opens it: a cold tick does without."""
    routes = Blueprint("scheduled_actions_dashboard", __name__)

    @cache
    def dashboard() -> Dashboard:
        from scheduled_actions.web.dashboard.site import Dashboard  # noqa: PLC0415 - as said

        return Dashboard(runtime)

    def page(path: str = "") -> Response:
        with runtime.serving():
            return dashboard().answer(path)

    # The converter of paths is one that the API brings.
    for rule in ("/dashboard", "/dashboard/<scheduled_actions_any:path>"):
        routes.add_url_rule(
            rule,
            endpoint=f"page{len(rule)}",
            view_func=page,
            methods=["GET", "POST"],
            strict_slashes=False,
            provide_automatic_options=False,
        )
    return routes
