"""Scheduled Actions as a Flask extension."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduled_actions import api
from scheduled_actions.runtime import current

if TYPE_CHECKING:
    from flask import Flask

    from scheduled_actions.runtime import Runtime


class ScheduledActions:
    """Adds the cron endpoint to an application.

    ```python
    app = Flask(__name__)
    ScheduledActions(app)                      # /cron/process, /healthz, /readyz
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
        runtime = self._runtime or current()
        app.register_blueprint(api.blueprint(runtime), url_prefix=url_prefix or self._url_prefix)
        app.extensions["scheduled_actions"] = runtime
