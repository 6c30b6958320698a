"""Show, create, edit, move, pause, resume, mute, reassign, complete and cancel deadlines; preview their timelines."""

import json
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import count
from typing import Any
from uuid import UUID

from werkzeug.datastructures import MultiDict

from scheduled_actions.core import json_text
from scheduled_actions.core.errors import InvalidArgument, ScheduledActionsError
from scheduled_actions.core.pages import read_page_by
from scheduled_actions.deadlines.model import Stage
from scheduled_actions.deadlines.reading import TimelineEntry, near
from scheduled_actions.operations.tokens import Role
from scheduled_actions.recurrence.skips.holidays import label_of
from scheduled_actions.web.dashboard.deadlines.timeline import chart_of, describe, kind_of, look_of, name_of, people
from scheduled_actions.web.dashboard.forms import (
    Form,
    ObjectForm,
    Parser,
    as_flag,
    as_instant,
    as_text,
    command,
    seen_of,
    without_none,
)
from scheduled_actions.web.dashboard.page import ROWS, DashboardPage, Document, Nav, Redirect, RequestContext, View

#: The statuses of each list, by the query's `status`. A list with statuses is ordered by due instant; a list without
#: comes from the API, newest first.
_LISTS = {"": ("missed", "open"), "missed": ("missed",), "completed": (), "cancelled": ()}
#: The reminders offered as checkboxes.
REMINDERS = {
    "60 days before": "60 days", "30 days before": "30 days", "14 days before": "14 days", "7 days before": "7 days",
    "3 days before": "3 days", "1 day before": "a day", "2 hours before": "2 hours",
}  # fmt: skip
_TICKED = ("7 days before", "1 day before")
#: Fields that are sent to the API as text.
_TEXTS = ("name", "timezone", "team_id", "recurrence")
#: The kinds of stages that users define; the others are added automatically.
USER_STAGES = ("reminder", "escalation", "action")


def _filled(_context: RequestContext, deadline: Document) -> Form:
    """Return the initial form fields of a deadline."""
    calendar = deadline.calendar or {}
    filled = {
        "target_type": deadline.target_type,
        "target_id": deadline.target_id,
        "timezone": deadline.timezone,
        "recipients": typed(deadline.recipients),
        "recurrence": deadline.recurrence or "",
        "holidays": label_of(calendar.get("holidays")),
        "adjustment": calendar.get("adjustment") or "",
    }
    return MultiDict(filled | {"keep": [one.key for one in deadline.stages if one.kind in USER_STAGES]})


def preview(context: RequestContext) -> View:
    """Show the timeline that the new deadline in a form would have, or the error."""
    if not context.given("due_at", "recurrence"):
        return View("deadline_preview.html", {"preview": None, "problem": None})
    return _preview(
        context,
        "/deadlines/preview",
        # With placeholders: the preview appears before all required fields are filled in.
        lambda: {
            "recipients": ["preview@example.org"],
            **_body(context, context.form, None),
            "target": {"type": "deadline", "id": "new"},
        },
    )


def preview_change(context: RequestContext) -> View:
    """Show the timeline that a deadline would have after the changes in the form, or the error."""
    deadline = context.call("GET", f"/deadlines/{context.path['id']}")
    return _preview(
        context,
        f"/deadlines/{deadline.id}/preview",
        lambda: _FORM.changes(context, deadline, seen_of(context.form, _filled(context, deadline))),
    )


def _preview(context: RequestContext, path: str, body: Callable[[], dict[str, Any]]) -> View:
    try:
        found = context.call("POST", path, body=body())
    except ScheduledActionsError as error:
        return View("deadline_preview.html", {"preview": None, "problem": str(error)})
    stages = sorted(found.stages, key=lambda one: (one.at is None, one.at))
    chart = chart_of(
        [TimelineEntry(one.at, one.key, one.occurrence, one.state, None, None) for one in stages],
        due_at=found.due_at,
        now=context.now,
    )
    return View("deadline_preview.html", {"preview": found, "stages": stages, "chart": chart, "problem": None})


def _body(context: RequestContext, form: Form, deadline: Document | None) -> dict[str, Any]:
    """Return the body of the API request for a form, including the existing stages that the form keeps."""
    body = _fields(form)
    if deadline is None:
        return body
    stages = context.runtime.deadlines.get(deadline.id, team_id=context.caller.team_id).stages
    present = stages_as_body(stage for stage in stages if stage.key in form.getlist("keep"))
    calendar = dict(deadline.calendar or {})
    if "holidays" not in calendar or label_of(calendar["holidays"]):
        # The form shows both fields, even if they are not set.
        calendar = {name: value for name, value in calendar.items() if name not in {"holidays", "adjustment"}}
    calendar |= {name: text for name in ("holidays", "adjustment") if (text := form.get(name, "").strip())}
    # Null removes these two fields; the others cannot be empty.
    return (
        {"recipients": None, "recurrence": None}
        | body
        | {
            "reminders": present["reminders"] + body.get("reminders", []),
            "escalation": _with_levels(present["escalation"], body.get("escalation", [])),
            "auto_actions": present["auto_actions"] + body.get("auto_actions", []),
            "calendar": calendar or None,
        }
    )


