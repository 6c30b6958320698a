"""Show the limit keys in use."""

from scheduled_actions.limits.service import WAITING_MOST
from scheduled_actions.web.dashboard.page import DashboardPage, Nav, RequestContext, View

#: Maximum number of keys on a page; the queue of each key is counted.
_ROWS = 25


def list_limits(context: RequestContext) -> View:
    """Show a page of the limit keys that match the filters, by key and team."""
    values = context.list("/limits", "limits", "prefix", "team_id", limit=_ROWS)
    return View("limits.html", values | {"waiting_most": WAITING_MOST})


PAGES = (DashboardPage("GET", "/limits", list_limits, nav=Nav("Limits", "limits")),)
