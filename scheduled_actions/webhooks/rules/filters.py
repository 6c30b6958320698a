"""Validate and evaluate filters, which select events by content after a pattern of the endpoint has matched.

A filter is a JSON object. Its names are paths into the delivered body, and its values are conditions:

    {"data.record.state": "done", "data.record.amount": {"$gte": 100}, "$or": [{"team_id": "a"}, {"team_id": "b"}]}

All conditions must be true. A list as a value means `$in`. There are no regular expressions and no code, so the time
depends only on the lengths of the filter and of the values that it reads.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget
from scheduled_actions.core.json_comparison import MISSING, OPERATORS, Comparison, ends_with, starts_with

#: The longest filter, in characters of its JSON.
LENGTH_LIMIT = 4096
#: Maximum number of evaluation steps of one filter for one body.
FILTER_STEPS = STEPS // 5
#: Items of a list, or characters of a string, that an operator processes per step.
_ITEMS_A_STEP = 32
#: Levels of nested filters.
DEPTH_LIMIT = 5
#: Maximum number of names in one object.
NAMES_LIMIT = 50
#: Maximum number of filters in one list.
LIST_LIMIT = 20
#: Maximum number of values in one `$in` or `$nin`.
VALUES_LIMIT = 100


def check(given: object) -> Mapping[str, Any] | None:
    """Validate a filter and return it; return None for an empty filter, which accepts every event.

    Raises:
        InvalidArgument: The filter is invalid; the message contains the path of the invalid part.
    """
    if given is None or given == {}:
        return None
    if not isinstance(given, Mapping):
        raise InvalidArgument("filter", problem='must be a JSON object such as {"data.record.state": "done"}')
    try:
        length = len(json.dumps(given, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        raise InvalidArgument(
            "filter",
            problem="must contain JSON values only: objects, lists, strings, finite numbers, true, false or null",
        ) from None
    if length > LENGTH_LIMIT:
        raise InvalidArgument("filter", problem=f"has {length:,} characters of JSON; the limit is {LENGTH_LIMIT:,}")
    _check_filter(given, "filter", DEPTH_LIMIT)
    return given


def fits(body: Mapping[str, Any], wanted: Mapping[str, Any] | None, budget: EvaluationBudget) -> bool:
    """Return whether a body passes a validated filter.

    Args:
        body: The delivered body.
        wanted: The filter; None accepts every body.
        budget: One step is spent per condition, and more for lists and strings.

    Raises:
        BudgetExceeded: The evaluation takes more steps than the budget has.
    """
    return wanted is None or all(_holds(body, name, value, budget) for name, value in wanted.items())


def required_paths(wanted: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of a validated filter, except those only in conditions that an absent value can meet."""
    for name, value in wanted.items():
        match name:
            case "$and" | "$or":
                for nested in value:
                    yield from required_paths(nested)
            case "$not":
                pass
            case _ if not _operations(value).keys() <= {"$exists", "$ne", "$nin"}:
                yield name


def has_path(body: Mapping[str, Any], path: str) -> bool:
    """Return whether a body has a value at a path; null is a value."""
    return _at(body, path) is not MISSING


def paths_of(body: Mapping[str, Any], *, levels: int = DEPTH_LIMIT) -> Iterator[str]:
    """Yield the paths into the objects of a body, at most `levels` deep."""
    for name, value in body.items():
        yield name
        if levels > 1 and isinstance(value, Mapping):
            yield from (f"{name}.{path}" for path in paths_of(value, levels=levels - 1))


def _holds(body: Mapping[str, Any], name: str, value: Any, budget: EvaluationBudget) -> bool:  # noqa: ANN401 - any JSON
    budget.spend()
    match name:
        case "$and":
            return all(fits(body, nested, budget) for nested in value)
        case "$or":
            return any(fits(body, nested, budget) for nested in value)
        case "$not":
            return not fits(body, value, budget)
        case _:
            return _meets(_at(body, name), value, budget)


