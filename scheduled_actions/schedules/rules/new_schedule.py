"""Validate the arguments of a recurring action, and convert them to the columns of its schedule."""

import hashlib
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeAlias, cast, get_args
from uuid import UUID

from scheduled_actions.actions.model import expires_seconds
from scheduled_actions.core import checks, json_text
from scheduled_actions.core.action import MAX_ATTEMPTS_LIMIT, RESULT_LIMIT, OnExpiry
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.messages import nearest
from scheduled_actions.core.stored_values import parse_uuid
from scheduled_actions.registry import limit_keys
from scheduled_actions.schedules.model import ANY_ANCHOR, Misfire, Overlap, RecurrenceType, ScheduleRule

_Check: TypeAlias = "Callable[[str, Any, Mapping[str, Any]], Any]"

#: Arguments whose validation needs the project's handlers.
DEPENDENCIES = frozenset({"condition", "on_success", "on_failure"})
_NAME_MOST = 200
#: A change of one of these arguments replans the planned occurrence.
SHAPING = ("recurrence", "timezone", "scheduled_at", "skip", "until", "recurrence_type", "jitter_seconds")
#: A change of one of these arguments restarts intervals.
ANCHORING = ("recurrence", "timezone", "scheduled_at")


def definition_of(given: Mapping[str, Any], *, timezone: str | None = None) -> dict[str, Any]:
    """Validate the arguments of a schedule; return them as a JSON object, without those that are None.

    Args:
        given: The arguments, by name.
        timezone: The time zone of local times if `given` has no `timezone`.

    Raises:
        InvalidArgument: An argument is unknown or invalid.
    """
    definition: dict[str, Any] = {}
    in_zone = {**given, "timezone": given.get("timezone") or timezone}
    for name, value in given.items():
        if name not in _CHECKS:
            near = nearest(name, ARGUMENTS)
            raise InvalidArgument(
                name, problem="is not an argument of a schedule" + (f"; did you mean {near}?" if near else "")
            )
        checked = None if value is None else _CHECKS[name](name, value, in_zone)
        if checked is not None:
            definition[name] = checked
    return definition


def check_expiry(definition: Mapping[str, Any]) -> None:
    """Raise `InvalidArgument` if a definition has `on_expiry` without `expires_in`."""
    if "on_expiry" in definition and "expires_in" not in definition:
        raise InvalidArgument("on_expiry", problem="has no effect without expires_in")


