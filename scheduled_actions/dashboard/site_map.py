"""Every page of the dashboard, in the order of the navigation."""

from __future__ import annotations

from scheduled_actions.dashboard import overview, schedule_pages

PAGES = (*overview.PAGES, *schedule_pages.PAGES)
