"""Run the benchmarks and print a table of measurements, baselines and targets: `python -m benchmarks`.

Exit codes: 0 all benchmarks ran, whether or not targets were met; 1 a benchmark failed or its result was wrong; 2 wrong
usage.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import (
    claim,
    cold_start,
    conditions,
    dashboard,
    deadlines,
    deliveries,
    drain,
    empty_tick,
    executors,
    fairness,
    imports,
    lateness,
    limits,
    management,
    memory,
    recurrence,
    schedule_bulk,
    schedule_single,
    series,
    sweep,
    upkeep,
    waking,
)
from benchmarks.comparison import Comparison, table
from benchmarks.databases import URL_VARIABLE, databases
from benchmarks.harness import FULL, SMOKE, Bench, Scale
from benchmarks.output import leave, write
from benchmarks.serving import make_project
from benchmarks.setting import load, setting_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BENCHMARKS: dict[str, Callable[[Bench], list[Comparison]]] = {
    "drain": drain.run,
    "executors": executors.run,
    "sweep": sweep.run,
    "schedule-single": schedule_single.run,
    "schedule-bulk": schedule_bulk.run,
    "claim": claim.run,
    "empty-tick": empty_tick.run,
    "import": imports.run,
    "cold-start": cold_start.run,
    "memory": memory.run,
    "upkeep": upkeep.run,
    "recurrence": recurrence.run,
    "series": series.run,
    "lateness": lateness.run,
    "fairness": fairness.run,
    "limits": limits.run,
    "management": management.run,
    "dashboard": dashboard.run,
    "waking": waking.run,
    "conditions": conditions.run,
    "deliveries": deliveries.run,
    "deadlines": deadlines.run,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the selected benchmarks, print the table and return the exit code."""
    options = _parser().parse_args(arguments)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:4.0f} s] {text}", file=sys.stderr, flush=True)

    with databases() as server, tempfile.TemporaryDirectory(prefix="scheduled-actions-bench-") as directory:
        setting = setting_of(server)
        for name, value in setting.items():
            print(f"{name}: {value}", flush=True)
        bench = Bench(server, make_project(Path(directory)), _scale(options), say)
        comparisons, failures = _run(bench, options.only or list(BENCHMARKS))
    seconds = time.monotonic() - began
    print(f"\n{table(comparisons)}\n\n{_summary(comparisons, seconds)}")
    for name, reason in failures.items():
        print(f"FAILED {name}: {reason}")
    if options.json is not None:
        write(
            options.json,
            setting,
            comparisons,
            failures,
            is_smoke=options.smoke,
            seconds=seconds,
            points=bench.points,
            lateness=bench.lateness,
        )
    return 1 if failures else 0


def _scale(options: argparse.Namespace) -> Scale:
    scale = SMOKE if options.smoke else FULL
    return scale if options.completed is None else replace(scale, completed=options.completed)


def _run(bench: Bench, names: Sequence[str]) -> tuple[list[Comparison], dict[str, str]]:
    """Return the comparisons, and the error of each benchmark that failed; the others still run."""
    comparisons: list[Comparison] = []
    failures: dict[str, str] = {}
    for name in names:
        bench.say(f"== {name}")
        try:
            comparisons += BENCHMARKS[name](bench)
        except Exception as error:  # noqa: BLE001 - reported at the end and by the exit code
            traceback.print_exc()
            failures[name] = f"{type(error).__name__}: {error}"
    return comparisons, failures


def _summary(comparisons: Sequence[Comparison], seconds: float) -> str:
    judged = [one.is_met for one in comparisons if one.is_met is not None]
    return (
        f"{sum(judged)} of {len(judged)} targets met; medians of interleaved rounds; {seconds:.0f} s; "
        f"load at the end: {load()}.\n"
        "Compare ratios, not absolute values: both values of a ratio come from the same run."
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the package and compare it with plain SQL that does the same work.",
        epilog=f"{URL_VARIABLE}: server to use instead of a temporary one; databases are created and dropped on it.",
    )
    parser.add_argument(
        "--smoke", action="store_true", help="one round with small numbers, to check that everything runs"
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        choices=BENCHMARKS,
        help=f"one of {', '.join(BENCHMARKS)}; repeatable",
    )
    parser.add_argument("--completed", type=int, metavar="N", help="completed actions in the table (1,000,000)")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the settings and the values of every round to FILE"
    )
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, leave)
    sys.exit(main())
