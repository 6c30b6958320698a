"""`scheduled-actions init`: the files of a new project, and how existing files are kept."""

from __future__ import annotations

import json
import os
import re
import shlex
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
from scheduled_actions.local.project import running
from scheduled_actions.operations import registry_build

ROOT = Path(__file__).parents[2]
SHARED = ["registry_build.py", "scheduled_actions.toml", "gunicorn.conf.py", ".env.example"]


def init(*arguments):
    """Run `init` where no database is created; `test_embedded_database.py` has the tests of that."""
    environ = {"DATABASE_URL": "postgresql://not-used.invalid/db"}
    return CliRunner().invoke(main, ["init", *map(str, arguments)], env=environ)


@pytest.fixture
def new_project(tmp_path):
    """Create a new project."""
    project = tmp_path / "New Project"
    result = init(project)
    assert result.exit_code == 0, result.output
    return project


def test_a_new_project_has_the_files_of_this_repository(new_project):
    examples = {path.name for path in (ROOT / "handlers").glob("*.py")}

    assert {path.name for path in (new_project / "handlers").iterdir()} == examples | {"_registry.py"}
    for name in [*SHARED, *(f"handlers/{name}" for name in examples)]:
        assert (new_project / name).read_bytes() == (ROOT / name).read_bytes(), name


def test_every_pattern_of_the_file_list_matches_a_file():
    patterns = (ROOT / "scheduled_actions" / "local" / "project_files.txt").read_text().split()

    assert [pattern for pattern in patterns if not list(ROOT.glob(pattern))] == []


def test_a_new_project_has_unique_secrets_that_only_its_owner_can_read(new_project, tmp_path):
    init(tmp_path / "other")

    path = new_project / ".env"
    assert path.stat().st_mode & 0o777 == 0o600
    secrets = config.load(new_project, environment.load(new_project, {}))
    assert secrets.cron_secret.is_usable
    assert secrets.admin_token.is_usable
    assert len(set(environment.parse(path.read_text()).values())) == 3
    assert path.read_text() != (tmp_path / "other" / ".env").read_text()
    ignored = (new_project / ".gitignore").read_text().split("\n")
    assert {".env", ".scheduled_actions/"} <= set(ignored)


def test_a_new_project_is_valid_without_changes(new_project):
    assert config.load(new_project, {}).settings == Settings()
    assert "webhook:send" in registry_build.check(new_project).handlers
    project = tomllib.loads((new_project / "pyproject.toml").read_text())
    assert project["project"]["name"] == "new-project"


def test_the_vercel_settings_of_a_new_project_differ_only_in_the_entry_point(new_project):
    vercel = tomllib.loads((new_project / "pyproject.toml").read_text())["tool"]["vercel"]
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["vercel"]
    settings, our_settings = (json.loads((place / "vercel.json").read_text()) for place in (new_project, ROOT))

    assert "from scheduled_actions.wsgi import app" in (new_project / "app.py").read_text()
    assert vercel == {**ours, "entrypoint": "app:app"}
    assert settings.pop("functions") == {"app.py": our_settings.pop("functions")["scheduled_actions/wsgi.py"]}
    assert settings == our_settings


def test_the_handler_in_the_readme_of_a_new_project_runs(new_project, database_url):
    code = re.search(r"```python\n(.*?)```", (new_project / "README.md").read_text(), re.DOTALL)[1]
    (new_project / "handlers" / "greeting.py").write_text(code)

    assert "written" in run(new_project, "registry_build.py")
    scheduled = run(
        new_project, *CLI, "schedule", "greeting:say", "--payload", '{"name": "Ann"}', database=database_url
    )
    report = run(new_project, *CLI, "process", "--json", database=database_url)

    assert scheduled.startswith("scheduled ")
    assert '"succeeded": 1' in report
    assert "Hello Ann!" in run(
        new_project, *CLI, "actions", "show", scheduled.split()[1], "--json", database=database_url
    )


def test_every_command_in_the_readme_of_a_new_project_exists(new_project):
    text = (new_project / "README.md").read_text()

    used = set(re.findall(r"scheduled-actions ([a-z-]+)", text))
    assert {"dev", "schedule", "migrate", "actions", "cron-setup"} <= used
    assert used <= COMMANDS.keys()


