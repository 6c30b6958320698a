"""Install the peers: packages from PyPI and npm into a separate directory, and Redis from Debian."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_HERE = Path(__file__).parent
DIRECTORY = _HERE.parents[1] / ".scheduled_actions" / "peers"
_REQUIREMENTS = _HERE / "requirements.txt"
_PACKAGE_JSON = _HERE / "package.json"
#: Minimum version for the Node peers.
_NODE_LEAST = (22, 18)
#: npm package with Node.js, installed if the version on the path is older.
_NODE_PACKAGE = "node@26.10.0"
_NPM = ("--no-package-lock", "--no-audit", "--no-fund")
_REDIS = "redis-server"
#: With this variable, Debian's package starts no service.
_NO_SERVICE = {"RUNLEVEL": "1", "DEBIAN_FRONTEND": "noninteractive"}
_LAST_LINES = 5


class NotInstalledError(Exception):
    """A peer could not be installed; the message says what to do."""


def python(packages: Sequence[str], say: Callable[[str], None]) -> Path:
    """Return the interpreter of the Python peers; installs the pinned packages if they are missing or outdated.

    Raises:
        NotInstalledError: They could not be installed.
    """
    directory = _place("python")
    program = directory / "bin" / "python"
    if not program.exists():
        _run([sys.executable, "-m", "venv", "--clear", directory], "a virtual environment")
    mark = directory / f".installed-{packages[0]}"
    digest = _digest(_REQUIREMENTS.read_bytes(), packages)
    if not _is_fresh(mark, digest):
        say(f"installing {packages[0]} into {directory}")
        quiet = ["--quiet", "--disable-pip-version-check"]
        _run([program, "-m", "pip", "install", *quiet, "-c", _REQUIREMENTS, *packages], packages[0])
        mark.write_text(digest, encoding="ascii")
    return program


def node(packages: Sequence[str], say: Callable[[str], None]) -> tuple[Path, Path]:
    """Return Node.js and the directory of a Node peer; installs what is missing.

    The directory contains `node_modules` and copies of the modules of this folder, because Node resolves imports from a
    module's own location.

    Raises:
        NotInstalledError: npm is missing, or the packages could not be installed.
    """
    program = _node(say)
    directory = _place(packages[0])
    mark = directory / ".installed"
    pins = json.loads(_PACKAGE_JSON.read_text(encoding="utf-8"))
    pins["dependencies"] = {name: pins["dependencies"][name] for name in packages}
    digest = _digest(json.dumps(pins).encode(), packages)
    if not _is_fresh(mark, digest):
        say(f"installing {packages[0]} into {directory}")
        directory.mkdir(exist_ok=True)
        (directory / "package.json").write_text(json.dumps(pins), encoding="utf-8")
        _run([_npm(), "install", *_NPM, "--prefix", directory], packages[0])
        mark.write_text(digest, encoding="ascii")
    for module in _HERE.glob("*.mjs"):
        shutil.copy(module, directory)
    return program, directory


def _node(say: Callable[[str], None]) -> Path:
    """Return Node.js: of the path, or installed with npm if that version is too old."""
    on_path = shutil.which("node")
    if on_path is not None and _version_of(on_path) >= _NODE_LEAST:
        return Path(on_path)
    directory = _place("node")
    program = directory / "node_modules" / ".bin" / "node"
    mark = directory / ".installed"
    digest = _digest(_NODE_PACKAGE.encode(), ())
    if not _is_fresh(mark, digest):
        say(f"installing Node.js into {directory}")
        directory.mkdir(exist_ok=True)
        (directory / "package.json").write_text('{"private": true}', encoding="utf-8")
        _run([_npm(), "install", "--no-save", *_NPM, "--prefix", directory, _NODE_PACKAGE], "Node.js")
        mark.write_text(digest, encoding="ascii")
    if _version_of(program) < _NODE_LEAST:
        message = "Node.js is too old; install Node.js 22.18 or newer"
        raise NotInstalledError(message)
    return program


def _npm() -> str:
    npm = shutil.which("npm")
    if npm is None:
        message = "npm not found on PATH; install Node.js 22.18 or newer"
        raise NotInstalledError(message)
    return npm


def redis(say: Callable[[str], None]) -> Path:
    """Return the Redis server of the path; installs Debian's package if it is missing and this is the root user.

    Raises:
        NotInstalledError: It is missing, and could not be installed.
    """
    if (found := shutil.which(_REDIS)) is None:
        apt = shutil.which("apt-get")
        if apt is None or os.geteuid() != 0:
            message = f"{_REDIS} not found on PATH; install it, for example with apt-get install {_REDIS}"
            raise NotInstalledError(message)
        say(f"installing {_REDIS} with apt-get")
        _run([apt, "update", "-qq"], "the list of Debian's packages", environ=_NO_SERVICE)
        _run([apt, "install", "-qq", "-y", "--no-install-recommends", _REDIS], _REDIS, environ=_NO_SERVICE)
        found = shutil.which(_REDIS)
    return Path(found or _REDIS)


def pinned() -> dict[str, str]:
    """Return the pinned version of each package in requirements.txt and package.json."""
    lines = _REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    pins = [line.partition("==") for line in lines if "==" in line]
    packages: dict[str, str] = json.loads(_PACKAGE_JSON.read_text(encoding="utf-8"))["dependencies"]
    return {name.lower(): version for name, _, version in pins} | packages


def _place(name: str) -> Path:
    DIRECTORY.parent.mkdir(mode=0o711, exist_ok=True)  # The mode that the embedded Postgres uses.
    DIRECTORY.mkdir(exist_ok=True)
    return DIRECTORY / name


def _version_of(program: str | Path) -> tuple[int, ...]:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return tuple(int(part) for part in done.stdout.strip().lstrip("v").split(".") if part.isdigit()) or (0,)


def _run(command: Sequence[str | Path], what: str, environ: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "npm_config_update_notifier": "false", **(environ or {})},
    )
    if done.returncode:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-_LAST_LINES:])
        message = f"{what} could not be installed: {Path(command[0]).name} exited with {done.returncode}:\n{said}"
        raise NotInstalledError(message)


def _is_fresh(mark: Path, digest: str) -> bool:
    return mark.exists() and mark.read_text(encoding="ascii") == digest


def _digest(pins: bytes, packages: Sequence[str]) -> str:
    return hashlib.sha256(pins + b"\0" + "\0".join(packages).encode()).hexdigest()
