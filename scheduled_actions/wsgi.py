"""WSGI: the ready-made application, `gunicorn scheduled_actions.wsgi:app`; Vercel's entry point."""

from __future__ import annotations

from flask import Flask, redirect

from scheduled_actions.runtime import stop_on_sigterm
from scheduled_actions.web.extension import ScheduledActions

app = Flask("scheduled_actions", static_folder=None, template_folder=None)
app.url_map.merge_slashes = False
ScheduledActions(app)
# Whoever opens the bare address is a person; in an application of one's own that page is the application's.
app.add_url_rule("/", "home", lambda: redirect("/dashboard/"))
stop_on_sigterm()
