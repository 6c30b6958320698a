"""Measure an installation, from `git clone` to the first processed action: `python -m benchmarks.install`.

Each round clones the last commit and runs `make run` in the clone, without `.venv` and pip's cache. Then it schedules
an action, as the output of `make run` says.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import WrongResultError

ROOT = Path(__file__).parents[1]
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")
MB = 1_000_000
#: What is downloaded to install each kind, in addition to its dependencies: `make` also installs its own pip.
KINDS = {"core": ("setuptools",), "local": ("pip", "setuptools"), "dev": ("pip", "setuptools")}
#: Prints the number of packages, and their bytes without the tools that install them.
COUNT = """
import json
from importlib import metadata
found = [one for one in metadata.distributions() if one.metadata["Name"] not in ("pip", "setuptools")]
files = {path.locate() for one in found for path in one.files or ()}
print(json.dumps([len(found), sum(path.stat().st_size for path in files if path.suffix != ".pyc" and path.exists())]))
"""


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds of one round, measured from the start of `git clone`."""

    load: float
    cloned: float
    served: float
    processed: float
    #: CPU time of all processes that the round started, except those of Postgres.
    cpu: float


@dataclass(frozen=True, slots=True)
class Weight:
    """Size of one kind of installation."""

    downloaded: int
    packages: int
    installed: int


def main() -> None:
    """Run the rounds, weigh each kind of installation, and print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.install", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="one round, without the sizes")
    options = parser.parse_args()
    environ = _environment()
    rounds = [_round(environ) for _ in range(1 if options.smoke else options.rounds)]
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, load {_spread([one.load for one in rounds])}")
    for what, values in (
        ("git clone", [one.cloned for one in rounds]),
        ("git clone to serving", [one.served for one in rounds]),
        ("git clone to the first processed action", [one.processed for one in rounds]),
        ("CPU time of all of it", [one.cpu for one in rounds]),
    ):
        print(f"{what:<42}{_spread(values)} s")
    if options.smoke:
        return
    print(f"\n{'':<8}{'downloaded':>14}{'packages':>12}{'installed':>13}")
    for kind in KINDS:
        weight = _weight(kind, environ)
        print(f"{kind:<8}{weight.downloaded / MB:>11.1f} MB{weight.packages:>12}{weight.installed / MB:>10.1f} MB")


def _environment() -> dict[str, str]:
    # An empty cache for pip, and nothing of a project, a virtual environment or a `make` around this process.
    foreign = ("DATABASE_URL", "CRON_SECRET", "ADMIN_TOKEN", "SCHEDULED_ACTIONS_", "VIRTUAL_ENV", "MAKE", "MFLAGS")
    outer = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**outer, "PIP_NO_CACHE_DIR": "1", "PORT": "0"}


def _round(environ: dict[str, str]) -> Round:
    load, before = os.getloadavg()[0], _cpu()
    with tempfile.TemporaryDirectory() as name:
        began = time.monotonic()
        clone = _clone(Path(name))
        cloned = time.monotonic()
        with subprocess.Popen(
            ["make", "run"], cwd=clone, env=environ, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as running:
            try:
                _wait_for(" is running at ", running)
                served = time.monotonic()
                _schedule(clone, environ)
                _wait_for(" 1 succeeded", running)
                processed = time.monotonic()
            finally:
                os.killpg(running.pid, signal.SIGTERM)
    return Round(load, cloned - began, served - began, processed - began, _cpu() - before)


def _clone(directory: Path) -> Path:
    clone = directory / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    return clone


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait_for(text: str, running: subprocess.Popen[str]) -> None:
    """Read the output of `make run` up to the line that contains a text."""
    assert running.stdout is not None  # it is a pipe
    lines = []
    for line in running.stdout:
        lines.append(line)
        if text in line:
            return
    raise WrongResultError("the output of make run", found="".join(lines), expected=text)


def _schedule(clone: Path, environ: dict[str, str]) -> None:
    """Schedule an action as the output of `make run` says; the running application processes it at once."""
    program = clone / ".venv/bin/scheduled-actions"
    command: list[str | Path] = [program, "schedule", "maintenance:prune", "--payload", "{}"]
    subprocess.run(command, cwd=clone, env=environ, check=True, stdout=subprocess.DEVNULL)


def _weight(kind: str, environ: dict[str, str]) -> Weight:
    extras = "" if kind == "core" else f"[{kind}]"
    with tempfile.TemporaryDirectory() as name:
        wheels, venv = Path(name, "wheels"), Path(name, "venv")
        clone = _clone(Path(name))
        constraints = ("--quiet", "-c", str(clone / "constraints.txt"))
        project = f"{clone}{extras}"
        download: list[str | Path] = [
            sys.executable,
            *PIP,
            "download",
            *constraints,
            "-d",
            wheels,
            project,
            *KINDS[kind],
        ]
        subprocess.run(download, env=environ, check=True)
        files = [path for path in wheels.iterdir() if not path.name.startswith("scheduled_actions")]
        downloaded = sum(path.stat().st_size for path in files)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        python = venv / "bin/python"
        install: list[str | Path] = [python, *PIP, "install", "--no-compile", *constraints, "--no-deps", *files, clone]
        subprocess.run(install, env=environ, check=True)
        counted = subprocess.run([python, "-c", COUNT], check=True, capture_output=True)
        packages, installed = json.loads(counted.stdout)
        return Weight(downloaded, packages, installed)


def _spread(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.1f}" if low == high else f"{low:.1f} to {high:.1f}"


if __name__ == "__main__":
    main()
