"""What a module declares under this package's decorators, read from its text alone."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.errors import RequestError
from scheduled_actions.registry import decorators, options
from scheduled_actions.registry.decorators import ACTION, OF_FUNCTIONS, Decorator
from scheduled_actions.registry.handler import action
from scheduled_actions.registry.problem import Problem
from scheduled_actions.registry.project_functions import DeclaredFunction, FunctionKind, declaring

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


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
    #: In which line each key of its recurrence stands.
    recurrence_lines: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDeclaration:
    """One function that the package calls by name, under `@next_occurrence` or a decorator like it."""

    file: str
    line: int
    function: DeclaredFunction
    #: Where to import it from: `handlers.calendar:payday`.
    reference: str


@dataclass(frozen=True, slots=True)
class Declarations:
    """What the text declares, and every mistake in how it does."""

    handlers: list[Declaration] = field(default_factory=list)
    functions: list[FunctionDeclaration] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def extend(self, other: Declarations) -> None:
        """Add those of another module."""
        self.handlers.extend(other.handlers)
        self.functions.extend(other.functions)
        self.problems.extend(other.problems)


@dataclass(frozen=True, slots=True)
class _Module:
    file: str
    name: str
    imported: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Marked:
    """A function under one called decorator, and the literal that it is given."""

    function: decorators.Function
    call: ast.Call
    decorator: Decorator
    argument: str


def read(source: bytes, *, file: str, module: str) -> Declarations:
    """Return what a module's text declares, and every mistake in how it does.

    Args:
        source: The file's bytes, in the encoding that Python would take them in.
        file: What the file is called in problems.
        module: Its dotted name, for references.
    """
    found = Declarations()
    try:
        tree = _parse(source)
    except SyntaxError as error:
        found.problems.append(Problem(file, error.lineno or 1, f"does not parse: {error.msg}"))
        return found
    except (ValueError, RecursionError, MemoryError) as error:
        found.problems.append(Problem(file, 1, f"does not parse: {error or type(error).__name__}"))
        return found
    home = _Module(file, module, dict(decorators.imports(tree)))
    judged: set[ast.expr] = set()
    for function in (node for node in decorators.own_level(tree) if isinstance(node, decorators.Function)):
        marks = [(mark, kind) for mark in function.decorator_list if (kind := _kind(mark, home))]
        judged.update(mark for mark, _ in marks)
        if marks:
            _declare(function, marks, home, found)
    found.problems.extend(_strays(tree, judged, home))
    found.problems.extend(_shadowed(tree, found, home))
    return found


def _parse(source: bytes) -> ast.Module:
    with warnings.catch_warnings():
        # What the text deserves a warning for is the linter's business, not the build's.
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
        # Parsing alone lets `return` outside a function through, and the import would fail.
        compile(tree, "<handler>", "exec", dont_inherit=True)
    return tree


def _kind(mark: ast.expr, home: _Module) -> Decorator | None:
    return decorators.decorator_of(mark, home.imported)


def _declare(
    function: decorators.Function, marks: list[tuple[ast.expr, Decorator]], home: _Module, found: Declarations
) -> None:
    """Add what a function declares, or what is wrong with that."""
    mark, kind = marks[0]
    if len(marks) > 1:
        is_plain = all(one is ACTION for _, one in marks)
        once = "a function handles one action type" if is_plain else "a function is declared once"
        found.problems.append(Problem(home.file, marks[1][0].lineno, f"{once}; declare a second function"))
        return
    if not isinstance(mark, ast.Call):
        found.problems.append(Problem(home.file, mark.lineno, f"{kind.called} is missing: write {kind.example}"))
        return
    argument = decorators.literal_argument(mark, kind)
    if argument is None:
        text = f"{kind.called} is no literal text, and no code runs here: write {kind.example}"
        found.problems.append(Problem(home.file, mark.lineno, text))
    elif kind is ACTION:
        _add_handler(_Marked(function, mark, kind, argument), home, found)
    else:
        _add_function(_Marked(function, mark, kind, argument), home, found)


def _add_handler(marked: _Marked, home: _Module, found: Declarations) -> None:
    line, given = marked.call.lineno, options.read(marked.call, file=home.file)
    problems = given.problems
    if given.values.get("transactional") and isinstance(marked.function, ast.AsyncFunctionDef):
        problems.append(Problem(home.file, line, "transactional=True is not for async def: write def"))
    if not problems:
        try:
            action(marked.argument, **given.values)
        except RequestError as error:
            problems.append(Problem(home.file, line, str(error)))
    found.problems.extend(problems)
    found.handlers.append(
        Declaration(
            file=home.file,
            line=line,
            action_type=marked.argument,
            reference=f"{home.name}:{marked.function.name}",
            options=given.values,
            recurrence_lines=given.recurrence_lines,
        )
    )


_KINDS: dict[str, FunctionKind] = {decorator.name: kind for kind, decorator in OF_FUNCTIONS.items()}


def _add_function(marked: _Marked, home: _Module, found: Declarations) -> None:
    decorator, line = marked.decorator, marked.call.lineno
    kind = _KINDS[decorator.name]
    others = [keyword.arg for keyword in marked.call.keywords if keyword.arg != decorator.parameter]
    if others:
        text = f"{others[0] or '**'} is no argument of @{decorator.name}: write {decorator.example}"
        found.problems.append(Problem(home.file, line, text))
    if isinstance(marked.function, ast.AsyncFunctionDef):
        text = f"@{decorator.name} is not for async def: nobody awaits its answer; write def"
        found.problems.append(Problem(home.file, line, text))
    try:
        declaring(kind, marked.argument)
    except RequestError as error:
        found.problems.append(Problem(home.file, line, str(error)))
    found.functions.append(
        FunctionDeclaration(
            file=home.file,
            line=line,
            function=DeclaredFunction(kind, marked.argument),
            reference=f"{home.name}:{marked.function.name}",
        )
    )


def _strays(tree: ast.Module, judged: set[ast.expr], home: _Module) -> Iterator[Problem]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node not in judged and (kind := _kind(node, home)):
            text = f"@{kind.name} belongs on a def at the module's top level: the registry imports it by name"
            yield Problem(home.file, node.lineno, text)


def _shadowed(tree: ast.Module, found: Declarations, home: _Module) -> Iterator[Problem]:
    last = {
        node.name: node for node in decorators.own_level(tree) if isinstance(node, decorators.Function | ast.ClassDef)
    }
    declared = [(one, "handler") for one in found.handlers] + [(one, "function") for one in found.functions]
    for one, what in declared:
        name = one.reference.rpartition(":")[2]
        marks = {mark.lineno for mark in last[name].decorator_list}
        if one.line not in marks:
            text = f"{name} is defined again in line {last[name].lineno}, which hides this {what}"
            yield Problem(home.file, one.line, text)
