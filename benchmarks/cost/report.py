"""Print costs as a table, and compare them with those of another version."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

#: Metrics per unit: CPU microseconds of this process and of Postgres, WAL bytes, commands without and only those of
#: transaction control, and round trips.
METRICS = ("process", "postgres", "wal", "statements", "control", "round_trips")
_HEADS = ("CPU µs here", "CPU µs Postgres", "WAL bytes", "statements", "BEGIN, COMMIT …", "round trips")
_COUNTS = frozenset({"statements", "control", "round_trips"})
#: Growth above these tolerances is marked.
CPU_TOLERANCE = 0.03
#: Row positions on pages differ from round to round.
WAL_TOLERANCE = 0.005
#: Rounding error of a count per unit.
_COUNT_TOLERANCE = 1e-9
_INDENT = "  "


@dataclass(slots=True)
class Costs:
    """Values of all rounds by feature, step and metric."""

    #: Unit of a feature's values: an action, or a group of actions that belong together.
    units: dict[str, str] = field(default_factory=dict)
    values: dict[str, dict[str, dict[str, list[float]]]] = field(default_factory=dict)

    def add(self, feature: str, unit: str, steps: Mapping[str, Mapping[str, float]]) -> None:
        """Add the values of one round of a feature."""
        self.units[feature] = unit
        for step, measured in steps.items():
            for metric, value in measured.items():
                self._values(feature, step, metric).append(value)

    def merge(self, other: Costs) -> None:
        """Add the rounds of another run."""
        self.units |= other.units
        for feature, steps in other.values.items():
            for step, metrics in steps.items():
                for metric, values in metrics.items():
                    self._values(feature, step, metric).extend(values)

    def rows(self) -> Iterable[tuple[str, str]]:
        """Return the feature and step of each row, in order."""
        return [(feature, step) for feature, steps in self.values.items() for step in steps]

    def of(self, feature: str, step: str, metric: str) -> list[float]:
        """Return the values of all rounds; empty if not measured."""
        return self.values.get(feature, {}).get(step, {}).get(metric, [])

    def as_json(self) -> dict[str, Any]:
        """Return all values in the format of `from_json`."""
        return {feature: {"unit": self.units[feature], "steps": steps} for feature, steps in self.values.items()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Costs:
        """Create costs from the output of `as_json`."""
        return cls(
            {feature: one["unit"] for feature, one in content.items()},
            {feature: one["steps"] for feature, one in content.items()},
        )

    def _values(self, feature: str, step: str, metric: str) -> list[float]:
        return self.values.setdefault(feature, {}).setdefault(step, {}).setdefault(metric, [])


def table(costs: Costs) -> str:
    """Return a table of the medians, with minimum and maximum of the rounds if they differ."""
    rows: list[Sequence[str]] = []
    for feature, steps in costs.values.items():
        rows.append([f"{feature} (per {costs.units[feature]})", *[""] * len(METRICS)])
        rows += [
            [_INDENT + step, *(_cell(values.get(metric, []), metric) for metric in METRICS)]
            for step, values in steps.items()
        ]
    return _aligned(["", *_HEADS], rows)


def _cell(values: Sequence[float], metric: str) -> str:
    if not values:
        return "n/a"
    middle, least, most = (_number(value, metric) for value in (median(values), min(values), max(values)))
    return middle if least == most else f"{middle} ({least} - {most})"


def _number(value: float, metric: str) -> str:
    if metric in _COUNTS:
        return f"{value:.4f}".rstrip("0").rstrip(".")
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


# -- the page of the docs ----------------------------------------------------------------------------------------------

_STEP_HEADS = ("step", "CPU µs, process", "CPU µs, Postgres", "WAL bytes", "statements", "round trips")
_FEATURE_HEADS = ("feature", "CPU µs", "WAL bytes", "statements", "more CPU µs", "more WAL bytes", "more statements")


def steps_table(costs: Costs, feature: str) -> str:
    """Return the medians of each step of a feature as a Markdown table; statements include transaction control."""
    rows = []
    for step in costs.values[feature]:
        cpu = [_middle(costs, feature, step, side) for side in ("process", "postgres", "wal")]
        statements = _statements(costs, feature, step)
        rows.append([step, *map(_whole, cpu), _count(statements), _count(_middle(costs, feature, step, "round_trips"))])
    return _markdown(_STEP_HEADS, rows)


def features_table(costs: Costs, *, plain: str, life: str, actions: Mapping[str, int]) -> str:
    """Return the cost of a life with each feature, and how much more that is than plain actions, as a Markdown table.

    Args:
        costs: The measured costs.
        plain: The feature to compare with.
        life: The step that is the sum of all others.
        actions: Number of completed actions per unit of each feature; as many plain actions are subtracted.
    """
    rows = []
    base = _life(costs, plain, life)
    for feature in costs.values:
        found = _life(costs, feature, life)
        more = [
            None if one is None or other is None else one - actions[feature] * other
            for one, other in zip(found, base, strict=True)
        ]
        unit = costs.units[feature] if actions[feature] == 1 else f"{costs.units[feature]}, {actions[feature]} actions"
        signed = ["" if feature == plain else text for text in (*map(_signed, more[:2]), _signed(more[2], digits=3))]
        rows.append([f"{feature} ({unit})", *map(_whole, found[:2]), _count(found[2]), *signed])
    return _markdown(_FEATURE_HEADS, rows)


def _life(costs: Costs, feature: str, step: str) -> list[float | None]:
    sides = [_middle(costs, feature, step, side) for side in ("process", "postgres")]
    cpu = sum(side for side in sides if side is not None) if any(side is not None for side in sides) else None
    return [cpu, _middle(costs, feature, step, "wal"), _statements(costs, feature, step)]


def _statements(costs: Costs, feature: str, step: str) -> float | None:
    counts = [_middle(costs, feature, step, metric) for metric in ("statements", "control")]
    return None if None in counts else sum(count for count in counts if count is not None)


def _middle(costs: Costs, feature: str, step: str, metric: str) -> float | None:
    values = costs.of(feature, step, metric)
    return median(values) if values else None


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def _signed(value: float | None, *, digits: int = 0) -> str:
    if value is None:
        return ""
    text = f"{value:+,.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, rule, *rows])


# -- the comparison ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of a value by more than its tolerance."""

    metric: str
    #: 0.05 is 5 %; infinite if the value was zero.
    share: float
    #: Whether the growth exceeds the spread of at least two rounds on each side. Counts and WAL bytes: every value
    #: after exceeds every value before by more than the spread of a side. CPU time: the minimum has grown by more than
    #: the tolerance, too.
    is_certain: bool

    def __str__(self) -> str:
        return f"{self.metric} +{100 * self.share:.1f} %{'' if self.is_certain else ' ?'}"


