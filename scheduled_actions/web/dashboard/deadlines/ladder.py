"""A deadline's ladder as marks on a line: what was sent, what will be, the due instant and now.

Distances from the due instant are drawn as their square roots, so that sixty days, a day and an hour before it all have
their place.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import copysign, sqrt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

#: The drawing is this wide; the line keeps away from its edges.
WIDTH = 1000
_EDGE = 50
#: Words nearer than this would lie on one another.
_APART = 84
#: A ladder that nags for years is drawn by its latest marks.
MARKS_MOST = 60
_DONE = {"sent", "done", "begun", "completed", "processing"}
_BAD = {"failed", "no_action"}


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing that happened, or will."""

    x: float
    #: `reminder`, `escalation`, `action` or `due`.
    kind: str
    #: `done`, `bad`, `planned` or `off`.
    look: str
    #: Stands under it; empty where there is no room.
    label: str
    #: The step of the timeline.
    step: Any


@dataclass(frozen=True, slots=True)
class Ladder:
    """The marks, and where the instants are that matter."""

    marks: list[Mark]
    due_x: float
    now_x: float


def look_of(state: str) -> str:
    """Return how a step is drawn."""
    if state in _DONE:
        return "done"
    if state in _BAD:
        return "bad"
    return "planned" if state == "planned" else "off"


def kind_of(stage: str) -> str:
    """Return what a stage is, by its key."""
    return stage.partition(":")[0]


def ladder(steps: Sequence[Any], *, due_at: datetime, now: datetime) -> Ladder:
    """Return the ladder of a timeline.

    Args:
        steps: Its lines, in the order of their instants.
        due_at: When it is due.
        now: The present moment.
    """
    shown = [step for step in steps if step.at is not None and step.stage != "due"][-MARKS_MOST:]
    places = [_root(step.at, due_at) for step in shown]
    ends = [*places, 0.0, _root(now, due_at)]
    least, most = min(ends), max(ends)
    spread = (most - least) or 1.0

    def x(place: float) -> float:
        return round(_EDGE + (place - least) / spread * (WIDTH - 2 * _EDGE), 1)

    marks: list[Mark] = []
    written = float("-inf")
    for step, place in zip(shown, places, strict=True):
        at = x(place)
        has_room = at - written >= _APART and abs(at - x(0.0)) >= _APART / 2
        written = at if has_room else written
        label = _distance(step.at, due_at) if has_room else ""
        marks.append(Mark(at, kind_of(step.stage), look_of(step.state), label, step))
    return Ladder(marks, x(0.0), x(_root(now, due_at)))


def _root(moment: datetime, due_at: datetime) -> float:
    apart = (moment - due_at).total_seconds()
    return copysign(sqrt(abs(apart)), apart)


def _distance(moment: datetime, due_at: datetime) -> str:
    """Return how far from the due instant: `-60 d`, `-4 h`, `+2 d`."""
    apart = (moment - due_at).total_seconds()
    sign = "+" if apart > 0 else "-"
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if abs(apart) >= size:
            return f"{sign}{round(abs(apart) / size)} {unit}"
    return "due"
