"""Evaluate the facts about an installation: the checks of `doctor` and `/readyz`, with remedies.

Every rule takes facts as arguments and returns a `Check`. Facts are collected in `doctor.service` and `doctor.store`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from scheduled_actions.core.messages import counted


class Level(StrEnum):
    """Severity of a check, in ascending order."""

    OK = "ok"
    #: It works, but needs a person's attention.
    WARNING = "warning"
    #: Something does not work.
    FAULT = "fault"


WARNING, FAULT = Level.WARNING, Level.FAULT


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one rule."""

    name: str
    level: Level
    #: What was found.
    detail: str
    #: What to do; None if there is nothing to do.
    remedy: str | None = None

    def as_json(self) -> dict[str, str | None]:
        """Return the check as a JSON object."""
        return {"name": self.name, "status": self.level.value, "detail": self.detail, "remedy": self.remedy}


def first_problem(name: str, *problems: tuple[object, Level, str, str], ok: str) -> Check:
    """Return a check that reports the first existing problem, or a passed check if there is none.

    Args:
        name: The name of the check.
        problems: For each, a value that is true if the problem exists, its severity, the finding and the remedy.
        ok: The finding if there is no problem.
    """
    for exists, level, detail, remedy in problems:
        if exists:
            return Check(name, level, detail, remedy)
    return Check(name, Level.OK, ok)


def worst(checks: Iterable[Check]) -> Level:
    """Return the highest severity of the checks; `ok` without checks."""
    return max((check.level for check in checks), key=list(Level).index, default=Level.OK)


def in_words(span: timedelta) -> str:
    """Return a duration in the largest unit of which it contains at least two, or in seconds: `3 hours`, `1 second`."""
    seconds = max(0, round(span.total_seconds()))
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}s"
    return counted(seconds, "second")
