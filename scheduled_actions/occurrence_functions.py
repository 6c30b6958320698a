"""Functions of `handlers/` that recurrences call: which instant comes next, and which one is left out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from scheduled_actions.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

#: Where the decorators leave what they declare on the function.
DECLARED_ATTRIBUTE = "__scheduled_actions_occurrences__"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,99}")

#: `next`: answers the next instant; `skip`: whether an occurrence is left out.
FunctionKind: TypeAlias = Literal["next", "skip"]

Next = TypeVar("Next", bound="Callable[[datetime], datetime | None]")
Skips = TypeVar("Skips", bound="Callable[[datetime], bool | str]")
_Function = TypeVar("_Function", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True)
class DeclaredFunction:
    """What a decorator declares."""

    kind: FunctionKind
    name: str

    @property
    def key(self) -> str:
        """What the registry calls it: `next:payday`."""
        return f"{self.kind}:{self.name}"


def next_occurrence(name: str) -> Callable[[Next], Next]:
    """Declare a function the rule `name`: it answers the first instant strictly after the one it is given.

    The function takes an aware `datetime` in the schedule's time zone and returns an aware one, a naive one of that
    zone, or None when nothing comes any more. It is asked whenever an occurrence is planned or previewed, outside any
    attempt and its timeout: it should answer at once, and the same for the same instant. Not `async def`. It is
    returned unchanged.

    Args:
        name: Letters, digits, `. _ -`. A literal, because the registry is built from the text of `handlers/`.

    Raises:
        InvalidArgument: The name is none.
    """
    return _declaring(DeclaredFunction("next", _checked(name)))


def skip_occurrence(name: str) -> Callable[[Skips], Skips]:
    """Declare a function the skip test `name`: it says whether an occurrence is left out.

    The function takes the occurrence as an aware `datetime` in the schedule's time zone and returns False to keep it,
    True to leave it out, or the reason why as text. It is asked as a function of `next_occurrence` is.

    Args:
        name: Letters, digits, `. _ -`. A literal, because the registry is built from the text of `handlers/`.

    Raises:
        InvalidArgument: The name is none.
    """
    return _declaring(DeclaredFunction("skip", _checked(name)))


def _checked(name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument("name", name, "the name of a function: letters, digits and . _ - only, at most 100")
    return name


def _declaring(declared: DeclaredFunction) -> Callable[[_Function], _Function]:
    def declare(function: _Function) -> _Function:
        setattr(function, DECLARED_ATTRIBUTE, declared)
        return function

    return declare
