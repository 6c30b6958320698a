"""Print costs, needs, limits and checks as Markdown tables, which the page of the docs has, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proofs.scale.model import STEPS, needs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proofs.scale.model import Assumptions, Needs, Path
    from proofs.scale.runs import Run

#: Actions a minute.
RATES = (10_000, 100_000, 1_000_000)
_COSTS = ("process", "postgres", "broker", "wal_bytes", "statements", "commands")
_COST_HEADS = ("CPU µs, process", "CPU µs, Postgres", "CPU µs, Redis", "WAL bytes", "statements", "Redis commands")
_NEEDS_HEADS = (
    *("path", "processes that tick", "workers", "connections", "Redis commands/s", "Redis servers"),
    *("cores of Postgres", "WAL MB/s", "databases"),
)
_CHECK_HEADS = (
    *("path", "completed/s", "CPU of the processes", "ratio", "CPU of Postgres", "ratio", "CPU of Redis", "ratio"),
)


def steps_table(path: Path) -> str:
    """Return the cost of each step of a path per action, and their sum."""
    steps = {step: path.costs[step] for step in STEPS if step in path.costs} | {"sum": path.total()}
    rows = [[step, *(number(getattr(cost, name)) for name in _COSTS)] for step, cost in steps.items()]
    return markdown([path.name, *_COST_HEADS], rows)


def needs_table(paths: Sequence[Path], assumptions: Assumptions) -> str:
    """Return what each path needs at each rate."""
    rows = []
    for rate in RATES:
        for path in paths:
            found = needs(path, rate / 60, assumptions)
            rows.append([f"{rate:,}", path.name, *map(number, _columns(found))])
    return markdown(["actions a minute", *_NEEDS_HEADS], rows)


def limits_table(paths: Sequence[Path], assumptions: Assumptions) -> str:
    """Return the rate at which each resource is exhausted, in actions a minute; the first one is bold."""
    found = {path.name: needs(path, 1.0, assumptions) for path in paths}
    names = list(dict.fromkeys(name for one in found.values() for name in one.limits))
    rows = [[name, *(_limit(one, name) for one in found.values())] for name in names]
    return markdown(["exhausted at, actions a minute", *found], rows)


def checks_table(checks: Iterable[tuple[Path, Run, Sequence[str]]]) -> str:
    """Return what real processes have used, and its ratio to the prediction for the steps that they did.

    Predicted is what the idle processes used, and the cost of the steps.
    """
    rows = []
    for path, run, steps in checks:
        wanted = path.cpu(run.rate, steps=steps)
        pairs = (
            (run.cpu.ticks + run.cpu.workers, wanted.ticks + wanted.workers, run.idle.ticks + run.idle.workers),
            (run.cpu.postgres, wanted.postgres, run.idle.postgres),
            (run.cpu.broker, wanted.broker, run.idle.broker if wanted.broker else 0.0),
        )
        cells = [cell for pair in pairs for cell in _compared(*pair)]
        rows.append([f"{run.rate:g} per second", path.name, number(run.throughput), *cells])
    return markdown(["check", *_CHECK_HEADS], rows)


def assumptions_table(assumptions: Assumptions) -> str:
    """Return what the model assumes."""
    rows = [
        ["a handler waits", f"{assumptions.handler_seconds:g} s, and uses no CPU time"],
        ["used part of cores and of slots for handlers", f"{assumptions.busy:.0%}"],
        ["one Postgres", f"{assumptions.database_cores} cores, {assumptions.wal_megabytes:g} MB/s of WAL"],
        ["connections of one Postgres without a pooler", f"{assumptions.connections}"],
        [
            "an executor",
            f"{assumptions.outstanding:,} untaken tickets, looked at every {assumptions.full_pause_seconds:g} s",
        ],
        [
            "a tick",
            f"prunes {assumptions.pruned:,} finished actions; the next one begins after {assumptions.tick_seconds:g} s",
        ],
    ]
    return markdown(["assumption", "value"], rows)


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    rule = ["---"] * len(heads)
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, rule, *rows])


def number(value: float) -> str:
    """Return a number with two or three significant digits; empty for zero."""
    if not value:
        return ""
    if value >= 10:  # noqa: PLR2004 - two digits
        return f"{value:,.0f}"
    return f"{value:.2g}" if value < 1 else f"{value:.2f}".rstrip("0").rstrip(".")


def _columns(found: Needs) -> list[float]:
    return [
        *(found.ticks, found.workers, found.connections, found.broker_commands, found.brokers),
        *(found.postgres_cores, found.wal_megabytes, found.databases),
    ]


def _limit(found: Needs, name: str) -> str:
    if name not in found.limits:
        return ""
    text = f"{round(found.limits[name] * 60, -3):,.0f}"
    return f"**{text}**" if name == found.first_limit else text


def _compared(measured: float, predicted: float, idle: float) -> tuple[str, str]:
    if not predicted:
        return "", ""
    text = f"{number(measured)} ({number(predicted)} + {number(idle) or 0} idle)"
    return text, f"{measured / (predicted + idle):.2f}"
