"""Validate the arguments of a new action, and convert them to arguments of the SQL functions.

To add an argument, add a field to `NewAction` and an entry to `_TEXTS` or `_COLUMNS`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import date, datetime, timedelta
from enum import Enum
from operator import attrgetter
from typing import Any, Final, TypeAlias, get_args
from uuid import UUID

from scheduled_actions.core import checks
from scheduled_actions.core.action import MAX_ATTEMPTS_LIMIT, DedupMode, OnExpiry
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.errors.families import short
from scheduled_actions.core.messages import did_you_mean
from scheduled_actions.core.retry import RetryPolicy
from scheduled_actions.registry import limit_keys

#: Minimum of `expires_in`, in seconds: the shortest interval of the database.
_SHORTEST_EXPIRY = 1e-6
#: Maximum of `expires_in`, in seconds: a hundred years.
_LONGEST_EXPIRY = 36525 * 86400


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = "unset"


#: Default of those arguments of an update for which None removes or resets the stored value.
UNSET: Final = Unset.UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAction:
    """An action to schedule; its fields are the arguments of `schedule_action`."""

    action_type: str
    payload: Any
    scheduled_at: datetime | date | str | timedelta | None = None
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
    limit: str | Sequence[str] | None = None
    expires_at: datetime | date | str | None = None
    expires_in: timedelta | float | None = None
    on_expiry: OnExpiry = "skip"


_DEFAULTS: dict[str, Any] = {
    field.name: None if field.default is MISSING else field.default for field in fields(NewAction)
}
_VALUES = attrgetter(*_DEFAULTS)
#: The names of the arguments of `schedule_action`.
ARGUMENTS = frozenset(_DEFAULTS)
_REQUIRED = frozenset({"action_type", "payload"})


def arguments_of(new: NewAction | Mapping[str, Any]) -> dict[str, Any]:
    """Return, by name, the required arguments and those that differ from their defaults.

    Raises:
        InvalidArgument: `new` is neither a `NewAction` nor a mapping, a name is not an argument of `schedule_action`,
            or a required argument is missing.
    """
    items: Iterable[tuple[str, Any]]
    if isinstance(new, NewAction):
        items = zip(_DEFAULTS, _VALUES(new), strict=True)
    elif type(new) is dict or isinstance(new, Mapping):  # the first test is ten times as fast
        if not new.keys() <= _DEFAULTS.keys():
            unknown = min(new.keys() - _DEFAULTS.keys(), key=str)
            hint = did_you_mean(str(unknown), _DEFAULTS, otherwise=f"schedule_action takes {', '.join(_DEFAULTS)}")
            raise InvalidArgument("argument", problem=f"{short(unknown)} is unknown; {hint}")
        items = new.items()
    else:
        raise InvalidArgument(
            "new_actions",
            problem=f"contains an item of type {type(new).__name__}: use a NewAction or a mapping of its arguments",
        )
    given = {
        name: value for name, value in items if name in _REQUIRED or (value is not None and value != _DEFAULTS[name])
    }
    if "action_type" not in given or "payload" not in given:
        raise InvalidArgument(
            min(_REQUIRED - given.keys()), problem="is required: every action has a type and a payload"
        )
    return given


def columns_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert arguments of `schedule_action` to those of the SQL function.

    Args:
        given: As returned by `arguments_of`, without the action type, the payload and the dependencies.

    Raises:
        RequestError: A value is invalid or too large.
    """
    columns: dict[str, Any] = {}
    for name, value in given.items():
        if name in _TEXTS:
            columns[name] = checks.check_name(name, value, longest=_TEXTS[name])
        else:
            columns |= _COLUMNS[name](value, given)
    return columns


def is_due(row: Mapping[str, Any], *, now: datetime) -> bool:
    """Return whether a new action is due as soon as it is committed.

    Args:
        row: Arguments of the SQL function, as returned by `columns_of`.
        now: Aware; the time of this machine's clock.
    """
    at = row.get("scheduled_at")
    return not row.get("delay") and (at is None or at <= now)


def check_priority(value: int | None) -> int | None:
    """Check that a priority is an integer from -32,768 to 32,767, and return it; None stays None.

    Raises:
        InvalidArgument: The value is not such an integer.
    """
    return checks.check_integer("priority", value, least=-32768, most=32767)