def stages_as_body(stages: Iterable[Stage]) -> dict[str, Any]:
    """Convert stages to the format of the API; the API identifies the existing stages by their names.

    Returns:
        `reminders`, `auto_actions`, and `escalation` with `levels`, `repeat` and `interval`.
    """
    escalation: dict[str, Any] = {"levels": []}
    body: dict[str, Any] = {"reminders": [], "escalation": escalation, "auto_actions": []}
    for stage in stages:
        given = {"name": stage.key.partition(":")[2]} | _present(stage, "offset", "severity", "message", "to")
        if stage.kind == "reminder":
            body["reminders"].append(given | _present(stage, "repeat", "times"))
        elif stage.kind == "escalation":
            escalation["levels"].append(given | _present(stage, "assign", "condition") | {"stop_when": stage.stop_when})
            if stage.repeat is not None:
                escalation |= {"repeat": stage.times, "interval": stage.repeat}
        elif stage.kind == "action":
            work = {"action_type": stage.action_type, "payload": stage.payload or {}}
            body["auto_actions"].append(given | work | _present(stage, "condition") | dict(stage.options or {}))
    return body


def _present(stage: Stage, *names: str) -> dict[str, Any]:
    """Return the fields of a stage that are not None, as JSON."""
    values = without_none({name: getattr(stage, name) for name in names})
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _with_levels(escalation: dict[str, Any], added: list[dict[str, Any]]) -> Any:  # noqa: ANN401 - levels, or an object
    """Return an escalation with added levels, each named by an unused number; without `repeat`, only the levels."""
    taken = {one["name"] for one in escalation["levels"]}
    free = (str(number) for number in count(1) if str(number) not in taken)
    levels = [*escalation["levels"], *({**one, "name": next(free)} for one in added)]
    return escalation | {"levels": levels} if "repeat" in escalation and levels else levels


def _fields(form: Form) -> dict[str, Any]:
    """Return the fields of a form in the format of the API; existing stages and empty fields are omitted."""
    given = {name: text.strip() for name, text in form.items() if text.strip()}
    body = {name: given.get(name) for name in (*_TEXTS, "due_at")} | {
        "target": {"type": given.get("target_type", ""), "id": given.get("target_id", "")},
        "recipients": people_in(given.get("recipients", "")),
        "reminders": [
            *(one for one in form.getlist("remind") if one in REMINDERS),
            *listed(given.get("reminders", "")),
        ],
        "escalation": [
            {"offset": given.get(f"level_offset_{number}", "when due"), "to": to}
            for number in (1, 2)
            if (to := listed(given.get(f"level_to_{number}", "")))
        ],
    }
    if "holidays" in given:
        body["calendar"] = {name: given[name] for name in ("holidays", "adjustment") if name in given}
    if "action_type" in given:
        body["auto_actions"] = [
            {
                "offset": given.get("action_offset", ""),
                "action_type": given["action_type"],
                "payload": json_text.decode(given.get("payload", "{}"), name="payload"),
            }
        ]
    return {name: value for name, value in body.items() if value}


def typed(recipients: Iterable[Any]) -> str:
    """Format recipients for the form: separated by commas, or as JSON if one is an object."""
    given = list(recipients)
    return people(given) if all(isinstance(one, str) for one in given) else json.dumps(given, ensure_ascii=False)


def people_in(text: str) -> Any:  # noqa: ANN401 - addresses, or any JSON
    """Parse the recipients in a form field: a list as `listed` splits it, or JSON if the text starts with `[` or `{`.

    Raises:
        InvalidArgument: The JSON is invalid.
    """
    return json_text.decode(text, name="recipients") if text.strip().startswith(("[", "{")) else listed(text)


def listed(text: str) -> list[str]:
    """Split a form field at commas, semicolons and line breaks; empty items are omitted."""
    return [one.strip() for one in re.split(r"[,;\n]", text) if one.strip()]


def _values(context: RequestContext, deadline: Document | None, given: Form) -> dict[str, Any]:
    usual = {"timezone": context.zone.key, "level_offset_1": "when due", "level_offset_2": "1 day after"}
    return {
        "given": usual | dict(given.items()),
        "deadline": deadline,
        "own": [] if deadline is None else [one for one in deadline.stages if one.kind in USER_STAGES],
        "kept": context.form.getlist("keep") if context.form else None,
        "reminders": REMINDERS,
        "ticked": context.form.getlist("remind") if context.form or deadline else _TICKED,
        "types": [one for one in context.call("GET", "/action-types").action_types if one.schedulable],
    }


def _created(deadline: Document, status: int) -> Redirect:
    said = "Deadline created." if status == HTTPStatus.CREATED else "The existing deadline with this name was updated."
    return Redirect(f"/deadlines/{deadline.id}", said)


