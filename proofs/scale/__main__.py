"""Measure the cost of an action on each path, compute what rates need, and check it: `python -m proofs.scale`.

Exit codes: 0 everything was measured, 1 a measurement failed, 2 wrong usage. The ratios of the checks pass or fail
nothing: they depend on how busy the machine is.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from benchmarks.celery_workers import REDIS, executor_project, plain_project
from benchmarks.cost import features
from benchmarks.cost.__main__ import configure, silence_logs
from benchmarks.cost.lifecycle import Setup, Size
from benchmarks.databases import databases
from benchmarks.output import leave
from benchmarks.peers.brokers import redis_server
from benchmarks.report.documents import replace_table, setting_table
from benchmarks.serving import make_project
from benchmarks.setting import load, setting_of
from proofs.scale import runs, steps, tables
from proofs.scale.model import CLAIM, PRUNE, RECEIVE, RUN, SCHEDULE, SEND, SETTLE, TAKE_OVER, Assumptions, Path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.databases import Databases

PAGE = FilePath(__file__).parents[2] / "docs" / "explanation" / "scale.md"
TICKS, WORKER = "ticks", "worker without a broker"
#: Setting of the default, and what is recommended for handlers that take milliseconds.
TICKETS = (1, 10)
#: Default of the setting `concurrency`.
_CONCURRENCY = 8
#: Steps that the processes of a check do.
_CHECKED = (CLAIM, SEND, RECEIVE, TAKE_OVER, RUN, SETTLE)


@dataclass(frozen=True, slots=True)
class Numbers:
    """How much is measured."""

    size: Size
    #: Actions of each round of a worker, and messages of Celery.
    count: int
    messages: int
    #: Seconds of a check, and its rates for ticks and workers, and for each number of tickets per message.
    seconds: int
    rates: tuple[int, ...]
    ticket_rates: dict[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Projects:
    """The projects of all paths by their names, one with a plain Celery app, and the URL of Redis; empty without it."""

    processes: dict[str, runs.Processes]
    plain: FilePath
    url: str


FULL = Numbers(Size(200, 800, 60, 3, 1), 800, 3_000, 10, (300, 900), {1: (30, 90), 10: (100, 300)})
SMOKE = Numbers(Size(4, 8, 0, 1, 1), 40, 40, 2, (20,), {1: (10,), 10: (20,)})


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the tables and return the exit code."""
    options = _parser().parse_args(arguments)
    numbers = SMOKE if options.smoke else FULL
    silence_logs()
    began = time.monotonic()

    def say(text: str) -> None:
        sys.stderr.write(f"[{time.monotonic() - began:4.0f} s] {text}\n")
        sys.stderr.flush()

    with ExitStack() as stack:
        directory = FilePath(stack.enter_context(tempfile.TemporaryDirectory(prefix="scale-proof-")))
        url = ""
        if REDIS is None:
            say("redis-server is not installed: Celery is left out")
        else:
            url = stack.enter_context(redis_server(FilePath(REDIS)))
        projects = _projects(directory, url)
        with databases() as server:
            setting = setting_of(server)
            paths = _measure(server, projects, numbers, say)
        # The checks run with the durable defaults of the server.
        with databases() as server:
            checks = _check(server, paths, projects, numbers, say)
    assumptions = Assumptions()
    found = [
        setting_table("Measured by make proof-scale", setting),
        *map(tables.steps_table, paths),
        tables.assumptions_table(assumptions),
        tables.needs_table(paths, assumptions),
        tables.limits_table(paths, assumptions),
        tables.checks_table(checks),
    ]
    sys.stdout.write("\n\n".join([*found, f"load at the end: {load()}", ""]))
    if options.docs:
        for table in found:
            replace_table(PAGE, table)
    return 0


