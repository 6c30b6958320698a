"""Every route of the management API."""

from __future__ import annotations

from scheduled_actions.api import (
    actions,
    bulk,
    calendar,
    deadlines,
    facts,
    feeds,
    installation,
    people,
    schedules,
    tokens,
    webhooks,
)

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
