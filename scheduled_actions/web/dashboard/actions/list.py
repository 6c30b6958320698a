"""The actions: filtered, searched, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from scheduled_actions.core.action import Status
from scheduled_actions.core.errors import RequestError, ScheduledActionsError
from scheduled_actions.web.dashboard.page import Moved, Nav, Page, View, address
from scheduled_actions.web.dashboard.times import from_input, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.web.dashboard.page import Visit

#: The filters of the API's list, which are those of a page's address.
FILTERS = ("status", "action_type", "team_id", "lock_group", "scheduled_from", "scheduled_to", "q")
_INSTANTS = ("scheduled_from", "scheduled_to")
_ROWS = 50
#: More that came meanwhile are not counted.
_NEWER_MOST = 20
_LAST_ID = UUID(int=2**128 - 1)


def list_actions(visit: Visit) -> View | Moved:
    """Show a page of the actions that match."""
    given = wanted(visit, "cursor", "top")
    if given != visit.query.to_dict():
        # Without what is empty, and with instants that mean the same to every viewer: an address to be shared.
        return Moved(address("/actions", given))
    filters = {name: text for name, text in given.items() if name in FILTERS}
    values: dict[str, Any] = {
        "given": given,
        "filters": dict.fromkeys(FILTERS) | filters,
        "is_filtered": bool(filters),
        "is_first": "cursor" not in given,
        "statuses": list(Status),
        "types": known_types(visit),
        "moments": {name: parsed(filters.get(name)) for name in _INSTANTS},
    }
    try:
        return View("actions.html", values | _page(visit, given, filters) | {"problem": None})
    except RequestError as error:
        nothing: dict[str, Any] = {"actions": [], "next_cursor": None, "newer": 0, "top": None}
        return View("actions.html", values | nothing | {"problem": str(error)}, status=400)


def wanted(visit: Visit, *beside: str) -> dict[str, str]:
    """Return which actions a page's address means: what is given of the filters, instants with their offset."""
    given = {name: text.strip() for name in (*FILTERS, *beside) if (text := visit.query.get(name, "")) and text.strip()}
    return given | {name: from_input(given[name], visit.zone) for name in _INSTANTS if name in given}


def known_types(visit: Visit) -> list[str]:
    """Return the action types of this build; none where its registry cannot be read."""
    try:
        return sorted(visit.runtime.registry.types)
    except ScheduledActionsError:
        return []


def _page(visit: Visit, given: Mapping[str, str], filters: Mapping[str, str]) -> dict[str, Any]:
    cursor, top = given.get("cursor"), _id(given.get("top"))
    if cursor is None and top is not None and top != _LAST_ID:
        # As it was when it was first drawn: what came since is told of, and moves nothing under the reader's eyes.
        cursor = str(UUID(int=top.int + 1))
    query = {**filters, "limit": _ROWS} | ({} if cursor is None else {"cursor": cursor})
    page = visit.ask("GET", "/actions", query=query)
    newer = 0
    if top is not None:
        latest = visit.ask("GET", "/actions", query={**filters, "limit": _NEWER_MOST}).actions
        newer = sum(one.id > top for one in latest)
    first = page.actions[0].id if page.actions else None
    return {
        "actions": page.actions,
        "next_cursor": page.next_cursor,
        "newer": newer,
        "top": top or (None if "cursor" in given else first),
    }


def _id(text: str | None) -> UUID | None:
    try:
        return None if text is None else UUID(text)
    except ValueError:
        return None


PAGES = (Page("GET", "/actions", list_actions, nav=Nav("Actions", "actions")),)
