"""The generated file: read as text, nothing in it is run."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from scheduled_actions.errors import RegistryInvalid
from scheduled_actions.handler import ACTION_TYPE_PATTERN, HandlerOptions
from scheduled_actions.registry.importing import HANDLERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: The generated file in it.
REGISTRY_NAME = "_registry.py"

#: What to do about a registry that is missing, stale or broken.
_REMEDY = "run `python registry_build.py`"

_REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_OPTIONS = frozenset(field.name for field in fields(HandlerOptions)) - {"action_type"}


def read(project: Path) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Return the handlers and options in the generated file, read as text.

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
    handlers, options = values.get("HANDLERS"), values.get("OPTIONS", {})
    if not isinstance(handlers, dict) or not all(map(_is_entry, handlers.items())):
        raise unusable(problem="holds no HANDLERS of action types and references")
    if not isinstance(options, dict) or not all(map(_are_options, options.values())):
        raise unusable(problem="holds no OPTIONS by action type")
    return handlers, options


def _assigned(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    for statement in tree.body:
        match statement:
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, ast.expr() as value):
                yield name, ast.literal_eval(value)
            case _:
                pass


def _is_entry(entry: tuple[object, object]) -> bool:
    action_type, reference = entry
    return (
        isinstance(action_type, str)
        and isinstance(reference, str)
        and ACTION_TYPE_PATTERN.fullmatch(action_type) is not None
        and _REFERENCE.fullmatch(reference) is not None
    )


def _are_options(given: object) -> bool:
    return isinstance(given, dict) and given.keys() <= _OPTIONS


def unusable(*, problem: str) -> RegistryInvalid:
    """Return the error that says what is wrong with the generated file, and what to do."""
    return RegistryInvalid(f"{HANDLERS}/{REGISTRY_NAME}", f"{problem}: {_REMEDY}")
