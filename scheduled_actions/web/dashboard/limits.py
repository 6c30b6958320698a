"""Show the limit keys in use; list, create and resume pauses."""

from collections.abc import Mapping
from typing import Any

from scheduled_actions.core.errors import InvalidArgument, RequestError, ScheduledActionsError
from scheduled_actions.core.messages import counted
from scheduled_actions.limits.pauses import MAX_COUNTED
from scheduled_actions.limits.rules.display import WAITING_MOST
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.dashboard.forms import as_instant, as_text, parse_fields
from scheduled_actions.web.dashboard.page import DashboardPage, Document, Nav, Redirect, RequestContext, View

#: Maximum number of keys on a page; the queue of each key is counted.
_ROWS = 25
#: What can be paused, by kind: the label, and the field of the API that has the name.
_KINDS = {
    "action_type": ("Action type", "action_type"),
    "limit": ("Limit key", "limit"),
    "lock_group": ("Lock group", "lock_group"),
    "team": ("Team", "team_id"),
}
_FIELDS = ("kind", "name", "team_id", "until", "note")


def list_limits(context: RequestContext) -> View:
    """Show a page of the limit keys that match the filters, by key and team."""
    values = context.list("/limits", "limits", "prefix", "team_id", limit=_ROWS)
    return View("limits.html", values | {"waiting_most": WAITING_MOST})


def list_pauses(context: RequestContext) -> View:
    """Show the pauses and the form for a new pause, whose initial values are in the query."""
    return _pauses(context, {name: context.query.get(name, "") for name in _FIELDS})


def _pauses(context: RequestContext, given: Mapping[str, str], error: RequestError | None = None) -> View:
    try:
        types = sorted(context.runtime.registry.types)
    except ScheduledActionsError:
        types = []
    values = {
        "pauses": context.call("GET", "/pauses").pauses,
        "kinds": {kind: label for kind, (label, _) in _KINDS.items()},
        "types": types,
        "given": given,
        "problem": error and str(error),
        "now": context.now,
        "parked_most": MAX_COUNTED,
    }
    return View("pauses.html", values, 400 if error else 200)


def create_pause(context: RequestContext) -> View | Redirect:
    """Pause what the form names, or show the form again with the error."""
    try:
        pause = context.call("POST", "/pauses", body=_body(context))
    except RequestError as error:
        return _pauses(context, {name: context.form.get(name, "") for name in _FIELDS}, error)
    return Redirect("/limits/pauses", f"Paused. {_held(pause)}")


def _body(context: RequestContext) -> dict[str, Any]:
    """Return the body of the API request for the form.

    Raises:
        InvalidArgument: The kind is unknown, the name is missing, or a team is given for a team.
    """
    parsers = {"kind": as_text, "name": as_text, "team_id": as_text, "until": as_instant, "note": as_text}
    body = parse_fields(context.form, context.zone, parsers)
    kind, name = body.pop("kind", ""), body.pop("name", None)
    if kind not in _KINDS:
        raise InvalidArgument("kind", kind, f"one of {', '.join(_KINDS)}")
    label, field = _KINDS[kind]
    if name is None:
        raise InvalidArgument("name", problem=f"is empty: enter the {label.lower()} to pause")
    if kind == "team" and body.get("team_id", name) != name:
        raise InvalidArgument("team_id", problem="cannot be given to pause a team: enter the team as the name")
    return body | {field: name}


def _held(pause: Document) -> str:
    if not pause.parked:
        return "No due actions are held back."
    more = "+" if pause.parked >= MAX_COUNTED else ""
    number = counted(pause.parked, "due action") if not more else f"{pause.parked:,}+ due actions"
    return f"{number} {'is' if pause.parked == 1 else 'are'} held back."


def resume(context: RequestContext) -> Redirect:
    """End a pause."""
    context.call("DELETE", f"/pauses/{context.path['id']}")
    return Redirect("/limits/pauses", "Resumed. The actions run in order of priority and time.")


PAGES = (
    DashboardPage("GET", "/limits", list_limits, nav=Nav("Limits", "limits")),
    DashboardPage("GET", "/limits/pauses", list_pauses),
    DashboardPage("POST", "/limits/pauses", create_pause, role=Role.OPERATOR),
    DashboardPage("POST", "/limits/pauses/{id}/resume", resume, role=Role.OPERATOR),
)
