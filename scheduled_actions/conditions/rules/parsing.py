"""Parse the JSON of a condition; each error contains the path of the invalid part."""

import json
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from scheduled_actions.conditions.model import Condition, ExternalCheck, FactKey
from scheduled_actions.conditions.rules.kinds import (
    ActionStatus,
    AllOf,
    AnyOf,
    ApprovalComplete,
    DeadlineOpen,
    ExternalCondition,
    FieldValue,
    Not,
    TimeElapsed,
    UserAction,
)
from scheduled_actions.core.action import FINISHED
from scheduled_actions.core.durations import parse_duration
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.errors.families import short
from scheduled_actions.core.json_comparison import OPERATORS, is_pointer
from scheduled_actions.core.messages import did_you_mean
from scheduled_actions.core.stored_values import parse_uuid

#: Maximum nesting depth of combinations.
MAX_DEPTH = 10
#: Maximum number of conditions and combinations in total.
MAX_PARTS = 100
#: Maximum number of values or names in one list.
MAX_VALUES = 100
#: `reach` of an HTTP condition that may request only public addresses, whatever the settings allow.
PUBLIC = "public"
_TEXT_MOST = 255
_URL_MOST = 2048
_SECONDS_MOST = 100 * 366 * 86400.0
_COMBINATIONS = ("all", "any", "not")
_EXPECTED = 'a condition: {"kind": …}, {"all": […]}, {"any": […]} or {"not": {…}}'


def parse_condition(given: Any, *, name: str = "condition") -> Condition:  # noqa: ANN401 - any JSON
    """Parse a condition from decoded JSON.

    Args:
        given: `{"all": […]}`, `{"any": […]}`, `{"not": {…}}` or `{"kind": …, …}`.
        name: The argument's name, for errors.

    Raises:
        InvalidArgument: The value is not a condition, or exceeds `MAX_DEPTH` or `MAX_PARTS`; the message contains the
            path.
    """
    return _parse(given, name, MAX_DEPTH, iter(range(MAX_PARTS)))


def _parse(given: Any, where: str, levels: int, parts: Iterator[int]) -> Condition:  # noqa: ANN401 - any JSON
    """Parse a part of a condition.

    Args:
        given: The part, decoded from JSON.
        where: The path of the part, for errors.
        levels: The number of levels that may still be nested.
        parts: Yields once for each part that is still allowed in the whole condition.
    """
    if next(parts, None) is None:
        raise InvalidArgument(where, problem=f"exceeds the limit of {MAX_PARTS} conditions in total")
    if not levels:
        raise InvalidArgument(where, problem=f"is nested deeper than {MAX_DEPTH} levels")
    if not isinstance(given, dict):
        raise InvalidArgument(where, problem=f"is {_json_type(given)}, not {_EXPECTED}")
    if given.keys().isdisjoint(_COMBINATIONS):
        return _parse_kind(_Fields(given, where))
    combination = next(one for one in _COMBINATIONS if one in given)
    if len(given) > 1:
        raise InvalidArgument(
            f"{where}.{min(given.keys() - {combination}, key=str)}",
            problem=f'cannot be combined with "{combination}": move it inside',
        )
    inside, path = given[combination], f"{where}.{combination}"
    if combination == "not":
        return Not(where, (_parse(inside, path, levels - 1, parts),), inside)
    if not isinstance(inside, list) or not inside:
        raise InvalidArgument(path, problem=f"is {_json_type(inside)}, not a list of one or more conditions")
    children = tuple(_parse(one, f"{path}.{number}", levels - 1, parts) for number, one in enumerate(inside))
    return AllOf(where, children) if combination == "all" else AnyOf(where, children)


