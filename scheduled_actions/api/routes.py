"""Every route of the management API."""

from __future__ import annotations

from scheduled_actions.api import actions, bulk, installation, schedules, tokens, webhooks

ROUTES = (*actions.ROUTES, *bulk.ROUTES, *installation.ROUTES, *schedules.ROUTES, *tokens.ROUTES, *webhooks.ROUTES)
