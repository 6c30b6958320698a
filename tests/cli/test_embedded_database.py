"""The project's embedded database: where it may be created, and how it is deleted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduled_actions.cli import main
from scheduled_actions.core import config
from scheduled_actions.core.errors import ConfigInvalid
from scheduled_actions.database import embedded
from scheduled_actions.database.embedded import cluster, locks
from scheduled_actions.local import environment
from tests.faults.serving import a_port, processes_of, wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has databases in a common directory")


@pytest.fixture
def directory():
    """Yield an empty directory that the account that runs Postgres for root can enter."""
    place = Path(tempfile.mkdtemp(prefix="scheduled-actions-embedded-"))
    place.chmod(0o711)
    yield place
    for stored in list(place.rglob("postgres.json")):
        assert embedded.remove(stored.parent), "a test left a server running"
    shutil.rmtree(place)


@pytest.fixture
def project(directory):
    """Return a project without a database."""
    project = directory / "project"
    assert run("init", project, DATABASE_URL="postgresql://not-used.invalid/db").exit_code == 0
    return project


def run(*arguments, **environ):
    variables = ("DATABASE_URL", "SCHEDULED_ACTIONS_PROJECT", "SCHEDULED_ACTIONS_ENV", "VERCEL")
    return CliRunner().invoke(main, [str(one) for one in arguments], env=dict.fromkeys(variables) | environ)


# -- creating ----------------------------------------------------------------------------------------------------------


def test_a_command_without_database_url_creates_no_database_and_says_what_to_do(project):
    ran = run("--project", project, "migrate")

    assert ran.exit_code == 1
    assert ran.stderr.startswith("error: DATABASE_URL is not configured: set it to a postgresql:// address")
    assert "`scheduled-actions dev`" in ran.stderr
    assert "SCHEDULED_ACTIONS_EMBEDDED=1" in ran.stderr
    assert not (project / ".scheduled_actions").exists()


@pytest.mark.slow
def test_a_project_on_request_creates_a_database_and_later_commands_find_it(project):
    created = run("--project", project, "migrate", SCHEDULED_ACTIONS_EMBEDDED="1")
    found = run("--project", project, "counts", SCHEDULED_ACTIONS_EMBEDDED="0")

    assert created.exit_code == 0, created.output
    assert found.exit_code == 0, found.output


def test_the_request_is_rejected_in_production(project):
    ran = run("--project", project, "migrate", SCHEDULED_ACTIONS_EMBEDDED="1", SCHEDULED_ACTIONS_ENV="production")

    assert ran.exit_code == 1
    assert "the embedded Postgres is for development" in ran.stderr
    assert not (project / ".scheduled_actions").exists()


@pytest.mark.parametrize("value", ["yes", "true", "2", " 1"])
def test_another_value_of_the_request_is_rejected(tmp_path, value):
    with pytest.raises(ConfigInvalid, match=r"SCHEDULED_ACTIONS_EMBEDDED = .*must be 0 or 1"):
        config.load(tmp_path, {"SCHEDULED_ACTIONS_EMBEDDED": value})


@pytest.mark.slow
def test_gunicorn_creates_no_database(project):
    outer = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULED_ACTIONS_")}
    outer.pop("DATABASE_URL", None)
    command = [sys.executable, "-m", "gunicorn", "-c", "gunicorn.conf.py", "--bind", "127.0.0.1:0", "app:app"]

    ran = subprocess.run(command, cwd=project, env=outer, capture_output=True, text=True, timeout=60, check=False)

    assert ran.returncode == 1
    assert "error: DATABASE_URL is not configured: set it" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (project / ".scheduled_actions").exists()


@pytest.mark.slow
def test_init_creates_a_database_and_leaves_it_stopped(directory):
    ran = run("init", directory / "project")

    home = directory / "project" / ".scheduled_actions"
    assert ran.exit_code == 0
    assert "  new   .scheduled_actions/ (a database for development)\n" in ran.output
    assert embedded.dsn_if_running(home) is None
    assert run("--project", directory / "project", "migrate").exit_code == 0


@pytest.mark.parametrize("given", ["environment", ".env", "production"])
def test_init_creates_no_database_where_none_is_needed(directory, given):
    url = "postgresql://not-used.invalid/db"
    project = directory / "project"
    project.mkdir()
    environ = {"environment": {"DATABASE_URL": url}, "production": {"SCHEDULED_ACTIONS_ENV": "production"}}
    if given == ".env":
        (project / ".env").write_text(f"DATABASE_URL={url}\n")

    ran = run("init", project, "--force", **environ.get(given, {}))

    assert ran.exit_code == 0
    assert "database" not in ran.output
    assert not (project / ".scheduled_actions").exists()


def test_without_an_installed_postgres_init_succeeds_and_says_what_to_do(directory, monkeypatch):
    monkeypatch.setattr(cluster, "WHEEL", "not_installed")
    monkeypatch.setattr(cluster, "SYSTEM", directory / "not_installed")
    monkeypatch.setenv("PATH", str(directory))

    ran = run("init", directory / "project")

    assert ran.exit_code == 0
    assert "No database was created: embedded Postgres: no PostgreSQL of version 14 or later was found" in ran.output
    assert 'run pip install "scheduled-actions[embedded]", or set DATABASE_URL' in ran.output
    assert environment.load(directory / "project", {})["CRON_SECRET"]
    assert not embedded.is_created(directory / "project" / ".scheduled_actions")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["listen", "gunicorn"])
def test_several_stop_signals_to_another_holder_leave_no_process_running(project, command):
    outer = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULED_ACTIONS_")}
    outer.pop("DATABASE_URL", None)
    assert run("--project", project, "migrate", SCHEDULED_ACTIONS_EMBEDDED="1").exit_code == 0
    programs = {
        "listen": ["scheduled_actions.cli", "listen"],
        "gunicorn": ["gunicorn", "-c", "gunicorn.conf.py", "--bind", f"127.0.0.1:{a_port()}", "app:app"],
    }
    for pause in (0, 0.01, 0.05, 0.2):
        process = subprocess.Popen([sys.executable, "-m", *programs[command]], cwd=project, env=outer)
        is_running = partial(embedded.dsn_if_running, project / ".scheduled_actions")
        wait_until(is_running, within=30, what="Postgres is running")

        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=pause)

        process.wait(timeout=60)
        wait_until(lambda: not processes_of(project), within=30, what=f"all processes end: {processes_of(project)}")


# -- deleting ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(project):
    """Return the directory of the project's own database, which is stopped."""
    embedded.attach(project / ".scheduled_actions").close()
    return project / ".scheduled_actions"