def values_of(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a schedule: documents as JSON text, instants as ISO 8601 strings.

    Raises:
        InvalidArgument: The definition has `on_expiry` without `expires_in`.
    """
    check_expiry(definition)
    values = {name: definition.get(name, default) for name, default in _DEFAULTS.items()}
    if values["expires_in"] is None:
        values["on_expiry"] = None
    for name in ("skip", "retry", "target", "metadata", *DEPENDENCIES):
        if values[name] is not None:
            # A document at its limit may be a little longer when encoded again.
            values[name] = json_text.encode(name, values[name], limit=2 * RESULT_LIMIT)
    return values


def has_changed(before: Mapping[str, Any], after: Mapping[str, Any], names: Collection[str]) -> bool:
    """Whether one of the named arguments differs between two definitions."""
    return any(before.get(name) != after.get(name) for name in names)


def rule(definition: Mapping[str, Any], anchor: datetime = ANY_ANCHOR) -> ScheduleRule:
    """Return the rule of a definition.

    Raises:
        InvalidArgument: The definition has no recurrence.
    """
    if "recurrence" not in definition:
        raise InvalidArgument("recurrence", problem='is required: give a rule such as "daily", "0 9 * * 1" or an RRULE')
    until = definition.get("until")
    return ScheduleRule(
        recurrence=definition["recurrence"],
        timezone=definition.get("timezone", "UTC"),
        anchor_at=anchor,
        skip=definition.get("skip"),
        until=None if until is None else datetime.fromisoformat(until),
    )


def fingerprint(payload: str) -> str:
    """Return a digest of a payload's JSON text; a definition holds it, so that an upsert detects a changed payload."""
    return hashlib.sha256(payload.encode()).hexdigest()[:32]


def anchor(scheduled_at: str | float | None, now: datetime) -> datetime:
    """Return the start of a schedule: the given instant, the given seconds from now, or now in whole seconds."""
    match scheduled_at:
        case None:
            return now.replace(microsecond=0)
        case str():
            return datetime.fromisoformat(scheduled_at)
        case seconds:
            return now + timedelta(seconds=seconds)


def reference(value: UUID | str) -> tuple[UUID | None, str | None]:
    """Return a reference to a schedule as an id or as a name; both are None if the value can be neither."""
    found = parse_uuid(value)
    if found is not None:
        return found, None
    try:
        return None, checks.check_text("name", cast("str", value), longest=_NAME_MOST)
    except InvalidArgument:
        return None, None


def check_reference_name(name: str, value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return the name of a schedule or a deadline, which must not be an id, too; None for None."""
    if parse_uuid(value) is not None:
        raise InvalidArgument(name, problem=f"{value} is a UUID and would be read as an id: choose another name")
    return checks.check_text(name, value, longest=_NAME_MOST)


def _scheduled_at(_: str, value: Any, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    at, delay = checks.check_scheduled_at(value, timezone=given["timezone"])
    return at.isoformat() if at is not None else None if delay is None else delay.total_seconds()


def _until(name: str, value: Any, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    at = checks.check_end(name, value, timezone=given["timezone"])
    return None if at is None else at.isoformat()


def _text(longest: int | None) -> _Check:
    return lambda name, value, _: checks.check_text(name, value, longest=longest)


def _integer(least: int, most: int) -> _Check:
    return lambda name, value, _: checks.check_integer(name, value, least=least, most=most)


def _seconds(name: str, value: Any, _: Mapping[str, Any]) -> float:  # noqa: ANN401 - any JSON
    return checks.check_seconds(name, value)


def _one_of(choices: tuple[str | bool, ...]) -> _Check:
    def check(name: str, value: Any, _: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON
        if not isinstance(value, str | bool) or value not in choices:
            raise InvalidArgument(name, value, f"one of {', '.join(map(str, choices))}")
        return value

    return check


def _on_expiry(name: str, value: Any, _: Mapping[str, Any]) -> str | None:  # noqa: ANN401 - any JSON
    """Return how occurrences expire; None for the default."""
    checked = checks.check_choice(name, value, get_args(OnExpiry))
    return None if checked == _DEFAULTS[name] else checked


def _document(encode: Callable[[Any], str | None]) -> _Check:
    """Return a check of a JSON document; `encode` validates the document and returns its JSON text."""
    return lambda _, value, __: json_text.decode(encode(value) or "null")


def _skip(value: Any) -> str | None:  # noqa: ANN401 - any JSON
    from scheduled_actions.recurrence.skips.model import Skips  # noqa: PLC0415 - a cold tick does without

    Skips.parse(value)
    return checks.document_text("skip", value)


#: The validation of each argument; it returns JSON.
_CHECKS: dict[str, _Check] = {
    "recurrence": lambda name, value, _: checks.check_recurrence(name, value),
    "scheduled_at": _scheduled_at,
    "timezone": lambda _, value, __: checks.check_timezone(value).key,
    "name": lambda name, value, _: check_reference_name(name, value),
    "team_id": _text(255),
    "recurrence_type": _one_of(get_args(RecurrenceType)),
    "misfire": _one_of(get_args(Misfire)),
    "misfire_grace_seconds": _seconds,
    "catch_up_limit": _integer(1, 10_000),
    "catch_up_seconds": _seconds,
    "overlap": _one_of(get_args(Overlap)),
    "requires_previous": _one_of((True, False)),
    "skip": _document(_skip),
    "jitter_seconds": _seconds,
    "until": _until,
    "remaining": _integer(1, 2**31 - 1),
    "pause_after_failures": _integer(1, 10_000),
    "priority": _integer(-32768, 32767),
    "max_attempts": _integer(1, MAX_ATTEMPTS_LIMIT),
    "retry": _document(checks.retry_text),
    "lock_group": _text(255),
    "lock_group_blocks": _one_of((True, False)),
    "limit": lambda name, value, _: limit_keys.check(value, name=name),
    "expires_in": lambda _, value, __: expires_seconds(value),
    "on_expiry": _on_expiry,
    "target": _document(checks.target_text),
    "user_id": _text(None),
    "metadata": _document(lambda value: checks.document_text("metadata", value)),
}

#: The arguments of a recurring action, by name.
ARGUMENTS = frozenset(_CHECKS) | DEPENDENCIES

#: The columns of a definition, and their defaults.
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(ARGUMENTS - {"scheduled_at"}),
    "timezone": "UTC",
    "recurrence_type": "fixed",
    "misfire": "fire_once",
    "misfire_grace_seconds": 300.0,
    "catch_up_limit": 100,
    "catch_up_seconds": 604800.0,
    "overlap": "skip",
    "requires_previous": False,
    "jitter_seconds": 0.0,
    "priority": 0,
    "lock_group_blocks": False,
    "on_expiry": "skip",
}
