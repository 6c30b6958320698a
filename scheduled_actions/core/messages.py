"""Format parts of messages: counts with their nouns, lists of names, and suggestions for misspelled names."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Maximum length of a word that is compared with known names: comparing takes quadratic time.
_COMPARED_MOST = 60
#: The arguments that a recurring deadline has, and a schedule does not.
_OF_DEADLINES = frozenset({"reminders", "escalation", "recipients", "auto_actions"})
#: Names of an argument that is a recurrence.
_OF_RECURRENCES = frozenset({"recurrence", "rule"})


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless the count is 1: `1 action`, `2,000 actions`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(names: Sequence[str], *, most: int) -> str:
    """Return at most `most` of the names, separated by commas, and the number of the others: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def nearest(text: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name most similar to `text`, ignoring case.

    Args:
        text: The misspelled name; the result is None if it has more than 60 characters.
        known: The known names.
        cutoff: The minimum similarity, from 0 to 1 (`difflib`).

    Returns:
        The known name; None if no known name is that similar.
    """
    import difflib  # noqa: PLC0415 - only for an error

    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(text.lower(), by_lower, n=1, cutoff=cutoff) if len(text) <= _COMPARED_MOST else []
    return by_lower[near[0]] if near else None


def did_you_mean(text: str, known: Iterable[str], *, otherwise: str) -> str:
    """Return `did you mean "daily"?` with the most similar known name; `otherwise` if no name is similar."""
    near = nearest(text, known)
    return f'did you mean "{near}"?' if near else otherwise


def argument_hint(name: str, known: Collection[str], *, otherwise: str) -> str:
    """Return what to write instead of an unknown argument: the most similar known name, or a call that takes it.

    Args:
        name: The unknown argument.
        known: The known arguments.
        otherwise: Returned if neither applies.
    """
    if name in _OF_DEADLINES and not _OF_RECURRENCES.isdisjoint(known):
        return (
            f"{name} belongs to deadlines, which can recur, too: use set_deadline(…, recurrence=…, {name}=…), or "
            "POST /api/v1/deadlines"
        )
    return did_you_mean(name, known, otherwise=otherwise)


def suggests_keywords(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a function whose `TypeError` for an unknown keyword argument contains the name to use.

    Args:
        function: A function that names all its keyword arguments.
    """

    @wraps(function)
    def call(*values: _P.args, **named: _P.kwargs) -> _R:
        try:
            return function(*values, **named)
        except TypeError:
            from inspect import signature  # noqa: PLC0415 - only for an error

            known = [name for name in signature(function).parameters if name != "self"]
            unknown = next((name for name in named if name not in known), None)
            # With known names, the error has another cause.
            if unknown is None:
                raise
            hint = argument_hint(unknown, known, otherwise=f"it takes {', '.join(known)}")
            raise TypeError(f"{function.__name__}() got an unexpected keyword argument {unknown!r}; {hint}") from None

    return call
