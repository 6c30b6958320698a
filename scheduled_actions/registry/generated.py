"""Read the generated registry as text, without running it."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from scheduled_actions.core.errors import InvalidArgument, RegistryInvalid
from scheduled_actions.registry.handler import ACTION_TYPE_PATTERN, HandlerOptions
from scheduled_actions.registry.loading import HANDLERS
from scheduled_actions.registry.options import validate_limit, validate_recurrence

#: The generated file in `handlers/`.
REGISTRY_NAME = "_registry.py"

_REFERENCE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_FUNCTION = re.compile(r"(next|skip|recipients|condition):[A-Za-z0-9][A-Za-z0-9._\-]{0,99}")
_OPTIONS = frozenset(one.name for one in fields(HandlerOptions)) - {"action_type"}


@dataclass(frozen=True, kw_only=True)
class RegistryContent:
    """The handlers and functions of a project, as the generated file contains them."""

    #: Reference (`handlers.email:send_email`) by action type.
    handlers: Mapping[str, str]
    #: Options given as literals, by action type; action types without such options are left out.
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Reference by function key (`next:payday`).
    functions: Mapping[str, str] = field(default_factory=dict)


def read(project: Path) -> RegistryContent:
    """Read the generated file of a project.

    Raises:
        RegistryInvalid: The file is missing, cannot be read, or does not have the form that `source.write` produces.
    """
    try:
        text = (project / HANDLERS / REGISTRY_NAME).read_text(encoding="utf-8")
        found = {"HANDLERS": None, "OPTIONS": {}, "FUNCTIONS": {}} | dict(_assigned(ast.parse(text)))
    except FileNotFoundError as error:
        if not (project / HANDLERS).is_dir():
            raise folder_missing(project) from error
        raise registry_error(problem="is missing") from error
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise registry_error(problem=f"cannot be read ({type(error).__name__})") from error
    options = found["OPTIONS"]
    for is_valid, expected in (
        (_are_references(found["HANDLERS"], ACTION_TYPE_PATTERN), "HANDLERS, which maps action types to references"),
        (
            isinstance(options, dict) and all(map(_are_options, options.values())),
            "OPTIONS, which maps action types to options",
        ),
        (_are_references(found["FUNCTIONS"], _FUNCTION), "FUNCTIONS, which maps the keys of functions to references"),
    ):
        if not is_valid:
            raise registry_error(problem=f"has no valid {expected}")
    return RegistryContent(handlers=found["HANDLERS"], options=options, functions=found["FUNCTIONS"])


def registry_error(*, problem: str) -> RegistryInvalid:
    """Return the error for an unusable generated file; `problem` completes a sentence about the file."""
    return RegistryInvalid(
        f"{HANDLERS}/{REGISTRY_NAME}", f"the generated file {problem}; run `python registry_build.py`"
    )


def folder_missing(project: Path) -> RegistryInvalid:
    """Return the error for a directory without handlers, which is usually not the project that the caller means."""
    remedy = "create it, run the command in the project's directory, or set SCHEDULED_ACTIONS_PROJECT"
    return RegistryInvalid(f"{HANDLERS}/", f"there is no such folder in {project}: {remedy}")


def _assigned(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    for statement in tree.body:
        match statement:
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, ast.expr() as value):
                yield name, ast.literal_eval(value)
            case _:
                pass


def _are_references(given: object, names: re.Pattern[str]) -> bool:
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
        for name, validate in (("recurrence", validate_recurrence), ("limit", validate_limit)):
            if name in given:
                validate(given[name])
    except InvalidArgument:
        return False
    return True
