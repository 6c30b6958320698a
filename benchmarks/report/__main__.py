"""Print benchmark results as an HTML page, or write them into the docs: `python -m benchmarks.report RESULTS.json …`.

Exit codes: 0 report or pages written, 2 a file is not a result of the benchmarks.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.report.documents import write_pages
from benchmarks.report.page import page

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the report to standard output, or the pages of the docs, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report",
        description="Print benchmark results as one HTML page with plots and tables.",
    )
    parser.add_argument("results", nargs="+", type=Path, help="files written by --json")
    parser.add_argument(
        "--lateness",
        type=Path,
        metavar="FILE",
        help='milliseconds as JSON: a list, or an object of lists by mechanism ({"linger": [3.1, …]})',
    )
    parser.add_argument(
        "--docs",
        action="store_true",
        help="write the results into README.md, docs/explanation/benchmarks.md and its plot",
    )
    options = parser.parse_args(arguments)
    try:
        runs = [_run(path) for path in options.results]
        lateness = _lateness(json.loads(options.lateness.read_text(encoding="utf-8"))) if options.lateness else {}
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if options.docs:
        write_pages(runs)
        return 0
    for run in runs:
        lateness = _lateness(run.get("lateness", {})) | lateness
    sys.stdout.write(page(runs, lateness))
    return 0


def _run(path: Path) -> dict[str, Any]:
    run = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(run, dict) or not {"setting", "results", "failures", "smoke", "seconds"} <= run.keys():
        message = f"{path} is not a result of `python -m benchmarks --json`"
        raise ValueError(message)
    return run


def _lateness(given: object) -> dict[str, list[float]]:
    named = {"lateness": given} if isinstance(given, list) else given
    if not isinstance(named, dict) or not all(_is_numbers(values) for values in named.values()):
        message = "lateness must be a list of milliseconds or an object of such lists"
        raise ValueError(message)
    return named


def _is_numbers(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(one, int | float) for one in values)


if __name__ == "__main__":
    sys.exit(main())
