"""The wheel contains every file that the package needs, and a project created with it runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "scheduled_actions"
_not_the_source = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "node_modules")


def run(*command, cwd, **environment):
    result = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_a_wheel_contains_every_file_and_creates_a_project_that_runs(tmp_path, database_url):
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=_not_the_source)
    shutil.copy(ROOT / ".env.example", source)
    run("-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(source), cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)

    # PYTHONPATH takes precedence over the checkout that is installed in this environment.
    environment = {"PYTHONPATH": str(installed), "DATABASE_URL": database_url}
    where = run("-c", "import scheduled_actions; print(scheduled_actions.__file__)", cwd=tmp_path, **environment)
    assert Path(where.strip()) == installed / "scheduled_actions" / "__init__.py"

    def command(*arguments, cwd):
        return run("-m", "scheduled_actions.cli", *arguments, cwd=cwd, **environment)

    held = {path.relative_to(installed).as_posix() for path in installed.rglob("*") if path.is_file()}
    wanted = {path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*") if path.is_file()}
    assert {one for one in wanted - held if "__pycache__" not in one} == set()

    command("init", "shop", cwd=tmp_path)
    shop = tmp_path / "shop"
    command("migrate", cwd=shop)
    scheduled = json.loads(
        command("schedule", "maintenance:prune", "--payload", "{}", "--json", cwd=shop),
    )
    ticked = json.loads(command("process", "--json", cwd=shop))

    assert (ticked["processed"], ticked["succeeded"]) == (1, 1)
    assert json.loads(command("actions", "show", scheduled["id"], "--json", cwd=shop))["status"] == "completed"
