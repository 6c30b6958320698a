"""How urgent a deadline is, told from how far away it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

#: From the most urgent.
Severity: TypeAlias = Literal["urgent", "high", "medium", "low"]
SEVERITIES: tuple[Severity, ...] = ("urgent", "high", "medium", "low")


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """How far away a deadline is at most to be of a severity; whatever is further away is low."""

    urgent: timedelta = timedelta(days=1)
    high: timedelta = timedelta(days=7)
    medium: timedelta = timedelta(days=14)


def severity(distance: timedelta, steps: Steps = Steps()) -> Severity:
    """Return how urgent something is that is due in `distance`; what is overdue (below zero) is urgent."""
    if distance <= steps.urgent:
        return "urgent"
    if distance <= steps.high:
        return "high"
    return "medium" if distance <= steps.medium else "low"


def most_urgent(given: Iterable[Severity | None]) -> Severity | None:
    """Return the most urgent of severities; None where none is known."""
    return min((one for one in given if one is not None), key=SEVERITIES.index, default=None)
