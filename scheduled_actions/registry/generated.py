"""The generated file: read as text, nothing in it is run."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from scheduled_actions.core.errors import InvalidArgument, RegistryInvalid
from scheduled_actions.registry import recurrence_option
from scheduled_actions.registry.handler import ACTION_TYPE_PATTERN, HandlerOptions
from scheduled_actions.registry.importing import HANDLERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: The generated file in it.
REGISTRY_NAME = "_registry.py"

#: What to do about a registry that is missing, stale or broken.
_REMEDY = "run `python registry_build.py`"

_REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_FUNCTION = re.compile(r"(next|skip|recipients|condition):[A-Za-z0-9][A-Za-z0-9._\-]{0,99}")
_OPTIONS = frozenset(field.name for field in fields(HandlerOptions)) - {"action_type"}


class Generated(NamedTuple):
    """What the generated file holds."""

    #: Reference (`handlers.email:send_email`) by action type.
    handlers: dict[str, str]
    #: Options declared as literals, by action type; types without any are not in it.
    options: dict[str, dict[str, Any]]
    #: Reference by what recurrences call it: `next:payday`. A file written before there were any has none.
    functions: dict[str, str]


def read(project: Path) -> Generated:
    """Return what the generated file holds, read as text.

    Raises:
        RegistryInvalid: It is missing, or not what `write` writes.
    """
    path = project / HANDLERS / REGISTRY_NAME
    try:
        values = dict(_assigned(ast.parse(path.read_text(encoding="utf-8"))))
    except FileNotFoundError as error:
        raise unusable(problem="is missing") from error
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise unusable(problem=f"cannot be read ({type(error).__name__})") from error
    handlers, options, functions = values.get("HANDLERS"), values.get("OPTIONS", {}), values.get("FUNCTIONS", {})
    if not _are_references(handlers, ACTION_TYPE_PATTERN):
        raise unusable(problem="holds no HANDLERS of action types and references")
    if not isinstance(options, dict) or not all(map(_are_options, options.values())):
        raise unusable(problem="holds no OPTIONS by action type")
    if not _are_references(functions, _FUNCTION):
        raise unusable(problem="holds no FUNCTIONS of names and references")
    return Generated(handlers, options, functions)


def _assigned(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    for statement in tree.body:
        match statement:
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, ast.expr() as value):
                yield name, ast.literal_eval(value)
            case _:
                pass


def _are_references(given: object, names: re.Pattern[str]) -> TypeGuard[dict[str, str]]:
    return isinstance(given, dict) and all(
        isinstance(name, str)
        and isinstance(reference, str)
        and names.fullmatch(name) is not None
        and _REFERENCE.fullmatch(reference) is not None
        for name, reference in given.items()
    )


def _are_options(given: object) -> bool:
    if not isinstance(given, dict) or not given.keys() <= _OPTIONS:
        return False
    try:
        return "recurrence" not in given or bool(recurrence_option.checked(given["recurrence"]))
    except InvalidArgument:
        return False


def unusable(*, problem: str) -> RegistryInvalid:
    """Return the error that says what is wrong with the generated file, and what to do."""
    return RegistryInvalid(f"{HANDLERS}/{REGISTRY_NAME}", f"{problem}: {_REMEDY}")
