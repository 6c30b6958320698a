"""Validate stored values, which SQL may have written without any check.

An invalid value is replaced by its default, and the object's `problem` describes the first invalid value. Lists and
pages show such a row as invalid; most changes of an invalid deadline are refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

#: Maximum length of an invalid value in a message.
SHOWN = 40
_YEAR_SECONDS = 366 * 86400
#: Default upper bound of counts; far above any valid count.
_COUNT_MOST = 10**15


@dataclass(frozen=True, slots=True)
class ValueRule:
    """A predicate for values, its description, and the default that replaces invalid values."""

    holds: Callable[[Any], bool]
    expected: str
    default: Any = None


def parse_uuid(value: object) -> UUID | None:
    """Convert a string to a UUID, and return a UUID unchanged; return None for any other value."""
    try:
        return value if isinstance(value, UUID) else UUID(value) if isinstance(value, str) else None
    except ValueError:
        return None


def usable(values: Mapping[str, Any], rules: Mapping[str, ValueRule]) -> tuple[dict[str, Any], str | None]:
    """Replace invalid values with their defaults.

    Returns:
        A copy of the values with the replacements, and the first problem; None instead of a problem if all are valid.
    """
    found, problem = dict(values), None
    for name, rule in rules.items():
        if not rule.holds(found[name]):
            problem = problem or _problem_text(name, found[name], rule.expected)
            found[name] = rule.default
    return found, problem


def problem_of(stored: Any, rules: Mapping[str, ValueRule], *, required: frozenset[str]) -> str | None:  # noqa: ANN401 - any JSON
    """Return the first problem of a stored object; None if it is valid.

    The result is appended to the path of the object: `.at: 7 is not an instant`, or `: 7 is not an object`.

    Args:
        stored: The value to check.
        rules: The rule of each field.
        required: The fields that must be present; the other fields are checked only if they are present.
    """
    if not isinstance(stored, dict):
        return f": {_shown_value(stored)} is not an object"
    for name, rule in rules.items():
        if (name in stored or name in required) and not rule.holds(stored.get(name)):
            return f".{_problem_text(name, stored.get(name), rule.expected)}"
    return None


def _problem_text(name: str, value: object, expected: str) -> str:
    return f"{name}: {_shown_value(value)} is not {expected}"


def _shown_value(value: object) -> str:
    """Describe a value for a message; documents and long values only by their type."""
    if isinstance(value, dict | list | tuple):
        return "an object" if isinstance(value, dict) else "a list"
    text = value.isoformat() if isinstance(value, datetime) else repr(value)
    return text if len(text) <= SHOWN else f"a {type(value).__name__} of {len(text):,} characters"


def count_rule(
    least: int = 0, most: int = _COUNT_MOST, *, expected: str = "a count", default: int | None = 0
) -> ValueRule:
    """Return the rule for integers from `least` to `most`, both included."""
    return ValueRule(lambda value: type(value) is int and least <= value <= most, expected, default)


def or_null(rule: ValueRule) -> ValueRule:
    """Return a rule that also accepts null, which is its default."""
    return ValueRule(lambda value: value is None or rule.holds(value), rule.expected)


def one_of(choices: tuple[str, ...]) -> ValueRule:
    """Return a rule that accepts only these strings; invalid values become null."""
    return ValueRule(lambda value: isinstance(value, str) and value in choices, f"one of {', '.join(choices)}")


def seconds_rule(default: float) -> ValueRule:
    """Return the rule for durations from 0 to a year of 366 days, in seconds."""
    return ValueRule(
        lambda value: isinstance(value, int | float) and 0 <= value <= _YEAR_SECONDS,
        "a number of seconds between 0 and a year",
        default,
    )


def _is_instant(value: object) -> bool:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return moment is not None and moment.tzinfo is not None and moment.astimezone(UTC) is not None
    except (ValueError, OverflowError):
        return False


COUNT = count_rule()
OBJECT = ValueRule(lambda value: isinstance(value, dict), "an object", {})
OBJECT_OR_NULL = or_null(OBJECT)
TEXT = ValueRule(lambda value: isinstance(value, str) and bool(value), "a non-empty string")
TEXT_OR_NULL = ValueRule(lambda value: value is None or isinstance(value, str), "a string")
INSTANT = ValueRule(_is_instant, "an instant")
