"""The three families of errors, the class decorator that defines an error, and the formatting of values in messages."""

import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, ClassVar, TypeVar, dataclass_transform
from uuid import UUID


class ScheduledActionsError(Exception):
    """The base class of the errors that this package raises to its callers."""

    #: Snake case; the `code` of an HTTP problem document.
    code: ClassVar[str] = "error"
    #: Template of the text: its placeholders are the error's fields, with the format specs of `_SPECS`.
    message: ClassVar[str] = ""

    def __str__(self) -> str:
        return _Formatter().format(self.message, self) if self.message else super().__str__()

    def __repr__(self) -> str:
        """Return the class and the message; the arguments may hold secrets."""
        return f"{type(self).__name__}({str(self)!r})"


class RequestError(ScheduledActionsError):
    """The request is invalid; nothing was changed."""

    code = "invalid_request"


class StateConflict(ScheduledActionsError):
    """The request is valid, but the current state does not allow it; nothing was changed."""

    code = "conflict"


class DeploymentError(ScheduledActionsError):
    """The installation cannot serve the request, for example because of its settings, secrets or database."""

    code = "deployment_error"


ErrorClass = TypeVar("ErrorClass", bound=ScheduledActionsError)


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def error_class(error: type[ErrorClass]) -> type[ErrorClass]:
    """Make a class an error: its fields are the constructor's arguments, and its `code` is its name in snake case."""
    error.code = re.sub(r"(?<!^)(?=[A-Z])", "_", error.__name__).lower()
    return dataclass(eq=False, repr=False)(error)


def short(value: object) -> str:
    """Return a value for a message, at most 80 characters: its `repr`, or `str` for dates and durations."""
    try:
        return short_text(str(value) if isinstance(value, date | timedelta) else repr(value))
    except Exception:  # noqa: BLE001 - the caller's own class may raise anything
        # Python does not convert longer integers (sys.set_int_max_str_digits).
        return "an integer of more than 4,300 digits" if type(value) is int else f"a value of {type(value).__name__}"


def short_name(value: object) -> str:
    """Return an id or a name for a message: without quotes, at most 80 characters."""
    return short_text(str(value)) if isinstance(value, str | UUID) else short(value)


def short_text(text: str, limit: int = 80) -> str:
    """Return a string of at most `limit` characters: longer ones are cut and end with an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


#: The format specs of placeholders in message templates: `{value:short}`. The last three omit an empty value.
_SPECS: dict[str, Callable[[Any], str]] = {
    "short": short,
    "name": short_name,
    "text": short_text,
    "after colon": lambda value: f": {value}" if value else "",
    "as action": lambda value: f" with action {value}" if value else "",
    "in brackets": lambda value: f" ({short_text(value)})" if value else "",
}


class _Formatter(string.Formatter):
    """Formats message templates; the placeholders are attributes of the error."""

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:  # noqa: ANN401, ARG002 - as in the base class
        """Return the attribute of the error that a placeholder refers to."""
        return getattr(args[0], str(key))

    def format_field(self, value: Any, format_spec: str) -> Any:  # noqa: ANN401 - as in the base class
        """Format a value by the format spec of its placeholder."""
        convert = _SPECS.get(format_spec)
        return convert(value) if convert else super().format_field(value, format_spec)
