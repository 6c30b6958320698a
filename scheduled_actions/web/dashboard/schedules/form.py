"""Making and changing a schedule: simple choices first, the rest by degrees; what a rule means shows as it is typed."""

from __future__ import annotations

import json
import math
from datetime import time
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from werkzeug.datastructures import MultiDict

from scheduled_actions.core import checks as arguments
from scheduled_actions.core import json_text
from scheduled_actions.core.errors import InvalidArgument, ScheduledActionsError
from scheduled_actions.operations.tokens import Role
from scheduled_actions.recurrence.skips.holidays import label_of
from scheduled_actions.web.dashboard.edits import FIELD, Seen, differing, said_of_edit, seen_of, status_of_edit
from scheduled_actions.web.dashboard.page import Moved, Page, View
from scheduled_actions.web.dashboard.times import from_input, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.web.dashboard.page import Visit

#: How a rule may be told; the last takes any.
PATTERNS = {
    "daily": "Every day",
    "weekly": "Every week",
    "monthly": "Every month",
    "interval": "Every few minutes or hours",
    "business": "Business days",
    "own": "A rule of your own",
}
WEEKDAYS = {"MON": "Mon", "TUE": "Tue", "WED": "Wed", "THU": "Thu", "FRI": "Fri", "SAT": "Sat", "SUN": "Sun"}
_BUSINESS = ("first business day of the month", "last business day of the month", "last business day of the quarter")
_NOON = "09:00"
#: Of an interval.
UNITS = ("minutes", "hours", "days", "weeks")
#: Of a month, as cron has them.
DAYS = (*map(str, range(1, 32)), "L")
#: Instants shown of a rule.
_SHOWN = 6
#: Taken as they are typed.
_TEXTS = ("name", "team_id", "timezone", "misfire", "overlap")
_NUMBERS = ("remaining", "jitter_seconds", "pause_after_failures", "max_attempts", "priority")


def new(visit: Visit) -> View:
    """Show the form of a new schedule; an address may fill in its type."""
    return _form(visit, visit.query, None)


def create(visit: Visit) -> View | Moved:
    """Make a schedule, or show the form again with what is wrong."""
    try:
        body = _body(visit.form, visit.zone) | {"action_type": visit.form.get("action_type", "")}
        made = visit.ask("POST", "/schedules", body={name: value for name, value in body.items() if value is not None})
    except ScheduledActionsError as error:
        return _form(visit, visit.form, error)
    return Moved(f"/schedules/{made.id}", "It is scheduled.")


def edit(visit: Visit) -> View:
    """Show the form of a schedule that is there."""
    answer = visit.asked("GET", f"/schedules/{visit.path['id']}")
    schedule: Any = answer.document
    seen = Seen(answer.headers["ETag"], _filled(visit, schedule))
    return _form(visit, seen.form, None, schedule, seen=seen)


def change(visit: Visit) -> View | Moved:
    """Change what is different in the form, or show the form again with what is wrong."""
    schedule = visit.ask("GET", f"/schedules/{visit.path['id']}")
    try:
        seen = seen_of(visit.form, _filled(visit, schedule))
        body = differing(_body(visit.form, visit.zone), _body(seen.form, visit.zone))
        body.pop("team_id", None)
        if "skip" in body:
            body["skip"] = _skip_with(body["skip"] or {}, schedule.skip or {})
        visit.ask("PATCH", f"/schedules/{schedule.id}", body=body, if_match=seen.etag)
    except ScheduledActionsError as error:
        return _form(visit, visit.form, error, schedule)
    return Moved(f"/schedules/{schedule.id}", "Changed. The next run was planned again where needed.")


def _filled(visit: Visit, schedule: Any) -> MultiDict[str, str]:  # noqa: ANN401 - as the API tells it
    """Return the fields of the form as a schedule fills them in."""
    skip = schedule.skip or {}
    given = {name: getattr(schedule, name) for name in (*_TEXTS, *_NUMBERS)}
    given |= {
        "rule": schedule.recurrence,
        "payload": json.dumps(schedule.payload, ensure_ascii=False, indent=2),
        "weekends": "on" if skip.get("weekends") else "",
        "holidays": label_of(skip.get("holidays")),
        "until": "" if schedule.until is None else schedule.until.astimezone(visit.zone).strftime("%Y-%m-%dT%H:%M:%S"),
    }
    filled = MultiDict({name: "" if value is None else str(value) for name, value in given.items()})
    filled.update(choices_of(schedule.recurrence))
    return filled


