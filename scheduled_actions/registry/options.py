"""The options of `@action`: what each accepts, and how they are read from the decorator's text."""

import ast
import copy
from collections.abc import Callable, Mapping
from typing import Any

from scheduled_actions.core import json_text
from scheduled_actions.core.action import PAYLOAD_LIMIT
from scheduled_actions.core.errors import InvalidArgument, RequestError
from scheduled_actions.core.errors.families import short, short_name, short_text
from scheduled_actions.core.messages import argument_hint
from scheduled_actions.core.retry import POLICIES_TEXT

#: The types that each option may have as a literal. Other expressions are evaluated when the handler is imported,
#: except those of `_LITERALS_ONLY`.
OPTIONS: dict[str, tuple[tuple[type, ...], str]] = {
    "timeout_seconds": ((int, float), "a number of seconds"),
    "max_attempts": ((int,), "an integer"),
    "retry": ((), f"a retry policy, such as {POLICIES_TEXT}"),
    "dedup_window": ((int, float), "a number of seconds"),
    "description": ((str,), "a string"),
    "recurrence": ((str, dict), 'a rule (a string, such as "every 10 minutes"), or a dict with the key rule'),
    "transactional": ((bool,), "True or False"),
    "open_to_teams": ((bool,), "True or False"),
    "limit": ((str, list, tuple), 'a limit key such as "api:{payload.customer}", or a list of up to three'),
}
#: Options that are needed before the handler is imported.
_LITERALS_ONLY = frozenset({"limit", "recurrence"})

_STRING = ((str,), "a string")
_INTEGER = ((int,), "an integer")
_SECONDS = ((int, float), "a number of seconds")
_OBJECT = ((dict,), "a JSON object (a dict)")
_ACTIONS = ((dict, list), 'an action to schedule, {"action_type": …, "payload": …}, or a list of such actions')

#: The types of the value of each key of a recurrence, and their description. The values are validated like those of
#: every schedule, when the registry is built and when the schedule is created.
RECURRENCE_KEYS: dict[str, tuple[tuple[type, ...], str]] = {
    "rule": ((str,), 'a rule such as "daily" or "0 9 * * 1-5", or an RRULE'),
    "name": _STRING,
    "timezone": _STRING,
    "payload": _OBJECT,
    "recurrence_type": _STRING,
    "misfire": _STRING,
    "misfire_grace_seconds": _SECONDS,
    "catch_up_limit": _INTEGER,
    "catch_up_seconds": _SECONDS,
    "overlap": _STRING,
    "requires_previous": ((bool,), "True or False"),
    "pause_after_failures": _INTEGER,
    "skip": _OBJECT,
    "jitter_seconds": _SECONDS,
    "until": (
        (str,),
        'an ISO 8601 string such as "2027-01-31T17:00:00+01:00" or "2027-01-31"',
    ),
    "remaining": _INTEGER,
    "priority": _INTEGER,
    "max_attempts": _INTEGER,
    "lock_group": _STRING,
    "lock_group_blocks": ((bool,), "True or False"),
    "limit": ((str, list), 'a limit key such as "api:acme", or a list of one to three keys'),
    "expires_in": _SECONDS,
    "on_expiry": _STRING,
    "team_id": _STRING,
    "metadata": _OBJECT,
    "condition": _OBJECT,
    "on_success": _ACTIONS,
    "on_failure": _ACTIONS,
}


def validate_recurrence(given: object) -> str | dict[str, Any]:
    """Validate a declared recurrence; return it, or a copy of the dict without the keys whose value is None.

    Raises:
        InvalidArgument: The recurrence is neither a string nor a dict, or the dict has no rule, an unknown key, a value
            of the wrong type, or an `until` that is not an ISO 8601 time.
    """
    if isinstance(given, str):
        return given
    if not isinstance(given, dict):
        raise InvalidArgument(
            "recurrence",
            problem=f"is of type {type(given).__name__}; it must be {OPTIONS['recurrence'][1]}",
        )
    unknown = sorted((key for key in given if key not in RECURRENCE_KEYS), key=str)
    if unknown:
        suggestion = argument_hint(
            str(unknown[0]), RECURRENCE_KEYS, otherwise=f"known keys: {', '.join(RECURRENCE_KEYS)}"
        )
        raise InvalidArgument("recurrence", unknown[0], problem=f"has no key {short(unknown[0])}; {suggestion}")
    if given.get("rule") is None:
        raise InvalidArgument("recurrence.rule", problem=f"is missing: give {RECURRENCE_KEYS['rule'][1]}")
    kept = {key: value for key, value in given.items() if value is not None}
    for key, value in kept.items():
        types, expected = RECURRENCE_KEYS[key]
        if type(value) not in types:
            # An error never repeats a payload.
            kind = f"is of type {type(value).__name__}, not {expected}" if dict in types else None
            raise InvalidArgument(f"recurrence.{key}", None if kind else value, expected, problem=kind)
    if "until" in kept:
        from scheduled_actions.core.checks import check_end  # noqa: PLC0415 - an idle tick does without

        check_end("recurrence.until", kept["until"], timezone=kept.get("timezone"))
    return copy.deepcopy(kept)


