"""Functions of `handlers/` that the package calls by name: what a decorator declares of one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from scheduled_actions.core.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable

#: Where the decorators leave what they declare on the function.
DECLARED_ATTRIBUTE = "__scheduled_actions_function__"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,99}")

#: `next`: answers the next instant; `skip`: whether an occurrence is left out; `recipients`: whom a notice reaches;
#: `condition`: whether a condition holds.
FunctionKind: TypeAlias = Literal["next", "skip", "recipients", "condition"]

Function = TypeVar("Function", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True)
class DeclaredFunction:
    """What a decorator declares."""

    kind: FunctionKind
    name: str

    @property
    def key(self) -> str:
        """What the registry calls it: `next:payday`."""
        return f"{self.kind}:{self.name}"


def declaring(kind: FunctionKind, name: str) -> Callable[[Function], Function]:
    """Return the decorator that declares a function of that kind and name, and returns it unchanged.

    Raises:
        InvalidArgument: The name is none.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument("name", name, "the name of a function: letters, digits and . _ - only, at most 100")
    declared = DeclaredFunction(kind, name)

    def declare(function: Function) -> Function:
        setattr(function, DECLARED_ATTRIBUTE, declared)
        return function

    return declare
