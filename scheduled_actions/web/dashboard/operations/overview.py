"""The first page: is the trigger alive, what waits, what was done, what failed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from scheduled_actions.operations.doctor import gather as diagnosis
from scheduled_actions.operations.doctor.rules import Level
from scheduled_actions.operations.recent_activity import WINDOWS, minutes, pulse
from scheduled_actions.web.dashboard.operations import charts
from scheduled_actions.web.dashboard.page import Nav, Page, View
from scheduled_actions.web.dashboard.times import seconds
from scheduled_actions.web.dashboard.webhooks.words import name_of

if TYPE_CHECKING:
    from datetime import datetime

    from scheduled_actions.operations.recent_activity import Pulse, Step
    from scheduled_actions.web.dashboard.page import Visit

#: As the labels under a chart stand: at its beginning, its quarters and its end.
_LABELS = 4
#: Beyond this without a ping the trigger is late; a cron pings every minute.
_LATE = timedelta(seconds=150)
#: Each status is counted so far: a page that many look at, again and again, has to be quick beside a million.
_COUNTED = 1_000


@dataclass(frozen=True, slots=True)
class Trigger:
    """Whether somebody pings."""

    #: `alive`, `late` or `silent`.
    state: str
    #: The latest tick; None where there was none.
    last: Any
    #: Of each minute of the last hour: how many ticks there were.
    minutes: list[int]


def overview(visit: Visit) -> View:
    """Show how it goes."""
    window = visit.query.get("window", "hour")
    window = window if window in WINDOWS else "hour"
    team_id = visit.caller.team_id
    found = pulse(visit.runtime.database, window=window, team_id=team_id)
    endpoints = visit.ask("GET", "/webhooks/endpoints").endpoints
    checks = [] if team_id else [fact.judged() for fact in diagnosis.readiness(visit.runtime)]
    return View(
        "overview.html",
        {
            "trigger": None if team_id else _trigger(visit, found.until),
            "checks": [check for check in checks if check.level is not Level.OK],
            "counts": visit.desk.management.counts(team_id=team_id, counted=_COUNTED),
            "window": window,
            "windows": list(WINDOWS),
            "pulse": found,
            "done": _throughput(found),
            "late": _lateness(found),
            "labels": [found.since + number * (found.until - found.since) / _LABELS for number in range(_LABELS + 1)],
            "totals": _totals(found.steps),
            "troubled": [one for one in endpoints if one.failing_since or one.disabled_at],
            "has_endpoints": bool(endpoints),
            "name_of": name_of,
        },
    )


def _trigger(visit: Visit, now: datetime) -> Trigger:
    ticks = visit.ask("GET", "/ticks", query={"limit": 1}).ticks
    beats = minutes(visit.runtime.database)
    if not ticks:
        return Trigger("silent", None, beats)
    is_alive = now - ticks[0].started_at < _LATE
    return Trigger("alive" if is_alive else "late", ticks[0], beats)


def _throughput(found: Pulse) -> charts.Bars:
    steps = found.steps
    return charts.bars(
        [[one.succeeded for one in steps], [one.retried for one in steps], [one.failed for one in steps]]
    )


def _lateness(found: Pulse) -> charts.Bars:
    return charts.layered([[one.most_late or 0 for one in found.steps], [one.median_late or 0 for one in found.steps]])


def _totals(steps: list[Step]) -> dict[str, Any]:
    medians = sorted(one.median_late for one in steps if one.median_late is not None)
    return {
        "succeeded": sum(one.succeeded for one in steps),
        "retried": sum(one.retried for one in steps),
        "failed": sum(one.failed for one in steps),
        "median_late": seconds(medians[len(medians) // 2]) if medians else None,
        "most_late": seconds(max((one.most_late or 0 for one in steps), default=0)) if medians else None,
    }


PAGES = (Page("GET", "/", overview, nav=Nav("Overview", "overview")),)
