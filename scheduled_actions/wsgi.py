"""WSGI: the default application for `gunicorn scheduled_actions.wsgi:app` and Vercel."""

from flask import Flask

from scheduled_actions.runtime import stop_on_sigterm
from scheduled_actions.ticks.garbage_collection import collect_garbage_rarely
from scheduled_actions.web.extension import ScheduledActions, add_home

app = Flask("scheduled_actions", static_folder=None, template_folder=None)
app.url_map.merge_slashes = False
ScheduledActions(app)
# Applications with their own Flask app define their own home page.
add_home(app)
stop_on_sigterm()
collect_garbage_rarely()
