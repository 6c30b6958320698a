"""Forms that schedule an action of a type, or change one that waits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scheduled_actions.core import checks as arguments
from scheduled_actions.core import json_text
from scheduled_actions.core.errors import ActionLocked, RequestError, ScheduledActionsError
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.actions.models import NewAction
from scheduled_actions.web.api.requests.problems import field_problems, tell
from scheduled_actions.web.api.requests.refusals import NoSuchTypePage, PreconditionFailed
from scheduled_actions.web.dashboard.actions import schema_forms
from scheduled_actions.web.dashboard.page import Moved, Nav, Page, View
from scheduled_actions.web.dashboard.times import from_input, when_input

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.web.dashboard.actions.schema_forms import Field
    from scheduled_actions.web.dashboard.page import Visit

#: The units that a delay can be given in, in seconds.
DELAYS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}
_TEXTS = ("team_id", "lock_group", "dedup_key", "user_id")
_NUMBERS = ("priority", "max_attempts")
#: The fields that are written as JSON.
_DOCUMENTS = ("metadata", "retry", "condition", "on_success", "on_failure")
#: What a clone does not take from its original: when it runs is chosen in the form, its key would merge it into the
#: original, and its author is who clones.
_NOT_CLONED = frozenset(
    {
        "action_type",
        "payload",
        "scheduled_at",
        "delay",
        "timezone",
        "dedup_key",
        "dedup_window",
        "dedup_mode",
        "created_by",
    }
)
#: Which of the form's own fields a refusal of the API's is about.
_RENAMED = {"scheduled_at": "at", "delay": "delay"}


def list_types(visit: Visit) -> View:
    """Show the action types of this build."""
    return View(
        "action_types.html",
        {"types": visit.ask("GET", "/action-types").action_types, "usual": visit.runtime.config.settings},
    )


def new(visit: Visit) -> View:
    """Show the form of a type, filled in from another action where one is cloned."""
    described = _described(visit, visit.path["type"])
    original = _original(visit, visit.query.get("from"))
    shown = {} if original is None else _shown(visit, original)
    return View("schedule.html", _form(visit, described, original, shown))


def schedule(visit: Visit) -> View | Moved:
    """Schedule the action that the form describes, or show what is wrong with it."""
    described = _described(visit, visit.path["type"])
    original = None
    try:
        original = _original(visit, visit.form.get("from"))
        fields = _fields(visit, described, None if original is None else original.payload)
        made = visit.ask("POST", "/actions", body=_new(visit, described.action_type, fields, original))
    except ScheduledActionsError as error:
        values = _form(visit, described, original, visit.form)
        return View("schedule.html", values | _refused(visit, error, values["fields"]), status=_status(error))
    said = "Merged into this one, which already waited under the same key." if made.deduplicated else "Scheduled."
    return Moved(f"/actions/{made.id}", said)


def edit(visit: Visit) -> View:
    """Show an action that waits as a form."""
    answer = visit.asked("GET", f"/actions/{visit.path['id']}")
    return View("edit.html", _edit_form(visit, answer.document, answer.headers["ETag"], None))


def change(visit: Visit) -> View | Moved:
    """Change what is different in the form, or show what is wrong with it."""
    action = visit.ask("GET", f"/actions/{visit.path['id']}")
    try:
        visit.ask(
            "PATCH",
            f"/actions/{action.id}",
            body=_changes(visit, action),
            query={"force": "true"} if visit.form.get("force") else {},
            if_match=visit.form.get("etag") or None,
        )
    except ScheduledActionsError as error:
        values = _edit_form(visit, action, visit.form.get("etag", ""), visit.form)
        refused = _refused(visit, error, values["fields"])
        return View(
            "edit.html",
            values
            | refused
            | {"is_locked": isinstance(error, ActionLocked), "is_stale": isinstance(error, PreconditionFailed)},
            status=_status(error),
        )
    return Moved(f"/actions/{action.id}", "Changed.")


def _described(visit: Visit, action_type: str) -> Any:  # noqa: ANN401 - the API's own document
    types = visit.ask("GET", "/action-types").action_types
    found = next((one for one in types if one.action_type == action_type), None)
    if found is None:
        raise NoSuchTypePage(action_type, [one.action_type for one in types])
    return found


def _fields(visit: Visit, described: Any, payload: Any) -> list[Field] | None:  # noqa: ANN401 - the API's own, and JSON
    """Return the inputs of a payload; None where it is to be written as JSON."""
    if (visit.form.get("as") or visit.query.get("as")) == "json":
        return None
    return schema_forms.form_of(described.payload_schema, payload, zone=visit.zone)


def _original(visit: Visit, action_id: str | None) -> Any:  # noqa: ANN401 - the API's own document
    """Return the action to clone; None where the form is a new one."""
    return visit.ask("GET", f"/actions/{arguments.check_id(action_id)}") if action_id else None


def _arguments(action: Any) -> dict[str, Any]:  # noqa: ANN401 - the API's own document
    """Return what a clone takes from an action, as a request to schedule names it; what is null is left out."""
    given = {name: getattr(action, name, None) for name in NewAction.model_fields.keys() - _NOT_CLONED}
    if action.target_type is not None and action.target_id is not None:
        given["target"] = {"type": action.target_type, "id": action.target_id}
    if isinstance(action.condition, dict) and "after" in action.condition:
        # A row keeps the two together.
        given |= {"after": action.condition["after"], "condition": action.condition.get("condition")}
    return {name: value for name, value in given.items() if value is not None}


def _shown(visit: Visit, original: Any) -> dict[str, str]:  # noqa: ANN401 - the API's own document
    """Return the fields of the form as a clone begins."""
    given = _arguments(original)
    shown = {name: str(given[name]) for name in (*_TEXTS, *_NUMBERS) if name in given}
    shown |= {name: _pretty(given[name]) for name in _DOCUMENTS if name in given}
    shown |= {f"target_{name}": text for name, text in given.get("target", {}).items()}
    shown["after"] = "\n".join(map(str, given.get("after", ())))
    shown["lock_group_blocks"] = "on" if given.get("lock_group_blocks") else ""
    # One that is still to come is not moved to the present by an untouched form.
    is_due = original.scheduled_at <= visit.now
    return shown | ({} if is_due else {"when": "at", "at": when_input(original.scheduled_at, visit.zone)})


def _form(visit: Visit, described: Any, original: Any, shown: Mapping[str, str]) -> dict[str, Any]:  # noqa: ANN401
    payload = None if original is None else original.payload
    return {
        "described": described,
        "original": visit.form.get("from") or visit.query.get("from"),
        "fields": _fields(visit, described, payload),
        "has_form": schema_forms.form_of(described.payload_schema, payload, zone=visit.zone) is not None,
        "payload": shown.get("payload") or _pretty({} if payload is None else payload),
        "shown": shown,
        "units": list(DELAYS),
        "problems": [],
        "wrong": {},
    }


def _edit_form(visit: Visit, action: Any, etag: str, sent: Mapping[str, str] | None) -> dict[str, Any]:  # noqa: ANN401
    try:
        described = _described(visit, action.action_type)
    except NoSuchTypePage:
        described = None
    is_object = isinstance(action.payload, dict)
    shown: Mapping[str, str] = sent or {
        "at": when_input(action.scheduled_at, visit.zone),
        "priority": str(action.priority),
        "max_attempts": "" if action.max_attempts is None else str(action.max_attempts),
        "metadata": "" if action.metadata is None else _pretty(action.metadata),
    }
    fields = None if described is None or not is_object else _fields(visit, described, action.payload)
    return {
        "action": action,
        "etag": etag,
        "fields": fields,
        "has_form": described is not None
        and schema_forms.form_of(described.payload_schema, action.payload, zone=visit.zone) is not None,
        "is_object": is_object,
        "payload": shown.get("payload") or _pretty(action.payload),
        "shown": shown,
        "problems": [],
        "wrong": {},
        "is_locked": False,
        "is_stale": False,
    }


def _new(visit: Visit, action_type: str, fields: list[Field] | None, original: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the request: what the form holds, and of the original what the form does not show."""
    kept = {} if original is None else _arguments(original)
    given: dict[str, Any] = {name: value for name, value in kept.items() if _INPUTS.get(name, name) not in visit.form}
    given |= {"action_type": action_type, "payload": _payload(visit, fields)}
    when = visit.form.get("when", "now")
    if when == "delay":
        amount = _whole(visit.form.get("delay", "").strip())
        seconds = DELAYS.get(visit.form.get("unit", ""), 1)
        given["delay"] = amount * seconds if isinstance(amount, int) else amount
    elif when == "at":
        given["scheduled_at"] = from_input(visit.form.get("at", ""), visit.zone)
    return given | visit.given(*_TEXTS) | _numbers(visit) | _dependencies(visit)


