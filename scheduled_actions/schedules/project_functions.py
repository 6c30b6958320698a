"""Functions of `handlers/` that recurrences call: which instant comes next, and which one is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from scheduled_actions.registry.project_functions import declaring

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

Next = TypeVar("Next", bound="Callable[[datetime], datetime | None]")
Skips = TypeVar("Skips", bound="Callable[[datetime], bool | str]")


def next_occurrence(name: str) -> Callable[[Next], Next]:
    """Declare a function the rule `name`: it answers the first instant strictly after the one it is given.

    The function takes an aware `datetime` in the schedule's time zone and returns an aware one, a naive one of that
    zone, or None when nothing comes any more. It is called whenever an occurrence is planned or previewed, on a thread
    of its own and within `function_timeout_seconds`: it should return at once, and the same for the same instant. Not
    `async def`. It is returned unchanged.

    Args:
        name: Letters, digits, `. _ -`. A literal, because the registry is built from the text of `handlers/`.

    Raises:
        InvalidArgument: The name is none.
    """
    return declaring("next", name)


def skip_occurrence(name: str) -> Callable[[Skips], Skips]:
    """Declare a function the skip test `name`: it says whether an occurrence is left out.

    The function takes the occurrence as an aware `datetime` in the schedule's time zone and returns False to keep it,
    True to leave it out, or the reason why as text. It is asked as a function of `next_occurrence` is.

    Args:
        name: Letters, digits, `. _ -`. A literal, because the registry is built from the text of `handlers/`.

    Raises:
        InvalidArgument: The name is none.
    """
    return declaring("skip", name)