def _projects(directory: FilePath, url: str) -> Projects:
    """Create the project of each path; those of Celery only with a Redis."""
    (directory / "ticks").mkdir()
    ticks = make_project(directory / "ticks")
    # The endpoint belongs to a feature of benchmarks.cost that is not measured here.
    (ticks / "scheduled_actions.toml").write_text(features.ENDPOINT_TOML, encoding="utf-8")
    own = executor_project(directory / "postgres", carrier="postgres")
    processes = {TICKS: runs.Processes(ticks, "ticks"), WORKER: runs.Processes(own, "postgres")}
    for number in TICKETS if url else ():
        project = executor_project(directory / f"celery-{number}", tickets_per_message=number)
        processes[_celery(number)] = runs.Processes(project, "celery")
    return Projects(processes, plain_project(directory / "plain"), url)


def _celery(number: int) -> str:
    return f"Celery, {number} ticket{'s' if number > 1 else ''} per message"


def _measure(server: Databases, projects: Projects, numbers: Numbers, say: Callable[[str], None]) -> list[Path]:
    """Measure the steps of all paths in rounds, so that a disturbance affects all of them."""
    if server.is_embedded:
        configure(server)
    size, url = numbers.size, projects.url
    rounds = {name: steps.Rounds([], []) for name in projects.processes}
    with server.fresh() as template:
        setup = Setup(server, template, projects.processes[TICKS].project, features.environment("http://127.0.0.1:1/"))
        for number in range(size.rounds + size.wal_rounds):
            is_wal = number >= size.rounds
            for name, one in projects.processes.items():
                if name == TICKS:
                    found = steps.ticks(setup, size, attributes_wal=is_wal)
                elif name == WORKER:
                    found = steps.worker(setup, one.project, numbers.count, attributes_wal=is_wal)
                else:
                    found = steps.tickets(setup, one.project, url, numbers.count, attributes_wal=is_wal)
                (rounds[name].wal if is_wal else rounds[name].values).append(found)
            say(f"round {number + 1}")
    costs = {name: one.costs() for name, one in rounds.items()}
    for name in projects.processes:
        costs[name] |= {step: costs[TICKS][step] for step in (SCHEDULE, PRUNE)}
    paths = [
        Path(name=TICKS, costs=costs[TICKS], handlers=_CONCURRENCY),
        Path(
            name=WORKER,
            costs=costs[WORKER],
            worker_steps=frozenset({CLAIM, TAKE_OVER, RUN, SETTLE}),
            handlers=_CONCURRENCY,
            worker_connections=3,
        ),
    ]
    if url:
        message = runs.carry(server, projects.plain, url, numbers.messages)
        say("messages of Celery")
        workers = frozenset({RECEIVE, TAKE_OVER, RUN, SETTLE})
        paths += [
            Path(
                name=_celery(number),
                costs=costs[_celery(number)] | {RECEIVE: message.divided(number)},
                worker_steps=workers,
                handlers=min(number, _CONCURRENCY),
                has_broker=True,
            )
            for number in TICKETS
        ]
    return paths


def _check(
    server: Databases, paths: Sequence[Path], projects: Projects, numbers: Numbers, say: Callable[[str], None]
) -> list[tuple[Path, runs.Run, Sequence[str]]]:
    """Run real processes at two rates on each path."""
    checks: list[tuple[Path, runs.Run, Sequence[str]]] = []
    for path in paths:
        ticketed = [number for number in TICKETS if path.name == _celery(number)]
        for rate in numbers.ticket_rates[ticketed[0]] if ticketed else numbers.rates:
            run = runs.at_rate(server, projects.processes[path.name], projects.url, rate, numbers.seconds)
            say(f"{path.name}, {rate} per second: {run}")
            checks.append((path, run, _CHECKED))
    return checks


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m proofs.scale",
        description="Measure the cost of an action on each path, and compute and check what rates need.",
    )
    parser.add_argument("--smoke", action="store_true", help="small numbers, to check that everything runs")
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/explanation/scale.md")
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, leave)
    sys.exit(main())