def _meets(found: Any, value: Any, budget: EvaluationBudget) -> bool:  # noqa: ANN401 - any JSON, or MISSING
    if isinstance(value, Mapping) and isinstance(found, list | str):
        budget.spend(len(value) * (1 + len(found) // _ITEMS_A_STEP))
    return all(_OPERATORS[operator][0](found, operand) for operator, operand in _operations(value).items())


def _operations(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - any JSON
    """Return the operators and operands of a condition; a list is the operand of `$in`, a scalar that of `$eq`."""
    if isinstance(value, Mapping):
        return value
    return {"$in" if isinstance(value, list) else "$eq": value}


def _at(body: Mapping[str, Any], path: str) -> Any:  # noqa: ANN401 - any JSON, or MISSING
    found: Any = body
    for step in path.split("."):
        if isinstance(found, Mapping):
            found = found.get(step, MISSING)
        elif isinstance(found, list) and step.isdecimal() and int(step[:9]) < len(found):
            found = found[int(step[:9])]
        else:
            return MISSING
    return found


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _is_value_list(value: object) -> bool:
    return isinstance(value, list) and len(value) <= VALUES_LIMIT and all(map(_is_scalar, value))


_SCALAR = "a string, a number, true, false or null"
_VALUE_LIST = f"a list of at most {VALUES_LIMIT} strings, numbers, true, false or null"
#: By operator: the comparison, the check of the operand, and what the operand must be.
_OPERATORS: dict[str, tuple[Comparison, Callable[[object], bool], str]] = {
    "$eq": (OPERATORS["eq"], _is_scalar, _SCALAR),
    "$ne": (OPERATORS["ne"], _is_scalar, _SCALAR),
    "$in": (OPERATORS["in"], _is_value_list, _VALUE_LIST),
    "$nin": (OPERATORS["not_in"], _is_value_list, _VALUE_LIST),
    "$gt": (OPERATORS["gt"], _is_scalar, _SCALAR),
    "$gte": (OPERATORS["gte"], _is_scalar, _SCALAR),
    "$lt": (OPERATORS["lt"], _is_scalar, _SCALAR),
    "$lte": (OPERATORS["lte"], _is_scalar, _SCALAR),
    "$exists": (OPERATORS["exists"], lambda value: isinstance(value, bool), "true or false"),
    "$starts_with": (starts_with, lambda value: isinstance(value, str), "a string"),
    "$ends_with": (ends_with, lambda value: isinstance(value, str), "a string"),
    "$contains": (OPERATORS["contains"], _is_scalar, _SCALAR),
}


def _check_filter(given: object, where: str, levels_left: int) -> None:
    if not isinstance(given, Mapping):
        raise InvalidArgument(where, problem='must be a filter: a JSON object such as {"data.record.state": "done"}')
    if levels_left == 0:
        raise InvalidArgument(where, problem=f"is nested deeper than {DEPTH_LIMIT} levels")
    if len(given) > NAMES_LIMIT:
        raise InvalidArgument(where, problem=f"has {len(given)} names; the limit is {NAMES_LIMIT}")
    for name, value in given.items():
        place = f"{where}.{name}"[:200]
        if name in {"$and", "$or"}:
            if not isinstance(value, list) or not 1 <= len(value) <= LIST_LIMIT:
                raise InvalidArgument(place, problem=f"must be a list of 1 to {LIST_LIMIT} filters")
            for number, nested in enumerate(value):
                _check_filter(nested, f"{place}[{number}]", levels_left - 1)
        elif name == "$not":
            _check_filter(value, place, levels_left - 1)
        elif not isinstance(name, str) or not name or name.startswith("$"):
            raise InvalidArgument(where, name, "a path such as data.record.state, or one of $and, $or, $not")
        else:
            _check_condition(value, place)


def _check_condition(value: object, place: str) -> None:
    for operator, operand in _operations(value).items():
        if operator not in _OPERATORS:
            raise InvalidArgument(place, operator, f"one of {', '.join(_OPERATORS)}; write nested paths with dots")
        _, is_valid, expected = _OPERATORS[operator]
        if not is_valid(operand):
            where = f"{place}.{operator}" if isinstance(value, Mapping) else place
            invalid = [
                f"{where}[{number}]"
                for number, one in enumerate(
                    operand if is_valid is _is_value_list and isinstance(operand, list) else ()
                )
                if not _is_scalar(one)
            ]
            raise InvalidArgument((invalid or [where])[0], problem=f"must be {_SCALAR if invalid else expected}")
