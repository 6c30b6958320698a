"""Filters: which of the events that match an endpoint's patterns it really wants, by what they say.

A filter is a JSON object whose names are paths into the delivered body and whose values say what must stand there:

    {"data.record.state": "done", "data.record.amount": {"$gte": 100}, "$or": [{"team_id": "a"}, {"team_id": "b"}]}

Everything named must fit. A list as a value is one of its members (`$in`). There is no regular expression and nothing
that is evaluated, so a filter takes time in proportion to its own length.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget

if TYPE_CHECKING:
    from collections.abc import Callable

#: The longest filter, in characters of its JSON.
LENGTH_LIMIT = 4096
#: The most steps that one filter may take for one body.
FILTER_STEPS = STEPS // 5
#: Items of a list, or characters of a text, that an operator goes through in one step.
_ITEMS_A_STEP = 32
#: Filters inside one another, at most.
DEPTH_LIMIT = 5
#: Names of one object, at most.
NAMES_LIMIT = 50
#: Filters in one list, at most.
LIST_LIMIT = 20
#: Values that one path is compared with, at most.
VALUES_LIMIT = 100

_MISSING = object()


def check(given: object) -> Mapping[str, Any] | None:
    """Return the filter; None for one that lets everything through.

    Raises:
        InvalidArgument: It is none; the message names the place.
    """
    if given is None or given == {}:
        return None
    if not isinstance(given, Mapping):
        raise _unfit("filter", "no object", 'a JSON object such as {"data.record.state": "done"}')
    try:
        length = len(json.dumps(given, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise _unfit("filter", "no JSON", "a JSON object") from None
    if length > LENGTH_LIMIT:
        raise _unfit("filter", f"{length:,} characters", f"at most {LENGTH_LIMIT:,} characters of JSON")
    _check_filter(given, "filter", DEPTH_LIMIT)
    return given


def fits(body: Mapping[str, Any], wanted: Mapping[str, Any] | None, budget: EvaluationBudget | None = None) -> bool:
    """Return whether a body is one that the (checked) filter wants.

    Args:
        body: What is delivered.
        wanted: The filter; None wants everything.
        budget: Has a step for each comparison, and more where it goes through a list or a text; None: a new one.

    Raises:
        BudgetExceeded: The filter and the body together take too many steps.
    """
    if wanted is None:
        return True
    budget = budget or EvaluationBudget("the filter", steps=FILTER_STEPS)
    return all(_holds(body, name, value, budget) for name, value in wanted.items())


def _holds(body: Mapping[str, Any], name: str, value: Any, budget: EvaluationBudget) -> bool:  # noqa: ANN401 - any JSON
    budget.spend()
    match name:
        case "$and":
            return all(fits(body, one, budget) for one in value)
        case "$or":
            return any(fits(body, one, budget) for one in value)
        case "$not":
            return not fits(body, value, budget)
        case _:
            return _is_as(_at(body, name), value, budget)


def _is_as(found: Any, value: Any, budget: EvaluationBudget) -> bool:  # noqa: ANN401 - any JSON, or the lack of it
    if isinstance(value, Mapping):
        if isinstance(found, list | str):
            budget.spend(len(value) * (1 + len(found) // _ITEMS_A_STEP))
        return all(_OPERATORS[name](found, operand) for name, operand in value.items())
    if isinstance(value, list):
        return any(_equal(found, one) for one in value)
    return _equal(found, value)


def _at(body: Mapping[str, Any], path: str) -> Any:  # noqa: ANN401 - any JSON, or the lack of it
    found: Any = body
    for step in path.split("."):
        if isinstance(found, Mapping):
            found = found.get(step, _MISSING)
        elif isinstance(found, list) and step.isdecimal() and int(step[:9]) < len(found):
            found = found[int(step[:9])]
        else:
            return _MISSING
    return found


def _equal(found: Any, value: Any) -> bool:  # noqa: ANN401 - any JSON
    # True is no 1 in JSON.
    return isinstance(found, bool) == isinstance(value, bool) and bool(found == value)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return the comparison of two numbers, or of two texts; anything else does not compare."""

    def holds(found: Any, value: Any) -> bool:  # noqa: ANN401 - any JSON
        are_numbers = _is_number(found) and _is_number(value)
        return (are_numbers or (isinstance(found, str) and isinstance(value, str))) and compare(found, value)

    return holds


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _contains(found: Any, value: Any) -> bool:  # noqa: ANN401 - any JSON
    if isinstance(found, list):
        return any(_equal(one, value) for one in found)
    return isinstance(found, str) and isinstance(value, str) and value in found


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": _equal,
    "$ne": lambda found, value: not _equal(found, value),
    "$in": lambda found, values: any(_equal(found, one) for one in values),
    "$nin": lambda found, values: not any(_equal(found, one) for one in values),
    "$gt": _ordered(lambda found, value: found > value),
    "$gte": _ordered(lambda found, value: found >= value),
    "$lt": _ordered(lambda found, value: found < value),
    "$lte": _ordered(lambda found, value: found <= value),
    "$exists": lambda found, value: (found is not _MISSING) == value,
    "$starts_with": lambda found, value: isinstance(found, str) and found.startswith(value),
    "$ends_with": lambda found, value: isinstance(found, str) and found.endswith(value),
    "$contains": _contains,
}
_OF_LISTS = frozenset({"$in", "$nin"})
_OF_TEXTS = frozenset({"$starts_with", "$ends_with"})


