"""The calendar: what ran, what waits, what is due and what will recur, by the viewer's days."""

from __future__ import annotations

import calendar as months
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from scheduled_actions.calendar.days import DAY_MOST
from scheduled_actions.core.errors import InvalidArgument, RequestError
from scheduled_actions.recurrence.zones import resolve
from scheduled_actions.web.dashboard.calendar.marks import marks
from scheduled_actions.web.dashboard.page import Nav, Page, View

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo

    from scheduled_actions.calendar.days import Day, Days, Line
    from scheduled_actions.web.dashboard.calendar.marks import Mark
    from scheduled_actions.web.dashboard.page import Visit

VIEWS = ("month", "week", "agenda")
#: Days of an agenda, and lines of a day in a month and in a week; the rest is seen by opening the day.
_AGENDA_DAYS = 14
_LINES = {"month": 4, "week": 14, "agenda": 40}
_WEEK = timedelta(days=7)
_DAY = timedelta(days=1)
#: What a calendar is opened at.
_FIRST, _LAST = date(2000, 1, 1), date(2199, 12, 31)
#: Of an opened day: how far each status is counted, the lines, and the entries still to come.
_OPENED_COUNTED = 1000
_OPENED_LINES = 60
_OPENED_MOST = 25
#: Seen first where a day holds more than there is room for.
_WEIGHTS = {"deadline": 0, "failed": 1, "escalation": 2, "reminder": 2, "action": 3, "forecast": 4, "ended": 5}


@dataclass(frozen=True, slots=True)
class Cell:
    """One day as it is drawn."""

    date: date
    day: Day
    #: Of the lines that there is room for, in their order.
    marks: list[Mark]
    hidden: int
    #: Where it opens, or closes where it is open.
    address: str
    is_opened: bool
    is_today: bool
    #: Whether it belongs to the month that is shown.
    is_inside: bool

    @property
    def weekday(self) -> str:
        """The short name of its day."""
        return f"{self.date:%a}"

    @property
    def month(self) -> str:
        """The short name of its month."""
        return f"{self.date:%b}"

    @property
    def is_crowded(self) -> bool:
        """Whether something is not shown."""
        return self.hidden > 0


@dataclass(frozen=True, slots=True)
class _Look:
    """How a calendar is looked at."""

    visit: Visit
    given: dict[str, str]
    view: str
    anchor: date
    today: date
    #: The day that is open.
    opened: date | None

    def address(self, opened: date | None) -> str:
        """Return where it is looked at in the same way, with that day open."""
        view = None if self.view == "month" else self.view
        return self.visit.link("/calendar", view=view, day=self.anchor, open=opened, **self.given)


def show(visit: Visit) -> View:
    """Show a month, a week, or an agenda."""
    view = visit.query.get("view", "month")
    view = view if view in VIEWS else "month"
    today = visit.now.astimezone(visit.zone).date()
    given = {name: visit.query.get(name, "").strip() for name in ("team_id", "user")}
    values: dict[str, Any] = {"view": view, "views": VIEWS, "given": given, "problem": None, "today": today}
    try:
        anchor, opened = (_date(visit, name) for name in ("day", "open"))
        first, count = _span(view, anchor or today)
        found = _look(visit, given, bounds_of(first, count, visit.zone))
    except RequestError as error:
        nothing: dict[str, Any] = {"cells": [], "found": None, "opened": None, "title": ""}
        nothing |= {"anchor": today, "steps": (None, None)}
        return View("calendar.html", values | nothing | {"problem": str(error)}, status=400)
    anchor = anchor or today
    look = _Look(visit, given, view, anchor, today, opened)
    cells = [_cell(look, first + number * _DAY, day) for number, day in enumerate(found.days)]
    values |= {
        "anchor": anchor,
        "title": _title(view, anchor, cells),
        "steps": _steps(view, anchor),
        "cells": cells,
        "found": found,
        "opened": next((_opened(look, cell) for cell in cells if cell.is_opened), None),
    }
    return View("calendar.html", values)


def _date(visit: Visit, name: str) -> date | None:
    text = visit.query.get(name, "").strip()
    if not text:
        return None
    try:
        found = date.fromisoformat(text)
    except ValueError:
        found = date.min
    if not _FIRST <= found <= _LAST:
        raise InvalidArgument(name, text, f"a date such as 2026-03-29, from {_FIRST} to {_LAST}")
    return found


