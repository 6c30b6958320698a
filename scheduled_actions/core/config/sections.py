"""From the tables of a file to dataclasses: each value checked, each error with the name of what it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from typing import Any, TypeVar

from scheduled_actions.core.config import checks

Section = TypeVar("Section")


def setting(default: Any, check: checks.Check) -> Any:  # noqa: ANN401 - a field of any type
    """Return a field of a section: its default, and what a value must be."""
    return field(default=default, metadata={"check": check})


class Bad(ValueError):
    """A value that cannot be: its dotted name, and what would be right."""

    def __init__(self, key: str, value: object, expected: str, *, beside: tuple[str, ...] = ()) -> None:
        self.key = key
        self.value = value
        self.expected = expected
        #: Of a name that means nothing: those that are known in its table.
        self.beside = beside
        super().__init__(key)


def section(kind: type[Section], values: Any, where: str) -> Section:  # noqa: ANN401 - it is what is judged
    """Return a section made of its values; `where` is its dotted name."""
    prefix = f"{where}." if where else ""
    if not isinstance(values, Mapping):
        raise Bad(where, values, "should be a table")
    known: dict[str, Field[Any]] = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    for name in values:
        if name not in known:
            raise Bad(f"{prefix}{name}", None, "is no setting", beside=tuple(known))
    made: dict[str, Any] = {}
    for name, one in known.items():
        if name not in values:
            if one.default is MISSING and one.default_factory is MISSING:
                raise Bad(f"{prefix}{name}", None, "is needed")
        elif is_dataclass(one.default):
            made[name] = section(type(one.default), values[name], f"{prefix}{name}")
        else:
            made[name] = checked(one.metadata["check"], values[name], f"{prefix}{name}")
    return kind(**made)


def checked(check: checks.Check, value: Any, key: str) -> Any:  # noqa: ANN401 - it is what is judged
    """Return a value as its check has it; what the check refuses is refused by the value's name."""
    try:
        return check(value)
    except Bad as bad:
        raise Bad(f"{key}.{bad.key}", bad.value, bad.expected, beside=bad.beside) from None
    except ValueError as error:
        is_shown = not isinstance(value, list | dict) and not isinstance(error, checks.Unshown)
        raise Bad(key, value if is_shown else None, str(error)) from None


def named(kind: type[Section], value: Any, noun: str) -> dict[str, Section]:  # noqa: ANN401 - it is what is judged
    """Return sections by names of the user's own."""
    if not isinstance(value, dict):
        message = f"should be a table of {noun}"
        raise ValueError(message)  # noqa: TRY004 - every check raises the same
    for name in value:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}", name):
            message = f"should hold names of letters, digits and _ . -, which {name!r} is not"
            raise ValueError(message)
    return {name: section(kind, given, name) for name, given in value.items()}
