"""Build schedules and deadlines from rows that SQL may have written with values that no function of ours stores.

A value that cannot be used is replaced by its default, and `problem` of the result names the first one. Lists and pages
show such a row as broken; whatever would act on it refuses to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, get_args
from zoneinfo import ZoneInfo

from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.deadlines.model import Deadline, Stage, StageKind, StageState
from scheduled_actions.notifications.rules.severity import SEVERITIES
from scheduled_actions.schedules.model import Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The longest part of a broken value that a message repeats.
_SHOWN = 40
_YEAR_SECONDS = 366 * 86400
#: Far above what a row that we wrote can hold; one more still fits its column.
_COUNT_MOST = 10**15


@dataclass(frozen=True, slots=True)
class _Rule:
    """What a value must be, in words, and what is used in place of one that is not."""

    holds: Callable[[Any], bool]
    expected: str
    default: Any = None


def schedule_of(values: Mapping[str, Any]) -> Schedule:
    """Return the schedule of a row's columns by name."""
    usable, problem = _usable(values, _SCHEDULE)
    return Schedule(**usable, problem=problem)


def deadline_of(values: Mapping[str, Any]) -> Deadline:
    """Return the deadline of a row's columns by name; stages and history entries that cannot be used are left out."""
    usable, problem = _usable(values, _DEADLINE)
    stages, broken_stage = _stages_of(usable["stages"])
    entries = tuple(one for one in usable["history"] if _problem_of(one, _ENTRY) is None)
    broken_entry = None if len(entries) == len(usable["history"]) else "history: an entry has no `what` and `at`"
    usable |= {"stages": stages, "history": entries, "recipients": tuple(usable["recipients"])}
    return Deadline(**usable, problem=problem or broken_stage or broken_entry)


def asked_stages(definition: Mapping[str, Any]) -> tuple[Stage, ...] | None:
    """Return the stages that the stored definition of a deadline asks for; None where they cannot be read."""
    stored = definition.get("stages", [])
    stages, problem = _stages_of(stored) if isinstance(stored, list) else ((), "stages: not a list")
    return stages if problem is None else None


def _usable(values: Mapping[str, Any], rules: Mapping[str, _Rule]) -> tuple[dict[str, Any], str | None]:
    """Return the values, each one that breaks its rule replaced, and the first problem."""
    usable, problem = dict(values), None
    for name, rule in rules.items():
        if not rule.holds(usable[name]):
            problem = problem or _told(name, usable[name], rule.expected)
            usable[name] = rule.default
    return usable, problem


def _stages_of(stored: list[Any]) -> tuple[tuple[Stage, ...], str | None]:
    stages, problem = [], None
    for position, one in enumerate(stored):
        broken = _problem_of(one, _STAGE)
        if broken is None:
            stages.append(Stage.from_json(one))
        else:
            problem = problem or f"stages[{position}]{broken}"
    return tuple(stages), problem


def _problem_of(stored: Any, rules: Mapping[str, _Rule]) -> str | None:  # noqa: ANN401 - any JSON
    """Return what is wrong with a stored object, beginning with the place inside it; None when nothing is."""
    if not isinstance(stored, dict):
        return f": {_word(stored)} is not an object"
    if rules is _STAGE and (unknown := stored.keys() - rules.keys()):
        return f".{min(unknown)[:_SHOWN]}: is no field of a stage"
    for name, rule in rules.items():
        if (name in stored or name in _REQUIRED) and not rule.holds(stored.get(name)):
            return f".{_told(name, stored.get(name), rule.expected)}"
    return None


def _told(name: str, value: object, expected: str) -> str:
    return f"{name}: {_word(value)} is not {expected}"


def _word(value: object) -> str:
    """Return a value as a message may repeat it; of a document and of a long text no more than its kind."""
    if isinstance(value, dict | list | tuple):
        return "an object" if isinstance(value, dict) else "a list"
    text = value.isoformat() if isinstance(value, datetime) else repr(value)
    return text if len(text) <= _SHOWN else f"a {type(value).__name__} of {len(text):,} characters"


def _is_count(value: object, least: int = 0, most: int = _COUNT_MOST) -> bool:
    return type(value) is int and least <= value <= most


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not math.isnan(value) and 0 <= value <= _YEAR_SECONDS


def _is_object_or_null(value: object) -> bool:
    return value is None or isinstance(value, dict)


