"""Compare no-op jobs through this package and through other queues: `python -m benchmarks.peers`.

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
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.comparison import Comparison, table
from benchmarks.databases import URL_VARIABLE, databases
from benchmarks.harness import FULL, Bench
from benchmarks.output import leave, write
from benchmarks.peers import installing
from benchmarks.peers.brokers import redis_server
from benchmarks.peers.contenders import OURS, PEERS, Ours, Peer
from benchmarks.peers.contest import drain_by_peer, drain_in_process, drain_over_http
from benchmarks.serving import make_project
from benchmarks.setting import load, setting_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Drain = Callable[[int], float]

ROUNDS = 5
JOBS = 10_000
#: Worker processes of this package and of every peer; peers that are faster with another number also use that number.
PROCESSES = 2
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
        contenders = {
            f"{peer.name} x{count}": (peer, count)
            for peer in peers
            for count in (_TUNED_PROCESSES if options.tune else sorted({PROCESSES, peer.fastest}))
        }
        drains, failures, left_out = prepare(stack, bench, ours, contenders)
        setting |= _configurations(ours, [peer for peer in peers if peer.name not in left_out])
        if left_out:
            setting["left out"] = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        for name, value in setting.items():
            print(f"{name}: {value}", flush=True)
        rates = _take_turns(bench, drains, failures, rounds=options.rounds, jobs=options.jobs)
    comparisons = _tuning(rates) if options.tune else _comparisons(rates)
    seconds = time.monotonic() - began
    print(f"\n{absolute(rates)}\n\n{table(comparisons)}\n")
    print(f"Rounds: {options.rounds}, of {options.jobs:,} jobs each; {seconds:.0f} s; load at the end: {load()}.")
    for name, reason in failures.items():
        print(f"FAILED {name}: {reason}")
    if options.json is not None:
        write(options.json, setting, comparisons, failures, is_smoke=False, seconds=seconds)
    return 1 if failures else 0


def prepare(
    stack: ExitStack, bench: Bench, ours: Sequence[Ours], contenders: Mapping[str, tuple[Peer, int]]
) -> tuple[dict[str, Drain], dict[str, str], dict[str, str]]:
    """Return the drains by name, the errors of peers that failed, and the peers that could not be installed."""
    drains: dict[str, Drain] = {}
    failures: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for one in ours:
        make = drain_over_http if one.processes else drain_in_process
        drains[one.name] = make(stack, bench, one)
    for name, (peer, count) in contenders.items():
        if peer.name in left_out:
            continue
        try:
            command = _command(peer, bench.say)
            environ = _servers(stack, bench, peer)
            drains[name] = drain_by_peer(stack, bench, peer, command, processes=count, environ=environ)
        except installing.NotInstalledError as error:
            bench.say(f"{peer.name} is left out: {error}")
            left_out[peer.name] = str(error)
        except Exception as error:  # noqa: BLE001 - reported at the end and by the exit code
            traceback.print_exc()
            failures[name] = f"{type(error).__name__}: {error}"
    return drains, failures, left_out


def _command(peer: Peer, say: Callable[[str], None]) -> list[str | Path]:
    """Return the command of a peer's process; installs its packages if they are missing."""
    if peer.runs_on == "python":
        return [installing.python(peer.packages, say), "-m", f"benchmarks.peers.{peer.module}"]
    program, directory = installing.node(peer.packages, say)
    return [program, directory / f"{peer.module}.mjs"]


def _servers(stack: ExitStack, bench: Bench, peer: Peer) -> dict[str, str]:
    """Start the servers that a peer needs besides Postgres; return the variables with their URLs."""
    if not peer.needs_redis:
        return {}
    return {"PEER_REDIS_URL": stack.enter_context(redis_server(installing.redis(bench.say)))}


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


def absolute(rates: dict[str, list[float]]) -> str:
    """Return the rates as a table: median, minimum and maximum of the rounds."""
    width = max(map(len, rates), default=0)
    lines = [
        f"{name.ljust(width)}  {median(values):>8,.0f}  {min(values):>8,.0f} - {max(values):,.0f}"
        for name, values in sorted(rates.items(), key=lambda one: median(one[1]), reverse=True)
    ]
    return "\n".join([f"{''.ljust(width)}  {'jobs/s':>8}  {'min - max':>8}", *lines])


def _comparisons(rates: dict[str, list[float]]) -> list[Comparison]:
    """Compare each of our configurations with each peer, then with our first configuration."""
    ours: list[str] = [one.name for one in OURS if one.name in rates]
    peers = [name for name in rates if name not in ours]
    line = partial(Comparison, unit="jobs/s")
    lines = [
        line(name=name, baseline_name=peer, measured=rates[name], baseline=rates[peer])
        for name in ours
        for peer in peers
    ]
    return lines + [
        line(name=name, baseline_name=ours[0], measured=rates[name], baseline=rates[ours[0]]) for name in ours[1:]
    ]


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
        f"{peer.name} ({peer.package} {versions[peer.package]})": f"{peer.configuration}; {peer.completion}"
        for peer in peers
    }
    return configurations | {one.name: _our_configuration(one) for one in ours}


def _our_configuration(ours: Ours) -> str:
    changed = ", ".join(f"{name}={str(value).lower()}" for name, value in ours.settings.items())
    return changed or "default settings"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description="Run no-op jobs through this package and through other queues, and compare the rates.",
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
