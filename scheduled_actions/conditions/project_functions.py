"""Functions of `handlers/` that conditions of kind `custom` ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from scheduled_actions.registry.project_functions import declaring

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionCheck:
    """What a function is asked about."""

    #: What the condition says beside the function's name.
    parameters: Mapping[str, Any]
    #: The action that waits.
    action_id: UUID
    action_type: str
    payload: Any
    #: None outside any team.
    team_id: str | None


Checks = TypeVar("Checks", bound="Callable[[ConditionCheck], bool | str]")


def condition(name: str) -> Callable[[Checks], Checks]:
    """Declare a function the check `name`: a condition `{"kind": "custom", "name": …, "parameters": {…}}` asks it.

    The function takes a `ConditionCheck` and returns True while the condition holds, False or the reason why it does
    not as text. What it raises never runs the action. It is asked in a thread of the tick, within the handler's
    timeout, before the handler is called; not `async def`. It is returned unchanged.

    Args:
        name: Letters, digits, `. _ -`. A literal, because the registry is built from the text of `handlers/`.

    Raises:
        InvalidArgument: The name is none.
    """
    return declaring("condition", name)
