"""Every page of the dashboard, in the order of the navigation."""

from __future__ import annotations

from scheduled_actions.dashboard import (
    action_list,
    action_page,
    bulk,
    calendar_page,
    deadline_pages,
    feed_pages,
    overview,
    schedule_pages,
    scheduling,
    simulation_page,
    ticks,
    webhook_pages,
)

PAGES = (
    *overview.PAGES,
    *action_list.PAGES,
    *action_page.PAGES,
    *bulk.PAGES,
    *schedule_pages.PAGES,
    *calendar_page.PAGES,
    *feed_pages.PAGES,
    *deadline_pages.PAGES,
    *webhook_pages.PAGES,
    *simulation_page.PAGES,
    *ticks.PAGES,
    *scheduling.PAGES,
)
