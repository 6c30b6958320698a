"""Compare JSON values, and find values by JSON pointer (RFC 6901)."""

import re
from collections.abc import Callable
from typing import Any, TypeAlias

Comparison: TypeAlias = Callable[[Any, Any], bool]

#: The result for a JSON pointer that selects no value.
MISSING = object()

_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")


def is_pointer(text: str) -> bool:
    """Return whether a string is a JSON pointer; the empty pointer selects the whole document."""
    return _POINTER.fullmatch(text) is not None


def resolve_pointer(pointer: str, value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return the value that a JSON pointer selects; `MISSING` if it selects none."""
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and _INDEX.fullmatch(key) and int(key) < len(value):
            value = value[int(key)]
        else:
            return MISSING
    return value


def equals(value: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON
    """Return whether two JSON values are equal. True does not equal 1, except inside lists and objects."""
    return isinstance(value, bool) is isinstance(wanted, bool) and bool(value == wanted)


def contains(value: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON
    """Return whether a list contains an item, or a string a substring; false for any other pair."""
    is_part = isinstance(value, str) and isinstance(wanted, str) and wanted in value
    return is_part or (isinstance(value, list) and any(equals(one, wanted) for one in value))


def starts_with(value: Any, wanted: str) -> bool:  # noqa: ANN401 - any JSON
    """Return whether a value is a string that starts with another."""
    return isinstance(value, str) and value.startswith(wanted)


def ends_with(value: Any, wanted: str) -> bool:  # noqa: ANN401 - any JSON
    """Return whether a value is a string that ends with another."""
    return isinstance(value, str) and value.endswith(wanted)


def _ordered(compare: Comparison) -> Comparison:
    """Return a comparison of two numbers or two strings; false for any other pair."""
    return lambda value, wanted: _is_comparable(value, wanted) and compare(value, wanted)


def _is_comparable(value: object, wanted: object) -> bool:
    return (isinstance(value, str) and isinstance(wanted, str)) or all(
        isinstance(one, int | float) and not isinstance(one, bool) for one in (value, wanted)
    )


#: Comparisons by the name of the operator in conditions; webhook filters add the prefix `$` to the name.
OPERATORS: dict[str, Comparison] = {
    "eq": equals,
    "ne": lambda value, wanted: not equals(value, wanted),
    "lt": _ordered(lambda value, wanted: value < wanted),
    "lte": _ordered(lambda value, wanted: value <= wanted),
    "gt": _ordered(lambda value, wanted: value > wanted),
    "gte": _ordered(lambda value, wanted: value >= wanted),
    "in": lambda value, wanted: any(equals(value, one) for one in wanted),
    "not_in": lambda value, wanted: not any(equals(value, one) for one in wanted),
    "contains": contains,
    "exists": lambda value, wanted: (value is not MISSING) is wanted,
}
