"""From the JSON of a condition to the condition: each refusal names the place, the value and what would be right."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from scheduled_actions.conditions.rules.composition import All, Not
from scheduled_actions.conditions.rules.composition import Any as AnyOf
from scheduled_actions.conditions.rules.kinds import (
    OPERATORS,
    ActionStatus,
    ApprovalComplete,
    AskOutside,
    DeadlineOpen,
    FieldValue,
    TimeElapsed,
    UserAction,
)
from scheduled_actions.conditions.rules.model import FactKey, Outside
from scheduled_actions.conditions.rules.pointer import is_pointer
from scheduled_actions.core.action import FINISHED
from scheduled_actions.core.durations import parse_duration
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.json_text import Unquoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from scheduled_actions.conditions.rules.model import Condition

#: Compositions inside one another.
MAX_DEPTH = 10
#: Kinds and compositions together.
MAX_PARTS = 100
#: Of one list of values or names.
MAX_VALUES = 100
_LONGEST_TEXT = 255
_LONGEST_SECONDS = 100 * 366 * 86400.0
_COMPOSITIONS = ("all", "any", "not")


def read_condition(given: Any, *, name: str = "condition") -> Condition:  # noqa: ANN401 - it is what is judged
    """Return the condition that JSON describes.

    Args:
        given: `{"all": […]}`, `{"any": […]}`, `{"not": {…}}` or `{"kind": …, …}`.
        name: What it is called in errors.

    Raises:
        InvalidArgument: It is none, or larger or deeper than is taken; names the place.
    """
    return _Reader().read(given, name, MAX_DEPTH)


class _Reader:
    def __init__(self) -> None:
        self._parts = 0

    def read(self, given: Any, where: str, room: int) -> Condition:  # noqa: ANN401 - it is what is judged
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise InvalidArgument(where, Unquoted("the whole"), f"of at most {MAX_PARTS} parts")
        if not room:
            raise InvalidArgument(where, Unquoted("this"), f"at most {MAX_DEPTH} levels deep")
        if not isinstance(given, dict):
            raise InvalidArgument(where, Unquoted(_json_type(given)), _EXPECTED)
        composition = next((one for one in _COMPOSITIONS if one in given), None)
        if composition is None:
            return _read_kind(_Fields(given, where))
        if len(given) > 1:
            other = min(set(given) - {composition}, key=str)
            raise InvalidArgument(f"{where}.{other}", Unquoted("this"), f'there beside "{composition}"')
        inside, path = given[composition], f"{where}.{composition}"
        if composition == "not":
            return Not(where, self.read(inside, path, room - 1), inside)
        if not isinstance(inside, list) or not inside:
            raise InvalidArgument(path, Unquoted(_json_type(inside)), "a list of conditions, not empty")
        parts = tuple(self.read(one, f"{path}.{number}", room - 1) for number, one in enumerate(inside))
        return All(parts) if composition == "all" else AnyOf(parts)


_EXPECTED = 'a condition: {"kind": …}, {"all": […]}, {"any": […]} or {"not": {…}}'


def _json_type(value: object) -> str:
    if isinstance(value, list) and not value:
        return "an empty list"
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")


class _Fields:
    """The fields of one kind, each taken once; what is left over is refused."""

    def __init__(self, given: Mapping[str, Any], where: str) -> None:
        self.given = given
        self.where = where
        self._left = dict(given)

    def refuse(self, field: str, value: object, expected: str) -> InvalidArgument:
        return InvalidArgument(f"{self.where}.{field}", value, expected)

    def has(self, field: str) -> bool:
        return self._left.get(field) is not None

    def take(self, field: str, default: Any = None) -> Any:  # noqa: ANN401 - any JSON
        return self._left.pop(field, default)

    def text(self, field: str, default: str | None = None, *, expected: str = "a text of 1 to 255 characters") -> str:
        value = self.take(field, default)
        if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_TEXT or not value.isprintable():
            raise self.refuse(field, value, expected)
        return value

    def name(self, field: str) -> str:
        value = self.text(field)
        if "*" in value:
            raise self.refuse(field, value, "a name without *")
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        values = self.take(field)
        is_list = isinstance(values, list) and 1 <= len(values) <= MAX_VALUES
        if not is_list or not all(isinstance(one, str) and 1 <= len(one) <= _LONGEST_TEXT for one in values):
            raise self.refuse(field, values, f"a list of 1 to {MAX_VALUES} texts")
        return tuple(dict.fromkeys(values))

    def target(self) -> tuple[str, str]:
        value = self.take("target")
        is_pair = isinstance(value, dict) and set(value) == {"type", "id"}
        if not is_pair or not all(isinstance(one, str) and 1 <= len(one) <= _LONGEST_TEXT for one in value.values()):
            raise self.refuse("target", value, 'the thing it is about: {"type": "invoice", "id": "42"}')
        return value["type"], value["id"]

    def pointer(self) -> str:
        value = self.take("pointer", "")
        if not isinstance(value, str) or len(value) > _LONGEST_TEXT or not is_pointer(value):
            raise self.refuse("pointer", value, 'a JSON pointer, such as "/total/amount"')
        return value

    def uuid(self, field: str) -> UUID:
        value = self.take(field)
        try:
            return UUID(value)
        except (ValueError, AttributeError, TypeError):
            raise self.refuse(field, value, "an id") from None

    def whole(self, field: str, default: int | None = None, *, least: int, most: int) -> int:
        value = self.take(field, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.refuse(field, value, f"a whole number from {least} to {most}")
        return value

    def seconds(self, field: str) -> float:
        value = self.take(field)
        return seconds_of(value, f"{self.where}.{field}")

    def end(self, kind: str) -> None:
        if self._left:
            field = min(self._left, key=str)
            raise self.refuse(field, self._left[field], f'there: kind "{kind}" has no such field')


def seconds_of(value: Any, where: str, *, least: float = 0) -> float:  # noqa: ANN401 - it is what is judged
    """Return the seconds that a number, or a duration such as "PT5M" or "24h", stands for."""
    expected = f'a number of seconds, at least {least:g}, or a duration such as "PT5M" or "24h"'
    try:
        found: timedelta | float = parse_duration(value) if isinstance(value, str) else value
    except InvalidArgument:
        raise InvalidArgument(where, value, expected) from None
    seconds = found if isinstance(found, int | float) else getattr(found, "total_seconds", lambda: None)()
    if isinstance(value, bool) or not isinstance(seconds, int | float) or not least <= seconds <= _LONGEST_SECONDS:
        raise InvalidArgument(where, value, expected)
    return float(seconds)


def _read_kind(fields: _Fields) -> Condition:
    kind = fields.take("kind")
    read = _KINDS.get(kind) if isinstance(kind, str) else None
    if read is None:
        known = ", ".join(_KINDS)
        if kind is None:
            raise InvalidArgument(fields.where, Unquoted("an object without a kind"), f"{_EXPECTED}; kinds are {known}")
        raise fields.refuse("kind", kind, f"one of {known}")
    found = read(fields)
    fields.end(kind)
    return found


def _document_state(fields: _Fields) -> Condition:
    key = FactKey(*fields.target(), "state")
    if fields.has("states"):
        return FieldValue(fields.where, key, "", "in", list(fields.texts("states")))
    return FieldValue(fields.where, key, "", "eq", fields.text("state"))


def _field_value(fields: _Fields) -> Condition:
    key = FactKey(*fields.target(), fields.name("field"))
    pointer = fields.pointer()
    return FieldValue(fields.where, key, pointer, *_comparison(fields))


def _comparison(fields: _Fields) -> tuple[str, Any]:
    """Return how to compare, and with what."""
    operator = fields.take("op", "eq")
    if operator not in OPERATORS:
        raise fields.refuse("op", operator, f"one of {', '.join(OPERATORS)}")
    if operator != "exists" and "value" not in fields.given:
        raise fields.refuse("value", None, "there: what is to be compared with")
    wanted = fields.take("value", True)  # noqa: FBT003 - any JSON
    if operator in {"in", "not_in"} and (not isinstance(wanted, list) or not 1 <= len(wanted) <= MAX_VALUES):
        raise fields.refuse("value", wanted, f"a list of 1 to {MAX_VALUES} values")
    if operator in {"lt", "lte", "gt", "gte"} and (
        isinstance(wanted, bool) or not isinstance(wanted, int | float | str)
    ):
        raise fields.refuse("value", wanted, "a number or a text")
    if operator == "exists" and not isinstance(wanted, bool):
        raise fields.refuse("value", wanted, "true or false")
    return operator, wanted


def _approval_complete(fields: _Fields) -> Condition:
    target = fields.target()
    approvers = fields.texts("approvers") if fields.has("approvers") else None
    if approvers is not None and any("*" in name for name in approvers):
        raise fields.refuse("approvers", list(approvers), "a list of names without *")
    fields.take("approvers")
    most = MAX_VALUES if approvers is None else len(approvers)
    required = fields.whole("required", 1 if approvers is None else most, least=1, most=most)
    return ApprovalComplete(fields.where, *target, required, approvers)


def _user_action(fields: _Fields) -> Condition:
    target, action = fields.target(), fields.name("action")
    user = fields.name("user") if fields.has("user") else None
    fields.take("user")
    return UserAction(fields.where, *target, action, user)


def _time_elapsed(fields: _Fields) -> Condition:
    seconds = fields.seconds("duration" if "duration" in fields.given else "seconds")
    since = fields.take("since", "created_at")
    if since == "created_at":
        return TimeElapsed(fields.where, seconds, None)
    if isinstance(since, dict):
        inside = _Fields(since, f"{fields.where}.since")
        key = FactKey(*inside.target(), inside.name("field"))
        inside.end("time_elapsed")
        return TimeElapsed(fields.where, seconds, key)
    try:
        instant = datetime.fromisoformat(since)
    except (TypeError, ValueError):
        instant = None
    if instant is None or instant.utcoffset() is None:
        expected = (
            '"created_at", an ISO 8601 instant with its offset, or the fact that changed: {"target": …, "field": …}'
        )
        raise fields.refuse("since", since, expected)
    return TimeElapsed(fields.where, seconds, instant)


def _action_status(fields: _Fields) -> Condition:
    action_id = fields.uuid("action_id")
    statuses = fields.take("status", "completed")
    wanted = [statuses] if isinstance(statuses, str) else statuses
    allowed = sorted(FINISHED)
    if not isinstance(wanted, list) or not wanted or not all(one in allowed for one in wanted):
        raise fields.refuse("status", statuses, f"one of {', '.join(allowed)}, or a list of these")
    return ActionStatus(fields.where, action_id, tuple(dict.fromkeys(wanted)))


def _deadline_open(fields: _Fields) -> Condition:
    deadline_id, or_missed = fields.uuid("deadline_id"), fields.take("or_missed", default=False)
    if not isinstance(or_missed, bool):
        raise fields.refuse("or_missed", or_missed, "true or false")
    return DeadlineOpen(fields.where, deadline_id, or_missed)


def _query(fields: _Fields) -> Condition:
    name, parameters = fields.text("name"), _parameters(fields)
    if not any(isinstance(one, dict | list) for one in parameters.values()):
        operator, wanted = _comparison(fields) if {"op", "value"} & fields.given.keys() else (None, None)
        return _outside(fields, "query", {"name": name, "parameters": parameters, "op": operator, "value": wanted})
    raise fields.refuse("parameters", parameters, "texts, numbers, truth values and nulls")


def _http(fields: _Fields) -> Condition:
    url = fields.take("url")
    if not isinstance(url, str) or not 1 <= len(url) <= _LONGEST_URL:
        raise fields.refuse("url", Unquoted("what is given"), "an address such as https://api.example.com/orders/42")
    given = fields.take("status", 200)
    statuses = [given] if isinstance(given, int) else given
    is_list = isinstance(statuses, list) and 1 <= len(statuses) <= MAX_VALUES
    if not is_list or not all(type(one) is int and 100 <= one <= 599 for one in statuses):  # noqa: PLR2004 - statuses
        raise fields.refuse("status", given, "an HTTP status, or a list of them")
    pointer = fields.pointer()
    is_judged = bool({"op", "value", "pointer"} & fields.given.keys())
    operator, wanted = _comparison(fields) if is_judged else (None, None)
    reach = fields.take("reach")
    if reach not in {None, PUBLIC}:
        raise fields.refuse("reach", reach, f'"{PUBLIC}", or left out')
    asked = {"url": url, "status": statuses, "pointer": pointer, "op": operator, "value": wanted}
    return _outside(fields, "http", asked if reach is None else {**asked, "reach": reach})


#: `reach` of an HTTP condition that asks only the public internet, whatever the settings allow.
PUBLIC = "public"


def with_public_reach(condition: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a condition, or one that waits, whose HTTP requests go only to the public internet.

    Args:
        condition: JSON that `read_condition` or `plan_of` takes.
    """
    match condition:
        case {"wait": inside}:
            return {**condition, "wait": with_public_reach(inside)}
        case {"all": list(parts)}:
            return {"all": [with_public_reach(one) for one in parts]}
        case {"any": list(parts)}:
            return {"any": [with_public_reach(one) for one in parts]}
        case {"not": inside}:
            return {"not": with_public_reach(inside)}
        case {"kind": "http"}:
            return {**condition, "reach": PUBLIC}
        case _:
            return condition


_LONGEST_URL = 2048


def _custom(fields: _Fields) -> Condition:
    return _outside(fields, "custom", {"name": fields.text("name"), "parameters": _parameters(fields)})


def _parameters(fields: _Fields) -> dict[str, Any]:
    parameters = fields.take("parameters", {})
    if not isinstance(parameters, dict):
        raise fields.refuse("parameters", parameters, "a JSON object")
    return parameters


def _outside(fields: _Fields, kind: str, given: dict[str, Any]) -> AskOutside:
    return AskOutside(fields.where, Outside(kind, json.dumps(given, sort_keys=True)))


_KINDS: dict[str, Callable[[_Fields], Condition]] = {
    "document_state": _document_state,
    "field_value": _field_value,
    "approval_complete": _approval_complete,
    "user_action": _user_action,
    "time_elapsed": _time_elapsed,
    "action_status": _action_status,
    "deadline_open": _deadline_open,
    "query": _query,
    "http": _http,
    "custom": _custom,
}
KINDS = tuple(_KINDS)
