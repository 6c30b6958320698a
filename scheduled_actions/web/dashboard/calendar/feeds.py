"""Calendar feeds: private addresses for calendar programs, made, listed and revoked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import request

from scheduled_actions.core.errors import RequestError
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.dashboard.page import Moved, Page, View

if TYPE_CHECKING:
    from scheduled_actions.web.dashboard.page import Visit

_FIELDS = ("name", "team_id", "user_id", "action_type")
_ROWS = 50


def list_feeds(visit: Visit) -> View:
    """Show the newest feeds, and the form that makes one."""
    return _shown(visit, {})


def make(visit: Visit) -> View | Moved:
    """Make a feed, and show its address: in the answer that follows, and in no other."""
    given = visit.given(*_FIELDS)
    try:
        made = visit.ask("POST", "/calendar/feeds", body=given)
    except RequestError as error:
        return _shown(visit, given, problem=str(error), status=400)
    address = f"{request.host_url.rstrip('/')}{made.path}"
    return Moved("/calendar/feeds", shown={"name": made.name, "address": address})


def revoke(visit: Visit) -> Moved:
    """Let the address of a feed answer nothing any more."""
    gone = visit.ask("DELETE", f"/calendar/feeds/{visit.path['id']}")
    return Moved("/calendar/feeds", f"{gone.name} is revoked: its address answers nothing any more.")


def _shown(
    visit: Visit,
    given: dict[str, str],
    *,
    status: int = 200,
    problem: str | None = None,
) -> View:
    cursor = visit.query.get("cursor") or None
    page = visit.ask("GET", "/calendar/feeds", query={"limit": _ROWS} | ({"cursor": cursor} if cursor else {}))
    values: dict[str, Any] = {"given": given, "problem": problem, "made": visit.shown}
    values |= {"feeds": page.feeds, "next_cursor": page.next_cursor, "is_first": cursor is None}
    return View("feeds.html", values, status)


PAGES = (
    Page("GET", "/calendar/feeds", list_feeds, role=Role.OPERATOR),
    Page("POST", "/calendar/feeds", make, role=Role.OPERATOR),
    Page("POST", "/calendar/feeds/{id}/revoke", revoke, role=Role.OPERATOR),
)
