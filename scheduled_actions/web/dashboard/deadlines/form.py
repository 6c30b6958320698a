"""Setting and changing a deadline: the simple choices first, the rest by degrees, its ladder drawn meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from werkzeug.datastructures import MultiDict

from scheduled_actions.core import json_text
from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.deadlines.service import Step
from scheduled_actions.operations.tokens import Role
from scheduled_actions.recurrence.skips.holidays import label_of
from scheduled_actions.web.dashboard.deadlines.ladder import ladder
from scheduled_actions.web.dashboard.deadlines.stages import OF_PEOPLE, as_asked
from scheduled_actions.web.dashboard.deadlines.words import listed, people_in, typed
from scheduled_actions.web.dashboard.edits import FIELD, Seen, differing, said_of_edit, seen_of, status_of_edit
from scheduled_actions.web.dashboard.page import Moved, Page, View

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from scheduled_actions.web.dashboard.page import Visit

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
        made = visit.asked("POST", "/deadlines", body=_body(visit.form))
    except ScheduledActionsError as error:
        return _form(visit, visit.form, visit.form.getlist("remind"), error)
    said = "It is set." if made.status == 201 else "One of that name was open: it is as asked for."  # noqa: PLR2004
    document: Any = made.document
    return Moved(f"/deadlines/{document.id}", said)


def edit(visit: Visit) -> View:
    """Show the form of a deadline that is there."""
    answer = visit.asked("GET", f"/deadlines/{visit.path['id']}")
    deadline: Any = answer.document
    seen = Seen(answer.headers["ETag"], _filled(deadline))
    return _form(visit, seen.form, (), None, deadline, seen=seen)


def change(visit: Visit) -> View | Moved:
    """Change what is different in the form, or show the form again with what is wrong."""
    deadline = visit.ask("GET", f"/deadlines/{visit.path['id']}")
    try:
        seen = seen_of(visit.form, _filled(deadline))
        body = _changes(visit, deadline, seen)
        visit.ask("PATCH", f"/deadlines/{deadline.id}", body=body, if_match=seen.etag)
    except ScheduledActionsError as error:
        return _form(visit, visit.form, visit.form.getlist("remind"), error, deadline)
    return Moved(f"/deadlines/{deadline.id}", "Changed: what is still to come is planned anew.")


def _filled(deadline: Any) -> MultiDict[str, str]:  # noqa: ANN401 - as the API tells it
    """Return the fields of the form as a deadline fills them in."""
    calendar = deadline.calendar or {}
    filled = MultiDict(
        {
            "target_type": deadline.target_type,
            "target_id": deadline.target_id,
            "timezone": deadline.timezone,
            "recipients": typed(deadline.recipients),
            "recurrence": deadline.recurrence or "",
            "holidays": label_of(calendar.get("holidays")),
            "then": calendar.get("then") or "",
        }
    )
    for one in deadline.stages:
        if one.kind in OF_PEOPLE:
            filled.add("keep", one.key)
    return filled


def preview(visit: Visit) -> View:
    """Show the ladder of the deadline that a form asks for."""
    if not (visit.form.get("due_at", "").strip() or visit.form.get("recurrence", "").strip()):
        return View("deadline_preview.html", {"foreseen": None, "problem": None})
    # What is not filled in yet hides nothing of the ladder.
    asked = {"recipients": ["nobody@example.org"]}, {"target": {"type": "deadline", "id": "new"}}
    return _foreseen(visit, "/deadlines/preview", lambda: asked[0] | _body(visit.form) | asked[1])


def preview_change(visit: Visit) -> View:
    """Show the ladder of a deadline as a form would have it."""
    deadline = visit.ask("GET", f"/deadlines/{visit.path['id']}")
    return _foreseen(
        visit,
        f"/deadlines/{deadline.id}/preview",
        lambda: _changes(visit, deadline, seen_of(visit.form, _filled(deadline))),
    )


def _foreseen(visit: Visit, path: str, asked: Callable[[], dict[str, Any]]) -> View:
    try:
        found = visit.ask("POST", path, body=asked())
    except ScheduledActionsError as error:
        return View("deadline_preview.html", {"foreseen": None, "problem": str(error)})
    stages = sorted(found.stages, key=lambda one: (one.at is None, one.at))
    steps = [Step(one.at, one.key, one.occurrence, one.state, None, None) for one in stages]
    drawn = ladder(steps, due_at=found.due_at, now=visit.now)
    return View("deadline_preview.html", {"foreseen": found, "stages": stages, "ladder": drawn, "problem": None})


def _changes(visit: Visit, deadline: Any, seen: Seen) -> dict[str, Any]:  # noqa: ANN401 - as the API tells it
    """Return what a form changes of a deadline, as the API takes it."""
    asked, shown = _whole(visit, deadline, visit.form), _whole(visit, deadline, seen.form)
    # Null takes these two away; the others cannot be empty.
    emptied = dict.fromkeys({"recipients", "recurrence"} & shown.keys())
    return differing(emptied | asked, shown)


def _whole(visit: Visit, deadline: Any, form: MultiDict[str, str]) -> dict[str, Any]:  # noqa: ANN401 - as above
    """Return what a form makes of a deadline: of its stages those that are kept, as they are."""
    body = _body(form)
    kept = set(form.getlist("keep"))
    whole = visit.runtime.deadlines.get(deadline.id, team_id=visit.caller.team_id)
    lists = as_asked([stage for stage in whole.stages if stage.key in kept])
    calendar = dict(deadline.calendar or {})
    if "holidays" not in calendar or label_of(calendar["holidays"]):
        # These two the form shows, and their absence, too.
        calendar = {name: value for name, value in calendar.items() if name not in {"holidays", "then"}}
    then = {"then": form["then"].strip()} if form.get("then", "").strip() else {}
    return body | {
        "reminders": [*lists.reminders, *body.get("reminders", [])],
        "escalation": lists.ladder(beside=body.get("escalation", [])),
        "auto_actions": [*lists.actions, *body.get("auto_actions", [])],
        "calendar": calendar | body.get("calendar", {}) | then or None,
    }


def _body(form: MultiDict[str, str]) -> dict[str, Any]:
    """Return what a form asks for, as the API takes it; what is empty is left out."""
    given = {name: text.strip() for name, text in form.items() if text.strip()}
    body: dict[str, Any] = {name: given[name] for name in _TEXTS if name in given}
    body["target"] = {"type": given.get("target_type", ""), "id": given.get("target_id", "")}
    if "due_at" in given:
        body["due_at"] = given["due_at"]
    if to := people_in(form.get("recipients", "")):
        body["recipients"] = to
    if reminders := [*(one for one in form.getlist("remind") if one in REMINDERS), *listed(form.get("reminders", ""))]:
        body["reminders"] = reminders
    if levels := _levels(form):
        body["escalation"] = levels
    if "holidays" in given:
        body["calendar"] = {"holidays": given["holidays"]} | ({"then": given["then"]} if "then" in given else {})
    if "action_type" in given:
        payload = json_text.decode(given["payload"], name="payload") if "payload" in given else {}
        offset = given.get("action_offset", "")
        body["auto_actions"] = [{"offset": offset, "action_type": given["action_type"], "payload": payload}]
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
    visit: Visit,
    given: Mapping[str, str],
    ticked: Collection[str],
    error: ScheduledActionsError | None,
    deadline: Any = None,  # noqa: ANN401 - as the API tells it
    *,
    seen: Seen | None = None,
) -> View:
    values = {
        "given": {"timezone": visit.zone.key, "level_offset_1": "when due", "level_offset_2": "1 day after"}
        | dict(given.items()),
        "deadline": deadline,
        "own": [] if deadline is None else [one for one in deadline.stages if one.kind in OF_PEOPLE],
        "kept": visit.form.getlist("keep") if visit.form else None,
        "reminders": REMINDERS,
        "ticked": ticked,
        "types": [one for one in visit.ask("GET", "/action-types").action_types if one.schedulable],
        "seen": visit.form.get(FIELD) if seen is None else seen.as_field(),
        "problem": None if error is None else said_of_edit(error),
    }
    return View("deadline_form.html", values, status=status_of_edit(error))


PAGES = (
    Page("GET", "/deadlines/new", new, role=Role.OPERATOR),
    Page("POST", "/deadlines/new", create, role=Role.OPERATOR),
    Page("POST", "/deadlines/preview", preview, role=Role.OPERATOR),
    Page("GET", "/deadlines/{id}/edit", edit, role=Role.OPERATOR),
    Page("POST", "/deadlines/{id}/edit", change, role=Role.OPERATOR),
    Page("POST", "/deadlines/{id}/preview", preview_change, role=Role.OPERATOR),
)