#: The input of a field that has another name, or the first of several.
_INPUTS = {"target": "target_type"}


def _dependencies(visit: Visit) -> dict[str, Any]:
    """Return what was sent of the remaining fields."""
    given: dict[str, Any] = {name: visit.json(name) for name in visit.given(*_DOCUMENTS)}
    if visit.given("target_type", "target_id"):
        given["target"] = {name: visit.form.get(f"target_{name}", "").strip() for name in ("type", "id")}
    if after := visit.form.get("after", "").split():
        given["after"] = after
    if visit.form.get("lock_group_blocks"):
        given["lock_group_blocks"] = True
    return given


def _changes(visit: Visit, action: Any) -> dict[str, Any]:  # noqa: ANN401 - the API's own document
    changes = _numbers(visit)
    if visit.given("metadata"):
        changes["metadata"] = visit.json("metadata")
    if isinstance(action.payload, dict):
        changes["payload"] = _payload(visit, _edit_form(visit, action, "", None)["fields"])
    at = visit.form.get("at", "")
    if at.strip() and at != when_input(action.scheduled_at, visit.zone):
        changes["scheduled_at"] = from_input(at, visit.zone)
    return {name: value for name, value in changes.items() if value != getattr(action, name)}


def _numbers(visit: Visit) -> dict[str, Any]:
    return {name: _whole(text) for name, text in visit.given(*_NUMBERS).items()}


