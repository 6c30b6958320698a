"""Show the overview, list and run ticks, and simulate the upcoming load."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from scheduled_actions.core.errors import InvalidArgument, RequestError
from scheduled_actions.core.messages import counted
from scheduled_actions.operations import immediacy
from scheduled_actions.operations.doctor import service as diagnosis
from scheduled_actions.operations.doctor.rules import Level
from scheduled_actions.operations.recent_activity import (
    WINDOWS,
    ActivityStep,
    RecentActivity,
    recent_activity,
    ticks_per_minute,
)
from scheduled_actions.operations.simulation.rules import Simulation
from scheduled_actions.operations.tokens import Role
from scheduled_actions.ticks.report import TickReport
from scheduled_actions.web.cron import host_seconds
from scheduled_actions.web.dashboard.forms import local_time
from scheduled_actions.web.dashboard.page import DashboardPage, Document, Nav, Redirect, RequestContext, View
from scheduled_actions.web.dashboard.times import seconds
from scheduled_actions.web.dashboard.webhooks import last_failure, name_of

#: Number of intervals between the labels of a chart's axis.
_LABELS = 4
#: The trigger is late after this time without a ping; a cron job pings every minute.
_LATE = timedelta(seconds=150)
#: Maximum count of each status; keeps the page fast with a million actions.
_COUNTED = 1_000
#: Maximum number of ticks on a page.
_TICKS = 60
#: Maximum number of failing endpoints whose last failure is shown.
_FAILURES_MOST = 10
_WINDOWS = {"day": timedelta(days=1), "week": timedelta(days=7), "month": timedelta(days=31)}
#: Maximum numbers of action types and of remarks in a simulation.
_TYPES_MOST = 8
_REMARKS_MOST = 30
#: The width and height of a chart, and the minimum height of a value above zero, in SVG units.
_WIDTH, _HEIGHT, _LEAST = 1000, 100, 2.0
#: The width of a bar, as a fraction of its step.
_BAR = 0.8


def stacked_bars(series: Sequence[Sequence[float]]) -> list[str]:
    """Build a bar chart that stacks one or more series of equal length, the first at the bottom.

    Returns:
        One SVG path for each series. The chart is 1000 by 100 units; the page stretches it to the available width.
    """
    step = _WIDTH / len(series[0])
    most = max(map(sum, zip(*series, strict=True)), default=0.0)
    tops = [float(_HEIGHT)] * len(series[0])
    paths = []
    for values in series:
        path = ""
        for at, value in enumerate(values):
            if value > 0 and most > 0:
                height = max(value / most * (_HEIGHT - 2 * _LEAST), _LEAST)
                tops[at] -= height
                bar = step * _BAR
                path += f"M{(at + 0.1) * step:.1f} {tops[at]:.1f}h{bar:.1f}v{height:.1f}h-{bar:.1f}z"
        paths.append(path)
    return paths


def _labels(start: datetime, end: datetime) -> list[datetime]:
    return [start + number * (end - start) / _LABELS for number in range(_LABELS + 1)]


def show_overview(context: RequestContext) -> View:
    """Show action counts, throughput, lateness, failures, deadlines and failing endpoints.

    Callers that are not bound to a team also see the trigger, the checks, and the executors of the settings.
    """
    window = context.choice("window", WINDOWS)
    team_id = context.caller.team_id
    found = recent_activity(context.runtime.database, window=window, team_id=team_id)
    endpoints = context.call("GET", "/webhooks/endpoints").endpoints
    troubled = [one for one in endpoints if one.failing_since or one.disabled_at or one.disabled_reason]
    steps = found.steps
    return View(
        "overview.html",
        {
            "trigger": None if team_id else _trigger(context, found),
            "checks": []
            if team_id
            else [check for check in diagnosis.readiness(context.runtime) if check.level is not Level.OK],
            "executors": [] if team_id else _executors(context),
            "held": context.runtime.pauses.held_back(team_id=team_id),
            "counts": context.runtime.action_operations.counts(team_id=team_id, limit=_COUNTED),
            "window": window,
            "windows": list(WINDOWS),
            "pulse": found,
            "done": stacked_bars(
                [[getattr(one, name) for one in steps] for name in ("succeeded", "retried", "failed")]
            ),
            "late": stacked_bars(
                [
                    [one.median_late or 0 for one in steps],
                    [(one.most_late or 0) - (one.median_late or 0) for one in steps],
                ]
            ),
            "labels": _labels(found.since, found.until),
            "totals": _totals(steps),
            "troubled": troubled,
            "failures": {one.id: last_failure(context, one) for one in troubled[:_FAILURES_MOST]},
            "has_endpoints": bool(endpoints),
            "name_of": name_of,
        },
    )


def _executors(context: RequestContext) -> list[Document]:
    """Return the executors in the database; none, and nothing is read, if the settings have none."""
    if not context.runtime.config.settings.executors:
        return []
    found: list[Document] = context.call("GET", "/executors").executors
    return found


def _trigger(context: RequestContext, found: RecentActivity) -> dict[str, Any]:
    """Return the trigger's `state` (`alive`, `late` or `silent`), its `last` tick (None: no tick yet), and more.

    `minutes` has the number of ticks in each minute of the last hour; `immediacy` says when immediate actions start.
    """
    last = next(iter(context.call("GET", "/ticks", query={"limit": 1}).ticks), None)
    state = "silent" if last is None else "alive" if found.until - last.started_at < _LATE else "late"
    runtime = context.runtime
    with runtime.database.connection() as connection:
        rhythm = immediacy.ping_rhythm(connection)
    return {
        "state": state,
        "last": last,
        "minutes": ticks_per_minute(runtime.database),
        "immediacy": immediacy.describe(
            rhythm, runtime.config.settings, can_ping=runtime.wake.is_on, is_pinged=state == "alive"
        ),
    }


def _totals(steps: list[ActivityStep]) -> dict[str, Any]:
    medians = sorted(one.median_late for one in steps if one.median_late is not None)
    return {
        "succeeded": sum(one.succeeded for one in steps),
        "retried": sum(one.retried for one in steps),
        "failed": sum(one.failed for one in steps),
        "median_late": seconds(medians[len(medians) // 2]) if medians else None,
        "most_late": seconds(max((one.most_late or 0 for one in steps), default=0)) if medians else None,
    }


def list_ticks(context: RequestContext) -> View:
    """Show a page of the ticks, latest first."""
    return View("ticks.html", context.list("/ticks", "ticks", limit=_TICKS))


def run_tick(context: RequestContext) -> Redirect:
    """Run one tick in this process, unless processing is disabled or another tick is running.

    Raises:
        Forbidden: The caller is bound to a team.
    """
    context.caller.must_have_no_team("ticks belong to no team")
    report = context.runtime.processor.tick(
        caller=f"dashboard {context.caller.name}", host_seconds=host_seconds(), lingers=False
    )
    return Redirect("/ticks" if context.form.get("from") == "ticks" else "", _summary(report))


def _summary(report: TickReport) -> str:
    if not report.enabled:
        return "Processing is disabled by the setting enabled = false."
    if report.busy:
        return "No tick was run: another tick is running, or this process is stopping."
    return (
        f"Tick finished: {counted(report.processed, 'action')} settled, {report.failed:,} of them failed; "
        f"{report.remaining:,} still due."
    )


def simulate(context: RequestContext) -> View:
    """Show the forecast actions of a window hour by hour, compared with the capacity of the ticks."""
    window = context.choice("window", _WINDOWS)
    given = {"window": window, "from": context.query.get("from", "").strip()}
    values: dict[str, Any] = {"given": given, "windows": list(_WINDOWS), "problem": None, "found": None}
    try:
        start = local_time(context, "from", given["from"]) if given["from"] else context.now
        found = context.runtime.simulator.simulate(start, _end(start, window), team_id=context.caller.team_id)
    except RequestError as error:
        return View("simulation.html", values | {"problem": str(error)}, status=400)
    return View("simulation.html", values | _simulation(found))


def _end(start: datetime, window: str) -> datetime:
    try:
        return start + _WINDOWS[window]
    except OverflowError:
        raise InvalidArgument(
            "from", problem=f"is {start:%Y-%m-%d %H:%M}Z: choose a time at least a {window} before the year 10000"
        ) from None


def _simulation(found: Simulation) -> dict[str, Any]:
    hours = found.hours
    types = sum((hour.runs for hour in hours), Counter[str]())
    return {
        "found": found,
        "runs": stacked_bars([[hour.runs.total() for hour in hours], [hour.overlapping for hour in hours]]),
        "load": stacked_bars([[hour.peak for hour in hours]]),
        "most": max(hour.runs.total() for hour in hours),
        "fullest": max(hours, key=lambda hour: hour.peak),
        "latest": max(hours, key=lambda hour: hour.behind_seconds),
        "labels": _labels(found.start, found.end),
        "types": types.most_common(_TYPES_MOST),
        "others": max(0, len(types) - _TYPES_MOST),
        "busy": [hour for hour in hours if hour.runs or hour.overlapping],
        "remarks": found.remarks[:_REMARKS_MOST],
        "more_remarks": max(0, len(found.remarks) - _REMARKS_MOST),
    }


PAGES = (
    DashboardPage("GET", "/", show_overview, nav=Nav("Overview", "overview")),
    DashboardPage("GET", "/simulate", simulate, nav=Nav("Simulate", "simulate")),
    DashboardPage("GET", "/ticks", list_ticks, nav=Nav("Ticks", "ticks", is_of_no_team=True)),
    DashboardPage("POST", "/ticks/run", run_tick, role=Role.OPERATOR),
)
