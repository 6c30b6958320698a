"""Every page of the dashboard, in the order of the navigation."""

from __future__ import annotations

from scheduled_actions.web.dashboard.actions import bulk
from scheduled_actions.web.dashboard.actions import forms as scheduling
from scheduled_actions.web.dashboard.actions import list as action_list
from scheduled_actions.web.dashboard.actions import page as action_page
from scheduled_actions.web.dashboard.calendar import feeds as feed_pages
from scheduled_actions.web.dashboard.calendar import page as calendar_page
from scheduled_actions.web.dashboard.deadlines import pages as deadline_pages
from scheduled_actions.web.dashboard.operations import overview, ticks
from scheduled_actions.web.dashboard.operations import simulation as simulation_page
from scheduled_actions.web.dashboard.schedules import pages as schedule_pages
from scheduled_actions.web.dashboard.webhooks import pages as webhook_pages

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
