"""Show, create, edit, pause, resume, run, skip and delete schedules; the form previews the rule."""

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from werkzeug.datastructures import MultiDict

from scheduled_actions.core import checks
from scheduled_actions.core.errors import InvalidArgument, ScheduledActionsError, UnknownSchedule
from scheduled_actions.operations.tokens import Role
from scheduled_actions.recurrence.skips.holidays import label_of
from scheduled_actions.schedules import store
from scheduled_actions.web.dashboard.forms import (
    Form,
    ObjectForm,
    Parser,
    as_flag,
    as_instant,
    as_json,
    as_lines,
    as_number,
    as_text,
    command,
    parse_fields,
    pretty,
    without_none,
)
from scheduled_actions.web.dashboard.page import DashboardPage, Document, Nav, Redirect, RequestContext, View
from scheduled_actions.web.dashboard.times import parsed, when_input

#: The patterns of a rule that the form offers; the last one accepts any rule.
PATTERNS = {
    "daily": "Every day",
    "weekly": "Every week",
    "monthly": "Every month",
    "interval": "Every few minutes or hours",
    "business": "Business days",
    "own": "Custom rule",
}
WEEKDAYS = {"MON": "Mon", "TUE": "Tue", "WED": "Wed", "THU": "Thu", "FRI": "Fri", "SAT": "Sat", "SUN": "Sun"}
_BUSINESS = ("first business day of the month", "last business day of the month", "last business day of the quarter")
_AT = "09:00"
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
#: The units of an interval.
UNITS = ("minutes", "hours", "days", "weeks")
#: The days of a month, in cron notation.
DAYS = (*map(str, range(1, 32)), "L")
#: Number of outcomes shown for a schedule, in the list and on its own page.
_STRIP = 12
_LATEST = 50
#: Number of occurrences in a preview.
_PREVIEWED = 6
#: Fields that are sent to the API as text.
_TEXTS = ("name", "timezone", "misfire", "overlap")
_NUMBERS = ("remaining", "jitter_seconds", "pause_after_failures", "max_attempts", "priority", "expires_in")
_PARSERS: dict[str, Parser] = {
    **dict.fromkeys(_TEXTS, as_text),
    **dict.fromkeys(_NUMBERS, as_number),
    "payload": as_json,
    "limit": as_lines,
    "on_expiry": as_text,
    "requires_previous": as_flag,
    "until": as_instant,
}


def _body(context: RequestContext, form: Form, schedule: Document | None) -> dict[str, Any]:
    """Return the body of the API request for a form; an empty payload is `{}`, other empty fields are None."""
    body = dict.fromkeys(_PARSERS) | {"payload": {}} | parse_fields(form, context.zone, _PARSERS)
    body |= {"recurrence": rule_of(form), "skip": _skip(form)}
    if schedule is None:
        _check_new_name(context, body["name"])
        return body | parse_fields(form, context.zone, dict.fromkeys(("action_type", "team_id"), as_text))
    return body | {"skip": _skip_with(body["skip"] or {}, schedule.skip or {})}


def _check_new_name(context: RequestContext, name: str | None) -> None:
    """Check that no schedule of the team has this name, because the request would update that schedule.

    Raises:
        InvalidArgument: A schedule has this name.
    """
    if name is None:
        return
    try:
        context.runtime.schedules.get(name, team_id=context.caller.team_for(context.form.get("team_id") or None))
    except UnknownSchedule:
        return
    raise InvalidArgument("name", problem=f'"{name}" is taken by another schedule: choose a new name')


def _filled(context: RequestContext, schedule: Document) -> Form:
    """Return the initial form fields of a schedule."""
    skip = schedule.skip or {}
    given = {name: getattr(schedule, name) for name in (*_TEXTS, *_NUMBERS)} | {
        "rule": schedule.recurrence,
        "payload": pretty(schedule.payload),
        "limit": "\n".join(schedule.limit or ()),
        "on_expiry": schedule.on_expiry or "skip",
        "requires_previous": "on" if schedule.requires_previous else "",
        "weekends": "on" if skip.get("weekends") else "",
        "holidays": label_of(skip.get("holidays")),
        "until": when_input(schedule.until, context.zone),
    }
    filled = MultiDict({name: "" if value is None else str(value) for name, value in given.items()})
    filled.update(choices_of(schedule.recurrence))
    return filled


