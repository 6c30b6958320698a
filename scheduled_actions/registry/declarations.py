"""What `@action` declares in a module, read from its text alone."""

from __future__ import annotations

import ast
import difflib
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduled_actions.errors import InvalidArgument, RequestError
from scheduled_actions.handler import action

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_Function = ast.FunctionDef | ast.AsyncFunctionDef

#: Where `action` lives, by every name a module may import it under.
_ACTION = frozenset({"scheduled_actions.action", "scheduled_actions.handler.action"})
#: What an option may be where it is a literal. Any other expression is left to the imported handler.
OPTIONS: dict[str, tuple[tuple[type, ...], str]] = {
    "timeout_seconds": ((int, float), "a number of seconds"),
    "max_attempts": ((int,), "a whole number"),
    "retry": ((), "a policy: Exponential(…), Linear(…) or Delays(…)"),
    "dedup_window": ((int, float), "a number of seconds"),
    "description": ((str,), "a text"),
    "recurrence": ((str,), "a text"),
    "transactional": ((bool,), "True or False"),
}


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A mistake in a module's text, and where it stands."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"

    @property
    def where(self) -> str:
        """The file and line, as editors and terminals link them."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One handler: a function under `@action`."""

    file: str
    line: int
    action_type: str
    #: Where to import it from: `handlers.email:send_email`.
    reference: str
    #: The options given as literals.
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Module:
    file: str
    name: str
    #: The dotted name behind each imported one: `act` → `scheduled_actions.action`.
    imported: Mapping[str, str]


def read(source: bytes, *, file: str, module: str) -> tuple[list[Declaration], list[Problem]]:
    """Return the handlers that a module's text declares, and every mistake in how it does.

    Args:
        source: The file's bytes, in the encoding that Python would take them in.
        file: What the file is called in problems.
        module: Its dotted name, for references.
    """
    try:
        tree = _parse(source)
    except SyntaxError as error:
        return [], [Problem(file, error.lineno or 1, f"does not parse: {error.msg}")]
    except (ValueError, RecursionError, MemoryError) as error:
        return [], [Problem(file, 1, f"does not parse: {error or type(error).__name__}")]
    home = _Module(file, module, dict(_imports(tree)))
    declared: list[Declaration] = []
    problems: list[Problem] = []
    judged: set[ast.expr] = set()
    for function in (node for node in _own_level(tree) if isinstance(node, _Function)):
        marks = [mark for mark in function.decorator_list if _is_action(mark, home)]
        judged.update(marks)
        if marks:
            handler, mistakes = _declaration(function, marks, home)
            declared += [handler] if handler else []
            problems += mistakes
    problems += _strays(tree, judged, home)
    problems += _shadowed(tree, declared, home)
    return declared, problems


def _parse(source: bytes) -> ast.Module:
    with warnings.catch_warnings():
        # What the text deserves a warning for is the linter's business, not the build's.
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
        # Parsing alone lets `return` outside a function through, and the import would fail.
        compile(tree, "<handler>", "exec", dont_inherit=True)
    return tree


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                for name in names:
                    dotted = name.name if name.asname else name.name.partition(".")[0]
                    yield name.asname or dotted, dotted
            case ast.ImportFrom("scheduled_actions" | "scheduled_actions.handler" as package, names, 0):
                for name in names:
                    if name.name == "*":
                        yield "action", "scheduled_actions.action"
                    yield name.asname or name.name, f"{package}.{name.name}"
            case _:
                pass


def _own_level(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements that run when the module is imported, those inside its `if` and `try` as well."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, _Function | ast.ClassDef | ast.Lambda):
            yield from _own_level(node)


def _is_action(mark: ast.expr, home: _Module) -> bool:
    steps: list[str] = []
    node = mark.func if isinstance(mark, ast.Call) else mark
    while isinstance(node, ast.Attribute):
        steps.insert(0, node.attr)
        node = node.value
    return isinstance(node, ast.Name) and ".".join([home.imported.get(node.id, ""), *steps]) in _ACTION


def _declaration(function: _Function, marks: list[ast.expr], home: _Module) -> tuple[Declaration | None, list[Problem]]:
    mark = marks[0]
    if len(marks) > 1:
        return None, [
            Problem(home.file, marks[1].lineno, "a function handles one action type; declare a second function")
        ]
    if not isinstance(mark, ast.Call):
        return None, [Problem(home.file, mark.lineno, 'the action type is missing: write @action("noun:verb")')]
    action_type = _action_type(mark)
    if action_type is None:
        problem = 'the action type is no literal text, and no code runs here: write @action("noun:verb")'
        return None, [Problem(home.file, mark.lineno, problem)]
    options, problems = _options(mark, home)
    if options.get("transactional") and isinstance(function, ast.AsyncFunctionDef):
        problems.append(Problem(home.file, mark.lineno, "transactional=True is not for async def: write def"))
    if not problems:
        try:
            action(action_type, **options)
        except RequestError as error:
            problems.append(Problem(home.file, mark.lineno, str(error)))
    reference = f"{home.name}:{function.name}"
    return Declaration(
        file=home.file, line=mark.lineno, action_type=action_type, reference=reference, options=options
    ), problems


def _action_type(mark: ast.Call) -> str | None:
    named = [keyword.value for keyword in mark.keywords if keyword.arg == "action_type"]
    match mark.args + named:
        case [ast.Constant(str(action_type))]:
            return action_type
        case _:
            return None


def _options(mark: ast.Call, home: _Module) -> tuple[dict[str, Any], list[Problem]]:
    options: dict[str, Any] = {}
    problems: list[Problem] = []
    for keyword in mark.keywords:
        name = keyword.arg
        if name is None or name == "action_type":
            continue
        if name not in OPTIONS:
            near = difflib.get_close_matches(name, OPTIONS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(OPTIONS)}"
            problems.append(Problem(home.file, keyword.lineno, f"{name} is no option of @action; {hint}"))
            continue
        try:
            value = ast.literal_eval(keyword.value)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue
        types, expected = OPTIONS[name]
        if value is None:
            continue
        if type(value) in types and _is_writable(value):
            options[name] = value
        else:
            shown = InvalidArgument(name, value, expected)
            problems.append(Problem(home.file, keyword.lineno, str(shown)))
    return options, problems


def _is_writable(value: object) -> bool:
    """Whether the generated file can hold it: 1e999 is infinite, and half a surrogate pair is no UTF-8."""
    if isinstance(value, str):
        return all(not "\ud800" <= letter <= "\udfff" for letter in value)
    return not isinstance(value, float) or math.isfinite(value)


def _strays(tree: ast.Module, judged: set[ast.expr], home: _Module) -> Iterator[Problem]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node not in judged and _is_action(node, home):
            text = "@action belongs on a def at the module's top level: the registry imports it by name"
            yield Problem(home.file, node.lineno, text)


def _shadowed(tree: ast.Module, declared: list[Declaration], home: _Module) -> Iterator[Problem]:
    last = {node.name: node for node in _own_level(tree) if isinstance(node, _Function | ast.ClassDef)}
    for handler in declared:
        name = handler.reference.rpartition(":")[2]
        marks = {mark.lineno for mark in last[name].decorator_list}
        if handler.line not in marks:
            text = f"{name} is defined again in line {last[name].lineno}, which hides this handler"
            yield Problem(home.file, handler.line, text)
