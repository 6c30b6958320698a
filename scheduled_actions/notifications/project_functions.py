"""Declare the functions in `handlers/` that resolve recipients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from scheduled_actions.registry.project_functions import declare_function

if TYPE_CHECKING:
    from scheduled_actions.notifications.rules.people import Person


Resolves = TypeVar("Resolves", bound="Callable[[str, str | None], Iterable[Person | str | Mapping[str, Any]]]")


def resolve_recipients(name: str) -> Callable[[Resolves], Resolves]:
    """Declare a resolver for the recipients `name:…`.

    For "role:cfo", the resolver `@resolve_recipients("role")` is called with `("cfo", team_id)`. It returns people:
    each a `Person`, a mapping of its fields, an address, or a recipient of another resolver. An empty result is an
    error. The resolver is called when a notification is planned, and again when it is sent; the second result is used.
    The function must not be `async def`. The decorator returns it unchanged.

    Args:
        name: 1 to 100 letters, digits, `.`, `_` or `-`, starting with a letter or a digit; must be a literal, because
            the registry is built from the source text of `handlers/`.

    Raises:
        InvalidArgument: The name is invalid.
    """
    return declare_function("recipients", name)
