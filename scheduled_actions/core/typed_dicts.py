"""`typing.TypedDict` for Python 3.11, where pydantic takes only the one of `typing_extensions`."""

from __future__ import annotations

import functools
import operator
import sys
import types
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from typing_extensions import TypedDict

#: From 3.12 on the class itself knows which keys may be missing, whatever its annotations look like.
_NEEDS_HELP = sys.version_info < (3, 12)


def for_pydantic(annotation: Any) -> Any:  # noqa: ANN401 - annotations have no common type
    """Return the annotation, with equals that pydantic takes for the TypedDicts of `typing` in it.

    They are looked for in TypedDicts, `list[…]`, unions, `Annotated` and the like, not inside models. A
    TypedDict that contains itself stays as it is, and pydantic says what to import instead.

    Raises:
        NameError: A TypedDict names a type that its module does not have.
    """
    return _replaced(annotation, {}) if _NEEDS_HELP else annotation


def _replaced(annotation: Any, seen: dict[Any, Any]) -> Any:  # noqa: ANN401
    if is_typeddict(annotation) and type(annotation).__module__ == "typing":
        if annotation not in seen:
            seen[annotation] = annotation
            seen[annotation] = _rebuilt(annotation, seen)
        return seen[annotation]
    origin, before = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return Annotated[(_replaced(before[0], seen), *before[1:])]
    after = tuple(_replaced(argument, seen) for argument in before)
    if all(new is old for new, old in zip(after, before, strict=True)):
        return annotation
    if origin in (Union, types.UnionType):
        return functools.reduce(operator.or_, after)
    return origin[after if len(after) > 1 else after[0]]


def _rebuilt(typed_dict: Any, seen: dict[Any, Any]) -> Any:  # noqa: ANN401
    fields = {}
    for name, hint in get_type_hints(typed_dict, include_extras=True).items():
        mark = get_origin(hint)
        if mark in (Required, NotRequired):
            hint = get_args(hint)[0]  # noqa: PLW2901 - the same hint, unwrapped
        else:
            mark = Required if name in typed_dict.__required_keys__ else NotRequired
        fields[name] = mark[_replaced(hint, seen)]
    return TypedDict(typed_dict.__name__, fields)  # type: ignore[operator] # mypy knows the static form only
