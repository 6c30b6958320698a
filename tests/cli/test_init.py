"""`scheduled-actions init`: what a new project is, and what happens to files that are there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduled_actions.cli import COMMANDS, main
from scheduled_actions.core import config
from scheduled_actions.core.config import Settings
from scheduled_actions.local import environment, project_template
from scheduled_actions.operations import registry_build

ROOT = Path(__file__).parents[2]
SHARED = ["registry_build.py", "scheduled_actions.toml", "gunicorn.conf.py", ".env.example"]


def init(*arguments):
    return CliRunner().invoke(main, ["init", *map(str, arguments)])


@pytest.fixture
def written(tmp_path):
    """Give a new project."""
    project = tmp_path / "New Project"
    answer = init(project)
    assert answer.exit_code == 0, answer.output
    return project


def test_a_new_project_is_the_one_of_this_repository(written):
    examples = {path.name for path in (ROOT / "handlers").glob("*.py")}

    assert {path.name for path in (written / "handlers").iterdir()} == examples | {"_registry.py"}
    for name in [*SHARED, *(f"handlers/{name}" for name in examples)]:
        assert (written / name).read_bytes() == (ROOT / name).read_bytes(), name


def test_every_pattern_of_the_list_finds_something():
    patterns = (ROOT / "scheduled_actions" / "local" / "project_files.txt").read_text().split()

    assert [pattern for pattern in patterns if not list(ROOT.glob(pattern))] == []


def test_a_new_project_has_secrets_of_its_own_for_its_owner_alone(written, tmp_path):
    init(tmp_path / "other")

    path = written / ".env"
    assert path.stat().st_mode & 0o777 == 0o600
    secrets = config.load(written, environment.load(written, {}))
    assert secrets.cron_secret.is_usable
    assert secrets.admin_token.is_usable
    assert len(set(environment.parse(path.read_text()).values())) == 3
    assert path.read_text() != (tmp_path / "other" / ".env").read_text()
    ignored = (written / ".gitignore").read_text().split("\n")
    assert {".env", ".scheduled_actions/"} <= set(ignored)


def test_a_new_project_can_be_used_as_it_is(written):
    assert config.load(written, {}).settings == Settings()
    assert "webhook:send" in registry_build.check(written).handlers
    project = tomllib.loads((written / "pyproject.toml").read_text())
    assert project["project"]["name"] == "new-project"


def test_vercel_serves_a_new_project_s_own_file_and_all_else_is_as_here(written):
    vercel = tomllib.loads((written / "pyproject.toml").read_text())["tool"]["vercel"]
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["vercel"]
    settings, our_settings = (json.loads((place / "vercel.json").read_text()) for place in (written, ROOT))

    assert "from scheduled_actions.wsgi import app" in (written / "app.py").read_text()
    assert vercel == {**ours, "entrypoint": "app:app"}
    assert settings.pop("functions") == {"app.py": our_settings.pop("functions")["scheduled_actions/wsgi.py"]}
    assert settings == our_settings


def test_the_handler_of_a_new_project_s_readme_runs(written, database_url):
    code = re.search(r"```python\n(.*?)```", (written / "README.md").read_text(), re.DOTALL)[1]
    (written / "handlers" / "greeting.py").write_text(code)

    assert "written" in run(written, "registry_build.py")
    scheduled = run(written, *CLI, "schedule", "greeting:say", "--payload", '{"name": "Ann"}', database=database_url)
    report = run(written, *CLI, "process", "--json", database=database_url)

    assert scheduled.startswith("scheduled ")
    assert '"succeeded": 1' in report
    assert "Hello Ann!" in run(written, *CLI, "show", scheduled.split()[1], "--json", database=database_url)


def test_every_command_of_a_new_project_s_readme_exists(written):
    text = (written / "README.md").read_text()

    used = set(re.findall(r"scheduled-actions ([a-z-]+)", text))
    assert {"dev", "schedule", "migrate", "list"} <= used
    assert used <= COMMANDS.keys()
    assert "x-cron-secret: $(sed -n 's/^CRON_SECRET=//p' .env)" in text


def test_a_directory_with_something_in_it_is_refused_and_left_as_it_was(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")

    answer = init(tmp_path)

    assert answer.exit_code == 1
    assert "notes.txt" in answer.output
    assert "--force" in answer.output
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_repository_and_a_virtual_environment_are_nothing(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".venv").mkdir()

    assert init(tmp_path).exit_code == 0


def test_force_adds_what_is_missing_and_keeps_what_is_there(tmp_path):
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / ".env").write_text("CRON_SECRET=a-secret-of-mine-to-be-kept\n")

    answer = init(tmp_path, "--force")

    assert answer.exit_code == 0
    assert (tmp_path / "README.md").read_text() == "mine"
    assert "kept  README.md" in answer.output
    assert environment.load(tmp_path, {})["CRON_SECRET"] == "a-secret-of-mine-to-be-kept"
    assert environment.load(tmp_path, {})["ADMIN_TOKEN"]
    assert (tmp_path / "vercel.json").exists()


def test_force_on_a_project_changes_nothing_at_all(written):
    before = {path: path.read_bytes() for path in written.rglob("*") if path.is_file()}

    answer = init(written, "--force")

    assert {path: path.read_bytes() for path in written.rglob("*") if path.is_file()} == before
    assert "  new" not in answer.output


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "file").touch()

    answer = init(tmp_path / "file")

    assert answer.exit_code == 1
    assert "file" in answer.output
    assert "cannot be written" in answer.output


def test_no_file_of_the_machine_that_wrote_it_gets_into_a_project(written):
    written_text = [path.read_text() for path in written.rglob("*") if path.is_file()]

    assert not any(str(written) in text or str(ROOT) in text for text in written_text)
    assert not list(written.rglob("*.pyc"))
    assert project_template.settings_of_gunicorn(written) == written / "gunicorn.conf.py"


CLI = ["-m", "scheduled_actions.cli"]


def run(project, *arguments, database=""):
    """Run a Python program in the project as in a new terminal; return what it printed."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULED_ACTIONS_")}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env={**outer, "DATABASE_URL": database},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
