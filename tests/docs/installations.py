"""The two places in which a reader follows the pages: a clone of the repository, and a project made from a wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: The name that the pages give to a clone of the repository.
CLONE = "scheduled-actions"
#: Variables of this process that a reader's shell does not have.
_OURS = (
    "SCHEDULED_ACTIONS_",
    "PYTEST_",
    "DATABASE_URL",
    "CRON_SECRET",
    "ADMIN_TOKEN",
    "PYTHON",
    "VIRTUAL_ENV",
    "MAKE",
    "MFLAGS",
    "PORT",
)


@dataclass(frozen=True)
class Installations:
    """A clone and a virtual environment with the package; each is made when it is first used.

    Args:
        directory: A directory that every user may enter. What an earlier run has installed there is used again.
    """

    directory: Path

    @cached_property
    def clone(self) -> Path:
        """A clone with `.venv`, as `make install` leaves it."""
        clone = self.directory / CLONE
        if not (clone / ".venv/bin/scheduled-actions").exists():
            _run("make", "install", cwd=self.copy(clone))
        return clone

    @cached_property
    def wheel(self) -> Path:
        """A virtual environment that contains the wheel and its extra `local`."""
        venv = self.directory / "wheel" / ".venv"
        if (venv / "bin/scheduled-actions").exists():
            return venv
        _run(sys.executable, "-m", "venv", venv)
        source = self.copy(self.directory / "source")
        _run(venv / "bin/pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", self.directory / "wheel", source)
        (wheel,) = (self.directory / "wheel").glob("*.whl")
        _run(venv / "bin/pip", "install", "--quiet", "-c", ROOT / "constraints.txt", f"{wheel}[local]")
        return venv

    def project(self, directory: Path) -> Path:
        """Create the project of a reader who has the wheel, next to a clone; return its directory."""
        self.copy(directory / CLONE)
        project = directory / "shop"
        _run(self.wheel / "bin/scheduled-actions", "init", project)
        (project / ".venv").symlink_to(self.wheel)
        return project

    def project_of_clone(self, directory: Path) -> Path:
        """Create a clone that shares the virtual environment of the first one; return its directory."""
        project = self.copy(directory / CLONE)
        (project / ".venv").symlink_to(self.clone / ".venv")
        return project

    @staticmethod
    def copy(target: Path) -> Path:
        """Copy what a clone contains: the files that git does not ignore."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        ).stdout.split("\0")  # fmt: skip
        for name in filter(None, listed):
            if (ROOT / name).is_file():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target / name)
        return target


def environ(venv: Path | None) -> dict[str, str]:
    """Return the environment of a reader's shell, with an activated virtual environment if there is one."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    system = os.pathsep.join(one for one in own.get("PATH", os.defpath).split(os.pathsep) if ".venv" not in one)
    path = system if venv is None else f"{venv / 'bin'}{os.pathsep}{system}"
    # As in a terminal, what a program prints is seen at once.
    terminal = {"PYTHONUNBUFFERED": "1", "COLUMNS": "200", "LC_ALL": "C.UTF-8"}
    return own | terminal | {"PATH": path, "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}


def _run(*command: str | Path, cwd: Path | None = None) -> None:
    ran = subprocess.run(command, cwd=cwd, env=environ(None), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{command}:\n{ran.stdout}{ran.stderr}"
