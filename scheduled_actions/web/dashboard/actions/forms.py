"""Schedule and clone actions, and edit pending actions, with forms."""

from collections.abc import Mapping
from typing import Any

from scheduled_actions.core import checks as arguments, json_text
from scheduled_actions.core.errors import ActionLocked, RequestError, ScheduledActionsError
from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.api.actions.models import CreateActionRequest
from scheduled_actions.web.api.problems import (
    PreconditionFailed,
    UnknownActionTypePage,
    field_problems,
    problem_details,
)
from scheduled_actions.web.dashboard.actions import schema_forms
from scheduled_actions.web.dashboard.actions.schema_forms import Field
from scheduled_actions.web.dashboard.forms import (
    Parser,
    as_flag,
    as_instant,
    as_json,
    as_lines,
    as_number,
    as_text,
    parse_fields,
    pretty,
    without_none,
)
from scheduled_actions.web.dashboard.page import DashboardPage, Document, Nav, Redirect, RequestContext, View
from scheduled_actions.web.dashboard.times import from_input, is_endless, when_input

#: The units of a delay, in seconds.
DELAYS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}
_TEXTS = ("team_id", "lock_group", "dedup_key", "user_id")
_NUMBERS = ("priority", "max_attempts")
#: Fields that are edited as JSON.
_DOCUMENTS = ("metadata", "retry", "condition", "on_success", "on_failure")
_PARSERS: dict[str, Parser] = {
    **dict.fromkeys(_TEXTS, as_text),
    **dict.fromkeys(_NUMBERS, as_number),
    **dict.fromkeys(_DOCUMENTS, as_json),
    "after": lambda _name, text, _zone: text.split(),
    "limit": as_lines,
    "expires_at": as_instant,
    "on_expiry": as_text,
    "lock_group_blocks": as_flag,
}
#: The fields of a pending action that can change, besides its due time and payload.
_CHANGEABLE: dict[str, Parser] = {name: _PARSERS[name] for name in (*_NUMBERS, "metadata")}
#: Fields that a clone does not copy: the form asks for the due time, the dedup key would merge the clone into the
#: original, and the caller becomes the creator.
_NOT_CLONED = {
    "action_type", "payload", "scheduled_at", "delay", "timezone", "dedup_key", "dedup_window", "dedup_mode",
    "created_by",
}  # fmt: skip
#: The form field in which to show an error, by field of the API; other form fields are named as in the API.
_RENAMED = {"scheduled_at": "at"}


def list_types(context: RequestContext) -> View:
    """Show the action types of this deployment."""
    return View(
        "action_types.html",
        {"types": context.call("GET", "/action-types").action_types, "usual": context.runtime.config.settings},
    )


def new(context: RequestContext) -> View:
    """Show the form that schedules an action of a type; the query's `from` is the id of the action to clone."""
    original = _original(context, context.query.get("from"))
    described = _described(context, context.path["type"])
    return _new_form(context, described, original, {} if original is None else _shown(context, original))


def schedule(context: RequestContext) -> View | Redirect:
    """Schedule an action, or show the form again with the errors."""
    described = _described(context, context.path["type"])
    form = _new_form(context, described, None, context.form)
    try:
        original = _original(context, context.form.get("from"))
        form = _new_form(context, described, original, context.form)
        body = _new(context, described.action_type, form.values["fields"], original)
        made = context.call("POST", "/actions", body=body)
    except ScheduledActionsError as error:
        return _again(context, form, error)
    said = "Merged into this action with the same dedup key." if made.deduplicated else "Scheduled."
    return Redirect(f"/actions/{made.id}", said)


def edit(context: RequestContext) -> View:
    """Show the form that edits an action; saving is refused unless the action is pending."""
    answer = context.api.call("GET", f"/actions/{context.path['id']}")
    return _edit_form(context, answer.document, answer.headers["ETag"])