def validate_limit(given: Any) -> list[str]:  # noqa: ANN401 - the value of an option
    """Validate the limit keys of a handler, one or a list; return a list.

    Raises:
        InvalidArgument: As for `limit_keys.check_templates`.
    """
    from scheduled_actions.registry import limit_keys  # noqa: PLC0415 - an idle tick of most projects does without

    return limit_keys.check_templates(given)


#: The validation of options that have more than a type.
_CHECKS: dict[str, Callable[[Any], Any]] = {"recurrence": validate_recurrence, "limit": validate_limit}


def normalize_recurrence(declared: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return a validated recurrence as `rule` and the arguments of `schedule_recurring_action`."""
    return {"rule": declared} if isinstance(declared, str) else dict(declared)


def read(mark: ast.Call, report: Callable[[int, str], None]) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the options of `@action` that are given as literals, and the lines of its recurrence by key.

    Args:
        mark: The call of the decorator.
        report: Called with the line and the description of each mistake.

    Returns:
        The options by name, and the line of each key of the recurrence; a recurrence given as a string has the key
        `rule`.
    """
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for keyword in mark.keywords:
        name = keyword.arg
        if name is None or name == "action_type":
            continue
        if name not in OPTIONS:
            suggestion = argument_hint(name, OPTIONS, otherwise=f"known options: {', '.join(OPTIONS)}")
            report(keyword.lineno, f"@action has no option {name}; {suggestion}")
        elif (expression := _first_expression(keyword.value)) is None:
            if name == "recurrence":
                lines = _lines(keyword.value)
            try:
                value = _checked(name, ast.literal_eval(keyword.value))
            except RequestError as error:
                report(_line(error, lines) or keyword.lineno, str(error))
            else:
                values |= {} if value is None else {name: value}
        elif name in _LITERALS_ONLY:
            code = short_text(ast.unparse(expression), 60)
            report(
                expression.lineno,
                f"{name}: {code} is an expression, but handlers are read without running them: write a literal",
            )
    return values, lines


def _checked(name: str, value: object) -> object:
    """Validate the value of an option; return the value as JSON contains it, for the generated file and schedules."""
    types, expected = OPTIONS[name]
    if value is None:
        return None
    if type(value) not in types:
        raise InvalidArgument(name, value, expected)
    checked = _CHECKS[name](value) if name in _CHECKS else value
    return json_text.decode(json_text.encode(name, checked, limit=2 * PAYLOAD_LIMIT), name=name)


def _first_expression(node: ast.expr) -> ast.expr | None:
    """Return the first innermost part that is not a literal; None if the whole expression is a literal."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        parts = ast.iter_child_nodes(node) if isinstance(node, ast.Dict | ast.List | ast.Tuple) else ()
        inner = (_first_expression(part) for part in parts if isinstance(part, ast.expr))
        return next((part for part in inner if part is not None), node)
    return None


def _lines(node: ast.expr) -> dict[str, int]:
    keys = node.keys if isinstance(node, ast.Dict) else ()
    return {str(ast.literal_eval(key)): key.lineno for key in keys if key is not None} or {"rule": node.lineno}


def _line(error: RequestError, lines: Mapping[str, int]) -> int | None:
    """Return the line of the key that an error is about; None if the error is about the whole option."""
    if not isinstance(error, InvalidArgument):
        return None
    return lines.get(error.name.partition(".")[2].partition(".")[0] or short_name(error.value))