def _json_type(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return "an empty list" if value == [] else names.get(type(value), "a number")


class _FieldRule(NamedTuple):
    """The values that a field accepts, and its default."""

    is_valid: Callable[[Any], bool]
    #: Shown in errors.
    expected: str
    default: Any = None


@dataclass(slots=True)
class _Fields:
    """The fields of one condition."""

    given: Mapping[str, Any]
    #: The path of the condition, for errors.
    where: str

    def check_names(self, kind: str, names: frozenset[str]) -> None:
        """Check that every given field is a field of the kind.

        Raises:
            InvalidArgument: A field is unknown.
        """
        if not self.given.keys() <= names:
            name = min(self.given.keys() - names, key=str)
            hint = did_you_mean(str(name), names, otherwise=f"the fields are {', '.join(sorted(names))}")
            raise InvalidArgument(f"{self.where}.{name}", problem=f'is not a field of kind "{kind}"; {hint}')

    def invalid(self, name: str, value: object, expected: str) -> InvalidArgument:
        """Return the error for a missing field, or for the invalid value of a field."""
        if name not in self.given:
            return InvalidArgument(f"{self.where}.{name}", problem=f"is missing: it must be {expected}")
        return InvalidArgument(f"{self.where}.{name}", value, expected)

    def take(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - any JSON
        """Return the value of a field, any JSON."""
        return self.given.get(name, default)

    def read(self, name: str, rule: _FieldRule) -> Any:  # noqa: ANN401 - any JSON
        """Check the value of a field by a rule, and return it."""
        value = self.given.get(name, rule.default)
        if not rule.is_valid(value):
            raise self.invalid(name, value, rule.expected)
        return value

    def read_optional(self, name: str, rule: _FieldRule) -> Any:  # noqa: ANN401 - any JSON
        """Check the value of a field by a rule, and return it; None if it is missing or null."""
        return None if self.take(name) is None else self.read(name, rule)

    def name(self, name: str) -> str:
        """Return a field that is a name; a `*` is rejected, because it would select several facts."""
        value = str(self.read(name, _TEXT))
        if "*" in value:
            raise self.invalid(name, value, "a name without *")
        return value

    def target(self) -> tuple[str, str]:
        """Return the type and the id of the target."""
        value = self.read("target", _TARGET)
        return value["type"], value["id"]

    def fact(self) -> FactKey:
        """Return the key of the fact that `target` and `field` name."""
        return FactKey(*self.target(), self.name("field"))

    def comparison(self) -> tuple[str, Any]:
        """Return the operator and the value to compare with."""
        operator = self.read("op", _OPERATOR)
        if operator != "exists" and "value" not in self.given:
            raise InvalidArgument(f"{self.where}.value", problem=f'is missing: the operator "{operator}" requires it')
        return operator, self.read("value", _OPERANDS.get(operator, _ANY_JSON))

    def optional_comparison(self, *names: str) -> dict[str, Any]:
        """Return `op` and `value`; both are None if neither these nor the named fields are given."""
        is_compared = not self.given.keys().isdisjoint({"op", "value", *names})
        return dict(zip(("op", "value"), self.comparison() if is_compared else (None, None), strict=True))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= _TEXT_MOST


def _is_list(value: object) -> bool:
    return isinstance(value, list) and 1 <= len(value) <= MAX_VALUES


def _is_one_or_more(value: object, allowed: Container[object]) -> bool:
    """Return whether a value is one of the allowed values, or a list of one or more of them."""
    values = value if isinstance(value, list) else [value]
    return 1 <= len(values) <= MAX_VALUES and all(type(one) in (str, int) and one in allowed for one in values)


_ANY_JSON = _FieldRule(lambda _: True, "any JSON")
_TEXT = _FieldRule(
    lambda value: _is_text(value) and value.isprintable(), f"a string of 1 to {_TEXT_MOST} printable characters"
)
_TEXTS = _FieldRule(
    lambda value: _is_list(value) and all(map(_is_text, value)),
    f"a list of 1 to {MAX_VALUES} strings of 1 to {_TEXT_MOST} characters",
)
_FLAG = _FieldRule(lambda value: isinstance(value, bool), "true or false", default=False)
_TARGET = _FieldRule(
    lambda value: (
        isinstance(value, dict)
        and len(value) == 2  # noqa: PLR2004 - these two
        and _is_text(value.get("type"))
        and _is_text(value.get("id"))
    ),
    f'a target such as {{"type": "invoice", "id": "42"}}, with two strings of 1 to {_TEXT_MOST} characters',
)
_POINTER = _FieldRule(
    lambda value: value == "" or (_is_text(value) and is_pointer(value)), 'a JSON pointer, such as "/total/amount"', ""
)
_ID = _FieldRule(lambda value: isinstance(value, str) and parse_uuid(value) is not None, "a UUID")
_PARAMETERS = _FieldRule(lambda value: isinstance(value, dict), "a JSON object", {})
_REACH = _FieldRule((None, PUBLIC).__contains__, f'"{PUBLIC}", the only accepted value')
_OPERATOR = _FieldRule(tuple(OPERATORS).__contains__, f"one of {', '.join(OPERATORS)}", "eq")
_FINISHED = sorted(FINISHED)
_ACTION_STATUS = _FieldRule(
    lambda value: _is_one_or_more(value, _FINISHED), f"one of {', '.join(_FINISHED)}, or a list of these", "completed"
)
_HTTP_STATUS = _FieldRule(
    lambda value: _is_one_or_more(value, range(100, 600)),
    "an HTTP status from 100 to 599, or a list of such statuses",
    200,
)
_ORDERED = _FieldRule(
    lambda value: isinstance(value, int | float | str) and not isinstance(value, bool), "a number or a string"
)
#: The values to compare with, for each operator that restricts them.
_OPERANDS = {
    **dict.fromkeys(("in", "not_in"), _FieldRule(_is_list, f"a list of 1 to {MAX_VALUES} values")),
    **dict.fromkeys(("lt", "lte", "gt", "gte"), _ORDERED),
    "exists": _FLAG._replace(default=True),
}


def parse_seconds(value: Any, where: str, *, least: float = 0) -> float:  # noqa: ANN401 - any JSON
    """Convert a number of seconds, or a duration such as "PT5M" or "24h", to seconds.

    Raises:
        InvalidArgument: The value is neither, or is below `least` or above a hundred years.
    """
    try:
        seconds = parse_duration(value).total_seconds() if isinstance(value, str) else value
    except InvalidArgument:
        seconds = None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not least <= seconds <= _SECONDS_MOST:
        raise InvalidArgument(
            where,
            problem=f"({short(value)}) must be a number of seconds, at least {least:g} and at most a hundred years, or "
            'a duration such as "PT5M" or "24h"',
        )
    return float(seconds)


def _parse_kind(fields: _Fields) -> Condition:
    kind = fields.take("kind")
    known_kind = _KINDS.get(kind) if isinstance(kind, str) else None
    if known_kind is None:
        known = ", ".join(_KINDS)
        if kind is None:
            raise InvalidArgument(fields.where, problem=f'has none of "kind", "all", "any" and "not"; kinds: {known}')
        raise fields.invalid("kind", kind, f"one of {known}")
    parse, names = known_kind
    fields.check_names(kind, names)
    return parse(fields)


def _document_state(fields: _Fields) -> Condition:
    key = FactKey(*fields.target(), "state")
    states = fields.read_optional("states", _TEXTS)
    if states is not None:
        return FieldValue(fields.where, key, "", "in", list(dict.fromkeys(states)))
    if "state" not in fields.given:
        raise InvalidArgument(fields.where, problem='has neither "state" nor "states"')
    return FieldValue(fields.where, key, "", "eq", fields.read("state", _TEXT))


def _approval_complete(fields: _Fields) -> Condition:
    given = fields.read_optional("approvers", _TEXTS)
    approvers = None if given is None else tuple(dict.fromkeys(given))
    if approvers is not None and any("*" in name for name in approvers):
        raise fields.invalid("approvers", list(approvers), "a list of names without *")
    default, most = (1, MAX_VALUES) if approvers is None else (len(approvers), len(approvers))
    is_count = _FieldRule(
        lambda value: type(value) is int and 1 <= value <= most, f"an integer from 1 to {most:,}", default
    )
    return ApprovalComplete(fields.where, fields.target(), fields.read("required", is_count), approvers)


def _user_action(fields: _Fields) -> Condition:
    return UserAction(
        fields.where,
        fields.target(),
        fields.name("action"),
        None if fields.take("user") is None else fields.name("user"),
    )


def _time_elapsed(fields: _Fields) -> Condition:
    if fields.given.keys().isdisjoint(("duration", "seconds")):
        raise InvalidArgument(fields.where, problem='has neither "duration" nor "seconds"')
    name = "duration" if "duration" in fields.given else "seconds"
    return TimeElapsed(
        fields.where,
        parse_seconds(fields.take(name), f"{fields.where}.{name}"),
        _since(fields, fields.take("since", "created_at")),
    )


def _since(fields: _Fields, given: Any) -> datetime | FactKey | None:  # noqa: ANN401 - any JSON
    """Return the instant or the fact from which the time counts; None for the creation of the action."""
    if given == "created_at":
        return None
    if isinstance(given, dict):
        inside = _Fields(given, f"{fields.where}.since")
        inside.check_names("time_elapsed", _FACT_FIELDS)
        return inside.fact()
    from scheduled_actions.core.checks import check_instant  # noqa: PLC0415 - an idle tick does without

    try:
        return check_instant("since", given)
    except InvalidArgument as error:
        raise fields.invalid(
            "since", given, f'"created_at", a fact {{"target": …, "field": …}}, or {error.expected}'
        ) from None


def _action_status(fields: _Fields) -> Condition:
    action_id, status = UUID(fields.read("action_id", _ID)), fields.read("status", _ACTION_STATUS)
    return ActionStatus(fields.where, action_id, tuple(dict.fromkeys(status if isinstance(status, list) else [status])))


def _query(fields: _Fields) -> Condition:
    name, parameters = fields.read("name", _TEXT), fields.read("parameters", _PARAMETERS)
    if any(isinstance(one, dict | list) for one in parameters.values()):
        raise fields.invalid("parameters", parameters, "an object of strings, numbers, booleans and nulls")
    return _external(fields, "query", name=name, parameters=parameters, **fields.optional_comparison())


def _http(fields: _Fields) -> Condition:
    url = fields.take("url")
    if not isinstance(url, str) or not 1 <= len(url) <= _URL_MOST:
        raise InvalidArgument(
            f"{fields.where}.url",
            problem=f"is not a URL of at most {_URL_MOST:,} characters, such as https://api.example.com/orders/42",
        )
    status, reach = fields.read("status", _HTTP_STATUS), fields.read("reach", _REACH)
    return _external(
        fields,
        "http",
        url=url,
        status=status if isinstance(status, list) else [status],
        pointer=fields.read("pointer", _POINTER),
        **fields.optional_comparison("pointer"),
        **({} if reach is None else {"reach": reach}),
    )


def _external(fields: _Fields, kind: str, /, **parameters: Any) -> Condition:  # noqa: ANN401 - any JSON
    return ExternalCondition(fields.where, ExternalCheck(kind, json.dumps(parameters, sort_keys=True)))


def restrict_to_public(condition: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a condition, or a wait for one, with every HTTP request restricted to public addresses.

    Args:
        condition: JSON that `encode_plan` accepts.
    """
    match condition:
        case {"wait": inside}:
            return {**condition, "wait": restrict_to_public(inside)}
        case {"all": list(parts)}:
            return {"all": [restrict_to_public(one) for one in parts]}
        case {"any": list(parts)}:
            return {"any": [restrict_to_public(one) for one in parts]}
        case {"not": inside}:
            return {"not": restrict_to_public(inside)}
        case {"kind": "http"}:
            return {**condition, "reach": PUBLIC}
        case _:
            return condition


def _kind(parse: Callable[[_Fields], Condition], *names: str) -> tuple[Callable[[_Fields], Condition], frozenset[str]]:
    """Return the function that parses a kind of condition, and the names of its fields."""
    return parse, frozenset({"kind", *names})


_FACT_FIELDS = frozenset({"target", "field"})
_KINDS = {
    "document_state": _kind(_document_state, "target", "state", "states"),
    "field_value": _kind(
        lambda fields: FieldValue(fields.where, fields.fact(), fields.read("pointer", _POINTER), *fields.comparison()),
        "target", "field", "pointer", "op", "value",
    ),
    "approval_complete": _kind(_approval_complete, "target", "approvers", "required"),
    "user_action": _kind(_user_action, "target", "action", "user"),
    "time_elapsed": _kind(_time_elapsed, "duration", "seconds", "since"),
    "action_status": _kind(_action_status, "action_id", "status"),
    "deadline_open": _kind(
        lambda fields: DeadlineOpen(
            fields.where, UUID(fields.read("deadline_id", _ID)), fields.read("or_missed", _FLAG)
        ),
        "deadline_id", "or_missed",
    ),
    "query": _kind(_query, "name", "parameters", "op", "value"),
    "http": _kind(_http, "url", "status", "reach", "pointer", "op", "value"),
    "custom": _kind(
        lambda fields: _external(
            fields, "custom", name=fields.read("name", _TEXT), parameters=fields.read("parameters", _PARAMETERS)
        ),
        "name", "parameters",
    ),
}  # fmt: skip