def _is_text_or_null(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_zone(value: str) -> bool:
    try:
        return ZoneInfo(value) is not None
    except (ValueError, OSError, LookupError):
        return False


def _is_calendar(value: Any) -> bool:  # noqa: ANN401 - any JSON
    from scheduled_actions.deadlines.rules.working_calendar import parse_calendar  # noqa: PLC0415 - a project without deadlines does without

    try:
        return parse_calendar(value) is not None
    except ScheduledActionsError:
        return False


def _are_recipients(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str | dict) for one in value)


def _is_instant(value: object) -> bool:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        return moment is not None and moment.tzinfo is not None and moment.astimezone(UTC) is not None
    except (ValueError, OverflowError):
        return False


def _among(choices: tuple[str, ...]) -> _Rule:
    return _Rule(lambda value: isinstance(value, str) and value in choices, f"one of {', '.join(choices)}")


_COUNT = _Rule(_is_count, "a count", 0)
_OBJECT_OR_NULL = _Rule(_is_object_or_null, "an object")
_RECIPIENTS = _Rule(_are_recipients, "a list of addresses and people", ())
_RECIPIENTS_OR_NULL = _Rule(lambda value: value is None or _are_recipients(value), _RECIPIENTS.expected)
_TEXT = _Rule(lambda value: isinstance(value, str) and bool(value), "a text")
_TEXT_OR_NULL = _Rule(_is_text_or_null, "a text")
_INSTANT = _Rule(_is_instant, "an instant")
_DEFINITION = _Rule(lambda value: isinstance(value, dict), "an object", {})

_SCHEDULE: dict[str, _Rule] = {
    "jitter_seconds": _Rule(_is_seconds, "a number of seconds between 0 and a year", 0.0),
    "misfire_grace_seconds": _Rule(_is_seconds, "a number of seconds between 0 and a year", 300.0),
    "catch_up_seconds": _Rule(_is_seconds, "a number of seconds between 0 and a year", 604800.0),
    "catch_up_limit": _Rule(lambda value: _is_count(value, 1, 10_000), "between 1 and 10000", 100),
    "pause_after_failures": _Rule(lambda value: value is None or _is_count(value, 1), "a count of at least 1"),
    "consecutive_failures": _COUNT,
    "executions": _COUNT,
    "skipped": _COUNT,
    "missed": _COUNT,
    "skip": _OBJECT_OR_NULL,
    "metadata": _OBJECT_OR_NULL,
    "definition": _DEFINITION,
}
_DEADLINE: dict[str, _Rule] = {
    "recipients": _RECIPIENTS,
    "stages": _Rule(lambda value: isinstance(value, list), "a list", ()),
    "history": _Rule(lambda value: isinstance(value, list), "a list", ()),
    "timezone": _Rule(_is_zone, "an IANA name", "UTC"),
    "calendar": _Rule(_is_calendar, "a working calendar"),
    "metadata": _OBJECT_OR_NULL,
    "definition": _DEFINITION,
}
_STAGE: dict[str, _Rule] = {
    "key": _TEXT,
    "kind": _among(get_args(StageKind)),
    "offset": _TEXT,
    "action_type": _TEXT,
    "payload": _Rule(lambda _: True, "any JSON"),
    "options": _OBJECT_OR_NULL,
    "repeat": _TEXT_OR_NULL,
    "times": _Rule(lambda value: value is None or _is_count(value, 1), "a count of at least 1"),
    "to": _RECIPIENTS_OR_NULL,
    "assign": _RECIPIENTS_OR_NULL,
    "holds_while": _among(("unresolved", "unacknowledged")),
    "severity": _Rule(lambda value: value is None or value in SEVERITIES, f"one of {', '.join(SEVERITIES)}"),
    "message": _TEXT_OR_NULL,
    "state": _among(get_args(StageState)),
    "at": _INSTANT,
    "occurrence": _Rule(lambda value: _is_count(value, 1), "a count of at least 1"),
    "begun": _COUNT,
    "last_at": _INSTANT,
    "revision": _COUNT,
}
_ENTRY: dict[str, _Rule] = {"what": _TEXT, "at": _INSTANT}
#: Fields that a stored object must have; the others may be left out.
_REQUIRED = frozenset({"key", "kind", "offset", "action_type", "what"})
