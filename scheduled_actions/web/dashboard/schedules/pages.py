"""The schedules: what recurs, what comes next, what became of it last; pause, run, leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduled_actions.operations.tokens import Role
from scheduled_actions.schedules import outcomes
from scheduled_actions.web.dashboard.page import Moved, Nav, Page, View
from scheduled_actions.web.dashboard.schedules import form as schedule_form

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from scheduled_actions.web.dashboard.page import Visit

_FILTERS = ("status", "action_type", "team_id")
_ROWS = 50
#: Outcomes in the strip of one schedule, in a list and on its own page.
_STRIP = 12
_LATEST = 50


def list_schedules(visit: Visit) -> View:
    """Show a page of the schedules that match."""
    given = {
        name: text.strip() for name in (*_FILTERS, "cursor") if (text := visit.query.get(name, "")) and text.strip()
    }
    page = visit.ask("GET", "/schedules", query={**given, "limit": _ROWS})
    words = visit.runtime.schedule_rules.all_in_words(page.schedules)
    return View(
        "schedules.html",
        {
            "given": given,
            "filters": {name: text for name, text in given.items() if name != "cursor"},
            "schedules": page.schedules,
            "next_cursor": page.next_cursor,
            "words": {one.id: said for one, said in zip(page.schedules, words, strict=True)},
            "strips": _strips(visit, [one.id for one in page.schedules], _STRIP),
        },
    )


def _strips(visit: Visit, ids: Collection[UUID], limit: int) -> dict[UUID, list[outcomes.Outcome]]:
    with visit.runtime.database.connection() as connection:
        found = outcomes.of_schedules(connection, ids, limit=limit)
    return {schedule_id: strip[::-1] for schedule_id, strip in found.items()}


def show(visit: Visit) -> View:
    """Show one schedule."""
    schedule = visit.ask("GET", f"/schedules/{visit.path['id']}")
    return View(
        "schedule_page.html", {"schedule": schedule, "strip": _strips(visit, [schedule.id], _LATEST)[schedule.id]}
    )


def pause(visit: Visit) -> Moved:
    """Plan no more of it until it is resumed."""
    return _done(visit, "pause", "Paused: nothing more is planned.", note=visit.form.get("note") or None)


def resume(visit: Visit) -> Moved:
    """Go on after now."""
    return _done(visit, "resume", "Resumed: it goes on with the first occurrence after now.")


def skip(visit: Visit) -> Moved:
    """Leave the planned occurrence out."""
    given = visit.given("note", "next_action_id")
    return _done(visit, "skip", "Left out: the one after it is planned.", **given)


def _done(visit: Visit, what: str, said: str, **body: str | None) -> Moved:
    given = {name: value for name, value in body.items() if value is not None}
    found = visit.ask("POST", f"/schedules/{visit.path['id']}/{what}", body=given)
    return Moved(f"/schedules/{found.id}", said)


def run(visit: Visit) -> Moved:
    """Run it once more, now."""
    (action_id,) = visit.ask("POST", f"/schedules/{visit.path['id']}/run").ids
    return Moved(f"/actions/{action_id}", "Scheduled: it runs with the next tick.")


def delete(visit: Visit) -> Moved:
    """Remove it, and what it has planned."""
    gone = visit.ask("DELETE", f"/schedules/{visit.path['id']}")
    return Moved("/schedules", f"{gone.name or gone.action_type} is removed, and what it had planned.")


PAGES = (
    Page("GET", "/schedules", list_schedules, nav=Nav("Schedules", "repeat")),
    *schedule_form.PAGES,
    Page("GET", "/schedules/{id}", show),
    Page("POST", "/schedules/{id}/pause", pause, role=Role.OPERATOR),
    Page("POST", "/schedules/{id}/resume", resume, role=Role.OPERATOR),
    Page("POST", "/schedules/{id}/skip", skip, role=Role.OPERATOR),
    Page("POST", "/schedules/{id}/run", run, role=Role.OPERATOR),
    Page("POST", "/schedules/{id}/delete", delete, role=Role.OPERATOR),
)
