"""A new action: its arguments, how each is checked, and what the SQL functions take for them.

A new argument is a field of `NewAction` and an entry of `_COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from scheduled_actions.core import checks
from scheduled_actions.core.action import MAX_ATTEMPTS_LIMIT
from scheduled_actions.core.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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
_NEEDED = frozenset({"action_type", "payload"})
_DEFAULTS: dict[str, Any] = {
    field.name: None if field.default is MISSING else field.default for field in fields(NewAction)
}
#: What the SQL function `schedule_action` takes where an argument is not given.
COLUMN_DEFAULTS: dict[str, Any] = {
    "delay": None,
    **{name: default for name, default in _DEFAULTS.items() if name not in _NEEDED | {"timezone"}},
}


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


def columns_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the SQL function takes for the arguments given.

    Raises:
        InvalidArgument: One cannot be what it is.
    """
    columns: dict[str, Any] = {}
    for name, value in given.items():
        columns |= _COLUMNS[name](value, given)
    return columns


def is_due(row: Mapping[str, Any], *, now: datetime) -> bool:
    """Whether a new action is due as soon as it is committed, as far as a machine's clock can tell."""
    at = row.get("scheduled_at")
    return not row.get("delay") and (at is None or at <= now)


def check_priority(value: int | None) -> int | None:
    """Return the priority, a small integer."""
    return checks.check_integer("priority", value, least=-32768, most=32767)


def check_max_attempts(value: int | None) -> int | None:
    """Return the attempts allowed, the first included."""
    return checks.check_integer("max_attempts", value, least=1, most=MAX_ATTEMPTS_LIMIT)


def _when(value: datetime | timedelta, given: Mapping[str, Any]) -> dict[str, Any]:
    at, delay = checks.check_when(value, given.get("timezone"))
    return {"scheduled_at": at} if delay is None else {"delay": delay.total_seconds()}


def _timezone(value: str, _: Mapping[str, Any]) -> dict[str, Any]:
    checks.check_timezone(value)
    return {}


def _text(name: str, longest: int | None = None) -> _Check:
    return lambda value, _: {name: checks.check_text(name, value, longest=longest)}


_Check: TypeAlias = "Callable[[Any, Mapping[str, Any]], dict[str, Any]]"

#: How each argument of `schedule_action` is checked, and what the SQL function takes for it.
_COLUMNS: dict[str, _Check] = {
    "scheduled_at": _when,
    "timezone": _timezone,
    "team_id": _text("team_id", 255),
    "priority": lambda value, _: {"priority": check_priority(value)},
    "max_attempts": lambda value, _: {"max_attempts": check_max_attempts(value)},
    "retry": lambda value, _: {"retry": checks.retry_text(value)},
    "lock_group": _text("lock_group", 255),
    "lock_group_blocks": lambda value, _: {"lock_group_blocks": bool(value)},
    "dedup_key": _text("dedup_key", 512),
    "dedup_window": lambda value, _: {"dedup_window": checks.check_window(value)},
    "dedup_mode": lambda value, _: {"dedup_mode": checks.check_mode(value)},
    "target": lambda value, _: {"target": checks.target_text(value)},
    "user_id": _text("user_id"),
    "metadata": lambda value, _: {"metadata": checks.document_text("metadata", value)},
    "created_by": _text("created_by"),
}