def change(context: RequestContext) -> View | Redirect:
    """Save the fields that the user changed, or show the form again with the errors."""
    action = context.call("GET", f"/actions/{context.path['id']}")
    form = _edit_form(context, action, context.form.get("etag", ""))
    try:
        context.call(
            "PATCH",
            f"/actions/{action.id}",
            body=_changes(context, action, form.values["fields"]),
            query={"force": "true"} if context.form.get("force") else {},
            if_match=context.form.get("etag") or None,
        )
    except ScheduledActionsError as error:
        is_stale = isinstance(error, PreconditionFailed)
        return _again(context, form, error, is_locked=isinstance(error, ActionLocked), is_stale=is_stale)
    return Redirect(f"/actions/{action.id}", "Saved.")


def _described(context: RequestContext, action_type: str) -> Document:
    types = context.call("GET", "/action-types").action_types
    found = next((one for one in types if one.action_type == action_type), None)
    if found is None:
        raise UnknownActionTypePage(action_type, [one.action_type for one in types])
    return found


def _original(context: RequestContext, action_id: str | None) -> Document:
    """Return the action to clone; None without an id."""
    return context.call("GET", f"/actions/{arguments.check_id(action_id)}") if action_id else None


def _arguments(action: Document) -> dict[str, Any]:
    """Return the fields that a clone copies from an action, in the format of the API and without null values."""
    given = {name: getattr(action, name, None) for name in CreateActionRequest.model_fields.keys() - _NOT_CLONED}
    if action.target_type is not None and action.target_id is not None:
        given["target"] = {"type": action.target_type, "id": action.target_id}
    if action.expires_at is not None:
        given["expires_at"] = action.expires_at.isoformat()
    if isinstance(action.condition, dict) and "after" in action.condition:
        # The column `condition` stores both.
        given |= {"after": action.condition["after"], "condition": action.condition.get("condition")}
    return without_none(given)


def _shown(context: RequestContext, original: Any) -> dict[str, str]:  # noqa: ANN401 - the API's own document
    """Return the initial form fields of a clone."""
    given = _arguments(original)
    shown = {name: str(given[name]) for name in (*_TEXTS, *_NUMBERS) if name in given}
    shown |= {name: pretty(given[name]) for name in _DOCUMENTS if name in given}
    shown |= {f"target_{name}": text for name, text in given.get("target", {}).items()}
    shown |= {name: "\n".join(map(str, given.get(name, ()))) for name in ("after", "limit")}
    shown |= {"expires_at": when_input(original.expires_at, context.zone), "on_expiry": given.get("on_expiry", "")}
    shown["lock_group_blocks"] = "on" if given.get("lock_group_blocks") else ""
    # A clone keeps a due time in the future.
    is_due = original.scheduled_at <= context.now or is_endless(original.scheduled_at)
    return shown | ({} if is_due else {"when": "at", "at": when_input(original.scheduled_at, context.zone)})


def _form(
    context: RequestContext,
    described: Document | None,
    payload: Any,  # noqa: ANN401 - any JSON
    shown: Mapping[str, str],
) -> dict[str, Any]:
    """Return the template values that the forms of new and of pending actions share."""
    fields = None if described is None else schema_forms.form_of(described.payload_schema, payload, zone=context.zone)
    is_json = (context.form.get("as") or context.query.get("as")) == "json"
    return {
        "fields": None if is_json else fields,
        "has_form": fields is not None,
        "payload": shown.get("payload") or pretty({} if payload is None else payload),
        "shown": shown,
        "problems": [],
        "wrong": {},
    }


def _new_form(
    context: RequestContext, described: Document, original: Document | None, shown: Mapping[str, str]
) -> View:
    """Return the form of a new action."""
    values = {
        "described": described,
        "original": context.form.get("from") or context.query.get("from"),
        "units": list(DELAYS),
    }
    return View("schedule.html", _form(context, described, getattr(original, "payload", None), shown) | values)


