"""`make` installs into `.venv` what a target needs, and creates it again if it cannot be used.

The tests run the Makefile of this repository, with real virtual environments, in a project of empty packages.
"""

from __future__ import annotations

import ensurepip
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.serving import wait_until

ROOT = Path(__file__).parents[1]

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "scheduled-actions"
version = "1"
"""
BACKEND = '''
"""Build an editable wheel that depends on one package for each extra, and has a command."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from wheels import write

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    here = str(Path(__file__).parent)
    return write(wheel_directory, "scheduled_actions", {"here.pth": here}, extras={"local": "served", "dev": "tested"})
'''
WHEELS = '''
import zipfile
from pathlib import Path

def write(directory, name, files=(), extras=()):
    """Write a wheel of version 1, and return its name."""
    extras = dict(extras)
    about = f"{name}-1.dist-info"
    headers = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1"]
    for extra, needed in extras.items():
        headers += [f"Provides-Extra: {extra}", f"Requires-Dist: {needed}; extra == '{extra}'"]
    contents = {
        **dict(files),
        f"{about}/METADATA": "\\n".join([*headers, "", ""]),
        f"{about}/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        f"{about}/entry_points.txt": "[console_scripts]\\nscheduled-actions = command:main\\n" if extras else "",
    }
    contents[f"{about}/RECORD"] = "".join(f"{path},,\\n" for path in [*contents, f"{about}/RECORD"])
    wheel = f"{name}-1-py3-none-any.whl"
    with zipfile.ZipFile(Path(directory, wheel), "w") as archive:
        for path, text in contents.items():
            archive.writestr(path, text)
    return wheel
'''
# The command that `make run` starts.
COMMAND = """
import sys
from importlib import metadata

def main():
    found = {one.metadata["Name"] for one in metadata.distributions()}
    print("ran", *sorted(found & {"served", "tested"}), "in", sys.prefix)
"""

pytestmark = pytest.mark.slow


class Clone:
    """A directory with the Makefile and a project that needs no network."""

    def __init__(self, directory: Path, wheels: Path) -> None:
        self.directory, self.wheels = directory, wheels
        directory.mkdir(parents=True)
        shutil.copy(ROOT / "Makefile", directory)
        for name, text in {
            "pyproject.toml": PYPROJECT,
            "constraints.txt": "",
            "setup.py": "",
            "backend.py": BACKEND,
            "wheels.py": WHEELS,
            "command.py": COMMAND,
        }.items():
            (directory / name).write_text(text)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        outer = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "MAKE"))}
        pip = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": self.wheels.as_uri()}
        return subprocess.Popen(
            ["make", f"PYTHON={sys.executable}", *arguments],
            cwd=self.directory,
            env={**outer, **pip},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def make(self, *arguments: str) -> str:
        made = self.start(*arguments)
        output, _ = made.communicate(timeout=120)
        assert made.returncode == 0, output
        return output

    def move(self, directory: Path) -> None:
        self.directory = self.directory.rename(directory)

    def stamps(self) -> set[str]:
        return {name for name in (".local", ".dev") if (self.directory / ".venv" / name).exists()}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    directory = tmp_path_factory.mktemp("wheels")
    scope: dict = {}
    exec(WHEELS, scope)
    for name in ("setuptools", "served", "tested"):
        scope["write"](directory, name)
    [pip] = Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl")
    shutil.copy(pip, directory)
    return directory


@pytest.fixture
def clone(tmp_path, wheels):
    return Clone(tmp_path / "clone", wheels)


def test_make_run_installs_the_extra_local_and_later_development_targets_add_dev(clone):
    first = clone.make("run")

    assert f"ran served in {clone.directory}/.venv" in first
    assert clone.stamps() == {".local"}
    assert "Installing" not in clone.make("run")

    clone.make("install")

    assert clone.stamps() == {".local", ".dev"}
    last = clone.make("run")
    assert "Installing" not in last
    assert "ran served tested" in last


def test_all_dependencies_include_those_of_make_run(clone):
    clone.make("install")

    assert clone.stamps() == {".local", ".dev"}
    assert "Installing" not in clone.make("run", "install")


def test_a_changed_dependency_file_installs_again_what_the_target_needs(clone):
    clone.make("install")
    later = time.time() + 5
    os.utime(clone.directory / "constraints.txt", (later, later))

    assert "Installing what make run needs" in clone.make("run")
    assert "creating .venv again" not in clone.make("-n", "run")


def test_a_moved_directory_gets_a_new_venv(clone, tmp_path):
    clone.make("install")
    clone.move(tmp_path / "moved to")

    listed = clone.make("help")
    output = clone.make("run")

    assert "creating" not in listed
    assert output.count("This directory was moved, or .venv is incomplete: creating .venv again.") == 1
    assert f"ran served in {tmp_path / 'moved to'}/.venv" in output
    assert clone.stamps() == {".local"}


def test_a_development_target_also_notices_that_the_directory_was_moved(clone, tmp_path):
    clone.make("install")
    clone.move(tmp_path / "moved")

    assert "creating .venv again" in clone.make("install", "run")
    first_line = (clone.directory / ".venv/bin/scheduled-actions").read_text().splitlines()[0]
    assert first_line == f"#!{tmp_path}/moved/.venv/bin/python"


@pytest.mark.parametrize("change", ["the interpreter is gone", "it is another version"])
def test_a_venv_whose_python_is_gone_is_created_again(clone, change):
    clone.make("run")
    venv = clone.directory / ".venv"
    if change == "the interpreter is gone":
        for link in venv.glob("bin/python*"):
            link.unlink()
            link.symlink_to("/nowhere/python3")
    else:
        [packages] = venv.glob("lib/python*")
        packages.rename(packages.with_name("python3.0"))

    output = clone.make("run")

    assert "creating .venv again" in output
    assert "ran served" in output


def test_a_failed_installation_leaves_no_stamp_and_the_next_one_completes_it(clone, wheels, tmp_path):
    broken = tmp_path / "without served"
    shutil.copytree(wheels, broken, ignore=shutil.ignore_patterns("served*"))
    clone.wheels = broken

    failed = clone.start("run")
    output, _ = failed.communicate(timeout=120)

    assert failed.returncode != 0
    assert "served" in output
    assert clone.stamps() == set()
    clone.wheels = wheels
    assert "ran served" in clone.make("run")


@pytest.mark.parametrize(
    "moment",
    [
        "bin/activate",
        *(
            f"lib/python*/site-packages/{name}"
            for name in ("setuptools-1.dist-info", "pip/__init__.py", "served-1.dist-info")
        ),
    ],
)
def test_an_interrupted_installation_leaves_no_stamp_and_the_next_one_completes_it(clone, moment):
    begun = clone.start("run")
    wait_until(lambda: any(clone.directory.glob(f".venv/{moment}")), within=60, what=f"{moment} exists")
    os.killpg(begun.pid, signal.SIGINT)
    begun.communicate(timeout=60)

    assert begun.returncode != 0
    assert clone.stamps() == set()
    assert "ran served" in clone.make("run")


def test_a_venv_that_someone_else_created_here_is_kept(clone):
    subprocess.run([sys.executable, "-m", "venv", clone.directory / ".venv"], check=True)
    kept = clone.directory / ".venv" / "mine"
    kept.touch()

    output = clone.make("run")

    assert "ran served" in output
    assert kept.exists()