def test_purge_deletes_the_database_after_a_confirmation(project, stored):
    declined = CliRunner().invoke(main, ["--project", str(project), "dev", "--purge"], input="n\n")
    is_kept = embedded.is_created(stored)
    done = run("--project", project, "dev", "--purge", "--yes")
    again = run("--project", project, "dev", "--purge", "--yes")

    assert (declined.exit_code, is_kept) == (1, True)
    assert f"Delete {stored}, with the project's database?" in declined.output
    assert (done.exit_code, done.output) == (0, f"deleted {stored}\n")
    assert not stored.exists()
    assert (again.exit_code, again.output) == (0, f"{stored} contains no Postgres; nothing was deleted\n")
    assert (project / "handlers").is_dir()


def test_purge_is_rejected_while_the_database_is_in_use(project, stored):
    with embedded.attach(stored):
        ran = run("--project", project, "dev", "--purge", "--yes")

    assert ran.exit_code == 1
    assert f"{stored} is in use: stop `scheduled-actions dev`" in ran.stderr
    assert embedded.is_created(stored)


def test_purge_is_rejected_if_the_project_uses_another_database(project, stored):
    ran = run("--project", project, "dev", "--purge", "--yes", DATABASE_URL="postgresql://not-used.invalid/db")

    assert ran.exit_code == 1
    assert "DATABASE_URL is set" in ran.stderr
    assert embedded.is_created(stored)


@pytest.mark.slow
def test_purge_is_rejected_in_a_copy_whose_database_has_not_run(project, stored, directory):
    shutil.copytree(project, directory / "copy")

    ran = run("--project", directory / "copy", "dev", "--purge", "--yes")

    assert ran.exit_code == 1
    assert f"was moved or copied, and its data may belong to {stored}" in ran.stderr
    assert (stored / "data").exists()
    shutil.rmtree(directory / "copy")


@pytest.mark.parametrize("option", ["--yes", "--strays"])
def test_options_of_purge_require_it(project, option):
    ran = run("--project", project, "dev", option)

    assert ran.exit_code == 2
    assert "require --purge" in ran.stderr


@pytest.fixture
def private(directory, monkeypatch):
    """Return the data of private projects of root by name: one was deleted, one was moved and started there."""
    monkeypatch.setattr(cluster, "HOMES", directory / "homes")
    closed = directory / "closed"
    closed.mkdir(mode=0o700)
    homes = {}
    for name in ("used", "deleted", "moved"):
        stored = closed / name / ".scheduled_actions"
        embedded.attach(stored).close()
        homes[name] = cluster.load(stored).home
    (closed / "moved").rename(closed / "elsewhere")
    embedded.attach(closed / "elsewhere" / ".scheduled_actions").close()
    shutil.rmtree(closed / "deleted")
    return homes


@needs_root
@pytest.mark.slow
def test_databases_of_deleted_projects_are_reported_and_deleted_and_no_others(project, private, directory):
    stray = f"{private['deleted']} (of {directory}/closed/deleted"

    report = run("--project", project, "doctor")
    with_a_database = run("--project", project, "doctor", DATABASE_URL="postgresql://not-used.invalid/db")
    declined = CliRunner().invoke(main, ["dev", "--purge", "--strays"], input="n\n")
    is_kept = private["deleted"].exists()
    done = run("dev", "--purge", "--strays", "--yes")
    again = run("dev", "--purge", "--strays", "--yes")

    assert f"1 embedded database of deleted projects: {stray})\n" in report.output
    assert "delete the data with `scheduled-actions dev --purge --strays`" in report.output
    assert "stray_databases" not in with_a_database.output
    assert (declined.exit_code, is_kept) == (1, True)
    assert f"  {stray}/.scheduled_actions)\nDelete the databases?" in declined.output
    assert (done.exit_code, done.output) == (0, f"deleted {private['deleted']}\n")
    assert "nothing was deleted" in again.output
    assert {name for name, home in private.items() if home.exists()} == {"used", "moved"}


@needs_root
@pytest.mark.slow
def test_a_running_database_of_a_deleted_project_is_kept(private, directory):
    server = embedded.attach(directory / "closed" / "used" / ".scheduled_actions")
    shutil.rmtree(directory / "closed" / "used")
    try:
        ran = run("dev", "--purge", "--strays", "--yes")
    finally:
        server.close()

    assert f"kept {private['used']}, which is in use" in ran.output
    assert (private["used"] / "data").exists()
    wait_until(lambda: not locks.has_server(private["used"]), within=15, what="the watchdog has stopped the server")
