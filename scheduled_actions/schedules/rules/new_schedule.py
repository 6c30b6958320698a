"""What a caller asks of a recurring action: every argument checked, and kept as it was asked for."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, TypeAlias, get_args
from uuid import UUID

from scheduled_actions.core import checks as arguments
from scheduled_actions.core import json_text
from scheduled_actions.core.action import MAX_ATTEMPTS_LIMIT, RESULT_LIMIT
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.schedules.model import Misfire, Overlap, RecurrenceType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_Check: TypeAlias = "Callable[[str, Any, Mapping[str, Any]], Any]"

#: Arguments that need the project's handlers to be checked: what an occurrence waits for, and what follows it.
EXTRAS = frozenset({"condition", "on_success", "on_failure"})
#: The longest rule taken, in characters.
RECURRENCE_LIMIT = 2000
_YEAR_SECONDS = 366 * 86400
#: What a change of these asks for: the occurrence that is planned is planned anew.
_SHAPING = ("recurrence", "timezone", "scheduled_at", "skip", "until", "recurrence_type", "jitter_seconds")
#: What a change of these asks for besides: intervals count from a new start.
_ANCHORING = ("recurrence", "timezone", "scheduled_at")


def definition_of(given: Mapping[str, Any], *, timezone: str = "UTC") -> dict[str, Any]:
    """Return what was asked for as a JSON object: every argument checked, those left out or None left out.

    Args:
        given: The arguments.
        timezone: Of naive datetimes, where the arguments name no zone.

    Raises:
        InvalidArgument: An argument is unknown, or cannot be what it is.
    """
    definition: dict[str, Any] = {}
    in_zone = {**given, "timezone": given.get("timezone") or timezone}
    for name, value in given.items():
        if name not in _CHECKS:
            near = difflib.get_close_matches(name, ARGUMENTS, n=1)
            raise InvalidArgument(
                name, value, f"an argument of a schedule; {f'did you mean {near[0]}?' if near else 'leave it out'}"
            )
        checked = None if value is None else _CHECKS[name](name, value, in_zone)
        if checked is not None:
            definition[name] = checked
    return definition


def values_of(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a schedule with this definition; documents as JSON text, instants as ISO text."""
    values = {name: definition.get(name, default) for name, default in _DEFAULTS.items()}
    for name in ("skip", "retry", "target", "metadata", *EXTRAS):
        if values[name] is not None:
            # (What was taken at its own limit may be written a little longer here.)
            values[name] = json_text.encode(name, values[name], limit=2 * RESULT_LIMIT)
    return values


def is_reshaped(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the occurrence that is planned has to be planned anew."""
    return any(before.get(name) != after.get(name) for name in _SHAPING)


def is_started_anew(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether intervals count from a new start."""
    return any(before.get(name) != after.get(name) for name in _ANCHORING)


def reference(value: UUID | str) -> tuple[UUID | None, str | None]:
    """Return the id or the name by which a caller means a schedule."""
    if isinstance(value, UUID):
        return value, None
    try:
        return UUID(value), None
    except (ValueError, AttributeError, TypeError):
        pass
    try:
        return None, arguments.check_text("name", value, longest=200)
    except InvalidArgument:
        # What could be nobody's name is the name of none.
        return None, None


def _name(_: str, value: Any, __: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    text = arguments.check_text("name", value, longest=200)
    try:
        UUID(text)
    except ValueError:
        return text
    raise InvalidArgument("name", value, "a name: what reads as a UUID is taken for an id")


def _when(_: str, value: Any, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    at, delay = arguments.check_when(value, given["timezone"])
    if delay is not None:
        return delay.total_seconds()
    return None if at is None else at.isoformat()


def _until(name: str, value: Any, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    try:
        at, delay = arguments.check_when(value, given["timezone"])
    except InvalidArgument as error:
        raise InvalidArgument(name, value, error.expected) from None
    if at is None or delay is not None:
        raise InvalidArgument(name, value, "a datetime")
    return at.isoformat()


def _timezone(_: str, value: Any, __: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    arguments.check_timezone(value)
    return value


def _text(longest: int | None) -> _Check:
    return lambda name, value, _: arguments.check_text(name, value, longest=longest)


def _integer(least: int, most: int) -> _Check:
    return lambda name, value, _: arguments.check_integer(name, value, least=least, most=most)


def _seconds(name: str, value: Any, _: Mapping[str, Any]) -> float:  # noqa: ANN401 - any JSON
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _YEAR_SECONDS:
        raise InvalidArgument(name, value, "a number of seconds between 0 and a year")
    return float(value)


def _one_of(choices: tuple[str, ...]) -> _Check:
    def check(name: str, value: Any, _: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
        if value not in choices:
            raise InvalidArgument(name, value, f"one of {', '.join(choices)}")
        return value

    return check


def _flag(name: str, value: Any, _: Mapping[str, Any]) -> bool:  # noqa: ANN401 - any JSON
    if not isinstance(value, bool):
        raise InvalidArgument(name, value, "True or False")
    return value


def _skip(_: str, value: Any, __: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    from scheduled_actions.recurrence.skips.model import Skips  # noqa: PLC0415 - a cold tick does without

    Skips.parse(value)
    return json_text.decode(arguments.document_text("skip", value) or "{}")


def _retry(_: str, value: Any, __: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    return json_text.decode(arguments.retry_text(value) or "null")


def _target(_: str, value: Any, __: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    return json_text.decode(arguments.target_text(value) or "null")


def _metadata(name: str, value: Any, _: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    return json_text.decode(arguments.document_text(name, value) or "null")


#: How each argument is checked; the answer is JSON.
_CHECKS: dict[str, _Check] = {
    "recurrence": _text(RECURRENCE_LIMIT),
    "scheduled_at": _when,
    "timezone": _timezone,
    "name": _name,
    "team_id": _text(255),
    "recurrence_type": _one_of(get_args(RecurrenceType)),
    "misfire": _one_of(get_args(Misfire)),
    "misfire_grace_seconds": _seconds,
    "catch_up_limit": _integer(1, 10_000),
    "catch_up_seconds": _seconds,
    "overlap": _one_of(get_args(Overlap)),
    "skip": _skip,
    "jitter_seconds": _seconds,
    "until": _until,
    "remaining": _integer(1, 2**31 - 1),
    "pause_after_failures": _integer(1, 10_000),
    "priority": _integer(-32768, 32767),
    "max_attempts": _integer(1, MAX_ATTEMPTS_LIMIT),
    "retry": _retry,
    "lock_group": _text(255),
    "lock_group_blocks": _flag,
    "target": _target,
    "user_id": _text(None),
    "metadata": _metadata,
}

#: The arguments of a recurring action, by name.
ARGUMENTS = frozenset(_CHECKS) | EXTRAS

#: The columns that a definition gives, and what they are where it says nothing.
_DEFAULTS: dict[str, Any] = {
    "recurrence": None,
    "timezone": "UTC",
    "name": None,
    "team_id": None,
    "recurrence_type": "fixed",
    "misfire": "fire_once",
    "misfire_grace_seconds": 300.0,
    "catch_up_limit": 100,
    "catch_up_seconds": 604800.0,
    "overlap": "skip",
    "skip": None,
    "jitter_seconds": 0.0,
    "until": None,
    "remaining": None,
    "pause_after_failures": None,
    "priority": 0,
    "max_attempts": None,
    "retry": None,
    "lock_group": None,
    "lock_group_blocks": False,
    "target": None,
    "user_id": None,
    "metadata": None,
    "condition": None,
    "on_success": None,
    "on_failure": None,
}
