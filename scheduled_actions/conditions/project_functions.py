"""The decorator for functions of `handlers/` that conditions of kind `custom` call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from scheduled_actions.registry.project_functions import declare_function


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionCheck:
    """The argument of a `@condition` function."""

    #: The condition's `parameters`.
    parameters: Mapping[str, Any]
    #: The action whose condition is evaluated.
    action_id: UUID
    action_type: str
    payload: Any
    #: None for an action without a team.
    team_id: str | None


Check = TypeVar("Check", bound="Callable[[ConditionCheck], bool | str]")


def condition(name: str) -> Callable[[Check], Check]:
    """Declare a function for conditions `{"kind": "custom", "name": …, "parameters": {…}}`.

    The function takes a `ConditionCheck`. It returns True if the condition holds; otherwise False, or the reason as a
    string. An exception counts as a failed attempt of the action or, if the action waits for the condition, as a
    condition that does not hold yet. The function runs on a thread of the tick before the handler, and within the
    handler's timeout. It must not be `async def`. The decorator returns it unchanged.

    Args:
        name: 1 to 100 letters, digits, `.`, `_` or `-`, starting with a letter or a digit; must be a literal, because
            the registry is built from the source text of `handlers/`.

    Raises:
        InvalidArgument: The name is invalid.
    """
    return declare_function("condition", name)
