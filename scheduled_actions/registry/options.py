"""The options of an `@action` line, read from its text alone."""

from __future__ import annotations

import ast
import difflib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scheduled_actions.core import json_text
from scheduled_actions.core.action import PAYLOAD_LIMIT
from scheduled_actions.core.errors import InvalidArgument, RequestError
from scheduled_actions.core.errors.families import short_name
from scheduled_actions.core.retry import POLICIES_TEXT
from scheduled_actions.registry import recurrence_option
from scheduled_actions.registry.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What an option may be where it is a literal. Any other expression is left to the imported handler, except that of a
#: recurrence: its schedule is made before anything is imported.
OPTIONS: dict[str, tuple[tuple[type, ...], str]] = {
    "timeout_seconds": ((int, float), "a number of seconds"),
    "max_attempts": ((int,), "a whole number"),
    "retry": ((), f"a policy: one of {POLICIES_TEXT}"),
    "dedup_window": ((int, float), "a number of seconds"),
    "description": ((str,), "a text"),
    "recurrence": ((str, dict), "a rule as text, or a dict with the key rule"),
    "transactional": ((bool,), "True or False"),
    "open_to_teams": ((bool,), "True or False"),
}

_INTEGER_BOUND: int = 10**json_text.MAX_DIGITS


@dataclass(frozen=True, slots=True)
class Options:
    """What an `@action` line says beside the type."""

    #: Those that are literals, by name.
    values: dict[str, Any] = field(default_factory=dict)
    #: In which line each key of the recurrence stands; its text form is a rule.
    recurrence_lines: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def read(mark: ast.Call, *, file: str) -> Options:
    """Return the options of a call of `@action`, and every mistake in them.

    Args:
        mark: The call.
        file: What its file is called in problems.
    """
    found = Options()
    for keyword in mark.keywords:
        name = keyword.arg
        if name is None or name == "action_type":
            continue
        if name not in OPTIONS:
            near = difflib.get_close_matches(name, OPTIONS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(OPTIONS)}"
            found.problems.append(Problem(file, keyword.lineno, f"{name} is no option of @action; {hint}"))
            continue
        opaque = _opaque(keyword.value)
        if opaque is None:
            found.problems.extend(_judge(name, keyword, found, file))
        elif name == "recurrence":
            text = f"recurrence: {_shown(opaque)} is no literal, and no code runs here: write it out"
            found.problems.append(Problem(file, opaque.lineno, text))
    return found


def _judge(name: str, keyword: ast.keyword, found: Options, file: str) -> list[Problem]:
    """Take an option that is a literal, or return what is wrong with it."""
    value = ast.literal_eval(keyword.value)
    types, expected = OPTIONS[name]
    if value is None:
        return []
    try:
        if type(value) not in types or not _is_writable(value):
            raise InvalidArgument(name, value, expected)
        if name == "recurrence":
            found.recurrence_lines.update(_lines(keyword.value))
            # What the file holds is what the table will.
            text = json_text.encode(name, recurrence_option.checked(value), limit=2 * PAYLOAD_LIMIT)
            value = json_text.decode(text, name=name)
    except RequestError as error:
        return [Problem(file, _line(error, keyword, found.recurrence_lines), str(error))]
    found.values[name] = value
    return []


def _opaque(node: ast.expr) -> ast.expr | None:
    """Return the innermost expression that is no literal; None where all of it is one."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        parts: list[ast.expr | None] = []
        match node:
            case ast.Dict(keys, values):
                parts = [*keys, *values]
            case ast.List(items) | ast.Tuple(items):
                parts = [*items]
            case _:
                pass
        inner = (_opaque(part) for part in parts if part is not None)
        return next((part for part in inner if part is not None), node)
    return None


def _shown(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:59]}…"  # noqa: PLR2004 - enough to find it


def _lines(node: ast.expr) -> Mapping[str, int]:
    if not isinstance(node, ast.Dict):
        return {"rule": node.lineno}
    return {str(ast.literal_eval(key)): key.lineno for key in node.keys if key is not None}


def _line(error: RequestError, keyword: ast.keyword, lines: Mapping[str, int]) -> int:
    """Return where an error points: at the key it names, at one that there is not, or at the option."""
    if not isinstance(error, InvalidArgument):
        return keyword.lineno
    key = error.name.partition(".")[2].partition(".")[0]
    return lines.get(key or short_name(error.value), keyword.lineno)


def _is_writable(value: object) -> bool:
    """Whether the generated file can hold it.

    1e999 is infinite, half a surrogate pair is no UTF-8, and Python writes no integer of more than 4,300 digits.
    """
    match value:
        case str():
            return all(not "\ud800" <= letter <= "\udfff" for letter in value)
        case float():
            return math.isfinite(value)
        case int():
            return abs(value) < _INTEGER_BOUND
        case _:
            return True
