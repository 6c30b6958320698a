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
    each a `Person`, a mapping of its fields, or an address. An empty result is an error. The resolver is called when a
    notification is planned, and again when it is sent; the second result is used. The function must not be `async`. The
    decorator returns it unchanged.

    Args:
        name: 1 to 100 letters, digits and `. _ -`, beginning with a letter or digit. A literal, because the registry is
            built from the source text of `handlers/`.

    Raises:
        InvalidArgument: The name is invalid.
    """
    return declare_function("recipients", name)
