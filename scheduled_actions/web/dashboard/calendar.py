"""Show the calendar (a month, a week or an agenda in the viewer's time zone); list, create and revoke its feeds."""

import calendar as months
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from flask import request

from scheduled_actions.calendar.rules.entries import DayItem
from scheduled_actions.calendar.service import DAY_MOST, Day, DayRange
from scheduled_actions.core.errors import InvalidArgument, RequestError
from scheduled_actions.operations.tokens import Role
from scheduled_actions.recurrence.model import resolve
from scheduled_actions.web.dashboard.forms import command
from scheduled_actions.web.dashboard.page import DashboardPage, Nav, Redirect, RequestContext, View

VIEWS = ("month", "week", "agenda")
_AGENDA_DAYS = 14
#: Maximum number of items per day in a month or a week; an opened day shows more. An agenda shows all items.
_ITEMS = {"month": 4, "week": 14}
_DAY = timedelta(days=1)
#: The range of dates that can be opened.
_FIRST, _LAST = date(2000, 1, 1), date(2199, 12, 31)
#: On an opened day: the maximum count of each status, and the maximum numbers of items and of upcoming entries.
_OPENED_COUNTED = 1000
_OPENED_ITEMS = 60
_OPENED_ENTRIES = 25
#: The rank of an item when a day has too many; the lowest ranks are kept, and within a rank the highest counts.
_RANKS = {"deadline": 0, "failed": 1, "escalation": 2, "reminder": 2, "action": 3, "forecast": 4, "ended": 5}
#: The CSS classes of ended actions by status, and of items whose class is not their kind.
_ENDED = {"completed": "done", "failed": "bad"}
_KINDS = {"escalation": "reminder"}
_FEED_FIELDS = ("name", "team_id", "user_id", "action_type")


@dataclass(frozen=True, slots=True)
class CalendarMark:
    """An item as the calendar draws it.

    Built in Python: a month has hundreds of marks, and templates take twice as long.
    """

    #: The CSS class, as in the legend: `done`, `bad`, `off`, `action`, `forecast`, `deadline` or `reminder`.
    kind: str
    href: str
    #: The tooltip: title, status, count and the instant in UTC.
    title: str
    #: Hour and minute in the viewer's time zone.
    at: str
    what: str
    #: The number of entries; empty for a single entry.
    count: str


@dataclass(frozen=True, slots=True)
class _CalendarView:
    context: RequestContext
    filters: dict[str, str]
    view: str
    anchor: date
    today: date
    #: The opened day; None: no day is open.
    opened: date | None

    def address(self, opened: date | None) -> str:
        """Return the URL of this view with a day open; None: with no day open."""
        view = None if self.view == "month" else self.view
        return self.context.link("/calendar", view=view, day=self.anchor, open=opened, **self.filters)

    def read(self, bounds: list[datetime], *, counted: int = DAY_MOST) -> DayRange:
        """Return the entries that the filters select, by day.

        Args:
            bounds: The beginning of each day, and the end of the last; ascending, aware.
            counted: Maximum number of rows counted per day and status; ignored with a filter, and for callers
                bound to a team.

        Raises:
            InvalidArgument: A filter is invalid, or selects a team that the caller may not see.
        """
        own, team_id = self.context.caller.team_id, self.filters["team_id"] or None
        if not self.context.caller.sees(team_id):
            raise InvalidArgument("team_id", team_id, f"the team of this token, {own}")
        return self.context.runtime.calendar.days(
            bounds, user_id=self.filters["user_id"] or None, team_id=own or team_id, counted=counted
        )

    def cell(self, on: date, day: Day) -> dict[str, Any]:
        """Return the template values of a day."""
        items, room = day.items, _ITEMS.get(self.view)
        if room is not None and len(items) > room:
            kept = set(map(id, sorted(items, key=_rank)[:room]))
            items = [item for item in items if id(item) in kept]
        is_opened = on == self.opened
        return {
            "date": on,
            "day": day,
            # The items that fit, in chronological order.
            "marks": [self.mark(day, item) for item in items],
            "hidden": len(day.items) - len(items),
            # The link opens the day, or closes it.
            "address": f"{self.address(None if is_opened else on)}#d{on}",
            "is_opened": is_opened,
            "is_today": on == self.today,
            # Whether the day belongs to the displayed month; always True in other views.
            "is_inside": self.view != "month" or (on.year, on.month) == (self.anchor.year, self.anchor.month),
        }

    def opened_day(self, cell: dict[str, Any]) -> dict[str, Any]:
        """Return the template values of an opened day: its first items, and its first upcoming entries one by one."""
        starts_at, ends_at = cell["day"].starts_at, cell["day"].ends_at
        day = self.read([starts_at, ends_at], counted=_OPENED_COUNTED).days[0]
        start = max(starts_at, self.context.now.astimezone(UTC))
        page = None
        if start < ends_at:
            query = {"from": start.isoformat(), "to": ends_at.isoformat(), "limit": _OPENED_ENTRIES}
            query |= {name: text for name, text in self.filters.items() if text}
            page = self.context.call("GET", "/calendar", query=query)
        return {
            "cell": cell,
            "marks": [self.mark(day, item) for item in day.items[:_OPENED_ITEMS]],
            "hidden": max(0, len(day.items) - _OPENED_ITEMS),
            "entries": page.entries if page else [],
            "has_more": bool(page and page.next_cursor),
        }

    def mark(self, day: Day, item: DayItem) -> CalendarMark:
        """Return the mark of an item on its day."""
        count = f"{item.count:,}{'+' if item.is_truncated else ''}" if item.count > 1 or item.is_truncated else ""
        status = {"ended": item.status, "action": "scheduled"}.get(item.kind, item.kind)
        if item.kind == "forecast":
            href = self.context.link(f"/schedules/{item.schedule_id}")
        elif item.deadline_id and item.kind != "action":
            href = self.context.link(f"/deadlines/{item.deadline_id}")
        elif not count:
            href = self.context.link(f"/actions/{item.action_id}")
        else:
            href = self.context.link(
                "/actions",
                status=item.status,
                action_type=item.action_type,
                team_id=self.filters["team_id"],
                due_from=f"{day.starts_at:%Y-%m-%dT%H:%MZ}",
                due_to=f"{day.ends_at:%Y-%m-%dT%H:%MZ}",
            )
        return CalendarMark(
            kind=_ENDED.get(item.status or "", "off") if item.kind == "ended" else _KINDS.get(item.kind, item.kind),
            href=href,
            title=f"{item.title}: {status}{f', {count} entries, first at' if count else ''} "
            f"{item.at.isoformat(sep=' ', timespec='minutes')[:16]} UTC",
            at=f"{item.at.astimezone(self.context.zone):%H:%M}",
            what=item.title,
            count=count,
        )


