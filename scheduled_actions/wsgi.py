"""WSGI: the default application for `gunicorn scheduled_actions.wsgi:app` and Vercel."""

from flask import Flask, redirect

from scheduled_actions.runtime import stop_on_sigterm
from scheduled_actions.web.extension import ScheduledActions

app = Flask("scheduled_actions", static_folder=None, template_folder=None)
app.url_map.merge_slashes = False
ScheduledActions(app)
# Redirect browsers to the dashboard; applications with their own Flask app define their own home page.
app.add_url_rule("/", "home", lambda: redirect("/dashboard/"))
stop_on_sigterm()