def _check_filter(given: Mapping[Any, Any], where: str, room: int) -> None:
    if room == 0:
        raise _unfit(where, f"more than {DEPTH_LIMIT} filters inside one another", "one that is taken")
    if len(given) > NAMES_LIMIT:
        raise _unfit(where, f"{len(given)} names", f"at most {NAMES_LIMIT} names")
    for name, value in given.items():
        place = f"{where}.{name}"[:200]
        if name in {"$and", "$or"}:
            _check_filters(value, place, room)
        elif name == "$not":
            if not isinstance(value, Mapping):
                raise _unfit(place, "no filter", "a filter, as $not takes it")
            _check_filter(value, place, room - 1)
        elif not isinstance(name, str) or not name or name.startswith("$"):
            raise _unfit(where, name, "a path such as data.record.state, or one of $and, $or, $not")
        else:
            _check_condition(value, place)


def _check_filters(given: object, place: str, room: int) -> None:
    are_filters = isinstance(given, list) and all(isinstance(one, Mapping) for one in given)
    if not isinstance(given, list) or not are_filters or not 1 <= len(given) <= LIST_LIMIT:
        raise _unfit(place, "what is given", f"a list of 1 to {LIST_LIMIT} filters")
    for one in given:
        _check_filter(one, place, room - 1)


def _check_condition(value: object, place: str) -> None:
    if isinstance(value, list):
        _check_operand("$in", value, place)
    elif isinstance(value, Mapping):
        for operator, operand in value.items():
            if operator not in _OPERATORS:
                raise _unfit(place, operator, f"one of {', '.join(_OPERATORS)}; a path goes deeper with dots")
            _check_operand(operator, operand, f"{place}.{operator}")


def _check_operand(operator: str, operand: object, place: str) -> None:
    if operator in _OF_LISTS:
        if not isinstance(operand, list) or not all(map(_is_scalar, operand)):
            raise _unfit(place, "what is given", "a list of texts, numbers, true, false or null")
        if len(operand) > VALUES_LIMIT:
            raise _unfit(place, f"{len(operand)} values", f"at most {VALUES_LIMIT}")
    elif operator in _OF_TEXTS:
        if not isinstance(operand, str):
            raise _unfit(place, operand, "a text")
    elif operator == "$exists":
        if not isinstance(operand, bool):
            raise _unfit(place, operand, "true or false")
    elif not _is_scalar(operand):
        raise _unfit(place, "what is given", "a text, a number, true, false or null")


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _unfit(where: str, value: object, expected: str) -> InvalidArgument:
    return InvalidArgument(where, value, expected)