def test_the_readme_of_a_new_project_says_which_handlers_to_keep(new_project):
    text = (new_project / "README.md").read_text().partition("## Which handlers to keep")[2].partition("\n## ")[0]

    written = {path.name for path in (new_project / "handlers").glob("[!_]*.py")}
    assert set(re.findall(r"`(\w+\.py)`", text)) == written


@pytest.mark.slow
def test_the_commands_in_the_readme_of_a_new_project_run(new_project, database_url):
    """All but those that install, serve and deploy; the server is that of `dev`, on another port."""
    text = (new_project / "README.md").read_text()
    handler, test = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (new_project / "handlers" / "greeting.py").write_text(handler)
    (new_project / "tests").mkdir()
    (new_project / "tests" / "test_greeting.py").write_text(test)
    commands = re.findall(r"^    (.+)", re.sub(r"```python\n.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    others = [one for one in commands if re.match(r"python3 -m venv|\. \.venv|pip install|scheduled-actions dev$", one)]
    secrets = environment.parse((new_project / ".env").read_text())

    done = ""
    with running(new_project, port=0, environ=os.environ | {"DATABASE_URL": database_url}) as project:
        for command in [one for one in commands if one not in others]:
            done += shell(
                command.replace("postgresql://…", shlex.quote(database_url)).replace(
                    "http://127.0.0.1:8000", project.server.url
                ),
                new_project,
                DATABASE_URL=database_url,
            )

    assert len(others) == 4
    assert '"succeeded": 1' in done
    assert "greeting:say" in done
    assert "1 passed" in done
    assert "crontab -e" in done
    assert not any(secret in done for secret in secrets.values())


@pytest.mark.slow
def test_the_tests_of_the_documentation_pass_in_a_new_project(new_project):
    page = (ROOT / "docs/how-to/test-your-application.md").read_text(encoding="utf-8")
    for content, name in re.findall(r"```(?:python|toml)\n(# (\S+)\n.*?)```", page, re.DOTALL):
        path = new_project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text((path.read_text() if path.exists() else "") + content)

    assert "passed" in shell("pytest", new_project)


def shell(command, project, **environ):
    """Run a command of a page in a shell in the project, as in its activated virtual environment."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("SCHEDULED_ACTIONS_", "PYTEST"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=project,
        env={**outer, "PATH": path, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_a_directory_that_is_not_empty_is_rejected_and_not_changed(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")

    result = init(tmp_path)

    assert result.exit_code == 1
    assert "notes.txt" in result.output
    assert "--force" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_directory_with_only_git_and_venv_counts_as_empty(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".venv").mkdir()

    assert init(tmp_path).exit_code == 0


def test_force_adds_missing_files_and_keeps_existing_ones(tmp_path):
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / ".env").write_text("CRON_SECRET=a-secret-of-mine-to-be-kept\n")

    result = init(tmp_path, "--force")

    assert result.exit_code == 0
    assert (tmp_path / "README.md").read_text() == "mine"
    assert "kept  README.md" in result.output
    assert environment.load(tmp_path, {})["CRON_SECRET"] == "a-secret-of-mine-to-be-kept"
    assert environment.load(tmp_path, {})["ADMIN_TOKEN"]
    assert (tmp_path / "vercel.json").exists()


def test_force_on_a_complete_project_changes_nothing(new_project):
    before = {path: path.read_bytes() for path in new_project.rglob("*") if path.is_file()}

    result = init(new_project, "--force")

    assert {path: path.read_bytes() for path in new_project.rglob("*") if path.is_file()} == before
    assert "  new" not in result.output


def test_a_path_of_a_file_is_rejected(tmp_path):
    (tmp_path / "file").touch()

    result = init(tmp_path / "file")

    assert result.exit_code == 1
    assert "file" in result.output
    assert "cannot be written" in result.output


def test_a_new_project_contains_no_local_path_and_no_compiled_file(new_project):
    written_text = [path.read_text() for path in new_project.rglob("*") if path.is_file()]

    assert not any(str(new_project) in text or str(ROOT) in text for text in written_text)
    assert not list(new_project.rglob("*.pyc"))
    assert project_template.gunicorn_settings(new_project) == new_project / "gunicorn.conf.py"


CLI = ["-m", "scheduled_actions.cli"]


def run(project, *arguments, database=""):
    """Run a Python program in the project with a clean environment; return its output."""
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
