"""The decorators of this package in a module's text, by whatever name the module imports them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from scheduled_actions.registry.project_functions import FunctionKind

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
#: The dotted name behind each imported one: `act` → `scheduled_actions.action`.
Imported: TypeAlias = "Mapping[str, str]"

_PACKAGE = "scheduled_actions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decorator:
    """A decorator that the registry is built from; its one positional argument is a literal text."""

    name: str
    #: The module that defines it.
    home: str
    #: What its argument is called, by itself and in words.
    parameter: str
    called: str
    #: How it is written.
    example: str

    @property
    def dotted_names(self) -> tuple[str, ...]:
        """Every name that it can be imported under."""
        return f"{_PACKAGE}.{self.name}", f"{self.home}.{self.name}"


ACTION = Decorator(
    name="action",
    home="scheduled_actions.registry.handler",
    parameter="action_type",
    called="the action type",
    example='@action("noun:verb")',
)
NEXT_OCCURRENCE = Decorator(
    name="next_occurrence",
    home="scheduled_actions.schedules.project_functions",
    parameter="name",
    called="the name",
    example='@next_occurrence("payday")',
)
SKIP_OCCURRENCE = Decorator(
    name="skip_occurrence",
    home="scheduled_actions.schedules.project_functions",
    parameter="name",
    called="the name",
    example='@skip_occurrence("school-holidays")',
)

RESOLVE_RECIPIENTS = Decorator(
    name="resolve_recipients",
    home="scheduled_actions.notifications.project_functions",
    parameter="name",
    called="the name",
    example='@resolve_recipients("role")',
)

CONDITION = Decorator(
    name="condition",
    home="scheduled_actions.conditions.project_functions",
    parameter="name",
    called="the name",
    example='@condition("stock-is-there")',
)

#: By the kind of function that each declares.
OF_FUNCTIONS: Mapping[FunctionKind, Decorator] = {
    "next": NEXT_OCCURRENCE,
    "skip": SKIP_OCCURRENCE,
    "recipients": RESOLVE_RECIPIENTS,
    "condition": CONDITION,
}
_DECORATORS = (ACTION, *OF_FUNCTIONS.values())
_BY_DOTTED_NAME = {dotted: decorator for decorator in _DECORATORS for dotted in decorator.dotted_names}
#: The modules that define them, and the packages of those.
_HOMES = frozenset({
    _PACKAGE, *(part for one in _DECORATORS for part in (one.home, one.home.rpartition(".")[0])),
})  # fmt: skip


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield what a module's imports bind, as far as a decorator may stand behind it."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                for name in names:
                    dotted = name.name if name.asname else name.name.partition(".")[0]
                    yield name.asname or dotted, dotted
            case ast.ImportFrom(str(package), names, 0) if package in _HOMES:
                for name in names:
                    if name.name == "*":
                        yield from ((one.name, f"{_PACKAGE}.{one.name}") for one in _of(package))
                    yield name.asname or name.name, f"{package}.{name.name}"
            case _:
                pass


def _of(package: str) -> Iterator[Decorator]:
    return (one for one in _DECORATORS if package in {_PACKAGE, one.home})


def decorator_of(mark: ast.expr, imported: Imported) -> Decorator | None:
    """Return which decorator an expression is, called or not; None: somebody else's, or none."""
    steps: list[str] = []
    node = mark.func if isinstance(mark, ast.Call) else mark
    while isinstance(node, ast.Attribute):
        steps.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return _BY_DOTTED_NAME.get(".".join([imported.get(node.id, ""), *steps]))


def literal_argument(mark: ast.Call, decorator: Decorator) -> str | None:
    """Return what a decorator is given; None where that is no literal text."""
    named = [keyword.value for keyword in mark.keywords if keyword.arg == decorator.parameter]
    match mark.args + named:
        case [ast.Constant(str(argument))]:
            return argument
        case _:
            return None


def own_level(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements that run when the module is imported, those inside its `if` and `try` as well."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, Function | ast.ClassDef | ast.Lambda):
            yield from own_level(node)
