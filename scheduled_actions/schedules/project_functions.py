"""Decorators for functions of `handlers/` that rules call: custom recurrences and custom skip rules."""

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from scheduled_actions.registry.project_functions import declare_function

Next = TypeVar("Next", bound="Callable[[datetime], datetime | None]")
Skips = TypeVar("Skips", bound="Callable[[datetime], bool | str]")


def next_occurrence(name: str) -> Callable[[Next], Next]:
    """Declare a function as the rule `custom:NAME`; it returns the first instant strictly after its argument.

    The function takes an aware `datetime` in the schedule's time zone and returns an aware one, a naive one in that
    zone, or None if the rule has ended. It is called whenever an occurrence is planned or previewed, on a separate
    thread, and must return within `function_timeout_seconds`. It should return quickly, with the same result for the
    same argument, and must not be `async def`. The decorator returns it unchanged.

    Args:
        name: 1 to 100 letters, digits, `.`, `_` or `-`, starting with a letter or a digit. Must be a literal, because
            the registry is built from the source text of `handlers/`.

    Raises:
        InvalidArgument: The name is invalid.
    """
    return declare_function("next", name)


def skip_occurrence(name: str) -> Callable[[Skips], Skips]:
    """Declare a function as the skip rule `{"function": NAME}`; it returns whether to skip an occurrence.

    The function takes the occurrence as an aware `datetime` in the schedule's time zone and returns False to keep it,
    True to skip it, or the reason for skipping it as a non-empty string. The same rules apply as to a `next_occurrence`
    function.

    Args:
        name: 1 to 100 letters, digits, `.`, `_` or `-`, starting with a letter or a digit. Must be a literal, because
            the registry is built from the source text of `handlers/`.

    Raises:
        InvalidArgument: The name is invalid.
    """
    return declare_function("skip", name)
