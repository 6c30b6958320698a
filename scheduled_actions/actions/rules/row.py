"""From the arguments of a new action to what the SQL functions take: each checked, documents as JSON text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.action import MAX_ATTEMPTS_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime, timedelta


def columns_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the SQL function takes for the arguments given.

    Raises:
        InvalidArgument: One cannot be what it is.
    """
    columns: dict[str, Any] = {}
    for name, value in given.items():
        columns |= _CHECKS[name](value, given)
    return columns


def is_due(row: Mapping[str, Any], *, now: datetime) -> bool:
    """Whether a new action is due as soon as it is committed, as far as a machine's clock can tell."""
    at = row.get("scheduled_at")
    return not row.get("delay") and (at is None or at <= now)


def check_priority(value: int | None) -> int | None:
    """Return the priority, a small integer."""
    return arguments.check_integer("priority", value, least=-32768, most=32767)


def check_max_attempts(value: int | None) -> int | None:
    """Return the attempts allowed, the first included."""
    return arguments.check_integer("max_attempts", value, least=1, most=MAX_ATTEMPTS_LIMIT)


def _when(value: datetime | timedelta, given: Mapping[str, Any]) -> dict[str, Any]:
    at, delay = arguments.check_when(value, given.get("timezone"))
    return {"scheduled_at": at} if delay is None else {"delay": delay.total_seconds()}


def _timezone(value: str, _: Mapping[str, Any]) -> dict[str, Any]:
    arguments.check_timezone(value)
    return {}


def _text(name: str, longest: int | None = None) -> _Check:
    return lambda value, _: {name: arguments.check_text(name, value, longest=longest)}


_Check: TypeAlias = "Callable[[Any, Mapping[str, Any]], dict[str, Any]]"

#: How each argument of `schedule_action` is checked, and what the SQL function takes for it.
_CHECKS: dict[str, _Check] = {
    "scheduled_at": _when,
    "timezone": _timezone,
    "team_id": _text("team_id", 255),
    "priority": lambda value, _: {"priority": check_priority(value)},
    "max_attempts": lambda value, _: {"max_attempts": check_max_attempts(value)},
    "retry": lambda value, _: {"retry": arguments.retry_text(value)},
    "lock_group": _text("lock_group", 255),
    "lock_group_blocks": lambda value, _: {"lock_group_blocks": bool(value)},
    "dedup_key": _text("dedup_key", 512),
    "dedup_window": lambda value, _: {"dedup_window": arguments.check_window(value)},
    "dedup_mode": lambda value, _: {"dedup_mode": arguments.check_mode(value)},
    "target": lambda value, _: {"target": arguments.target_text(value)},
    "user_id": _text("user_id"),
    "metadata": lambda value, _: {"metadata": arguments.document_text("metadata", value)},
    "created_by": _text("created_by"),
}
