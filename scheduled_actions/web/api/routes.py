"""Every route of the management API."""

from __future__ import annotations

from scheduled_actions.web.api.actions import bulk
from scheduled_actions.web.api.actions import routes as actions
from scheduled_actions.web.api.calendar import feeds
from scheduled_actions.web.api.calendar import routes as calendar
from scheduled_actions.web.api.deadlines import routes as deadlines
from scheduled_actions.web.api.facts import routes as facts
from scheduled_actions.web.api.installation import routes as installation
from scheduled_actions.web.api.people import routes as people
from scheduled_actions.web.api.schedules import routes as schedules
from scheduled_actions.web.api.tokens import routes as tokens
from scheduled_actions.web.api.webhooks import routes as webhooks

ROUTES = (
    *actions.ROUTES,
    *bulk.ROUTES,
    *calendar.ROUTES,
    *deadlines.ROUTES,
    *facts.ROUTES,
    *feeds.ROUTES,
    *installation.ROUTES,
    *people.ROUTES,
    *schedules.ROUTES,
    *tokens.ROUTES,
    *webhooks.ROUTES,
)
