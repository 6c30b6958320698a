"""Setting a deadline: what, when, who and the usual reminders first, the rest by degrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions.dashboard.deadline_words import listed
from scheduled_actions.dashboard.page import Moved, Page, View
from scheduled_actions.errors import ScheduledActionsError
from scheduled_actions.tokens import Role

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from scheduled_actions.dashboard.page import Visit

#: The usual distances, as they are ticked.
REMINDERS = {
    "60 days before": "60 days", "30 days before": "30 days", "14 days before": "14 days", "7 days before": "7 days",
    "3 days before": "3 days", "1 day before": "a day", "2 hours before": "2 hours",
}  # fmt: skip
_TICKED = ("7 days before", "1 day before")
#: Taken as they are typed.
_TEXTS = ("name", "timezone", "team_id", "recurrence")


def new(visit: Visit) -> View:
    """Show the form of a new deadline; an address may fill in what it is about."""
    return _form(visit, visit.query, _TICKED, None)


def create(visit: Visit) -> View | Moved:
    """Set a deadline, or show the form again with what is wrong."""
    try:
        made = visit.asked("POST", "/deadlines", body=_body(visit))
    except ScheduledActionsError as error:
        return _form(visit, visit.form, visit.form.getlist("remind"), error)
    said = "It is set." if made.status == 201 else "One of that name was open: it is as asked for."  # noqa: PLR2004
    document: Any = made.document
    return Moved(f"/deadlines/{document.id}", said)


def _body(visit: Visit) -> dict[str, Any]:
    """Return what a form asks for, as the API takes it; what is empty is left out."""
    form = visit.form
    body: dict[str, Any] = dict(visit.given(*_TEXTS))
    body["target"] = {"type": form.get("target_type", "").strip(), "id": form.get("target_id", "").strip()}
    if due_at := form.get("due_at", "").strip():
        body["due_at"] = due_at
    if to := listed(form.get("recipients", "")):
        body["recipients"] = to
    if reminders := [*(one for one in form.getlist("remind") if one in REMINDERS), *listed(form.get("reminders", ""))]:
        body["reminders"] = reminders
    if levels := _levels(form):
        body["escalation"] = levels
    if holidays := form.get("holidays", "").strip():
        body["calendar"] = {"holidays": holidays} | visit.given("then")
    if action_type := form.get("action_type", "").strip():
        payload = visit.json("payload") if form.get("payload", "").strip() else {}
        offset = form.get("action_offset", "").strip()
        body["auto_actions"] = [{"offset": offset, "action_type": action_type, "payload": payload}]
    return body


def _levels(form: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the levels of the ladder, of which a form has two."""
    told = {number: listed(form.get(f"level_to_{number}", "")) for number in ("1", "2")}
    return [
        {"offset": form.get(f"level_offset_{number}", "").strip() or "when due", "to": to}
        for number, to in told.items()
        if to
    ]


def _form(
    visit: Visit, given: Mapping[str, str], ticked: Collection[str], error: ScheduledActionsError | None
) -> View:  # fmt: skip
    values = {
        "given": {"timezone": visit.zone.key, "level_offset_1": "when due", "level_offset_2": "1 day after"}
        | dict(given.items()),
        "reminders": REMINDERS,
        "ticked": ticked,
        "types": visit.ask("GET", "/action-types").action_types,
        "problem": None if error is None else str(error),
    }
    return View("deadline_form.html", values, status=200 if error is None else 400)


PAGES = (
    Page("GET", "/deadlines/new", new, role=Role.OPERATOR),
    Page("POST", "/deadlines/new", create, role=Role.OPERATOR),
)
