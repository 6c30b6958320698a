"""Every route of the management API."""

from __future__ import annotations

from scheduled_actions.api import actions, bulk, calendar, facts, feeds, installation, schedules, tokens, webhooks

ROUTES = (
    *actions.ROUTES,
    *bulk.ROUTES,
    *calendar.ROUTES,
    *facts.ROUTES,
    *feeds.ROUTES,
    *installation.ROUTES,
    *schedules.ROUTES,
    *tokens.ROUTES,
    *webhooks.ROUTES,
)
