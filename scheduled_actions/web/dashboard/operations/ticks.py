"""The ticks: when somebody pinged, what came of it, and one by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.cron import host_seconds
from scheduled_actions.web.dashboard.page import Moved, Nav, Page, View

if TYPE_CHECKING:
    from scheduled_actions.ticks.report import Report
    from scheduled_actions.web.dashboard.page import Visit

_ROWS = 60


def list_ticks(visit: Visit) -> View:
    """Show the latest ticks."""
    cursor = visit.query.get("cursor")
    page = visit.ask("GET", "/ticks", query={"limit": _ROWS} | ({"cursor": cursor} if cursor else {}))
    return View("ticks.html", {"ticks": page.ticks, "next_cursor": page.next_cursor, "is_first": not cursor})


def run(visit: Visit) -> Moved:
    """Run one tick in this process; go back to where that was asked for."""
    visit.caller.must_have_no_team("ticks belong to no team")
    report = visit.runtime.processor.tick(
        caller=f"dashboard {visit.caller.name}", host_seconds=host_seconds(), lingers=False
    )
    return Moved("/ticks" if visit.form.get("from") == "ticks" else "", _in_words(report))


def _in_words(report: Report) -> str:
    if not report.enabled:
        return "The setting enabled is false: ticks answer, and process nothing."
    if report.busy:
        return "Another tick was at work, and goes on with what is due."
    settled = f"{report.processed:,} action{'' if report.processed == 1 else 's'} settled"
    return f"The tick is done: {settled}, {report.failed:,} of them failed; {report.remaining:,} left that are due."


PAGES = (
    Page("GET", "/ticks", list_ticks, nav=Nav("Ticks", "ticks", is_of_no_team=True)),
    Page("POST", "/ticks/run", run, role=Role.OPERATOR),
)
