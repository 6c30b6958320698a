"""Comparisons of a measurement with a baseline from the same run: ratio, spread and target."""

from __future__ import annotations

from dataclasses import dataclass, fields
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Target(NamedTuple):
    """A bound that a benchmark should meet."""

    #: The bounded value; a measured value has the comparison's unit.
    of: Literal["ratio", "measured"]
    side: Literal["at least", "at most"]
    bound: float

    def is_met_by(self, value: float) -> bool:
        """Return whether the value is within the bound (inclusive)."""
        return value >= self.bound if self.side == "at least" else value <= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A measurement and its baseline, one line of the table."""

    name: str
    baseline_name: str
    unit: str
    #: One value per round; both values of a round were measured right after each other.
    measured: Sequence[float]
    baseline: Sequence[float]
    #: None: for information only.
    target: Target | None = None

    @property
    def ratios(self) -> list[float]:
        """The ratio of each round."""
        return [one / other for one, other in zip(self.measured, self.baseline, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios."""
        return median(self.ratios)

    @property
    def is_met(self) -> bool | None:
        """Whether the target was met; None without a target."""
        if self.target is None:
            return None
        return self.target.is_met_by(self.ratio if self.target.of == "ratio" else median(self.measured))

    def as_json(self) -> dict[str, Any]:
        """Return the comparison with the values of every round."""
        return {
            "name": self.name,
            "baseline": self.baseline_name,
            "unit": self.unit,
            "measured_rounds": list(self.measured),
            "baseline_rounds": list(self.baseline),
            "ratio": {"median": self.ratio, "least": min(self.ratios), "most": max(self.ratios)},
            "target": self.target and self.target._asdict(),
            "met": self.is_met,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Values of a plot at one position of its x axis."""

    #: Title of the plot, and its axes with their units.
    plot: str
    x_name: str
    y_name: str
    #: Name of the line.
    line: str
    x: float
    #: One value per round.
    values: Sequence[float]

    def as_json(self) -> dict[str, Any]:
        """Return the point with the values of every round."""
        return {**{field.name: getattr(self, field.name) for field in fields(self)}, "values": list(self.values)}


def table(comparisons: Sequence[Comparison]) -> str:
    """Return the comparisons as a text table: medians, spread of the ratio over the rounds, and target."""
    heads = ("measured", "", "baseline", "", "ratio", "min - max", "target", "met")
    rows = [heads, *map(_row, comparisons)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    lines = ["  ".join(_cells(row, widths)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _row(one: Comparison) -> tuple[str, ...]:
    return (
        one.name,
        f"{_number(median(one.measured))} {one.unit}",
        one.baseline_name,
        f"{_number(median(one.baseline))} {one.unit}",
        f"{one.ratio:.2f}",
        f"{min(one.ratios):.2f} - {max(one.ratios):.2f}",
        _target_text(one),
        {None: "", True: "yes", False: "NO"}[one.is_met],
    )


def _target_text(one: Comparison) -> str:
    if one.target is None:
        return ""
    sign = "≥" if one.target.side == "at least" else "≤"
    return f"{sign} {one.target.bound:g}" + ("" if one.target.of == "ratio" else f" {one.unit}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _cells(row: tuple[str, ...], widths: Sequence[int]) -> list[str]:
    numbers = {1, 3, 4}
    return [
        cell.rjust(width) if column in numbers else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
