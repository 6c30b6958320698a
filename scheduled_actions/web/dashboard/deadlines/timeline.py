"""Describe the timeline of a deadline, in words and as a chart.

The chart places each step by the square root of its distance from the due instant, so that sixty days, a day and an
hour are all readable.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import copysign, sqrt
from typing import Any

#: The width of the chart, and the margin at both ends, in SVG units.
WIDTH = 1000
_MARGIN = 50
#: Labels closer to each other than this would overlap; in units of `WIDTH`.
_LABEL_WIDTH = 84
#: Maximum number of marks on a chart; the latest steps are kept.
MARKS_MOST = 60
_LOOKS = {
    **dict.fromkeys(("sent", "done", "begun", "completed", "processing"), "done"),
    **dict.fromkeys(("failed", "no_action"), "bad"),
    "planned": "planned",
}
_STATES = {
    "sent": "sent to {}",
    "done": "done",
    "begun": "started",
    "failed": "failed: {}",
    "no_action": "no handler",
    "held_back": "held back: {}",
    "replaced": "replaced: {}",
    "left_out": "skipped: already in the past when planned",
    "withdrawn": "no longer needed",
}


@dataclass(frozen=True, slots=True)
class TimelineMark:
    """A step of the timeline as the chart draws it."""

    #: The horizontal position, from 0 to `WIDTH`.
    x: float
    #: `reminder`, `escalation`, `action` or `due`.
    kind: str
    #: `done`, `bad`, `planned` or `off`.
    look: str
    #: The distance from the due instant; empty if the label does not fit.
    label: str
    step: Any


@dataclass(frozen=True, slots=True)
class TimelineChart:
    """The marks of a timeline, and the horizontal positions of the due instant and of now."""

    marks: list[TimelineMark]
    due_x: float
    now_x: float


def look_of(state: str) -> str:
    """Return the look of a step in a state: `done`, `bad`, `planned` or `off`."""
    return _LOOKS.get(state, "off")


def kind_of(stage: str) -> str:
    """Return the kind of a stage from its key: the part before the colon."""
    return stage.partition(":")[0]


def describe(state: str, note: str | None) -> str:
    """Describe the state of a step, with its recipients, reason or error: `sent to ann@example.org`."""
    words = _STATES.get(state, state.replace("_", " "))
    return words.format(note or ("no recipients" if state == "sent" else "unknown")) if "{}" in words else words


def name_of(deadline: Any) -> str:  # noqa: ANN401 - the API's own document
    """Return the name of a deadline, or the type and id of its target if the deadline has no name."""
    return str(deadline.name or f"{deadline.target_type} {deadline.target_id}")


def people(recipients: Iterable[Any] | None) -> str:
    """Format recipients in one line, separated by commas; objects as JSON."""
    return ", ".join(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in recipients or ())


def chart_of(steps: Sequence[Any], *, due_at: datetime, now: datetime) -> TimelineChart:
    """Return the chart of a timeline.

    Args:
        steps: The entries of the timeline, ordered by instant.
        due_at: The due instant.
        now: The current time of the database.
    """
    shown = [step for step in steps if step.at is not None and step.stage != "due"][-MARKS_MOST:]
    places = [_root(step.at, due_at) for step in shown]
    ends = [*places, 0.0, _root(now, due_at)]
    least = min(ends)
    spread = (max(ends) - least) or 1.0

    def x(place: float) -> float:
        return round(_MARGIN + (place - least) / spread * (WIDTH - 2 * _MARGIN), 1)

    marks: list[TimelineMark] = []
    labelled = float("-inf")
    for step, place in zip(shown, places, strict=True):
        at = x(place)
        has_room = at - labelled >= _LABEL_WIDTH and abs(at - x(0.0)) >= _LABEL_WIDTH / 2
        labelled = at if has_room else labelled
        label = _distance(step.at, due_at) if has_room else ""
        marks.append(TimelineMark(at, kind_of(step.stage), look_of(step.state), label, step))
    return TimelineChart(marks, x(0.0), x(_root(now, due_at)))


def _root(moment: datetime, due_at: datetime) -> float:
    apart = (moment - due_at).total_seconds()
    return copysign(sqrt(abs(apart)), apart)


def _distance(moment: datetime, due_at: datetime) -> str:
    """Format the distance from the due instant: `-60 d`, `-4 h`, `+2 d`; `due` below a minute."""
    apart = (moment - due_at).total_seconds()
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if abs(apart) >= size:
            return f"{'+' if apart > 0 else '-'}{round(abs(apart) / size)} {unit}"
    return "due"
