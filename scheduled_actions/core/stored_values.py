"""Values of rows that SQL may have written, although no function of ours stores them: checked before they are used.

A value that cannot be used is replaced by its default, and `problem` of the object made of the row names the first one.
Lists and pages show such a row as broken; whatever would act on it refuses to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The longest part of a broken value that a message repeats.
SHOWN = 40
_YEAR_SECONDS = 366 * 86400
#: Far above what a row that we wrote can hold; one more still fits its column.
_COUNT_MOST = 10**15


@dataclass(frozen=True, slots=True)
class ValueRule:
    """What a value must be, in words, and what is used in place of one that is not."""

    holds: Callable[[Any], bool]
    expected: str
    default: Any = None


def usable(values: Mapping[str, Any], rules: Mapping[str, ValueRule]) -> tuple[dict[str, Any], str | None]:
    """Return the values, each one that breaks its rule replaced, and the first problem."""
    found, problem = dict(values), None
    for name, rule in rules.items():
        if not rule.holds(found[name]):
            problem = problem or _told(name, found[name], rule.expected)
            found[name] = rule.default
    return found, problem


def problem_of(stored: Any, rules: Mapping[str, ValueRule], *, required: frozenset[str]) -> str | None:  # noqa: ANN401 - any JSON
    """Return what is wrong with a stored object, beginning with the place inside it; None when nothing is."""
    if not isinstance(stored, dict):
        return f": {_word(stored)} is not an object"
    for name, rule in rules.items():
        if (name in stored or name in required) and not rule.holds(stored.get(name)):
            return f".{_told(name, stored.get(name), rule.expected)}"
    return None


def _told(name: str, value: object, expected: str) -> str:
    return f"{name}: {_word(value)} is not {expected}"


def _word(value: object) -> str:
    """Return a value as a message may repeat it; of a document and of a long text no more than its kind."""
    if isinstance(value, dict | list | tuple):
        return "an object" if isinstance(value, dict) else "a list"
    text = value.isoformat() if isinstance(value, datetime) else repr(value)
    return text if len(text) <= SHOWN else f"a {type(value).__name__} of {len(text):,} characters"


def count_rule(
    least: int = 0, most: int = _COUNT_MOST, *, expected: str = "a count", default: int | None = 0
) -> ValueRule:
    """Return the rule of whole numbers in a range."""
    return ValueRule(lambda value: type(value) is int and least <= value <= most, expected, default)


def or_null(rule: ValueRule) -> ValueRule:
    """Return a rule that takes null as well, which is then the default."""
    return ValueRule(lambda value: value is None or rule.holds(value), rule.expected)


def one_of(choices: tuple[str, ...]) -> ValueRule:
    """Return the rule of texts of which there are only these."""
    return ValueRule(lambda value: isinstance(value, str) and value in choices, f"one of {', '.join(choices)}")


def seconds_rule(default: float) -> ValueRule:
    """Return the rule of lengths of time of at most a year, in seconds."""
    return ValueRule(_is_seconds, "a number of seconds between 0 and a year", default)


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not math.isnan(value) and 0 <= value <= _YEAR_SECONDS


def _is_instant(value: object) -> bool:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return moment is not None and moment.tzinfo is not None and moment.astimezone(UTC) is not None
    except (ValueError, OverflowError):
        return False


COUNT = count_rule()
OBJECT = ValueRule(lambda value: isinstance(value, dict), "an object", {})
OBJECT_OR_NULL = or_null(OBJECT)
TEXT = ValueRule(lambda value: isinstance(value, str) and bool(value), "a text")
TEXT_OR_NULL = ValueRule(lambda value: value is None or isinstance(value, str), "a text")
INSTANT = ValueRule(_is_instant, "an instant")
