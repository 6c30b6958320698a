"""Every page of the dashboard, in the order of the navigation."""

from __future__ import annotations

from scheduled_actions.dashboard import overview, schedule_pages, simulation_page

PAGES = (*overview.PAGES, *schedule_pages.PAGES, *simulation_page.PAGES)
