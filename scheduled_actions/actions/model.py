"""A new action, as a caller describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from scheduled_actions.core.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from scheduled_actions.core.action import DedupMode
    from scheduled_actions.core.retry import RetryPolicy


class Kept(Enum):
    """Stands for an argument of `update_action` that is not given, where None takes away what is there."""

    KEPT = "kept"


#: As it was.
KEPT: Final = Kept.KEPT


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAction:
    """One action for `schedule_actions`, with the arguments of `schedule_action`."""

    action_type: str
    payload: Any
    scheduled_at: datetime | timedelta | None = None
    timezone: str | None = None
    team_id: str | None = None
    priority: int = 0
    max_attempts: int | None = None
    retry: RetryPolicy | Mapping[str, Any] | Sequence[float] | None = None
    lock_group: str | None = None
    lock_group_blocks: bool = False
    dedup_key: str | None = None
    dedup_window: float | None = None
    dedup_mode: DedupMode = "latest"
    target: Mapping[str, str] | None = None
    user_id: str | None = None
    metadata: Mapping[str, Any] | None = None
    created_by: str | None = None
    condition: Mapping[str, Any] | None = None
    after: UUID | str | Sequence[UUID | str] | None = None
    on_success: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    on_failure: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None


#: The names of the arguments of `schedule_action`.
ARGUMENTS = frozenset(field.name for field in fields(NewAction))


def arguments_of(new: NewAction | Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that are given, by name: those that differ from saying nothing.

    Raises:
        InvalidArgument: A name is no argument of `schedule_action`, or one that it needs is missing.
    """
    if isinstance(new, NewAction):
        items = [(name, getattr(new, name)) for name in _DEFAULTS]
    elif type(new) is dict or isinstance(new, Mapping):  # (the first alone is told in a tenth of the time)
        if not new.keys() <= _DEFAULTS.keys():
            unknown = min(new.keys() - _DEFAULTS.keys(), key=str)
            raise InvalidArgument("argument", unknown, "an argument of schedule_action")
        items = list(new.items())
    else:
        raise InvalidArgument("new_actions", type(new).__name__, "a NewAction or a mapping of its arguments")
    given = {
        name: value for name, value in items if name in _NEEDED or (value is not None and value != _DEFAULTS[name])
    }
    if len(given) < len(_NEEDED) or not given.keys() >= _NEEDED:
        missing = min(_NEEDED - given.keys())
        raise InvalidArgument(missing, None, "there: every action has a type and a payload")
    return given


_NEEDED = frozenset({"action_type", "payload"})
_DEFAULTS: dict[str, Any] = {
    field.name: None if field.default is MISSING else field.default for field in fields(NewAction)
}