def _skip_with(asked: dict[str, Any], skip: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the form asks to skip, with what the form does not show."""
    if "holidays" in asked and asked["holidays"] == label_of(skip.get("holidays")):
        asked["holidays"] = skip["holidays"]
    kept = {name: value for name, value in skip.items() if name not in {"weekends", "holidays"}}
    return kept | asked or None


def preview(visit: Visit) -> View:
    """Show what the rule in a form means, and its next instants."""
    occurrences, found, problem = [], None, None
    try:
        body = {
            "rule": rule_of(visit.form),
            "timezone": visit.form.get("timezone") or None,
            "skip": _skip(visit.form),
            "count": _SHOWN,
        }
        found = visit.ask(
            "POST", "/schedules/preview", body={name: value for name, value in body.items() if value is not None}
        )
        zone = arguments.check_timezone(visit.form.get("timezone") or "UTC")
        occurrences = [(parsed(one.utc), one.remarks) for one in found.occurrences]
    except ScheduledActionsError as error:
        zone, problem = visit.zone, str(error)
    shown = {"preview": found, "problem": problem, "occurrences": occurrences, "at_zone": zone, "utc": ZoneInfo("UTC")}
    return View("schedule_preview.html", shown)


def rule_of(form: MultiDict[str, str]) -> str:
    """Return the rule that a form tells.

    Raises:
        InvalidArgument: A choice lacks what it needs; it is named as the form names it.
    """
    at = form.get("at") or _NOON
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
                raise InvalidArgument("days", "", "at least one day of the week")
            return f"{clock} * * {','.join(days)}"
        case "monthly":
            return f"{clock} {form.get('day') or '1'} * *"
        case "interval":
            return f"every {form.get('every') or '1'} {form.get('unit') or 'hours'}"
        case "business":
            return f"{form.get('which') or _BUSINESS[0]} at {at}"
        case _:
            return form.get("rule", "").strip()


def choices_of(rule: str) -> MultiDict[str, str]:
    """Return the choices of the form that tell a rule; where none do, that it is one's own."""
    match rule.split():
        case ["every", every, unit]:
            return _telling(rule, pattern="interval", every=every, unit=unit)
        case [*which, "at", at]:
            return _telling(rule, pattern="business", which=" ".join(which), at=at)
        case [minute, hour, "*", "*", "*"]:
            return _telling(rule, pattern="daily", at=_clock(hour, minute))
        case [minute, hour, "*", "*", days]:
            return _telling(rule, *days.split(","), pattern="weekly", at=_clock(hour, minute))
        case [minute, hour, day, "*", "*"]:
            return _telling(rule, pattern="monthly", day=day, at=_clock(hour, minute))
        case _:
            return _telling(rule, pattern="own")


def _telling(rule: str, *days: str, **choices: str) -> MultiDict[str, str]:
    """Return the choices if the form can show them, and sends the rule again as it is."""
    form = MultiDict([*choices.items(), *(("days", day) for day in days)])
    shown = {"which": _BUSINESS, "unit": UNITS, "day": DAYS}
    is_shown = all(choices[name] in known for name, known in shown.items() if name in choices) and WEEKDAYS.keys() >= {
        *days
    }
    is_whole = choices.get("every", "1").isdecimal()
    is_told = is_shown and is_whole and _is_clock(choices.get("at", _NOON)) and rule_of(form) == rule
    return form if is_told else MultiDict({"pattern": "own"})


def _clock(hour: str, minute: str) -> str:
    return f"{hour:0>2}:{minute:0>2}"


def _is_clock(text: str) -> bool:
    try:
        return time.fromisoformat(text).strftime("%H:%M") == text
    except ValueError:
        return False


def _skip(form: MultiDict[str, str]) -> dict[str, Any] | None:
    skip: dict[str, Any] = {}
    if form.get("weekends"):
        skip["weekends"] = True
    if form.get("holidays", "").strip():
        skip["holidays"] = form["holidays"].strip()
    return skip or None


def _body(form: MultiDict[str, str], zone: ZoneInfo) -> dict[str, Any]:
    """Return what a form asks for, as the API takes it; what is empty is None."""
    body: dict[str, Any] = {name: form.get(name, "").strip() or None for name in _TEXTS}
    body |= {name: _number(name, form.get(name, "")) for name in _NUMBERS}
    body["payload"] = json_text.decode(form["payload"], name="payload") if form.get("payload", "").strip() else {}
    body["recurrence"] = rule_of(form)
    body["skip"] = _skip(form)
    body["until"] = from_input(form["until"], zone) if form.get("until", "").strip() else None
    return body


def _number(name: str, text: str) -> float | None:
    text = text.strip()
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidArgument(name, text, "a number")
    # Which of them have to be whole, the API says.
    return int(number) if number.is_integer() else number


def _form(
    visit: Visit,
    given: Mapping[str, str],
    error: ScheduledActionsError | None,
    schedule: Any = None,  # noqa: ANN401 - as the API tells it
    *,
    seen: Seen | None = None,
) -> View:
    days = visit.form.getlist("days") if visit.form else (seen.form.getlist("days") if seen else []) or ["MON"]
    values = {
        "schedule": schedule,
        "given": {"pattern": "daily", "timezone": visit.zone.key, "at": _NOON} | dict(given.items()),
        "days": days,
        "patterns": PATTERNS,
        "weekdays": WEEKDAYS,
        "business": _BUSINESS,
        "units": UNITS,
        "month_days": DAYS,
        "types": _types(visit) if schedule is None else [],
        "seen": visit.form.get(FIELD) if seen is None else seen.as_field(),
        "problem": None if error is None else said_of_edit(error),
    }
    return View("schedule_form.html", values, status=status_of_edit(error))


def _types(visit: Visit) -> list[Any]:
    return [one for one in visit.ask("GET", "/action-types").action_types if one.schedulable]


PAGES = (
    Page("GET", "/schedules/new", new, role=Role.OPERATOR),
    Page("POST", "/schedules/new", create, role=Role.OPERATOR),
    Page("POST", "/schedules/preview", preview, role=Role.OPERATOR),
    Page("GET", "/schedules/{id}/edit", edit, role=Role.OPERATOR),
    Page("POST", "/schedules/{id}/edit", change, role=Role.OPERATOR),
)
