"""Find or install the tools of `vercel build` below the project directory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_HERE = Path(__file__).parent
ROOT = _HERE.parents[1]
DIRECTORY = ROOT / ".scheduled_actions" / "proofs" / "vercel"
#: Oldest Python version of Vercel's runtime, used for projects that require 3.11 or newer.
_PYTHON_LEAST = (3, 12)
_PYTHON_NAMES = ("python3.12", "python3.13", "python3.14")
_LAST_LINES = 15
_PATIENCE_SECONDS = 600


class ProofFailedError(Exception):
    """A check failed or could not run; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Paths of the tools."""

    vercel: Path
    uv: Path
    python: Path
    python_version: str


def tools() -> Tools:
    """Return the tools; installs the Vercel CLI from npm and uv from PyPI if they are missing.

    Raises:
        ProofFailedError: npm or a recent Python is missing, or a package could not be installed.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise ProofFailedError("npm not found on PATH: install Node.js 20 or newer")
    python, version = _python()
    (ROOT / ".scheduled_actions").mkdir(mode=0o711, exist_ok=True)  # The mode that the embedded Postgres uses.
    node, venv = DIRECTORY / "node", DIRECTORY / "uv"
    if not _has(node, "package.json"):
        node.mkdir(parents=True, exist_ok=True)
        shutil.copy(_HERE / "package.json", node)
        options = ["--no-package-lock", "--no-audit", "--no-fund", "--prefix", str(node)]
        run([npm, "install", *options], what="the Vercel CLI could not be installed")
        _remember(node, "package.json")
    if not _has(venv, "requirements.txt"):
        run([sys.executable, "-m", "venv", "--clear", venv], what="the virtual environment could not be created")
        options = ["--quiet", "--disable-pip-version-check", "-r", str(_HERE / "requirements.txt")]
        run([venv / "bin" / "python", "-m", "pip", "install", *options], what="uv could not be installed")
        _remember(venv, "requirements.txt")
    return Tools(node / "node_modules" / ".bin" / "vercel", venv / "bin" / "uv", python, version)


def run(command: Sequence[str | Path], *, what: str, cwd: Path = ROOT, environ: dict[str, str] | None = None) -> str:
    """Run a command and return its output.

    Raises:
        ProofFailedError: The command failed; the message ends with the last lines of its output.
    """
    done = subprocess.run(  # noqa: S603 - our own commands
        command, cwd=cwd, env=environ, capture_output=True, text=True, check=False, timeout=_PATIENCE_SECONDS
    )
    said = f"{done.stdout}\n{done.stderr}".strip()
    if done.returncode:
        last = "\n".join(said.splitlines()[-_LAST_LINES:])
        message = f"{what}: {Path(command[0]).name} exited with {done.returncode}:\n{last}"
        raise ProofFailedError(message)
    return said


def _python() -> tuple[Path, str]:
    """Return a Python that Vercel's build accepts: `PROOF_PYTHON`, one on PATH, or one of pyenv."""
    given = os.environ.get("PROOF_PYTHON")
    candidates = [Path(given)] if given else [Path(found) for name in _PYTHON_NAMES if (found := shutil.which(name))]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    if not given:
        candidates += sorted(pyenv.glob("3.1[2-9].*/bin/python3"))
    for candidate in candidates:
        asked = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)  # noqa: S603 - as above
        version = re.fullmatch(r"Python (\d+)\.(\d+)\.\S+\s*", asked.stdout)
        if version is not None and (int(version[1]), int(version[2])) >= _PYTHON_LEAST:
            return candidate.absolute(), f"{version[1]}.{version[2]}"
    message = (
        f"no Python 3.12 or newer found, which Vercel's runtime requires (candidates: {candidates or 'none'}); "
        "install one, or run: PROOF_PYTHON=/path/to/python3.12 make proof-vercel"
    )
    raise ProofFailedError(message)


def _has(directory: Path, pins: str) -> bool:
    mark = directory / ".installed"
    return mark.exists() and mark.read_text(encoding="utf-8") == (_HERE / pins).read_text(encoding="utf-8")


def _remember(directory: Path, pins: str) -> None:
    shutil.copy(_HERE / pins, directory / ".installed")
