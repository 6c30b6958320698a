"""What will run, hour by hour, and whether the ticks can carry it."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.errors import InvalidArgument, RequestError
from scheduled_actions.web.dashboard.operations import charts
from scheduled_actions.web.dashboard.page import Nav, Page, View
from scheduled_actions.web.dashboard.times import from_input

if TYPE_CHECKING:
    from scheduled_actions.operations.simulation.rules import Simulation
    from scheduled_actions.web.dashboard.page import Visit

_STRETCHES = {"day": timedelta(days=1), "week": timedelta(days=7), "month": timedelta(days=31)}
#: Types named apart; the rest are one.
_TYPES_MOST = 8
_REMARKS_MOST = 30
_LABELS = 4


def simulation(visit: Visit) -> View:
    """Show a stretch of time, from now or from another instant on."""
    window = visit.query.get("window", "day")
    window = window if window in _STRETCHES else "day"
    given = {"window": window, "from": visit.query.get("from", "").strip()}
    values: dict[str, Any] = {"given": given, "windows": list(_STRETCHES), "problem": None, "found": None}
    try:
        start = _start(visit, given["from"])
        found = visit.runtime.simulator.simulate(start, _end(start, window), team_id=visit.caller.team_id)
    except RequestError as error:
        return View("simulation.html", values | {"problem": str(error)}, status=400)
    return View("simulation.html", values | _shown(found))


def _start(visit: Visit, text: str) -> datetime:
    if not text:
        return visit.now
    try:
        return datetime.fromisoformat(from_input(text, visit.zone))
    except ValueError:
        raise InvalidArgument("from", text, "a local time, such as 2026-03-29T00:00") from None


def _end(start: datetime, window: str) -> datetime:
    try:
        return start + _STRETCHES[window]
    except OverflowError:
        raise InvalidArgument("from", start, f"so early that a {window} follows it") from None


def _shown(found: Simulation) -> dict[str, Any]:
    hours = found.hours
    types: Counter[str] = Counter()
    for hour in hours:
        types.update(hour.runs)
    fullest = max(hours, key=lambda hour: hour.peak)
    return {
        "found": found,
        "runs": charts.bars([[hour.runs.total() for hour in hours], [hour.overlapping for hour in hours]]),
        "load": charts.bars([[hour.peak for hour in hours]]),
        "most": max(hour.runs.total() for hour in hours),
        "fullest": fullest,
        "latest": max(hours, key=lambda hour: hour.behind_seconds),
        "labels": [found.start + number * (found.end - found.start) / _LABELS for number in range(_LABELS + 1)],
        "types": types.most_common(_TYPES_MOST),
        "others": max(0, len(types) - _TYPES_MOST),
        "busy": [hour for hour in hours if hour.runs or hour.overlapping],
        "remarks": found.remarks[:_REMARKS_MOST],
        "more_remarks": max(0, len(found.remarks) - _REMARKS_MOST),
    }


PAGES = (Page("GET", "/simulate", simulation, nav=Nav("Simulate", "simulate")),)
