"""Build deadlines from rows that SQL may have written with values that no function of ours stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args
from zoneinfo import ZoneInfo

from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.core.stored_values import (
    COUNT,
    INSTANT,
    OBJECT,
    OBJECT_OR_NULL,
    SHOWN,
    TEXT,
    TEXT_OR_NULL,
    ValueRule,
    count_rule,
    one_of,
    or_null,
    problem_of,
    usable,
)
from scheduled_actions.deadlines.model import Deadline, Stage, StageKind, StageState
from scheduled_actions.deadlines.rules.working_calendar import parse_calendar
from scheduled_actions.notifications.rules.severity import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Mapping


def deadline_of(values: Mapping[str, Any]) -> Deadline:
    """Return the deadline of a row's columns by name; stages and history entries that cannot be used are left out."""
    found, problem = usable(values, _COLUMNS)
    stages, broken_stage = _stages_of(found["stages"])
    entries = tuple(one for one in found["history"] if problem_of(one, _ENTRY, required=_REQUIRED) is None)
    broken_entry = None if len(entries) == len(found["history"]) else "history: an entry has no `what` and `at`"
    found |= {"stages": stages, "history": entries, "recipients": tuple(found["recipients"])}
    return Deadline(**found, problem=problem or broken_stage or broken_entry)


def asked_stages(definition: Mapping[str, Any]) -> tuple[Stage, ...] | None:
    """Return the stages that the stored definition of a deadline asks for; None where they cannot be read."""
    stored = definition.get("stages", [])
    stages, problem = _stages_of(stored) if isinstance(stored, list) else ((), "stages: not a list")
    return stages if problem is None else None


def _stages_of(stored: list[Any]) -> tuple[tuple[Stage, ...], str | None]:
    stages, problem = [], None
    for position, one in enumerate(stored):
        broken = _problem_of_stage(one)
        if broken is None:
            stages.append(Stage.from_json(one))
        else:
            problem = problem or f"stages[{position}]{broken}"
    return tuple(stages), problem


def _problem_of_stage(stored: Any) -> str | None:  # noqa: ANN401 - any JSON
    unknown = stored.keys() - _STAGE.keys() if isinstance(stored, dict) else ()
    if unknown:
        return f".{min(unknown)[:SHOWN]}: is no field of a stage"
    return problem_of(stored, _STAGE, required=_REQUIRED)


def _is_zone(value: str) -> bool:
    try:
        return ZoneInfo(value) is not None
    except (ValueError, OSError, LookupError):
        return False


def _is_calendar(value: Any) -> bool:  # noqa: ANN401 - any JSON
    try:
        return parse_calendar(value) is not None
    except ScheduledActionsError:
        return False


def _are_recipients(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str | dict) for one in value)


_RECIPIENTS = ValueRule(_are_recipients, "a list of addresses and people", ())
_LIST = ValueRule(lambda value: isinstance(value, list), "a list", ())

_COLUMNS: dict[str, ValueRule] = {
    "recipients": _RECIPIENTS,
    "stages": _LIST,
    "history": _LIST,
    "timezone": ValueRule(_is_zone, "an IANA name", "UTC"),
    "calendar": ValueRule(_is_calendar, "a working calendar"),
    "metadata": OBJECT_OR_NULL,
    "definition": OBJECT,
}
_STAGE: dict[str, ValueRule] = {
    "key": TEXT,
    "kind": one_of(get_args(StageKind)),
    "offset": TEXT,
    "action_type": TEXT,
    "payload": ValueRule(lambda _: True, "any JSON"),
    "options": OBJECT_OR_NULL,
    "repeat": TEXT_OR_NULL,
    "times": or_null(count_rule(1, expected="a count of at least 1")),
    "to": or_null(_RECIPIENTS),
    "assign": or_null(_RECIPIENTS),
    "holds_while": one_of(("unresolved", "unacknowledged")),
    "severity": or_null(one_of(SEVERITIES)),
    "message": TEXT_OR_NULL,
    "state": one_of(get_args(StageState)),
    "at": INSTANT,
    "occurrence": count_rule(1, expected="a count of at least 1"),
    "begun": COUNT,
    "last_at": INSTANT,
    "revision": COUNT,
}
_ENTRY: dict[str, ValueRule] = {"what": TEXT, "at": INSTANT}
#: Fields that a stored stage or entry must have; the others may be left out.
_REQUIRED = frozenset({"key", "kind", "offset", "action_type", "what"})
