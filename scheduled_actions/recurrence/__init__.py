"""Recurrence: rules for when something occurs, as values; nothing here reads a clock.

A rule is a text: an interval, a cron expression, an RRULE, a business day, or a function of the project.
`compile_recurrence` makes it a `Recurrence` in a time zone, which answers what comes next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scheduled_actions.recurrence.compiling import Recurrence, compile_recurrence, outline
    from scheduled_actions.recurrence.custom import Functions
    from scheduled_actions.recurrence.jitter import jittered
    from scheduled_actions.recurrence.model import Kind, Occurrence
    from scheduled_actions.recurrence.skips.model import Skips

__all__ = ["Functions", "Kind", "Occurrence", "Recurrence", "Skips", "compile_recurrence", "jittered", "outline"]

# A tick that meets no series does without the rules: each part comes with the first name that needs it.
_PARTS = {
    "Functions": "custom",
    "Kind": "model",
    "Occurrence": "model",
    "Recurrence": "compiling",
    "Skips": "skips.model",
    "compile_recurrence": "compiling",
    "jittered": "jitter",
    "outline": "compiling",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the part holds
    if name not in _PARTS:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module  # noqa: PLC0415 - next to its only use

    found = getattr(import_module(f"{__name__}.{_PARTS[name]}"), name)
    # The next who asks finds it here: coming through this function costs as much as a rule's answer.
    globals()[name] = found
    return found
