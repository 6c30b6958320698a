"""Build deadlines from stored rows, which can contain invalid values written by SQL."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, get_args

from scheduled_actions.conditions.rules.parsing import parse_condition
from scheduled_actions.core.checks import check_timezone
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
from scheduled_actions.deadlines.rules.calendar import parse_calendar
from scheduled_actions.notifications.rules.reminder import SEVERITIES


def deadline_of(values: Mapping[str, Any]) -> Deadline:
    """Return the deadline of a row; `problem` describes the first invalid value.

    Invalid stages and history entries are left out, and other invalid values are replaced.
    """
    found, problem = usable(values, _COLUMNS)
    stages, broken_stage = _stages_of(found["stages"])
    entries = tuple(one for one in found["history"] if problem_of(one, _ENTRY, required=_REQUIRED) is None)
    broken_entry = (
        None if len(entries) == len(found["history"]) else "history: an entry has no `what`, or an invalid `at`"
    )
    found |= {"stages": stages, "history": entries, "recipients": tuple(found["recipients"])}
    return Deadline(**found, problem=problem or broken_stage or broken_entry)


def asked_stages(definition: Mapping[str, Any]) -> tuple[Stage, ...] | None:
    """Return the stages of a stored definition; None if they are invalid."""
    stored = definition.get("stages", [])
    stages, problem = _stages_of(stored) if isinstance(stored, list) else ((), "stages: not a list")
    return stages if problem is None else None


def _stages_of(stored: list[Any]) -> tuple[tuple[Stage, ...], str | None]:
    problems = [_problem_of_stage(one) for one in stored]
    stages = tuple(Stage.from_json(one) for one, problem in zip(stored, problems, strict=True) if problem is None)
    return stages, next((f"stages[{n}]{problem}" for n, problem in enumerate(problems) if problem is not None), None)


def _problem_of_stage(stored: Any) -> str | None:  # noqa: ANN401 - any JSON
    unknown = stored.keys() - _STAGE.keys() if isinstance(stored, dict) else ()
    if unknown:
        return f".{min(unknown)[:SHOWN]} is an unknown field of a stage: remove or rename it"
    return problem_of(stored, _STAGE, required=_REQUIRED)


def _is_accepted(check: Callable[[Any], object], value: Any) -> bool:  # noqa: ANN401 - any JSON
    try:
        check(value)
    except ScheduledActionsError:
        return False
    return True


_RECIPIENTS = ValueRule(
    lambda value: isinstance(value, list) and all(isinstance(one, str | dict) for one in value),
    "a list of addresses and people",
    (),
)
_LIST = ValueRule(lambda value: isinstance(value, list), "a list", ())

_COLUMNS: dict[str, ValueRule] = {
    "recipients": _RECIPIENTS,
    "stages": _LIST,
    "history": _LIST,
    "timezone": ValueRule(partial(_is_accepted, check_timezone), "an IANA time zone", "UTC"),
    "calendar": ValueRule(partial(_is_accepted, parse_calendar), "a working calendar"),
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
    "condition": or_null(ValueRule(partial(_is_accepted, parse_condition), "a condition")),
    "repeat": TEXT_OR_NULL,
    "times": or_null(count_rule(1, expected="a count of at least 1")),
    "to": or_null(_RECIPIENTS),
    "assign": or_null(_RECIPIENTS),
    "stop_when": one_of(("resolved", "acknowledged")),
    "severity": or_null(one_of(SEVERITIES)),
    "message": TEXT_OR_NULL,
    "state": one_of(get_args(StageState)),
    "at": INSTANT,
    "occurrence": count_rule(1, expected="a count of at least 1"),
    "begun": COUNT,
    "last_at": INSTANT,
    "revision": COUNT,
    "replaces": or_null(count_rule(1, expected="a count of at least 1")),
}
_ENTRY: dict[str, ValueRule] = {"what": TEXT, "at": INSTANT}
#: Required fields of a stored stage or history entry.
_REQUIRED = frozenset({"key", "kind", "offset", "action_type", "what"})
