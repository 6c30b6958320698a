"""Check arguments that client functions pass to SQL statements unchanged."""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from scheduled_actions.core.checks import check_integer, check_text, check_uuid
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.messages import suggests_keywords

_P = ParamSpec("_P")
_R = TypeVar("_R")


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a function that checks the keyword arguments named in `_CHECKS` before it calls the decorated function.

    A `TypeError` for an unknown keyword argument contains the name to use.
    """

    @suggests_keywords
    @wraps(function)
    def call(*values: _P.args, **named: _P.kwargs) -> _R:
        for name in _CHECKS.keys() & named.keys():
            _CHECKS[name](name, named[name])
        return function(*values, **named)

    return call


def _check_flag(name: str, value: Any) -> None:  # noqa: ANN401 - what the caller passes
    if not isinstance(value, bool):
        raise InvalidArgument(name, value, "True or False")


#: Functions that raise `InvalidArgument` for an invalid value, by the name of the argument; their results are ignored.
_CHECKS: Mapping[str, Callable[[str, Any], object]] = {
    "team_id": check_text,
    "by": check_text,
    "edit_lock_seconds": partial(check_integer, least=0, most=2**31 - 1),
    "also_running": _check_flag,
    "is_overdue": _check_flag,
    "series_id": check_uuid,
}
