"""Charts as shapes on a plane of steps by 100, which the page stretches as wide as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The width of a step, and of the bar in it.
STEP = 10
_BAR = 8
HEIGHT = 100
#: What is not nothing is to be seen.
_LEAST = 2.0


@dataclass(frozen=True, slots=True)
class Bars:
    """A chart of stacked bars."""

    width: int
    #: The value of the whole height.
    most: float
    #: A path for each series, the lowest first.
    paths: list[str]


def bars(series: Sequence[Sequence[float]]) -> Bars:
    """Return the chart of series of equal length, each standing on those before.

    Args:
        series: Of each series the value of every step; none below zero.
    """
    count = len(series[0])
    most = max((sum(one[at] for one in series) for at in range(count)), default=0.0)
    paths: list[list[str]] = [[] for _ in series]
    for at in range(count):
        top = float(HEIGHT)
        for number, one in enumerate(series):
            if one[at] <= 0 or most <= 0:
                continue
            height = max(one[at] / most * (HEIGHT - 2 * _LEAST), _LEAST)
            top -= height
            paths[number].append(f"M{at * STEP + 1} {top:.1f}h{_BAR}v{height:.1f}h-{_BAR}z")
    return Bars(count * STEP, most, ["".join(path) for path in paths])


def layered(series: Sequence[Sequence[float]]) -> Bars:
    """Return the chart of series of equal length, each standing before those before, on the same ground."""
    count = len(series[0])
    most = max((one[at] for one in series for at in range(count)), default=0.0)
    paths = []
    for one in series:
        heights = [(at, max(value / most * (HEIGHT - _LEAST), _LEAST)) for at, value in enumerate(one) if value > 0]
        paths.append(
            "".join(f"M{at * STEP + 1} {HEIGHT - high:.1f}h{_BAR}v{high:.1f}h-{_BAR}z" for at, high in heights)
        )
    return Bars(count * STEP, most, paths)
