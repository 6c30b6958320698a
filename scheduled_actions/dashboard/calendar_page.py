"""The calendar: what ran, what waits, what is due and what will recur, by the viewer's days."""

from __future__ import annotations

import calendar as months
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from scheduled_actions.dashboard.page import Nav, Page, View
from scheduled_actions.errors import InvalidArgument, RequestError
from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo

    from scheduled_actions.calendar_days import Day, Days, Line
    from scheduled_actions.dashboard.page import Visit

VIEWS = ("month", "week", "agenda")
#: Days of an agenda, and lines of a day in a month and in a week; the rest is seen by opening the day.
_AGENDA_DAYS = 14
_LINES = {"month": 4, "week": 14, "agenda": 40}
_WEEK = timedelta(days=7)
_DAY = timedelta(days=1)
#: What a calendar is opened at.
_FIRST, _LAST = date(2000, 1, 1), date(2199, 12, 31)
_OPENED_MOST = 25
#: Seen first where a day holds more than there is room for.
_WEIGHTS = {"deadline": 0, "failed": 1, "escalation": 2, "reminder": 2, "action": 3, "forecast": 4, "ended": 5}


@dataclass(frozen=True, slots=True)
class Cell:
    """One day as it is drawn."""

    date: date
    day: Day
    #: Those there is room for, in their order.
    shown: list[Line]
    hidden: int
    is_today: bool
    #: Whether it belongs to the month that is shown.
    is_inside: bool

    @property
    def is_crowded(self) -> bool:
        """Whether something is not shown."""
        return self.hidden > 0


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
        found = _look(visit, given, first, count)
    except RequestError as error:
        nothing: dict[str, Any] = {"cells": [], "found": None, "opened": None, "title": ""}
        nothing |= {"anchor": today, "steps": (None, None)}
        return View("calendar.html", values | nothing | {"problem": str(error)}, status=400)
    anchor = anchor or today
    cells = [_cell(first + number * _DAY, day, view, anchor, today) for number, day in enumerate(found.days)]
    values |= {
        "anchor": anchor,
        "title": _title(view, anchor, cells),
        "steps": _steps(view, anchor),
        "cells": cells,
        "found": found,
        "opened": next((_opened(visit, given, cell) for cell in cells if cell.date == opened), None),
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


def _look(visit: Visit, given: dict[str, str], first: date, count: int) -> Days:
    own = visit.caller.team_id
    if not visit.caller.sees(given["team_id"] or None):
        raise InvalidArgument("team_id", given["team_id"], f"the team of this token, {own}")
    return visit.runtime.calendar_days.look(
        bounds_of(first, count, visit.zone), user=given["user"] or None, team_id=own or given["team_id"] or None
    )


def _cell(date_of: date, day: Day, view: str, anchor: date, today: date) -> Cell:
    room = _LINES[view]
    chosen = set(map(id, sorted(day.lines, key=_weight)[:room]))
    return Cell(
        date=date_of,
        day=day,
        shown=[line for line in day.lines if id(line) in chosen],
        hidden=max(0, len(day.lines) - room),
        is_today=date_of == today,
        is_inside=view != "month" or (date_of.year, date_of.month) == (anchor.year, anchor.month),
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


def _opened(visit: Visit, given: dict[str, str], cell: Cell) -> dict[str, Any]:
    """Return what an opened day shows: its lines, and what is still to come one by one."""
    start = max(cell.day.starts_at, visit.now.astimezone(UTC))
    page = None
    if start < cell.day.ends_at:
        query = {"from": start.isoformat(), "to": cell.day.ends_at.isoformat(), "limit": _OPENED_MOST}
        page = visit.ask("GET", "/calendar", query=query | {name: text for name, text in given.items() if text})
    return {
        "cell": cell,
        "entries": page.entries if page else [],
        "has_more": bool(page and page.next_cursor),
    }


PAGES = (Page("GET", "/calendar", show, nav=Nav("Calendar", "calendar")),)
