"""Read the declarations of a module in `handlers/` from its text; no code of the project runs."""

import ast
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from scheduled_actions.core.errors import RequestError
from scheduled_actions.registry import options
from scheduled_actions.registry.handler import action
from scheduled_actions.registry.project_functions import FunctionKind, declare_function

_FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Decorator:
    """A decorator that the registry is built from; its first argument is a string literal."""

    name: str
    #: The module that defines it.
    home: str
    #: An argument for the example in error messages.
    example: str
    #: None for `@action`.
    kind: FunctionKind | None = None

    @property
    def parameter(self) -> str:
        """The name of the decorator's positional argument."""
        return "name" if self.kind else "action_type"

    @property
    def usage(self) -> str:
        """An example of the decorator, for error messages."""
        return f'@{self.name}("{self.example}")'


_PACKAGE = "scheduled_actions"
ACTION = Decorator("action", f"{_PACKAGE}.registry.handler", "noun:verb")
_DECORATORS = (
    ACTION,
    Decorator("next_occurrence", f"{_PACKAGE}.schedules.project_functions", "payday", "next"),
    Decorator("skip_occurrence", f"{_PACKAGE}.schedules.project_functions", "school-holidays", "skip"),
    Decorator("resolve_recipients", f"{_PACKAGE}.notifications.project_functions", "role", "recipients"),
    Decorator("condition", f"{_PACKAGE}.conditions.project_functions", "stock-is-there", "condition"),
)
_BY_DOTTED_NAME = {f"{home}.{one.name}": one for one in _DECORATORS for home in (_PACKAGE, one.home)}
#: The modules that define the decorators, and the packages of those modules.
_HOMES = {_PACKAGE, *(part for one in _DECORATORS for part in (one.home, one.home.rpartition(".")[0]))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One decorated function: a handler, or a function that the package calls by name."""

    file: str
    line: int
    decorator: Decorator
    #: The action type, or the function's name.
    name: str
    #: Where to import it from: `handlers.email:send_email`.
    reference: str
    #: The options of a handler that are given as literals; empty for a function that is not a handler.
    options: Mapping[str, Any] = field(default_factory=dict)
    #: The line of each key of the handler's recurrence.
    recurrence_lines: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The key in the registry: the action type, or `next:payday` for a function."""
        return f"{self.decorator.kind}:{self.name}" if self.decorator.kind else self.name


@dataclass(frozen=True, slots=True, order=True)
class SourceProblem:
    """A mistake in a module's text."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"

    @property
    def where(self) -> str:
        """The file and line, in the form that editors and terminals link."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Declarations:
    """The handlers and functions that source text declares, and every mistake in it."""

    handlers: list[Declaration] = field(default_factory=list)
    functions: list[Declaration] = field(default_factory=list)
    problems: list[SourceProblem] = field(default_factory=list)


def add_declarations(found: Declarations, source: bytes, *, file: str, module: str) -> None:
    """Add the declarations in a module's text, and every mistake in it.

    Args:
        found: The declarations of all modules.
        source: The file's bytes; a declared encoding is respected.
        file: The file's name in problems.
        module: The module's dotted name, for references.
    """
    try:
        tree = _parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        reason = error.msg if isinstance(error, SyntaxError) else error or type(error).__name__
        found.problems.append(SourceProblem(file, line or 1, f"the file is not valid Python: {reason}"))
        return
    reader = _Reader(file, module, dict(_imported_names(tree)), found)
    for node in _top_level(tree):
        if isinstance(node, _FunctionNode):
            reader.read(node)
    reader.report_misplaced(tree)
    reader.report_hidden(tree)


def _parse(source: bytes) -> ast.Module:
    with warnings.catch_warnings():
        # Warnings about the source text are left to linters.
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
        # Parsing accepts `return` outside a function; the import would fail.
        compile(tree, "<handler>", "exec", dont_inherit=True)
    return tree


def _imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each name that an import binds, with the dotted name behind it: `act`, `scheduled_actions.action`."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                for name in names:
                    dotted = name.name if name.asname else name.name.partition(".")[0]
                    yield name.asname or dotted, dotted
            case ast.ImportFrom(str(package), names, 0) if package in _HOMES:
                for name in names:
                    if name.name == "*":
                        homed = (one for one in _DECORATORS if package in {_PACKAGE, one.home})
                        yield from ((one.name, f"{_PACKAGE}.{one.name}") for one in homed)
                    yield name.asname or name.name, f"{package}.{name.name}"


def _top_level(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run when the module is imported, including those inside `if` and `try`."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, _FunctionNode | ast.ClassDef | ast.Lambda):
            yield from _top_level(node)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Collects the declarations of one module."""

    file: str
    module: str
    #: The dotted name of each imported name.
    imported: Mapping[str, str]
    found: Declarations
    _seen: set[ast.expr] = field(default_factory=set)

    def read(self, function: _FunctionNode) -> None:
        """Add the declaration of a function, or the mistake in it."""
        marks = [(mark, one) for mark in function.decorator_list if (one := self._decorator_of(mark))]
        self._seen.update(mark for mark, _ in marks)
        if not marks:
            return
        mark, decorator = marks[0]
        subject = "the name" if decorator.kind else "the action type"
        if len(marks) > 1:
            use = "handle one action type" if all(one is ACTION for _, one in marks) else "be declared once"
            self._report(marks[1][0].lineno, f"a function can only {use}: write a second function")
        elif not isinstance(mark, ast.Call):
            self._report(mark.lineno, f"{subject} is missing: write {decorator.usage}")
        elif (name := _literal_argument(mark, decorator)) is None:
            self._report(
                mark.lineno,
                f"{subject} must be a string literal, because handlers are read without running them: write "
                f"{decorator.usage}",
            )
        else:
            self._add(function, mark, decorator, name)

    def report_misplaced(self, tree: ast.Module) -> None:
        """Report decorators that are not on a top-level function."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node not in self._seen and (decorator := self._decorator_of(node)):
                text = f"@{decorator.name} belongs on a def at the module's top level: functions are imported by name"
                self._report(node.lineno, text)

    def report_hidden(self, tree: ast.Module) -> None:
        """Report declared functions that a later definition of the same name replaces."""
        last = {node.name: node for node in _top_level(tree) if isinstance(node, _FunctionNode | ast.ClassDef)}
        declared = (one for one in [*self.found.handlers, *self.found.functions] if one.file == self.file)
        for one in declared:
            name = one.reference.rpartition(":")[2]
            if one.line not in {mark.lineno for mark in last[name].decorator_list}:
                what = "function" if one.decorator.kind else "handler"
                self._report(one.line, f"{name} is defined again on line {last[name].lineno}, which hides this {what}")

    def _report(self, line: int, text: str) -> None:
        self.found.problems.append(SourceProblem(self.file, line, text))

    def _decorator_of(self, mark: ast.expr) -> Decorator | None:
        """Return the decorator that an expression refers to, called or not; None for any other decorator."""
        steps: list[str] = []
        node = mark.func if isinstance(mark, ast.Call) else mark
        while isinstance(node, ast.Attribute):
            steps.insert(0, node.attr)
            node = node.value
        first = self.imported.get(node.id, "") if isinstance(node, ast.Name) else ""
        return _BY_DOTTED_NAME.get(".".join([first, *steps]))

    def _takes_context_first(self, function: _FunctionNode) -> bool:
        match function.args.posonlyargs + function.args.args:
            case [first, _]:
                name = first.annotation.id if isinstance(first.annotation, ast.Name) else ""
                return first.arg in {"context", "ctx"} or self.imported.get(name) == f"{_PACKAGE}.Context"
            case _:
                return False

    def _add(self, function: _FunctionNode, mark: ast.Call, decorator: Decorator, name: str) -> None:
        """Add a declaration, and the mistakes in its options."""
        values, recurrence_lines = options.read(mark, self._report) if decorator is ACTION else ({}, {})
        unknown = [keyword.arg or "**" for keyword in mark.keywords if keyword.arg != decorator.parameter]
        if unknown and decorator is not ACTION:
            self._report(mark.lineno, f"@{decorator.name} has no argument {unknown[0]}: write {decorator.usage}")
        if isinstance(function, ast.AsyncFunctionDef) and (decorator is not ACTION or values.get("transactional")):
            what = "transactional=True" if decorator is ACTION else f"@{decorator.name}"
            self._report(mark.lineno, f"{what} does not work with async def: write def")
        if decorator is ACTION and self._takes_context_first(function):
            self._report(function.lineno, f"the payload comes first: write def {function.name}(payload, context)")
        try:
            if decorator.kind is None:
                action(name, **values)
            else:
                declare_function(decorator.kind, name)
        except RequestError as error:
            self._report(mark.lineno, str(error))
        (self.found.functions if decorator.kind else self.found.handlers).append(
            Declaration(
                file=self.file,
                line=mark.lineno,
                decorator=decorator,
                name=name,
                reference=f"{self.module}:{function.name}",
                options=values,
                recurrence_lines=recurrence_lines,
            )
        )


def _literal_argument(mark: ast.Call, decorator: Decorator) -> str | None:
    """Return the action type or name, given by position or keyword; None unless it is one string literal."""
    named = [keyword.value for keyword in mark.keywords if keyword.arg == decorator.parameter]
    match mark.args + named:
        case [ast.Constant(str(argument))]:
            return argument
        case _:
            return None