def growth(metric: str, before: Sequence[float], after: Sequence[float]) -> Growth | None:
    """Return the growth of a value; None if it is within the tolerance or missing on one side.

    Args:
        metric: "cpu" (this process and Postgres together) or one of `METRICS`.
        before: Values of the rounds before the change.
        after: Values of the rounds after it.
    """
    if not before or not after:
        return None
    is_cpu = metric not in _COUNTS and metric != "wal"
    tolerance = CPU_TOLERANCE if is_cpu else WAL_TOLERANCE if metric == "wal" else _COUNT_TOLERANCE
    share = _share(median(before), median(after))
    if share <= tolerance:
        return None
    spread = max(max(before) - min(before), max(after) - min(after))
    beyond = _share(min(before), min(after)) if is_cpu else _share(max(before) + spread, min(after))
    return Growth(metric, share, is_certain=beyond > tolerance and min(len(before), len(after)) > 1)


def compare(before: Costs, after: Costs, *, parts: Collection[str]) -> str:
    """Return a table of the ratios after / before with growth marked, and a summary.

    Args:
        before: Costs of the other version.
        after: Costs of this version.
        parts: Steps that the summary ignores, because work may move between them; their sum has a row of its own.
    """
    rows: list[Sequence[str]] = []
    grown: list[tuple[str, Growth]] = []
    apart: list[str] = []
    named = ""
    for feature, step in dict.fromkeys([*before.rows(), *after.rows()]):
        pairs = {metric: _pair(before, after, feature, step, metric) for metric in ("cpu", *METRICS)}
        if not any(one and other for one, other in pairs.values()):
            apart.append(f"{feature}, {step}")
            continue
        if feature != named:
            rows.append([feature, *[""] * (len(pairs) + 1)])
            named = feature
        marks = [mark for metric in _JUDGED if (mark := growth(metric, *pairs[metric])) is not None]
        if step not in parts:
            grown += [(f"{feature}, {step}", mark) for mark in marks]
        cells = [_ratio(metric, *pair) for metric, pair in pairs.items()]
        rows.append([_INDENT + step, *cells, ", ".join(map(str, marks))])
    heads = ["after / before", "CPU", *_HEADS, "grown (?: within the spread of the rounds)"]
    return "\n\n".join([_aligned(heads, rows), _summary(grown, apart)])