def _payload(visit: Visit, fields: list[Field] | None) -> Any:  # noqa: ANN401 - any JSON
    if fields is None:
        return json_text.decode(visit.form.get("payload", "").strip() or "{}", name="payload")
    return schema_forms.payload_of(fields, visit.form, visit.zone)


def _refused(visit: Visit, error: ScheduledActionsError, fields: list[Field] | None) -> dict[str, Any]:
    """Return what is wrong, beside each input that it is about, and above the form what is about none."""
    found = field_problems(error) if isinstance(error, RequestError) else []
    wrong = {_RENAMED.get(one.where, one.where): one.message for one in found}
    beside = set(visit.form) if fields is None else set(visit.form) | schema_forms.names(fields)
    if fields is not None:
        schema_forms.refilled(fields, visit.form, wrong)
    above = [str(one) for one in found if _RENAMED.get(one.where, one.where) not in beside]
    if not found:
        above = [str(error)]
    return {"problems": above, "wrong": wrong}


def _status(error: ScheduledActionsError) -> int:
    return int(tell(error, path="").status)


def _whole(text: str) -> int | str:
    is_one = text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 16  # noqa: PLR2004 - no number is so long
    return int(text) if is_one else text


def _pretty(value: Any) -> str:  # noqa: ANN401 - any JSON
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


PAGES = (
    Page("GET", "/action-types", list_types, nav=Nav("Action types", "types")),
    Page("GET", "/action-types/{type}", new),
    Page("POST", "/action-types/{type}", schedule, role=Role.OPERATOR),
    Page("GET", "/actions/{id}/edit", edit, role=Role.OPERATOR),
    Page("POST", "/actions/{id}/edit", change, role=Role.OPERATOR),
)