_FORM = ObjectForm(
    path="/deadlines",
    template="deadline_form.html",
    filled=_filled,
    body=_body,
    values=_values,
    created=_created,
    saved=lambda _: "Saved. Future reminders, escalations and actions are rescheduled.",
)


def list_deadlines(context: RequestContext) -> View:
    """Show a page of the deadlines with the status in the query; by default, of the open and missed deadlines."""
    status = context.choice("status", _LISTS)
    cursor = context.query.get("cursor", "").strip()
    if statuses := _LISTS[status]:
        place, team_id = _place(cursor), context.caller.team_id
        found, next_cursor = read_page_by(
            lambda one: f"{one.due_at.timestamp():.6f}_{one.id}",
            lambda limit: near(context.runtime.database, statuses=statuses, team_id=team_id, after=place, limit=limit),
            ROWS,
        )
    else:
        query = {"status": status, "limit": ROWS} | ({"cursor": cursor} if cursor else {})
        page = context.call("GET", "/deadlines", query=query)
        found, next_cursor = page.deadlines, page.next_cursor
    return View(
        "deadlines.html",
        {
            "rows": [(one, _next_of(one)) for one in found],
            "status": status,
            "cursor": cursor,
            "next_cursor": next_cursor,
            "named": name_of,
            "people": people,
            "is_by_due": bool(statuses),
        },
    )


def _place(cursor: str) -> tuple[datetime, UUID] | None:
    """Parse a cursor of a list by due instant: the instant and id after which the page begins; None: the first page.

    Raises:
        InvalidArgument: The cursor is malformed.
    """
    if not cursor:
        return None
    at, _, deadline_id = cursor.partition("_")
    try:
        return datetime.fromtimestamp(float(at), UTC), UUID(deadline_id)
    except (ValueError, OverflowError, OSError):
        raise InvalidArgument("cursor", cursor, "a cursor of this list; open the list again") from None


def _next_of(deadline: Document) -> Document | None:
    """Return the next planned stage except the renewal; None if there is none, or the deadline is paused."""
    if deadline.paused_at is not None:
        return None
    planned = (one for one in deadline.stages if one.state == "planned" and one.at and one.kind != "renewal")
    return min(planned, key=lambda one: one.at, default=None)


def show_deadline(context: RequestContext) -> View:
    """Show one deadline with its timeline and history."""
    answer = context.api.call("GET", f"/deadlines/{context.path['id']}")
    deadline: Document = answer.document
    return View(
        "deadline.html",
        {
            "deadline": deadline,
            "etag": answer.headers["ETag"],
            "name": name_of(deadline),
            "people": people,
            "typed": typed(deadline.recipients),
            "said_of": describe,
            "steps": [(step, kind_of(step.stage), look_of(step.state)) for step in deadline.timeline],
            "chart": chart_of(deadline.timeline, due_at=deadline.due_at, now=context.now),
            "offsets": {one.key: one.offset for one in deadline.stages},
            "conditions": {one.key: json.dumps(one.condition) for one in deadline.stages if one.condition},
            "is_unresolved": deadline.status in {"open", "missed"},
        },
    )


_DEADLINE = "/deadlines/{id}"
_REASON: dict[str, Parser] = {"reason": as_text}
PAGES = (
    DashboardPage("GET", "/deadlines", list_deadlines, nav=Nav("Deadlines", "deadline")),
    *_FORM.pages,
    DashboardPage("POST", "/deadlines/preview", preview, role=Role.OPERATOR),
    DashboardPage("POST", "/deadlines/{id}/preview", preview_change, role=Role.OPERATOR),
    DashboardPage("GET", "/deadlines/{id}", show_deadline),
    command(
        _DEADLINE,
        "complete",
        "Completed. No further reminders or escalations are sent for this deadline, and no further actions run.",
        _REASON,
    ),
    command(
        _DEADLINE,
        "cancel",
        "Cancelled. No further reminders or escalations are sent for this deadline, and no further actions run.",
        {"series": as_flag} | _REASON,
    ),
    command(
        _DEADLINE,
        "move",
        "Moved. Future reminders, escalations and actions are rescheduled.",
        {"due_at": as_instant} | _REASON,
    ),
    command(
        _DEADLINE,
        "pause",
        "Paused. Until the deadline is resumed, no reminders or escalations are sent, and no actions run.",
        _REASON,
    ),
    command(_DEADLINE, "resume", "Resumed. The new due time leaves as much working time as before the pause.", _REASON),
    command(
        _DEADLINE,
        "acknowledge",
        "Repeated reminders muted. Escalation continues, except for levels that stop when acknowledged.",
        {"until": as_instant} | _REASON,
    ),
    command(
        _DEADLINE,
        "reassign",
        "Reassigned. Future notifications go to the new recipients, except those of stages with their own recipients.",
        {"recipients": lambda _name, text, _zone: people_in(text)} | _REASON,
    ),
)