def _skip_with(asked: dict[str, Any], skip: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the skips of the form, merged with the stored skips that the form does not show; None without any."""
    if "holidays" in asked and asked["holidays"] == label_of(skip.get("holidays")):
        asked["holidays"] = skip["holidays"]
    return {name: value for name, value in skip.items() if name not in {"weekends", "holidays"}} | asked or None


def preview(context: RequestContext) -> View:
    """Show the description and the next occurrences of the rule in a form, or the error."""
    timezone = context.form.get("timezone") or None
    try:
        body = {"rule": rule_of(context.form), "timezone": timezone, "skip": _skip(context.form), "count": _PREVIEWED}
        found = context.call("POST", "/schedules/preview", body=without_none(body))
    except ScheduledActionsError as error:
        return View("schedule_preview.html", {"problem": str(error)})
    values = {
        "preview": found,
        "problem": None,
        "occurrences": [(parsed(one.utc), one.remarks) for one in found.occurrences],
        "at_zone": checks.check_timezone(timezone or "UTC"),
        "utc": ZoneInfo("UTC"),
    }
    return View("schedule_preview.html", values)


def next_run(schedule: Document) -> str:
    """Return the sentence that ends a message, ` Next run: Tue 24 Nov 09:30 Berlin.`; empty without a planned run."""
    at = schedule.next_occurrence_at
    if at is None or schedule.status != "active":
        return ""
    return f" Next run: {short(at, schedule.timezone)} {schedule.timezone.rpartition('/')[2].replace('_', ' ')}."


def short(at: datetime, timezone: str) -> str:
    """Format an instant as local time in an IANA time zone: `Tue 24 Nov 09:30`."""
    shown = at.astimezone(ZoneInfo(timezone))
    return f"{shown:%a} {shown.day} {shown:%b %H:%M}"


def rule_of(form: Form) -> str:
    """Build the recurrence rule from the fields of a form.

    Raises:
        InvalidArgument: The time of day is malformed, or a weekly rule has no days.
    """
    at = form.get("at") or _AT
    hour, _, minute = at.partition(":")
    if not (hour.isdecimal() and minute[:2].isdecimal()):
        raise InvalidArgument("at", at, "a time of day, such as 09:00")
    clock = f"{int(minute[:2])} {int(hour)}"
    match form.get("pattern", "own"):
        case "daily":
            return f"{clock} * * *"
        case "weekly":
            days = [day for day in form.getlist("days") if day in WEEKDAYS]
            if not days:
                raise InvalidArgument("days", problem="is empty: choose at least one day of the week")
            return f"{clock} * * {','.join(days)}"
        case "monthly":
            return f"{clock} {form.get('day') or '1'} * *"
        case "interval":
            return f"every {form.get('every') or '1'} {form.get('unit') or 'hours'}"
        case "business":
            return f"{form.get('which') or _BUSINESS[0]} at {at}"
        case _:
            return form.get("rule", "").strip()


def choices_of(rule: str) -> Form:
    """Return the form fields that produce a rule; only the custom pattern if no other pattern fits."""
    match rule.split():
        case ["every", every, unit]:
            return _choices_if_equal(rule, pattern="interval", every=every, unit=unit)
        case [*which, "at", at]:
            return _choices_if_equal(rule, pattern="business", which=" ".join(which), at=at)
        case [minute, hour, "*", "*", "*"]:
            return _choices_if_equal(rule, pattern="daily", at=_clock(hour, minute))
        case [minute, hour, "*", "*", days]:
            return _choices_if_equal(rule, *days.split(","), pattern="weekly", at=_clock(hour, minute))
        case [minute, hour, day, "*", "*"]:
            return _choices_if_equal(rule, pattern="monthly", day=day, at=_clock(hour, minute))
        case _:
            return _choices_if_equal(rule, pattern="own")


def _choices_if_equal(rule: str, *days: str, **choices: str) -> Form:
    """Return the choices if the form can show the choices and build the same rule; otherwise the custom pattern."""
    form = MultiDict([*choices.items(), *(("days", day) for day in days)])
    shown = {"which": _BUSINESS, "unit": UNITS, "day": DAYS}
    is_shown = all(choices[name] in known for name, known in shown.items() if name in choices)
    is_valid = (
        WEEKDAYS.keys() >= {*days}
        and choices.get("every", "1").isdecimal()
        and _CLOCK.fullmatch(choices.get("at", _AT))
    )
    return form if is_shown and is_valid and rule_of(form) == rule else MultiDict({"pattern": "own"})


def _clock(hour: str, minute: str) -> str:
    return f"{hour:0>2}:{minute:0>2}"


def _skip(form: Form) -> dict[str, Any] | None:
    skip: dict[str, Any] = {"weekends": True} if form.get("weekends") else {}
    holidays = form.get("holidays", "").strip()
    return skip | ({"holidays": holidays} if holidays else {}) or None


def _values(context: RequestContext, schedule: Document | None, given: Form) -> dict[str, Any]:
    types = [] if schedule is not None else context.call("GET", "/action-types").action_types
    return {
        "schedule": schedule,
        "given": {"pattern": "daily", "timezone": context.zone.key, "at": _AT} | dict(given.items()),
        "days": given.getlist("days") or ([] if context.form else ["MON"]),
        "patterns": PATTERNS,
        "weekdays": WEEKDAYS,
        "business": _BUSINESS,
        "units": UNITS,
        "month_days": DAYS,
        "types": [one for one in types if one.schedulable],
    }


_FORM = ObjectForm(
    path="/schedules",
    template="schedule_form.html",
    filled=_filled,
    body=_body,
    values=_values,
    created=lambda made, _: Redirect(f"/schedules/{made.id}", f"Schedule created.{next_run(made)}"),
    saved=lambda schedule: f"Saved.{next_run(schedule)}",
)


def list_schedules(context: RequestContext) -> View:
    """Show a page of the schedules that match the filters."""
    values = context.list("/schedules", "schedules", "status", "action_type", "team_id")
    schedules = values["schedules"]
    words = context.runtime.schedule_rules.describe_all(schedules)
    values |= {
        "words": {one.id: text for one, text in zip(schedules, words, strict=True)},
        "strips": _strips(context, [one.id for one in schedules], _STRIP),
        "now": context.now,
    }
    return View("schedules.html", values)


def _strips(context: RequestContext, ids: Collection[UUID], limit: int) -> dict[UUID, list[store.OccurrenceOutcome]]:
    with context.runtime.database.connection() as connection:
        found = store.latest_outcomes(connection, ids, limit=limit)
    return {schedule_id: strip[::-1] for schedule_id, strip in found.items()}


def show_schedule(context: RequestContext) -> View:
    """Show one schedule with its rule, next runs, latest outcomes and payload."""
    schedule = context.call("GET", f"/schedules/{context.path['id']}")
    strip = _strips(context, [schedule.id], _LATEST)[schedule.id]
    manual = None
    if not strip:
        with context.runtime.database.connection() as connection:
            manual = next(iter(store.latest_actions(connection, schedule.id, limit=1)), None)
    values = {"schedule": schedule, "strip": strip, "manual": manual, "skipped": context.query.get("skipped", "")}
    return View("schedule_page.html", values)


def skip_next(context: RequestContext) -> Redirect:
    """Skip the planned occurrence of a schedule; refused if the form names another occurrence."""
    path = f"/schedules/{context.path['id']}"
    before = context.call("GET", path)
    after = context.call("POST", f"{path}/skip", body=context.given("reason", "next_action_id"))
    said = f"Skipped {short(before.next_occurrence_at, before.timezone)}.{next_run(after)}"
    return Redirect(f"/schedules/{after.id}?skipped={before.next_action_id}", said)


def undo_skip(context: RequestContext) -> Redirect:
    """Make a skipped occurrence pending again: due at its original time, or now if that time has passed."""
    path = f"/actions/{checks.check_id(context.form.get('skipped', ''))}"
    at = context.call("GET", path).occurrence_at
    context.call("POST", f"{path}/retry")
    if at is not None and at > context.now:
        context.call("PATCH", path, body={"scheduled_at": at.isoformat()}, query={"force": "true"})
    return Redirect(f"/schedules/{context.path['id']}", "The skipped run is scheduled again.")


PAGES = (
    DashboardPage("GET", "/schedules", list_schedules, nav=Nav("Schedules", "repeat")),
    *_FORM.pages,
    DashboardPage("POST", "/schedules/preview", preview, role=Role.OPERATOR),
    DashboardPage("GET", "/schedules/{id}", show_schedule),
    command("/schedules/{id}", "pause", "Paused. No further runs are planned.", {"reason": as_text}),
    command("/schedules/{id}", "resume", "Resumed. No actions are created for the occurrences during the pause."),
    command("/schedules/{id}", "run", "The run is scheduled and due now.", leads_to="/actions/{0.ids[0]}"),
    command("/schedules/{id}", "delete", "Schedule deleted.", method="DELETE", leads_to="/schedules"),
    DashboardPage("POST", "/schedules/{id}/skip", skip_next, role=Role.OPERATOR),
    DashboardPage("POST", "/schedules/{id}/undo-skip", undo_skip, role=Role.OPERATOR),
)
