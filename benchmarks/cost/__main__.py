"""Print the cost of an action by feature and step, or compare it with another version: `python -m benchmarks.cost`.

Exit codes: 0 all features were measured, 1 a feature could not be measured, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
import tempfile
import time
import traceback
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cost import features
from benchmarks.cost.features import FEATURES, Feature
from benchmarks.cost.lifecycle import FULL, LIFE, PARTS, SMOKE, Setup, Size, measure
from benchmarks.cost.report import Costs, compare, features_table, steps_table, table
from benchmarks.databases import URL_VARIABLE, Databases, databases
from benchmarks.output import leave
from benchmarks.receiver import receiver
from benchmarks.report.documents import COST_PAGE, replace_table, setting_table
from benchmarks.serving import make_project
from benchmarks.setting import load, setting_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Settings of the temporary server that leave out disk and background work, so that only the actions are measured.
_SERVER = {
    "full_page_writes": "off",
    "autovacuum": "off",
    "fsync": "off",
    "checkpoint_timeout": "1h",
    "max_wal_size": "8GB",
}
_RELOAD_SECONDS = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure or read the costs, print the tables and return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.docs and not options.measured:
        parser.error("--docs needs --measured")
    silence_logs()
    code, costs = 0, Costs()
    if options.measured:
        costs = _read(options.measured)
    else:
        wanted = [feature for feature in FEATURES if any(text in feature.name for text in options.only or [""])]
        size = SMOKE if options.smoke else FULL
        size = size if options.rounds is None else replace(size, rounds=options.rounds)
        code = _measure(wanted, size, costs, options.json)
    if options.docs:
        write_page(costs, json.loads(options.measured[0].read_text(encoding="utf-8"))["setting"])
        return code
    print(f"\n{table(costs)}")
    if options.compare:
        print(f"\n{compare(_read(options.compare), costs, parts=PARTS)}")
    return code


def _measure(wanted: Sequence[Feature], size: Size, costs: Costs, file: Path | None) -> int:
    """Measure the features in rounds; return the exit code."""
    began, failures = time.monotonic(), dict[str, str]()
    with ExitStack() as stack:
        server = stack.enter_context(databases())
        if server.is_embedded:
            configure(server)
        there = stack.enter_context(receiver())
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="scheduled-actions-bench-"))
        setting = setting_of(server)
        for name, value in setting.items():
            print(f"{name}: {value}", flush=True)
        project = make_project(Path(directory))
        (project / "scheduled_actions.toml").write_text(features.ENDPOINT_TOML, encoding="utf-8")
        template = stack.enter_context(server.fresh())
        has_whole_pages = _setting(server, "full_page_writes") == "on"
        setup = Setup(server, template, project, features.environment(there.url))
        # Features are interleaved, so that a disturbance affects all of them.
        for number in range(size.rounds + size.wal_rounds):
            attributes_wal = number >= size.rounds
            for feature in wanted:
                if feature.name in failures:
                    continue
                try:
                    steps = measure(setup, feature, size, attributes_wal=attributes_wal)
                except Exception as error:  # noqa: BLE001 - reported at the end and by the exit code
                    traceback.print_exc()
                    failures[feature.name] = f"{type(error).__name__}: {error}"
                    continue
                usable = _usable(steps, attributes_wal=attributes_wal, has_whole_pages=has_whole_pages)
                costs.add(feature.name, feature.unit, usable)
            kind = "WAL bytes of the steps of ticks" if attributes_wal else "CPU time"
            print(f"[{time.monotonic() - began:4.0f} s] round {number + 1}: {kind}", file=sys.stderr, flush=True)
    seconds = time.monotonic() - began
    notes = _notes(costs, size, has_whole_pages=has_whole_pages)
    print("\n".join(["", *notes, f"{seconds:.0f} s; load at the end: {load()}"]))
    for name, reason in failures.items():
        print(f"FAILED {name}: {reason}")
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        content = {"setting": setting, "notes": notes, "seconds": round(seconds, 1), "costs": costs.as_json()}
        file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 1 if failures else 0


def write_page(costs: Costs, setting: Mapping[str, Any], page: Path = COST_PAGE) -> None:
    """Write the tables of docs/explanation/performance.md."""
    actions = {feature.name: feature.actions for feature in FEATURES}
    plain = FEATURES[0].name
    replace_table(page, setting_table("Measured", setting))
    replace_table(page, steps_table(costs, plain))
    replace_table(page, features_table(costs, plain=plain, life=LIFE, actions=actions))


def _usable(
    steps: dict[str, dict[str, float]], *, attributes_wal: bool, has_whole_pages: bool
) -> dict[str, dict[str, float]]:
    """Return the valid metrics of a round: only WAL if transactions were serialised, no WAL with full page writes."""
    left_out = {"process", "postgres", "statements", "control", "round_trips"} if attributes_wal else set[str]()
    if has_whole_pages:
        left_out.add("wal")
    return {
        step: {metric: value for metric, value in metrics.items() if metric not in left_out}
        for step, metrics in steps.items()
    }


def _notes(costs: Costs, size: Size, *, has_whole_pages: bool) -> list[str]:
    """Return notes on how to read the table and on metrics that could not be measured."""
    how = (
        f"Per unit: median (min - max) of {size.rounds} rounds of {size.singles} + {size.bulk} units, fewer for slow "
        f"features. WAL bytes of claim, run and settle are from {size.wal_rounds} additional rounds. "
        "life: from schedule to prune, scheduled in bulk if possible."
    )
    notes = [how]
    if has_whole_pages:
        notes.append("WAL bytes are left out: with full_page_writes on, full pages would dominate them.")
    if not any(costs.of(feature, step, "postgres") for feature, step in costs.rows()):
        notes.append("CPU time of Postgres is left out: it needs Linux and a server on this machine.")
    return notes


def configure(server: Databases) -> None:
    """Apply `_SERVER` to the temporary server and wait until it is in effect."""
    with server.connection() as connection:
        for name, value in _SERVER.items():
            connection.execute(f"alter system set {name} = '{value}'")
        connection.execute("select pg_reload_conf()")
    until = time.monotonic() + _RELOAD_SECONDS
    while _setting(server, "full_page_writes") != "off" and time.monotonic() < until:
        time.sleep(0.05)


def _setting(server: Databases, name: str) -> Any:  # noqa: ANN401 - as the server returns it
    with server.connection() as connection:
        row = connection.execute("select current_setting(%s)", [name]).fetchone()
    return row and row[0]


def silence_logs() -> None:
    """Create log records, as in production, but write them nowhere."""
    log = logging.getLogger("scheduled_actions")
    log.addHandler(logging.NullHandler())
    log.propagate = False


def _read(files: Sequence[Path]) -> Costs:
    costs = Costs()
    for file in files:
        costs.merge(Costs.from_json(json.loads(file.read_text(encoding="utf-8"))["costs"]))
    return costs


def _known(text: str) -> str:
    """Check that a feature's name contains `text`, and return it."""
    if not any(text in feature.name for feature in FEATURES):
        raise argparse.ArgumentTypeError(f'no feature name contains "{text}"')
    return text


def _parser() -> argparse.ArgumentParser:
    names = "; ".join(feature.name for feature in FEATURES)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cost",
        description="Measure CPU time, WAL bytes and statements per action, by feature and step.",
        epilog=f"{URL_VARIABLE}: server to use instead of a temporary one; databases are created and dropped on it.",
    )
    parser.add_argument(
        "--smoke", action="store_true", help="one round with small numbers, to check that everything runs"
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="TEXT",
        type=_known,
        help=f"measure features whose name contains TEXT; repeatable: {names}",
    )
    parser.add_argument("--rounds", type=int, metavar="N", help=f"rounds for CPU time and statements ({FULL.rounds})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the values of all rounds to FILE")
    parser.add_argument(
        "--compare",
        type=Path,
        nargs="+",
        metavar="BEFORE",
        help="print the ratios to the combined rounds of these files",
    )
    parser.add_argument(
        "--measured",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="use the combined rounds of these files instead of measuring",
    )
    parser.add_argument(
        "--docs", action="store_true", help="write the tables of docs/explanation/performance.md, with --measured"
    )
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, leave)
    sys.exit(main())
