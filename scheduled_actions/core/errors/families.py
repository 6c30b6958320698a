"""The three families of errors, and how their messages show values."""

from __future__ import annotations

from datetime import date, timedelta
from typing import ClassVar
from uuid import UUID


class ScheduledActionsError(Exception):
    """Anything this package raises on purpose."""

    #: Short name of the fact, in snake case; the `code` of an HTTP problem document.
    code: ClassVar[str] = "error"


class RequestError(ScheduledActionsError):
    """The caller's request cannot be carried out as it stands; nothing was changed."""

    code = "invalid_request"


class StateConflict(ScheduledActionsError):
    """The request is well formed, but the moment's state refuses it; nothing was changed."""

    code = "conflict"


class DeploymentError(ScheduledActionsError):
    """The installation is not ready: settings, secrets, database or generated files."""

    code = "deployment_error"


def short(value: object) -> str:
    """Return a value as a message shows it: an instant and a length of time as people write them."""
    try:
        return short_text(str(value) if isinstance(value, date | timedelta) else repr(value))
    except Exception:  # noqa: BLE001 - the caller's own class may raise anything
        # Python writes no longer integer (sys.set_int_max_str_digits).
        return "an integer of more than 4,300 digits" if type(value) is int else f"a value of {type(value).__name__}"


def short_name(value: object) -> str:
    """Return the id or name that a caller gave as a message shows it: a text without quotes."""
    return (
        short_text(value)
        if isinstance(value, str)
        else short_text(str(value))
        if isinstance(value, UUID)
        else short(value)
    )


def short_text(text: str, limit: int = 80) -> str:
    """Return a text as a message shows it: its beginning, where it is long."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
