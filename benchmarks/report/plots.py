"""Draw SVG plots: lines with the spread of their points, bars, and distributions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH, _HEIGHT = 640, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 16, 12, 48
#: Number of colours for lines and bars: the classes `c0` to `c5` of the page's style.
COLOURS = 6
_TICKS = 5
#: Ratio of the largest to the smallest value from which the axis is logarithmic.
_WIDE = 20


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plot: for each x the values of the rounds."""

    name: str
    points: Sequence[tuple[float, Sequence[float]]]


@dataclass(frozen=True, slots=True)
class Axis:
    """Map values of an axis to pixels."""

    name: str
    least: float
    most: float
    start: float
    end: float
    is_logarithmic: bool
    #: Minimum distance of ticks.
    least_step: float = 0

    def at(self, value: float) -> float:
        """Return the position of a value in pixels."""
        if self.is_logarithmic:
            share = math.log(value / self.least) / math.log(self.most / self.least)
        else:
            share = (value - self.least) / (self.most - self.least)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return round values for the labels of the axis."""
        if self.is_logarithmic:
            first, last = math.floor(math.log10(self.least)), math.ceil(math.log10(self.most))
            steps = (1, 2, 5) if last - first <= 3 else (1,)
            values = [step * 10.0**power for power in range(first, last + 1) for step in steps]
            return [value for value in values if self.least <= value <= self.most * 1.0001]
        step = max(self.least_step, _round_step((self.most - self.least) / _TICKS))
        first_tick = math.ceil(self.least / step)
        return [number * step for number in range(first_tick, math.floor(self.most / step + 1e-9) + 1)]


def lines_plot(lines: Sequence[Line], *, x_name: str, y_name: str) -> str:
    """Return lines through the medians, with whiskers from the minimum to the maximum of each point."""
    xs = [x for line in lines for x, _ in line.points]
    ys = [value for line in lines for _, values in line.points for value in values]
    x_axis = _x_axis(x_name, xs)
    y_axis = Axis(y_name, 0, max(ys) * 1.08 or 1, _HEIGHT - _BOTTOM, _TOP, is_logarithmic=False)
    drawn = [_frame(x_axis, y_axis)]
    for number, line in enumerate(lines):
        places = [(x_axis.at(x), values) for x, values in sorted(line.points, key=lambda point: point[0])]
        path = " ".join(f"{x:.1f},{y_axis.at(median(values)):.1f}" for x, values in places)
        colour = f"c{number % COLOURS}"
        drawn.append(f'<polyline class="line {colour}" points="{path}"/>')
        for (x, values), (value, _) in zip(places, sorted(line.points, key=lambda point: point[0]), strict=True):
            low, high = y_axis.at(min(values)), y_axis.at(max(values))
            label = f"{line.name}, {number_text(value)}: {_spread_text(values)} {y_name}"
            drawn.append(
                f'<g class="{colour}"><title>{escape(label)}</title>'
                f'<line class="whisker" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>'
                f'<circle cx="{x:.1f}" cy="{y_axis.at(median(values)):.1f}" r="4"/></g>'
            )
    return _svg(drawn, f"{y_name} against {x_name}") + _legend([line.name for line in lines])


def bars_plot(bars: Sequence[tuple[str, Sequence[float]]], *, unit: str) -> str:
    """Return one bar per name with the length of the median, and a whisker from the minimum to the maximum."""
    row, label = 30, 210
    height = row * len(bars) + _BOTTOM
    axis = Axis(unit, 0, max(max(values) for _, values in bars) * 1.02 or 1, label, _WIDTH - 90, is_logarithmic=False)
    drawn = []
    for tick in axis.ticks():
        x = axis.at(tick)
        drawn.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - _BOTTOM + 6}"/>')
        drawn.append(f'<text x="{x:.1f}" y="{height - 26}" text-anchor="middle">{number_text(tick)}</text>')
    drawn.append(f'<text x="{axis.at(0):.1f}" y="{height - 8}">{escape(unit)}</text>')
    for number, (name, values) in enumerate(bars):
        top = number * row + 5
        middle, end = top + 10, axis.at(median(values))
        colour = "c0" if name.startswith("ours") else "c1"
        drawn.append(
            f'<g class="{colour}"><title>{escape(f"{name}: {_spread_text(values)} {unit}")}</title>'
            f'<text class="name" x="{label - 8}" y="{middle + 4}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{label}" y="{top}" width="{max(1.0, end - label):.1f}" height="20"/>'
            f'<line class="over" x1="{axis.at(min(values)):.1f}" x2="{axis.at(max(values)):.1f}"'
            f' y1="{middle}" y2="{middle}"/>'
            f'<text x="{axis.at(max(values)) + 6:.1f}" y="{middle + 4}">{number_text(median(values))}</text></g>'
        )
    return _svg(drawn, f"{unit} of each", height=height)


def distribution_plot(named: Sequence[tuple[str, Sequence[float]]], *, x_name: str) -> str:
    """Return the cumulative distribution of the values, one line per name."""
    positive = [max(value, 0.1) for _, values in named for value in values]
    x_axis = Axis(x_name, *_decades(min(positive), max(positive)), _LEFT, _WIDTH - _RIGHT, is_logarithmic=True)
    y_axis = Axis("% of actions", 0, 100, _HEIGHT - _BOTTOM, _TOP, is_logarithmic=False)
    drawn = [_frame(x_axis, y_axis)]
    for number, (_, values) in enumerate(named):
        ordered = sorted(max(value, 0.1) for value in values)
        path = " ".join(
            f"{x_axis.at(value):.1f},{y_axis.at((rank + 1) / len(ordered) * 100):.1f}"
            for rank, value in enumerate(ordered)
        )
        start = f"{x_axis.at(ordered[0]):.1f},{y_axis.at(0):.1f}"
        drawn.append(f'<polyline class="line c{number % COLOURS}" points="{start} {path}"/>')
    return _svg(drawn, f"distribution of {x_name}") + _legend([name for name, _ in named])


def number_text(value: float) -> str:
    """Return a number with thousands separators, or three significant digits."""
    if value >= 1_000_000 and value % 100_000 == 0:
        return f"{value / 1_000_000:g}M"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _spread_text(values: Sequence[float]) -> str:
    return f"{number_text(median(values))} ({number_text(min(values))} to {number_text(max(values))})"


def _x_axis(name: str, xs: Sequence[float]) -> Axis:
    least, most = min(xs), max(xs)
    if most / least >= _WIDE:
        return Axis(name, least / 1.3, most * 1.3, _LEFT, _WIDTH - _RIGHT, is_logarithmic=True)
    room = (most - least) * 0.08 or 1
    return Axis(name, least - room, most + room, _LEFT, _WIDTH - _RIGHT, is_logarithmic=False, least_step=1)


def _decades(least: float, most: float) -> tuple[float, float]:
    return 10.0 ** math.floor(math.log10(least)), 10.0 ** max(
        math.ceil(math.log10(most)), math.floor(math.log10(least)) + 1
    )


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= rough)


def _frame(x_axis: Axis, y_axis: Axis) -> str:
    drawn = []
    for tick in y_axis.ticks():
        y = y_axis.at(tick)
        drawn.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        drawn.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{number_text(tick)}</text>')
    bottom = _HEIGHT - _BOTTOM
    for tick in x_axis.ticks():
        x = x_axis.at(tick)
        drawn.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}"/>')
        drawn.append(f'<text x="{x:.1f}" y="{bottom + 19}" text-anchor="middle">{number_text(tick)}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    drawn.append(f'<text x="{middle:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">{escape(x_axis.name)}</text>')
    turned = f'transform="translate(14 {(_TOP + bottom) / 2:.0f}) rotate(-90)"'
    drawn.append(f'<text {turned} text-anchor="middle">{escape(y_axis.name)}</text>')
    return "".join(drawn)


def _legend(names: Sequence[str]) -> str:
    items = "".join(
        f'<li><span class="c{number % COLOURS}">●</span> {escape(name)}</li>' for number, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'


def _svg(drawn: Sequence[str], label: str, *, height: int = _HEIGHT) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(label)}">{"".join(drawn)}</svg>'
