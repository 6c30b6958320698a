"""One action: what it is, why it has not run, what happened to it, and what can be done about it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.action import FINISHED, Status
from scheduled_actions.core.errors import ScheduledActionsError, UnknownAction
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.dashboard.actions.timeline import timeline
from scheduled_actions.web.dashboard.page import Moved, Page, Raw, View

if TYPE_CHECKING:
    from scheduled_actions.web.dashboard.page import Visit

#: What of an action can be looked at as text.
_DOCUMENTS = ("payload", "result", "state", "metadata", "history", "condition", "on_success", "on_failure")
#: Of what it scheduled, so many stand on a page.
_FOLLOW_UPS = 20


def show(visit: Visit) -> View:
    """Show one action."""
    action = visit.ask("GET", f"/actions/{visit.path['id']}")
    lock = timedelta(seconds=visit.runtime.config.settings.edit_lock_seconds)
    is_pending = action.status is Status.PENDING
    return View(
        "action.html",
        {
            "action": action,
            "why": visit.ask("GET", f"/actions/{action.id}/explain"),
            "events": timeline(action),
            "delivery": _delivery(visit, action),
            "parent": _parent(visit, action),
            "follow_ups": _follow_ups(visit, action),
            "documents": [name for name in _DOCUMENTS if getattr(action, name) is not None and name != "history"],
            "is_locked": is_pending and action.scheduled_at <= visit.now + lock,
            "lock_seconds": lock.total_seconds(),
            "can_run": is_pending,
            "can_edit": is_pending,
            "can_cancel": is_pending or action.status is Status.NO_ACTION,
            "can_retry": action.status in FINISHED - {Status.COMPLETED},
            "can_remove": action.status in FINISHED,
        },
    )


def _delivery(visit: Visit, action: Any) -> Any:  # noqa: ANN401 - the API's own documents
    """Return the delivery that the action is; None where it is none."""
    is_one = action.action_type == "webhook:send" and isinstance(action.payload, dict) and "endpoint" in action.payload
    try:
        return visit.ask("GET", f"/webhooks/deliveries/{action.id}") if is_one else None
    except ScheduledActionsError:
        return None


def _follow_ups(visit: Visit, action: Any) -> Any:  # noqa: ANN401 - as above
    """Return a page of what it scheduled, the newest first."""
    cursor = visit.query.get("scheduled")
    query = {"limit": _FOLLOW_UPS} | ({"cursor": cursor} if cursor else {})
    return visit.ask("GET", f"/actions/{action.id}/scheduled", query=query)


def _parent(visit: Visit, action: Any) -> Any:  # noqa: ANN401 - as above
    """Return the action that scheduled it; None where none did, it is gone, or is of a team that the caller is not."""
    try:
        return visit.ask("GET", f"/actions/{action.scheduled_by}") if action.scheduled_by else None
    except UnknownAction:
        return None


def raw(visit: Visit) -> Raw:
    """Give one document of an action as text."""
    action = visit.ask("GET", f"/actions/{visit.path['id']}")
    name = visit.path["name"]
    if name not in _DOCUMENTS:
        raise UnknownAction(f"{action.id}/{name}")
    return Raw(json.dumps(getattr(action, name), indent=2, ensure_ascii=False, default=str) + "\n", "text/plain")


def run_now(visit: Visit) -> Moved:
    """Make it due."""
    visit.ask("POST", _of_api(visit, "/run-now"))
    return _back(visit, "It is due: the next tick takes it.")


def retry(visit: Visit) -> Moved:
    """Make it pending again."""
    visit.ask("POST", _of_api(visit, "/retry"))
    return _back(visit, "It is pending again, its attempts back to zero: the next tick takes it.")


def cancel(visit: Visit) -> Moved:
    """Cancel it."""
    force = {"force": "true"} if visit.form.get("force") else {}
    visit.ask("DELETE", _of_api(visit), query=visit.given("reason") | force)
    return _back(visit, "Cancelled.")


def remove(visit: Visit) -> Moved:
    """Remove it before its retention ends."""
    visit.ask("DELETE", _of_api(visit), query={"purge": "true"})
    return Moved("/actions", f"Action {visit.path['id']} is gone.")


def _of_api(visit: Visit, what: str = "") -> str:
    return f"/actions/{visit.path['id']}{what}"


def _back(visit: Visit, said: str) -> Moved:
    return Moved(f"/actions/{visit.path['id']}", said)


PAGES = (
    Page("GET", "/actions/{id}", show),
    Page("GET", "/actions/{id}/as-text/{name}", raw),
    Page("POST", "/actions/{id}/run-now", run_now, role=Role.OPERATOR),
    Page("POST", "/actions/{id}/retry", retry, role=Role.OPERATOR),
    Page("POST", "/actions/{id}/cancel", cancel, role=Role.OPERATOR),
    Page("POST", "/actions/{id}/remove", remove, role=Role.OPERATOR),
)