def _span(view: str, anchor: date) -> tuple[date, int]:
    """Return the first day of a view, and how many it has; weeks begin on Monday."""
    match view:
        case "month":
            first = anchor.replace(day=1)
            before = first.weekday()
            days = months.monthrange(anchor.year, anchor.month)[1]
            return first - before * _DAY, -(-(before + days) // 7) * 7
        case "week":
            return anchor - anchor.weekday() * _DAY, 7
        case _:
            return anchor, _AGENDA_DAYS


def bounds_of(first: date, count: int, zone: ZoneInfo) -> list[datetime]:
    """Return the instants at which so many days begin in a zone, and the end of the last; in UTC.

    A day whose midnight the clocks skip begins with its first moment.
    """
    return [resolve(datetime.combine(first + number * _DAY, time()), zone).at for number in range(count + 1)]


def _look(visit: Visit, given: dict[str, str], bounds: list[datetime], *, counted: int = DAY_MOST) -> Days:
    own = visit.caller.team_id
    if not visit.caller.sees(given["team_id"] or None):
        raise InvalidArgument("team_id", given["team_id"], f"the team of this token, {own}")
    return visit.runtime.calendar_days.look(
        bounds, user=given["user"] or None, team_id=own or given["team_id"] or None, counted=counted
    )


def _cell(look: _Look, date_of: date, day: Day) -> Cell:
    room = _LINES[look.view]
    chosen = day.lines
    if len(chosen) > room and look.view != "agenda":
        kept = set(map(id, sorted(chosen, key=_weight)[:room]))
        chosen = [line for line in chosen if id(line) in kept]
    is_opened = date_of == look.opened
    return Cell(
        date=date_of,
        day=day,
        marks=marks(look.visit, look.given, day, chosen),
        hidden=len(day.lines) - len(chosen),
        address=f"{look.address(None if is_opened else date_of)}#d{date_of}",
        is_opened=is_opened,
        is_today=date_of == look.today,
        is_inside=look.view != "month" or (date_of.year, date_of.month) == (look.anchor.year, look.anchor.month),
    )


def _weight(line: Line) -> tuple[int, int]:
    return _WEIGHTS["failed" if line.status == "failed" else line.kind], -line.count


def _title(view: str, anchor: date, cells: Sequence[Cell]) -> str:
    if view == "month":
        return f"{anchor:%B %Y}"
    first, last = cells[0].date, cells[-1].date
    return f"{first.day} {first:%b} to {last.day} {last:%b %Y}"


def _steps(view: str, anchor: date) -> tuple[date | None, date | None]:
    """Return where the view before and the one after are; None beyond what is shown."""
    if view == "month":
        first = anchor.replace(day=1)
        steps = (first - _DAY).replace(day=1), (first + 31 * _DAY).replace(day=1)
    else:
        length = _WEEK if view == "week" else _AGENDA_DAYS * _DAY
        steps = anchor - length, anchor + length
    before, after = (step if _FIRST <= step <= _LAST else None for step in steps)
    return before, after


def _opened(look: _Look, cell: Cell) -> dict[str, Any]:
    """Return what an opened day shows: its lines, and what is still to come one by one."""
    visit, given = look.visit, look.given
    day = _look(visit, given, [cell.day.starts_at, cell.day.ends_at], counted=_OPENED_COUNTED).days[0]
    start = max(cell.day.starts_at, visit.now.astimezone(UTC))
    page = None
    if start < cell.day.ends_at:
        query = {"from": start.isoformat(), "to": cell.day.ends_at.isoformat(), "limit": _OPENED_MOST}
        page = visit.ask("GET", "/calendar", query=query | {name: text for name, text in given.items() if text})
    return {
        "cell": cell,
        "marks": marks(visit, given, day, day.lines[:_OPENED_LINES]),
        "hidden": max(0, len(day.lines) - _OPENED_LINES),
        "entries": page.entries if page else [],
        "has_more": bool(page and page.next_cursor),
    }


PAGES = (Page("GET", "/calendar", show, nav=Nav("Calendar", "calendar")),)
