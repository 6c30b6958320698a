"""A measurement beside another one of the same minute: their ratio, its spread, and what was wanted of it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Wanted(NamedTuple):
    """A figure to reach."""

    #: What the bound is on; a measured value has the comparison's unit.
    of: Literal["ratio", "measured"]
    side: Literal["at least", "at most"]
    bound: float

    def is_met_by(self, value: float) -> bool:
        """Whether the value is on the right side of the bound, or on it."""
        return value >= self.bound if self.side == "at least" else value <= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One line of the result."""

    name: str
    #: What it is measured beside.
    beside_name: str
    unit: str
    #: One value a round; the two of a round were taken next to each other.
    measured: Sequence[float]
    beside: Sequence[float]
    #: None: for information.
    wanted: Wanted | None = None

    @property
    def ratios(self) -> list[float]:
        """The ratio of each round."""
        return [one / other for one, other in zip(self.measured, self.beside, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios."""
        return median(self.ratios)

    @property
    def is_met(self) -> bool | None:
        """Whether the figure was reached; None where none is wanted."""
        if self.wanted is None:
            return None
        return self.wanted.is_met_by(self.ratio if self.wanted.of == "ratio" else median(self.measured))

    def as_json(self) -> dict[str, Any]:
        """Return the line with the values of every round."""
        return {
            "name": self.name,
            "beside": self.beside_name,
            "unit": self.unit,
            "measured_rounds": list(self.measured),
            "beside_rounds": list(self.beside),
            "ratio": {"median": self.ratio, "least": min(self.ratios), "most": max(self.ratios)},
            "wanted": self.wanted and self.wanted._asdict(),
            "met": self.is_met,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What a plot shows at one place of its x axis."""

    #: The plot, and its axes with their units.
    plot: str
    x_name: str
    y_name: str
    #: Which line of the plot.
    line: str
    x: float
    #: One value a round.
    values: Sequence[float]

    def as_json(self) -> dict[str, Any]:
        """Return the point with the values of every round."""
        return {**{field.name: getattr(self, field.name) for field in fields(self)}, "values": list(self.values)}


def table(comparisons: Sequence[Comparison]) -> str:
    """Return the comparisons as lines for people: medians, the ratio's spread over the rounds, and what was wanted."""
    heads = ("measured", "", "beside", "", "ratio", "min - max", "wanted", "met")
    rows = [heads, *map(_row, comparisons)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    lines = ["  ".join(_cells(row, widths)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _row(one: Comparison) -> tuple[str, ...]:
    return (
        one.name,
        f"{_number(median(one.measured))} {one.unit}",
        one.beside_name,
        f"{_number(median(one.beside))} {one.unit}",
        f"{one.ratio:.2f}",
        f"{min(one.ratios):.2f} - {max(one.ratios):.2f}",
        _wanted_text(one),
        {None: "", True: "yes", False: "NO"}[one.is_met],
    )


def _wanted_text(one: Comparison) -> str:
    if one.wanted is None:
        return ""
    sign = "≥" if one.wanted.side == "at least" else "≤"
    return f"{sign} {one.wanted.bound:g}" + ("" if one.wanted.of == "ratio" else f" {one.unit}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _cells(row: tuple[str, ...], widths: Sequence[int]) -> list[str]:
    numbers = {1, 3, 4}
    return [
        cell.rjust(width) if column in numbers else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
