"""Validate equal arguments of the deadlines in one call once."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from scheduled_actions.deadlines.model import Stage

#: Maximum nesting of arguments that are compared.
_DEPTH = 8
_COMPARED = frozenset({int, float, bool, timedelta, type(None)})


class CommonArguments:
    """The arguments of the deadlines in one call that are already validated."""

    def __init__(self) -> None:
        self._stages: dict[object, tuple[Stage, ...]] = {}
        #: By the identity of stages, the team and the reach: these stages, and the validated ones.
        self.validated: dict[object, tuple[tuple[Stage, ...], tuple[Stage, ...]]] = {}
        #: Keys of the recipients that were validated.
        self.recipients: set[str] = set()

    def stages(self, arguments: list[Any], parse: Callable[[], tuple[Stage, ...]]) -> tuple[Stage, ...]:
        """Return the stages of a deadline; those of equal arguments are the same object.

        Args:
            arguments: The values on which the stages depend.
            parse: Returns the stages.
        """
        key = _comparable(arguments, _DEPTH)
        if key is None:
            return parse()
        if key not in self._stages:
            self._stages[key] = parse()
        return self._stages[key]


def _comparable(value: Any, depth: int) -> object:  # noqa: ANN401 - any JSON
    """Return a hashable value that is equal only for equal JSON of the same types; None for any other value."""
    kind = type(value)
    if kind is str:
        return value
    if kind is list or kind is tuple or kind is dict:
        parts = value if kind is not dict else [one for item in value.items() for one in item]
        found = tuple([_comparable(one, depth - 1) for one in parts]) if depth else (None,)
        return None if None in found else (kind, found)
    return (kind, value) if kind in _COMPARED else None
