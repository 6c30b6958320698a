"""Compare no-op jobs through this package and through other Postgres queues: `python -m benchmarks.peers`.

Exit codes: 0 all drains ran, 1 a drain failed or its result was wrong, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
import traceback
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.comparison import Comparison, table
from benchmarks.databases import URL_VARIABLE, databases
from benchmarks.harness import FULL, Bench
from benchmarks.output import leave, write
from benchmarks.peers import installing
from benchmarks.peers.contenders import OURS, PEERS, Ours, Peer
from benchmarks.peers.contest import drain_by_peer, drain_in_process, drain_over_http
from benchmarks.serving import make_project
from benchmarks.setting import load, setting_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Drain = Callable[[int], float]

ROUNDS = 5
JOBS = 10_000
#: Numbers of processes that `--tune` tries with each peer.
_TUNED_PROCESSES = (1, 2, 4)
#: `--jobs` must be a multiple: times are taken every hundred jobs, and a fifth of the jobs is warm-up.
_JOBS_STEP = 500


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the drains, print the table and return the exit code."""
    options = _parser().parse_args(arguments)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:4.0f} s] {text}", file=sys.stderr, flush=True)

    with (
        databases() as server,
        tempfile.TemporaryDirectory(prefix="scheduled-actions-peers-") as directory,
        ExitStack() as stack,
    ):
        setting = setting_of(server)
        bench = Bench(server, make_project(Path(directory)), FULL, say)
        peers = [peer for peer in PEERS if not options.only or peer.name in options.only]
        ours = () if options.tune else OURS
        if options.tune:
            peers = [_with_processes(peer, count) for peer in peers for count in _TUNED_PROCESSES]
        drains, failures = _prepare(stack, bench, ours, peers)
        setting |= _configurations(ours, [peer for peer in peers if peer.name in drains])
        for name, value in setting.items():
            print(f"{name}: {value}", flush=True)
        rates = _take_turns(bench, drains, failures, rounds=options.rounds, jobs=options.jobs)
    comparisons = _tuning(rates) if options.tune else _comparisons(rates)
    seconds = time.monotonic() - began
    print(f"\n{table(comparisons)}\n")
    print(f"Rounds: {options.rounds}, of {options.jobs:,} jobs each; {seconds:.0f} s; load at the end: {load()}.")
    for name, reason in failures.items():
        print(f"FAILED {name}: {reason}")
    if options.json is not None:
        write(options.json, setting, comparisons, failures, is_smoke=False, seconds=seconds)
    return 1 if failures else 0


def _prepare(
    stack: ExitStack, bench: Bench, ours: Sequence[Ours], peers: Sequence[Peer]
) -> tuple[dict[str, Drain], dict[str, str]]:
    """Return the drains by name, and the errors of peers that failed; peers that are not installed are skipped."""
    drains: dict[str, Drain] = {}
    failures: dict[str, str] = {}
    commands = _Commands(bench.say)
    for one in ours:
        make = drain_over_http if one.processes else drain_in_process
        drains[one.name] = make(stack, bench, one)
    for peer in peers:
        try:
            drains[peer.name] = drain_by_peer(stack, bench, peer, commands.of(peer))
        except installing.NotInstalledError as error:
            bench.say(f"{peer.name}: {error}")
        except Exception as error:  # noqa: BLE001 - reported at the end and by the exit code
            traceback.print_exc()
            failures[peer.name] = f"{type(error).__name__}: {error}"
    return drains, failures


class _Commands:
    """Return the command of a peer's process; installs its packages on first use."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self.node: installing.Node | None = None

    def of(self, peer: Peer) -> list[str | Path]:
        if peer.runs_on == "python":
            return [installing.python(self._say), "-m", f"benchmarks.peers.{peer.module}"]
        self.node = self.node or installing.node(self._say)
        return [self.node.program, self.node.directory / f"{peer.module}.mjs"]


def _take_turns(
    bench: Bench, drains: dict[str, Drain], failures: dict[str, str], *, rounds: int, jobs: int
) -> dict[str, list[float]]:
    """Return the rates of each round; a contender that fails is left out of all further rounds and of the result."""
    names = list(drains)
    rates: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            if name in failures:
                continue
            try:
                rates[name].append(drains[name](jobs))
            except Exception as error:  # noqa: BLE001 - reported at the end and by the exit code
                traceback.print_exc()
                failures[name] = f"{type(error).__name__}: {error}"
        summary = ", ".join(f"{name} {rates[name][-1]:,.0f}" for name in names if name not in failures)
        bench.say(f"round {number + 1} of {rounds}, jobs/s: {summary}")
    return {name: values for name, values in rates.items() if name not in failures}


def _comparisons(rates: dict[str, list[float]]) -> list[Comparison]:
    """Compare each of our configurations with each peer, then with our first configuration."""
    ours: list[str] = [one.name for one in OURS if one.name in rates]
    peers = [one.name for one in PEERS if one.name in rates]
    line = partial(Comparison, unit="jobs/s")
    lines = [
        line(name=name, baseline_name=peer, measured=rates[name], baseline=rates[peer])
        for name in ours
        for peer in peers
    ]
    return lines + [
        line(name=name, baseline_name=ours[0], measured=rates[name], baseline=rates[ours[0]]) for name in ours[1:]
    ]


def _with_processes(peer: Peer, count: int) -> Peer:
    return replace(peer, name=f"{peer.name} x{count}", processes=count)


def _tuning(rates: dict[str, list[float]]) -> list[Comparison]:
    """Compare each peer with several processes with the same peer with one process."""
    alone = f" x{_TUNED_PROCESSES[0]}"
    return [
        Comparison(name=name, baseline_name=first, unit="jobs/s", measured=values, baseline=rates[first])
        for name, values in rates.items()
        if (first := name.rpartition(" ")[0] + alone) in rates
    ]


def _configurations(ours: Sequence[Ours], peers: Sequence[Peer]) -> dict[str, str]:
    versions = installing.pinned()
    configurations = {
        f"{peer.name} ({peer.package} {versions[peer.package]})": f"{_processes(peer.processes)}: "
        f"{peer.configuration}; {peer.completion}"
        for peer in peers
    }
    return configurations | {one.name: _our_configuration(one) for one in ours}


def _our_configuration(ours: Ours) -> str:
    changed = ", ".join(f"{name}={str(value).lower()}" for name, value in ours.settings.items())
    return changed or "default settings"


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description="Run no-op jobs through this package and through other Postgres queues, and compare the rates.",
        epilog=f"Packages are installed below {installing.DIRECTORY}. {URL_VARIABLE}: server to use.",
    )
    names = [peer.name for peer in PEERS]
    parser.add_argument("--only", action="append", metavar="PEER", choices=names, help=f"one of {', '.join(names)}")
    parser.add_argument("--tune", action="store_true", help="each peer with 1, 2 and 4 processes, without ours")
    parser.add_argument("--rounds", type=_positive, default=ROUNDS, help=f"number of rounds ({ROUNDS})")
    parser.add_argument("--jobs", type=_jobs, default=JOBS, help=f"number of jobs that a drain counts ({JOBS})")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the settings and the values of every round to FILE"
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        message = f"{number} must be 1 or more"
        raise argparse.ArgumentTypeError(message)
    return number


def _jobs(text: str) -> int:
    number = _positive(text)
    if number % _JOBS_STEP:
        message = f"{number} must be a multiple of {_JOBS_STEP}"
        raise argparse.ArgumentTypeError(message)
    return number


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, leave)
    sys.exit(main())