#: Metrics of the summary: CPU time of both sides together, WAL bytes, commands.
_JUDGED = ("cpu", "wal", "statements", "control")


def _pair(before: Costs, after: Costs, feature: str, step: str, metric: str) -> tuple[list[float], list[float]]:
    if metric != "cpu":
        return before.of(feature, step, metric), after.of(feature, step, metric)
    here, there = ([costs.of(feature, step, side) for side in ("process", "postgres")] for costs in (before, after))
    # If the server's CPU time is missing on one side, it is ignored on both.
    sides = [position for position in (0, 1) if here[position] and there[position]]
    one, other = (
        [sum(values) for values in zip(*(all_[side] for side in sides), strict=True)] for all_ in (here, there)
    )
    return one, other


def _ratio(metric: str, before: Sequence[float], after: Sequence[float]) -> str:
    if not before or not after:
        return "n/a"
    one, other = median(before), median(after)
    if metric in _COUNTS:
        same = f"{_number(other, metric)}"
        return same if abs(one - other) <= _COUNT_TOLERANCE else f"{_number(one, metric)} → {_number(other, metric)}"
    return f"{1 + _share(one, other):.3f}"


def _share(before: float, after: float) -> float:
    """Return the relative growth of a value; negative if it has shrunk."""
    if before == after:
        return 0.0
    return after / before - 1 if before > 0 else float("inf")


def _summary(grown: Sequence[tuple[str, Growth]], apart: Sequence[str]) -> str:
    lines = []
    for metric, wanted in zip(_JUDGED, ("within 3 %", *["equal or fewer"] * 3), strict=True):
        certain = [(row, one) for row, one in grown if one.metric == metric and one.is_certain]
        doubtful = sum(one.metric == metric and not one.is_certain for _, one in grown)
        name = {"cpu": "CPU", "wal": "WAL bytes", "statements": "statements", "control": "BEGIN, COMMIT …"}[metric]
        result = "yes" if not certain else "NO: " + "; ".join(f"{row} +{100 * one.share:.1f} %" for row, one in certain)
        doubt = f" ({doubtful} more above, within the spread of the rounds)" if doubtful else ""
        lines.append(f"{name} {wanted}: {result}{doubt}")
    if apart:
        lines.append(f"measured on one side only: {'; '.join(apart)}")
    return "\n".join(lines)


def _aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    last = len(heads) - 1 if heads[-1].startswith("grown") else len(heads)
    lines = [
        "  ".join(
            cell.rjust(width) if 0 < column < last else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [heads, *rows]
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])
