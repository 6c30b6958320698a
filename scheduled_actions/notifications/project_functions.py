"""Functions of `handlers/` that say whom a notice reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from scheduled_actions.registry.project_functions import declaring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from scheduled_actions.notifications.rules.people import Person

Resolves = TypeVar("Resolves", bound="Callable[[str, str | None], Iterable[Person | str | Mapping[str, Any]]]")


def resolve_recipients(name: str) -> Callable[[Resolves], Resolves]:
    """Declare a function the resolver `name`: it says which people `name:…` means as a recipient.

    `@resolve_recipients("role")` is asked for "role:cfo" with `("cfo", team_id)` and answers the people: each a
    `Person`, a mapping of its fields, or an address. It is asked when a notice is planned, and again when it goes out:
    what it tells in between is what counts. No people: nobody is told, and that is an error. Not `async def`. It is
    returned unchanged.

    Args:
        name: Letters, digits, `. _ -`. A literal, because the registry is built from the text of `handlers/`.

    Raises:
        InvalidArgument: The name is none.
    """
    return declaring("recipients", name)