def check_max_attempts(value: int | None) -> int | None:
    """Check that a maximum number of attempts is an integer from 1 to 1,000, and return it; None stays None.

    Raises:
        InvalidArgument: The value is not such an integer.
    """
    return checks.check_integer("max_attempts", value, least=1, most=MAX_ATTEMPTS_LIMIT)


def expires_too_early(expires_at: datetime, scheduled_at: datetime) -> InvalidArgument:
    """Return the error for an action that would expire before it is due; both instants are aware."""
    return InvalidArgument(
        "expires_at",
        problem=f"({expires_at.isoformat()}) must be after scheduled_at ({scheduled_at.isoformat()}), so that the "
        "action can start",
    )


def _scheduled_at(value: datetime | date | str | timedelta, given: Mapping[str, Any]) -> dict[str, Any]:
    at, delay = checks.check_scheduled_at(value, timezone=given.get("timezone"))
    return {"scheduled_at": at} if delay is None else {"delay": delay.total_seconds()}


def _expires_at(value: datetime | date | str, given: Mapping[str, Any]) -> dict[str, Any]:
    if given.get("expires_in") is not None:
        raise InvalidArgument("expires_in", problem="cannot be given together with expires_at")
    ends = checks.check_end("expires_at", value, timezone=given.get("timezone"))
    due, _ = checks.check_scheduled_at(given.get("scheduled_at"), timezone=given.get("timezone"))
    # The database compares it with its own time if the action is due now or after a delay.
    if ends is not None and due is not None and ends <= due:
        raise expires_too_early(ends, due)
    return {"expires_at": ends}


def expires_seconds(value: timedelta | float) -> float:
    """Return `expires_in` in seconds.

    Raises:
        InvalidArgument: The value is neither a timedelta nor a number, or is not between 0 and 100 years.
    """
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not _SHORTEST_EXPIRY <= seconds <= _LONGEST_EXPIRY:
        raise InvalidArgument("expires_in", value, "a timedelta, or a number of seconds above 0, of at most 100 years")
    return float(seconds)


def _on_expiry(value: str, given: Mapping[str, Any]) -> dict[str, Any]:
    checks.check_choice("on_expiry", value, get_args(OnExpiry))
    if given.get("expires_at") is None and given.get("expires_in") is None:
        raise InvalidArgument("on_expiry", problem="has no effect without expires_at or expires_in")
    return {"on_expiry": value}


def _timezone(value: str, _: Mapping[str, Any]) -> dict[str, Any]:
    checks.check_timezone(value)
    return {}


_Check: TypeAlias = "Callable[[Any, Mapping[str, Any]], dict[str, Any]]"

#: The arguments that are strings, and pass unchanged: the maximum number of characters; None: any number.
_TEXTS: dict[str, int | None] = {
    "team_id": 255,
    "lock_group": 255,
    "dedup_key": 512,
    "user_id": None,
    "created_by": None,
}
#: For each other argument of `schedule_action`: its validation, and the arguments of the SQL function.
_COLUMNS: dict[str, _Check] = {
    "scheduled_at": _scheduled_at,
    "timezone": _timezone,
    "priority": lambda value, _: {"priority": check_priority(value)},
    "max_attempts": lambda value, _: {"max_attempts": check_max_attempts(value)},
    "retry": lambda value, _: {"retry": checks.retry_text(value)},
    "lock_group_blocks": lambda value, _: {"lock_group_blocks": bool(value)},
    "dedup_window": lambda value, _: {"dedup_window": checks.check_seconds("dedup_window", value)},
    "dedup_mode": lambda value, _: {"dedup_mode": checks.check_choice("dedup_mode", value, get_args(DedupMode))},
    "target": lambda value, _: {"target": checks.target_text(value)},
    "metadata": lambda value, _: {"metadata": checks.document_text("metadata", value)},
    "limit": lambda value, _: {"limit": limit_keys.check(value)},
    "expires_at": _expires_at,
    "expires_in": lambda value, _: {"expires_in": expires_seconds(value)},
    "on_expiry": _on_expiry,
}
