"""The peers' own packages, installed from their registries into a directory that nobody else uses."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_HERE = Path(__file__).parent
DIRECTORY = _HERE.parents[1] / ".scheduled_actions" / "peers"
#: What the Node peers ask for.
_NODE_LEAST = (22, 18)
#: Node itself, as a package, where that on the path is older.
_NODE_PACKAGE = "node@22.23.3"
_NPM = ("--no-package-lock", "--no-audit", "--no-fund")
_LAST_LINES = 5


class NotInstalledError(Exception):
    """What some of the peers run on is not to be had; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Node:
    """Where the Node peers run."""

    program: Path
    #: Holds `node_modules`, and copies of our own modules: imports are looked up from where a module lies.
    directory: Path
    version: str


def python(say: Callable[[str], None]) -> Path:
    """Return the interpreter that has the Python peers, installing them when they are not there as pinned.

    Raises:
        NotInstalledError: They could not be installed.
    """
    directory = _place("python")
    program = directory / "bin" / "python"
    pins = _HERE / "requirements.txt"
    if not _is_fresh(directory, [pins]):
        say(f"installing the Python peers into {directory}")
        _run([sys.executable, "-m", "venv", "--clear", directory], "a virtual environment")
        quiet = ["--quiet", "--disable-pip-version-check"]
        _run([program, "-m", "pip", "install", *quiet, "-r", pins], "the Python peers")
        _remember(directory, [pins])
    return program


def node(say: Callable[[str], None]) -> Node:
    """Return Node with the Node peers, installing what is missing.

    Raises:
        NotInstalledError: There is no npm, or the packages could not be installed.
    """
    directory = _place("node")
    pins = _HERE / "package.json"
    npm = shutil.which("npm")
    if npm is None:
        message = "npm is not on the path: graphile-worker and pg-boss are left out; install Node.js 22.18 or newer"
        raise NotInstalledError(message)
    if not _is_fresh(directory, [pins]):
        say(f"installing the Node peers into {directory}")
        directory.mkdir(exist_ok=True)
        shutil.copy(pins, directory)
        _run([npm, "install", *_NPM, "--prefix", directory], "the Node peers")
        if _version_of(shutil.which("node")) < _NODE_LEAST:
            _run([npm, "install", "--no-save", *_NPM, "--prefix", directory, _NODE_PACKAGE], "Node itself")
        _remember(directory, [pins])
    for module in _HERE.glob("*.mjs"):
        shutil.copy(module, directory)
    own = directory / "node_modules" / ".bin" / "node"
    program = own if own.exists() else Path(shutil.which("node") or "node")
    found = _version_of(program)
    if found < _NODE_LEAST:
        message = (
            f"Node.js {'.'.join(map(str, found))} is on the path and its package gave none: "
            "graphile-worker and pg-boss are left out; install Node.js 22.18 or newer"
        )
        raise NotInstalledError(message)
    return Node(program, directory, ".".join(map(str, found)))


def pinned() -> dict[str, str]:
    """Return the version of each package that the lists of packages name first-hand."""
    lines = (_HERE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.partition("==") for line in lines if "==" in line]
    packages: dict[str, str] = json.loads((_HERE / "package.json").read_text(encoding="utf-8"))["dependencies"]
    return {name.partition("[")[0]: version for name, _, version in pins} | packages


def _place(name: str) -> Path:
    DIRECTORY.parent.mkdir(mode=0o711, exist_ok=True)  # As the embedded Postgres would make it.
    DIRECTORY.mkdir(exist_ok=True)
    return DIRECTORY / name


def _version_of(program: str | Path | None) -> tuple[int, ...]:
    if program is None:
        return (0,)
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return tuple(int(part) for part in done.stdout.strip().lstrip("v").split(".") if part.isdigit()) or (0,)


def _run(command: Sequence[str | Path], what: str) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "npm_config_update_notifier": "false"}
    )
    if done.returncode:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-_LAST_LINES:])
        message = f"{what} could not be installed: {Path(command[0]).name} ended with {done.returncode}:\n{said}"
        raise NotInstalledError(message)


def _is_fresh(directory: Path, pins: Sequence[Path]) -> bool:
    mark = directory / ".installed"
    return mark.exists() and mark.read_text(encoding="ascii") == _digest(pins)


def _remember(directory: Path, pins: Sequence[Path]) -> None:
    (directory / ".installed").write_text(_digest(pins), encoding="ascii")


def _digest(pins: Sequence[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in pins)).hexdigest()
