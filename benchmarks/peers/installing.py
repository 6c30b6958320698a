"""Install the peers' packages from PyPI and npm into a separate directory."""

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
#: Minimum version for the Node peers.
_NODE_LEAST = (22, 18)
#: npm package with Node.js, installed if the version on the path is older.
_NODE_PACKAGE = "node@22.23.3"
_NPM = ("--no-package-lock", "--no-audit", "--no-fund")
_LAST_LINES = 5


class NotInstalledError(Exception):
    """Some peers could not be installed; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Node:
    """Node.js and the directory of the Node peers."""

    program: Path
    #: Contains `node_modules` and copies of the modules of this folder, because Node resolves imports from a module's
    #: own location.
    directory: Path
    version: str


def python(say: Callable[[str], None]) -> Path:
    """Return the interpreter of the Python peers; installs the pinned packages if they are missing or outdated.

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
    """Return Node.js and the directory of the Node peers; installs what is missing.

    Raises:
        NotInstalledError: npm is missing, or the packages could not be installed.
    """
    directory = _place("node")
    pins = _HERE / "package.json"
    npm = shutil.which("npm")
    if npm is None:
        message = "npm not found on PATH, so graphile-worker and pg-boss are skipped; install Node.js 22.18 or newer"
        raise NotInstalledError(message)
    if not _is_fresh(directory, [pins]):
        say(f"installing the Node peers into {directory}")
        directory.mkdir(exist_ok=True)
        shutil.copy(pins, directory)
        _run([npm, "install", *_NPM, "--prefix", directory], "the Node peers")
        if _version_of(shutil.which("node")) < _NODE_LEAST:
            _run([npm, "install", "--no-save", *_NPM, "--prefix", directory, _NODE_PACKAGE], "Node.js")
        _remember(directory, [pins])
    for module in _HERE.glob("*.mjs"):
        shutil.copy(module, directory)
    own = directory / "node_modules" / ".bin" / "node"
    program = own if own.exists() else Path(shutil.which("node") or "node")
    found = _version_of(program)
    if found < _NODE_LEAST:
        message = (
            f"Node.js {'.'.join(map(str, found))} is too old, so graphile-worker and pg-boss are skipped; "
            "install Node.js 22.18 or newer"
        )
        raise NotInstalledError(message)
    return Node(program, directory, ".".join(map(str, found)))


def pinned() -> dict[str, str]:
    """Return the pinned version of each package in requirements.txt and package.json."""
    lines = (_HERE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.partition("==") for line in lines if "==" in line]
    packages: dict[str, str] = json.loads((_HERE / "package.json").read_text(encoding="utf-8"))["dependencies"]
    return {name.partition("[")[0]: version for name, _, version in pins} | packages


def _place(name: str) -> Path:
    DIRECTORY.parent.mkdir(mode=0o711, exist_ok=True)  # The mode that the embedded Postgres uses.
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
        message = f"{what} could not be installed: {Path(command[0]).name} exited with {done.returncode}:\n{said}"
        raise NotInstalledError(message)


def _is_fresh(directory: Path, pins: Sequence[Path]) -> bool:
    mark = directory / ".installed"
    return mark.exists() and mark.read_text(encoding="ascii") == _digest(pins)


def _remember(directory: Path, pins: Sequence[Path]) -> None:
    (directory / ".installed").write_text(_digest(pins), encoding="ascii")


def _digest(pins: Sequence[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in pins)).hexdigest()
