"""List every page of the dashboard in the order of the navigation."""

from scheduled_actions.web.dashboard import calendar, limits, mail, mail_templates, operations, schedules, webhooks
from scheduled_actions.web.dashboard.actions import forms as action_forms, pages as action_pages
from scheduled_actions.web.dashboard.deadlines import pages as deadline_pages

PAGES = (
    *operations.PAGES[:1],
    *action_pages.PAGES,
    *schedules.PAGES,
    *calendar.PAGES,
    *deadline_pages.PAGES,
    *webhooks.PAGES,
    *limits.PAGES,
    *mail.PAGES,
    *mail_templates.PAGES,
    *operations.PAGES[1:],
    *action_forms.PAGES,
)
