"""`python -m benchmarks`: run them all, print what was measured beside what, and which figures were reached.

Exit 0 when everything ran, whatever the figures; 1 when a benchmark broke or its result was wrong; 2 on wrong usage.
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
    fairness,
    imports,
    lateness,
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
    "management": management.run,
    "dashboard": dashboard.run,
    "waking": waking.run,
    "conditions": conditions.run,
    "deliveries": deliveries.run,
    "deadlines": deadlines.run,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code, after the measuring and a table of it."""
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
        print(f"BROKEN {name}: {reason}")
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
    """Return what the benchmarks measured, and why some of them could not; one that breaks stops no other."""
    comparisons: list[Comparison] = []
    failures: dict[str, str] = {}
    for name in names:
        bench.say(f"== {name}")
        try:
            comparisons += BENCHMARKS[name](bench)
        except Exception as error:  # noqa: BLE001 - told at the end, and in the exit code
            traceback.print_exc()
            failures[name] = f"{type(error).__name__}: {error}"
    return comparisons, failures


def _summary(comparisons: Sequence[Comparison], seconds: float) -> str:
    judged = [one.is_met for one in comparisons if one.is_met is not None]
    return (
        f"{sum(judged)} of {len(judged)} figures reached; medians of rounds that take turns; {seconds:.0f} s; "
        f"load at the end: {load()}.\nRead ratios: the two values of one were taken next to each other."
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the package beside the bare SQL that does the same.",
        epilog=f"{URL_VARIABLE} names a server to use in place of a temporary one; databases come and go on it.",
    )
    parser.add_argument("--smoke", action="store_true", help="one round, small numbers: whether everything still runs")
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        choices=BENCHMARKS,
        help=f"one of {', '.join(BENCHMARKS)}; repeatable",
    )
    parser.add_argument("--completed", type=int, metavar="N", help="finished actions beside the others (1,000,000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write settings and the values of every round there")
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, leave)
    sys.exit(main())