def _edit_form(context: RequestContext, action: Document, etag: str) -> View:
    """Return the form that edits a pending action, with the submitted fields if there are any."""
    types = context.call("GET", "/action-types").action_types
    described = next((one for one in types if one.action_type == action.action_type), None)
    is_object = isinstance(action.payload, dict)
    shown: Mapping[str, str] = context.form or {
        "at": when_input(action.scheduled_at, context.zone),
        "priority": str(action.priority),
        "max_attempts": "" if action.max_attempts is None else str(action.max_attempts),
        "metadata": "" if action.metadata is None else pretty(action.metadata),
        "limit": "\n".join(action.limit or ()),
        "expires_at": when_input(action.expires_at, context.zone),
    }
    values = {"action": action, "etag": etag, "is_object": is_object, "is_locked": False, "is_stale": False}
    return View("edit.html", _form(context, described if is_object else None, action.payload, shown) | values)


def _again(context: RequestContext, form: View, error: ScheduledActionsError, **values: Any) -> View:  # noqa: ANN401 - of the template
    """Return the submitted form with the errors next to their inputs, and the other errors above the form."""
    found = field_problems(error) if isinstance(error, RequestError) else []
    wrong = {_RENAMED.get(one.where, one.where): one.message for one in found}
    fields = form.values["fields"] or []
    inputs = {*context.form, *(one.name for one in schema_forms.every(fields))}
    schema_forms.refill(fields, context.form, wrong)
    above = [str(one) for one in found if _RENAMED.get(one.where, one.where) not in inputs]
    problems = {"problems": above if found else [str(error)], "wrong": wrong}
    return View(form.template, {**form.values, **problems, **values}, int(problem_details(error, path="").status))


def _new(context: RequestContext, action_type: str, fields: list[Field] | None, original: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the body of the API request: the form's fields, and fields of the original that the form does not show."""
    kept = {} if original is None else _arguments(original)
    inputs = {*context.form, *(["target"] if "target_type" in context.form else [])}
    given: dict[str, Any] = {name: value for name, value in kept.items() if name not in inputs}
    given |= {"action_type": action_type, "payload": _payload(context, fields)}
    when = context.form.get("when", "now")
    if when == "delay":
        amount = as_number("delay", context.form.get("delay", "").strip(), context.zone)
        given["delay"] = amount if isinstance(amount, str) else amount * DELAYS.get(context.form.get("unit", ""), 1)
    elif when == "at":
        given["scheduled_at"] = from_input(context.form.get("at", ""), context.zone)
    if context.given("target_type", "target_id"):
        given["target"] = {name: context.form.get(f"target_{name}", "").strip() for name in ("type", "id")}
    return given | parse_fields(context.form, context.zone, _PARSERS)


def _changes(context: RequestContext, action: Document, fields: list[Field] | None) -> dict[str, Any]:
    """Return the body of the API request with the fields that the user changed."""
    changes = parse_fields(context.form, context.zone, _CHANGEABLE)
    if isinstance(action.payload, dict):
        changes["payload"] = _payload(context, fields)
    at = context.form.get("at", "")
    if at.strip() and at != when_input(action.scheduled_at, context.zone):
        changes["scheduled_at"] = from_input(at, context.zone)
    if "limit" in context.form:
        limit = as_lines("limit", context.form["limit"], context.zone) or None
        # A stored key may begin or end with spaces, which the form removes.
        if limit != (as_lines("limit", "\n".join(action.limit or ()), context.zone) or None):
            changes["limit"] = limit
    expires_at = context.form.get("expires_at", "").strip()
    if "expires_at" in context.form and expires_at != when_input(action.expires_at, context.zone):
        changes["expires_at"] = from_input(expires_at, context.zone) or None
    return {name: value for name, value in changes.items() if value != getattr(action, name)}


def _payload(context: RequestContext, fields: list[Field] | None) -> Any:  # noqa: ANN401 - any JSON
    if fields is None:
        return json_text.decode(context.form.get("payload", "").strip() or "{}", name="payload")
    return schema_forms.payload_of(fields, context.form, context.zone)


PAGES = (
    DashboardPage("GET", "/action-types", list_types, nav=Nav("Action types", "types")),
    DashboardPage("GET", "/action-types/{type}", new),
    DashboardPage("POST", "/action-types/{type}", schedule, role=Role.OPERATOR),
    DashboardPage("GET", "/actions/{id}/edit", edit, role=Role.OPERATOR),
    DashboardPage("POST", "/actions/{id}/edit", change, role=Role.OPERATOR),
)
