"""Deadlines: what is due next, what of each was sent and will be; completed, moved, paused by a person."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.pages import page_by
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.dashboard.deadlines import form as deadline_form
from scheduled_actions.web.dashboard.deadlines.ladder import kind_of, ladder, look_of
from scheduled_actions.web.dashboard.deadlines.words import named, people, people_of, said_of, typed
from scheduled_actions.web.dashboard.page import Moved, Nav, Page, View
from scheduled_actions.web.dashboard.times import from_input

if TYPE_CHECKING:
    from scheduled_actions.web.dashboard.page import Visit

_ROWS = 50
#: What a list may hold, as its address says it; the first two go by the due instant, the nearest first.
_VIEWS = {"": ("missed", "open"), "missed": ("missed",), "completed": (), "cancelled": ()}


def list_deadlines(visit: Visit) -> View:
    """Show a page of the deadlines, the nearest first; of those that are closed the newest."""
    status = visit.query.get("status", "")
    status = status if status in _VIEWS else ""
    cursor = visit.query.get("cursor", "").strip()
    if statuses := _VIEWS[status]:
        read = partial(
            visit.runtime.deadlines.near, statuses=statuses, team_id=visit.caller.team_id, after=_place(cursor)
        )
        found, last = page_by(_cursor, lambda limit: read(limit=limit), _ROWS)
    else:
        given = {"status": status, "limit": _ROWS} | ({"cursor": cursor} if cursor else {})
        page = visit.ask("GET", "/deadlines", query=given)
        found, last = page.deadlines, page.next_cursor
    rows = [(one, _next_of(one)) for one in found]
    return View(
        "deadlines.html",
        {
            "rows": rows, "status": status, "cursor": cursor, "next_cursor": last, "named": named, "people": people,
            "is_by_due": bool(statuses),
        },
    )  # fmt: skip


def _cursor(deadline: Any) -> str:  # noqa: ANN401 - a deadline
    return f"{deadline.due_at.timestamp():.6f}_{deadline.id}"


def _place(cursor: str) -> tuple[datetime, UUID] | None:
    """Return where a page goes on.

    Raises:
        InvalidArgument: The cursor is none that a page ended with.
    """
    if not cursor:
        return None
    at, _, deadline_id = cursor.partition("_")
    try:
        return datetime.fromtimestamp(float(at), UTC), UUID(deadline_id)
    except (ValueError, OverflowError, OSError):
        raise InvalidArgument("cursor", cursor, "the one that the page before ended with") from None


def _next_of(deadline: Any) -> Any:  # noqa: ANN401 - the stage of a deadline as the API tells it
    """Return the stage that comes next; None where nothing is planned, or its clock stands still."""
    if deadline.paused_at is not None:
        return None
    planned = [one for one in deadline.stages if one.state == "planned" and one.at and one.kind != "renewal"]
    return min(planned, key=lambda one: one.at, default=None)


def show(visit: Visit) -> View:
    """Show one deadline: its ladder, and all that can be done with it."""
    answer = visit.asked("GET", f"/deadlines/{visit.path['id']}")
    deadline: Any = answer.document
    steps = [(step, kind_of(step.stage), look_of(step.state)) for step in deadline.timeline]
    return View(
        "deadline.html",
        {
            "deadline": deadline,
            "etag": answer.headers["ETag"],
            "name": named(deadline),
            "people": people,
            "typed": typed(deadline.recipients),
            "said_of": said_of,
            "steps": steps,
            "ladder": ladder(deadline.timeline, due_at=deadline.due_at, now=visit.now),
            "offsets": {one.key: one.offset for one in deadline.stages},
            "is_unresolved": deadline.status in {"open", "missed"},
        },
    )


def complete(visit: Visit) -> Moved:
    """Complete it."""
    return _done(visit, "complete", "Completed: nothing more of it is sent.")


def cancel(visit: Visit) -> Moved:
    """Cancel it, or its series from it on."""
    is_series = bool(visit.form.get("series"))
    return _done(visit, "cancel", f"Cancelled{', and its series with it' if is_series else ''}.", series=is_series)


def move(visit: Visit) -> Moved:
    """Give it another due instant."""
    due_at = visit.form.get("due_at", "").strip()
    return _done(visit, "move", "Moved: what is still to come is planned anew.", due_at=from_input(due_at, visit.zone))


def pause(visit: Visit) -> Moved:
    """Let its clock stand still."""
    return _done(visit, "pause", "Paused: its clock stands still.")


def resume(visit: Visit) -> Moved:
    """Let its clock go on."""
    return _done(visit, "resume", "Resumed: its due instant moved by the time that it stood still.")


def acknowledge(visit: Visit) -> Moved:
    """Silence its nagging."""
    until = visit.form.get("until", "").strip()
    given = {"until": from_input(until, visit.zone)} if until else {}
    return _done(visit, "acknowledge", "Acknowledged: nagging is silent, escalation is not.", **given)


def reassign(visit: Visit) -> Moved:
    """Make other people responsible."""
    said = "Reassigned: the next reminder goes to them."
    return _done(visit, "reassign", said, recipients=people_of(visit, "recipients"))


def _done(visit: Visit, what: str, said: str, **body: Any) -> Moved:  # noqa: ANN401 - as the API takes it
    # A form that replaces what the page showed says what that was.
    path = f"/deadlines/{visit.path['id']}/{what}"
    found = visit.ask("POST", path, body=body | visit.given("note"), if_match=visit.form.get("etag"))
    return Moved(f"/deadlines/{found.id}", said)


PAGES = (
    Page("GET", "/deadlines", list_deadlines, nav=Nav("Deadlines", "deadline")),
    *deadline_form.PAGES,
    Page("GET", "/deadlines/{id}", show),
    Page("POST", "/deadlines/{id}/complete", complete, role=Role.OPERATOR),
    Page("POST", "/deadlines/{id}/cancel", cancel, role=Role.OPERATOR),
    Page("POST", "/deadlines/{id}/move", move, role=Role.OPERATOR),
    Page("POST", "/deadlines/{id}/pause", pause, role=Role.OPERATOR),
    Page("POST", "/deadlines/{id}/resume", resume, role=Role.OPERATOR),
    Page("POST", "/deadlines/{id}/acknowledge", acknowledge, role=Role.OPERATOR),
    Page("POST", "/deadlines/{id}/reassign", reassign, role=Role.OPERATOR),
)
