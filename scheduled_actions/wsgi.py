"""The ready-made application: `gunicorn scheduled_actions.wsgi:app`, and Vercel's entry point."""

from __future__ import annotations

from flask import Flask

from scheduled_actions.flask_extension import ScheduledActions
from scheduled_actions.runtime import stop_on_sigterm

app = Flask("scheduled_actions", static_folder=None, template_folder=None)
app.url_map.merge_slashes = False
ScheduledActions(app)
stop_on_sigterm()