def _rank(item: DayItem) -> tuple[int, int]:
    return _RANKS["failed" if item.status == "failed" else item.kind], -item.count


def show_calendar(context: RequestContext) -> View:
    """Show a month, a week or an agenda; the day in the query's `open` is shown with its details."""
    view = context.choice("view", VIEWS)
    today = context.now.astimezone(context.zone).date()
    filters = {name: context.query.get(name, "").strip() for name in ("team_id", "user_id")}
    values: dict[str, Any] = {"view": view, "views": VIEWS, "given": filters, "problem": None, "today": today}
    try:
        anchor = _date(context, "day") or today
        shown = _CalendarView(context, filters, view, anchor, today, _date(context, "open"))
        first, count = _span(view, anchor)
        found = shown.read(bounds_of(first, count, context.zone))
    except RequestError as error:
        nothing: dict[str, Any] = {"cells": [], "found": None, "opened": None, "title": "", "steps": (None, None)}
        return View("calendar.html", values | nothing | {"anchor": today, "problem": str(error)}, status=400)
    last = first + (count - 1) * _DAY
    cells = [shown.cell(first + number * _DAY, day) for number, day in enumerate(found.days)]
    values |= {
        "anchor": anchor,
        "title": f"{anchor:%B %Y}" if view == "month" else f"{first.day} {first:%b} to {last.day} {last:%b %Y}",
        "steps": _steps(view, anchor),
        "cells": cells,
        "found": found,
        "opened": next((shown.opened_day(cell) for cell in cells if cell["is_opened"]), None),
    }
    return View("calendar.html", values)


def _date(context: RequestContext, name: str) -> date | None:
    text = context.query.get(name, "").strip()
    if not text:
        return None
    try:
        found = date.fromisoformat(text)
    except ValueError:
        found = date.min
    if not _FIRST <= found <= _LAST:
        raise InvalidArgument(name, text, f"a date from {_FIRST} to {_LAST}, such as 2026-03-29")
    return found


def _span(view: str, anchor: date) -> tuple[date, int]:
    """Return the first day of a view and its number of days; weeks begin on Monday."""
    if view == "month":
        before = anchor.replace(day=1).weekday()
        days = months.monthrange(anchor.year, anchor.month)[1]
        return anchor.replace(day=1) - before * _DAY, -(-(before + days) // 7) * 7
    return (anchor - anchor.weekday() * _DAY, 7) if view == "week" else (anchor, _AGENDA_DAYS)


def bounds_of(first: date, count: int, zone: ZoneInfo) -> list[datetime]:
    """Return the starts of `count` days in a time zone, and the end of the last day, in UTC.

    A day whose midnight is skipped by a clock change begins with its first moment.
    """
    return [resolve(datetime.combine(first + number * _DAY, time()), zone).at for number in range(count + 1)]


def _steps(view: str, anchor: date) -> tuple[date | None, date | None]:
    """Return a day of the previous view and a day of the next view; None outside the supported range."""
    if view == "month":
        first = anchor.replace(day=1)
        before, after = (first - _DAY).replace(day=1), (first + 31 * _DAY).replace(day=1)
    else:
        length = (7 if view == "week" else _AGENDA_DAYS) * _DAY
        before, after = anchor - length, anchor + length
    return before if before >= _FIRST else None, after if after <= _LAST else None


def list_feeds(context: RequestContext, error: RequestError | None = None) -> View:
    """Show a page of the feeds and the form for a new feed; with the error if a submission was refused."""
    values = context.list("/calendar/feeds", "feeds")
    values |= {"given": context.given(*_FEED_FIELDS), "problem": error and str(error), "made": context.shown}
    return View("feeds.html", values, 400 if error else 200)


def create_feed(context: RequestContext) -> View | Redirect:
    """Create a feed and redirect to the page that shows its address once, or show the form again with the error."""
    try:
        made = context.call("POST", "/calendar/feeds", body=context.given(*_FEED_FIELDS))
    except RequestError as error:
        return list_feeds(context, error)
    shown = {"name": made.name, "address": f"{request.host_url.rstrip('/')}{made.path}"}
    return Redirect("/calendar/feeds", shown=shown)


PAGES = (
    DashboardPage("GET", "/calendar", show_calendar, nav=Nav("Calendar", "calendar")),
    DashboardPage("GET", "/calendar/feeds", list_feeds, role=Role.OPERATOR),
    DashboardPage("POST", "/calendar/feeds", create_feed, role=Role.OPERATOR),
    command("/calendar/feeds/{id}", "revoke", "Feed revoked: its address no longer works.", leads_to="/calendar/feeds"),
)
