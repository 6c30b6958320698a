"""`scheduled-actions dev`: what it refuses, what it starts, and that nothing of it is left behind."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduled_actions.cli import main
from scheduled_actions.core import config
from scheduled_actions.database import embedded as local_postgres
from scheduled_actions.local import environment
from tests.faults.serving import has_ended, wait_until

HANDLER = """
import os, time
from scheduled_actions import action

@action("test:work")
def work(payload: dict) -> int:
    time.sleep(payload.get("seconds", 0))
    return os.getpid()
"""
SECRET = "a-cron-secret-of-these-tests"


@pytest.fixture
def project(tmp_path):
    """Give a project with one handler, and nothing else."""
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "__init__.py").touch()
    (tmp_path / "handlers" / "work.py").write_text(HANDLER)
    return tmp_path


# -- refusals: a line, exit code 1, and nothing written or started -----------------------------------------------------


def refused(project, *arguments, **environ):
    before = sorted(project.rglob("*"))
    signals = signal.getsignal(signal.SIGTERM)
    values = dict.fromkeys(("DATABASE_URL", "CRON_SECRET", "ADMIN_TOKEN", "PORT", "SCHEDULED_ACTIONS_PROJECT"))
    answer = CliRunner().invoke(main, ["--project", str(project), "dev", *arguments], env=values | environ)

    assert answer.exit_code == 1, answer.output
    assert answer.stderr.startswith("error: ")
    assert sorted(project.rglob("*")) == before
    assert signal.getsignal(signal.SIGTERM) == signals
    return answer.stderr


def test_a_port_that_is_taken_is_named_with_what_to_do(project):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        said = refused(project, PORT=str(port))

    assert f"127.0.0.1:{port}" in said
    assert "--port or PORT" in said


def test_a_directory_without_handlers_is_no_project(tmp_path):
    said = refused(tmp_path, "--port", "0")

    assert "no handlers/" in said
    assert "scheduled-actions init" in said


def test_settings_that_cannot_be_used_are_a_line(project):
    (project / "scheduled_actions.toml").write_text("batch_size = 0\n")

    assert "batch_size" in refused(project, "--port", "0")


def test_a_dot_env_that_cannot_be_read_is_a_line(project):
    (project / ".env").write_text("what is this\n")

    assert ".env: line 1" in refused(project, "--port", "0")


def test_a_secret_that_protects_nothing_is_refused(project):
    said = refused(project, "--port", "0", CRON_SECRET="short", ADMIN_TOKEN="short")

    assert "CRON_SECRET" in said
    assert "16 random characters" in said


def test_a_handler_with_a_mistake_is_a_line_with_its_place(project):
    (project / ".env").write_text(f"CRON_SECRET={SECRET}\nADMIN_TOKEN={SECRET}\n")
    (project / "handlers" / "oops.py").write_text("def broken(\n")

    assert "handlers/oops.py:1" in refused(project, "--port", "0")


def test_a_program_that_gives_no_secrets_is_a_line(project):
    said = refused(project, "--port", "0", SCHEDULED_ACTIONS_ENV_COMMAND="false")

    assert "SCHEDULED_ACTIONS_ENV_COMMAND: false failed with exit code 1" in said


# -- real processes ----------------------------------------------------------------------------------------------------


class Dev:
    """`scheduled-actions dev` as a process, and what it prints."""

    def __init__(self, project, **environ):
        outer = {name: value for name, value in os.environ.items() if not name.startswith("SCHEDULED_ACTIONS_")}
        self.project = project
        self.printed = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "scheduled_actions.cli", "dev", "--port", "0"],
            cwd=project,
            env={**outer, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.sees("/cron/process\n")
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)", self.printed)[1])
        self.processes = [self.process.pid, *self.descendants()]

    def _read(self):
        for line in self.process.stdout:
            self.printed += line

    def sees(self, text):
        wait_until(lambda: text in self.printed, within=120, what=f"{text!r} is printed, not only {self.printed!r}")

    def descendants(self):
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True, text=True).stdout
        children = [tuple(map(int, line.split())) for line in listed.splitlines()]
        found = [self.process.pid]
        for parent in found:
            found += [pid for pid, of in children if of == parent]
        return found[1:]

    def request(self, path, secret=None):
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)) as connection:
            connection.request("GET", path, headers={"x-cron-secret": secret} if secret else {})
            response = connection.getresponse()
            return response.status, json.loads(response.read())

    def secret_of_the_printed_line(self):
        quoted = re.search(r'curl -H ("x-cron-secret: .*") http', self.printed)[1]
        echoed = subprocess.run(
            ["sh", "-c", f"printf %s {quoted}"], cwd=self.project, check=True, capture_output=True, text=True
        )
        return echoed.stdout.removeprefix("x-cron-secret: ")

    def ends(self, number):
        self.process.send_signal(number)
        code = self.process.wait(timeout=120)
        for pid in self.processes:
            wait_until(lambda pid=pid: has_ended(pid), within=15, what=f"process {pid} is gone")
        self._reader.join(timeout=10)
        return code


@pytest.fixture
def start():
    """Give the function that starts it; all of its processes are killed after the test."""
    started = []

    def start(project, **environ):
        started.append(Dev(project, **environ))
        return started[-1]

    yield start
    for dev in started:
        for pid in dev.processes:
            if not has_ended(pid):
                os.kill(pid, signal.SIGKILL)
        dev.process.wait(timeout=10)
        dev.process.stdout.close()


@pytest.fixture
def own_postgres(project):
    """Give a project in a place where the account that runs Postgres for root can enter; it is gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="scheduled-actions-dev-"))
    directory.chmod(0o711)
    shutil.copytree(project / "handlers", directory / "handlers")
    yield directory
    local_postgres.remove(directory / ".scheduled_actions")
    shutil.rmtree(directory)


def has_stopped(project):
    return local_postgres.dsn_if_running(project / ".scheduled_actions") is None


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_makes_all_it_needs_and_a_stop_leaves_no_process(own_postgres, start, number):
    dev = start(own_postgres)
    status, report = dev.request("/cron/process", dev.secret_of_the_printed_line())
    running = not has_stopped(own_postgres)

    code = dev.ends(number)

    assert (status, report["success"]) == (200, True)
    assert running
    assert code == 0
    assert has_stopped(own_postgres)
    assert "(generated CRON_SECRET" in dev.printed
    secrets = config.load(own_postgres, environment.load(own_postgres, {}))
    assert secrets.cron_secret.reveal() not in dev.printed


@pytest.mark.slow
def test_killed_it_takes_its_server_and_its_database_with_it(own_postgres, start):
    dev = start(own_postgres)

    dev.ends(signal.SIGKILL)

    wait_until(lambda: has_stopped(own_postgres), within=15, what="Postgres has stopped")


@pytest.mark.slow
def test_a_stop_lets_the_handlers_at_work_finish(project, start, connection, database_url):
    dev = start(project, DATABASE_URL=database_url, CRON_SECRET=SECRET, ADMIN_TOKEN=SECRET)
    connection.execute("select schedule_action('test:work', '{\"seconds\": 1.5}')")
    tick = threading.Thread(target=dev.request, args=["/cron/process", SECRET])
    tick.start()
    wait_until(lambda: _statuses(connection) == ["processing"], within=10, what="it is at work")

    code = dev.ends(signal.SIGTERM)

    tick.join(timeout=10)
    assert code == 0
    assert _statuses(connection) == ["completed"]


def _statuses(connection):
    return [row[0] for row in connection.execute("select status from scheduled_actions order by id")]


@pytest.mark.slow
def test_a_handler_that_changes_is_loaded_and_a_mistake_in_it_told(project, start, connection, database_url):
    dev = start(project, DATABASE_URL=database_url, CRON_SECRET=SECRET, ADMIN_TOKEN=SECRET)

    (project / "handlers" / "oops.py").write_text("def broken(\n")
    dev.sees("handlers/oops.py:1")
    (project / "handlers" / "oops.py").write_text(HANDLER.replace("test:work", "test:more"))
    dev.sees("reloaded, 2 action types")
    connection.execute("select schedule_action('test:more', '{}')")

    def is_done():
        dev.request("/cron/process", SECRET)  # Until the last worker of the old handlers has gone.
        return _statuses(connection) == ["completed"]

    wait_until(is_done, within=15, what="the new handler runs")
    assert dev.ends(signal.SIGINT) == 0


@pytest.mark.slow
def test_a_dot_env_that_changes_is_read_again(project, start, database_url):
    (project / ".env").write_text(f"CRON_SECRET={SECRET}\nDATABASE_URL={database_url}\nGONE=1\n")
    dev = start(project, ADMIN_TOKEN=SECRET)
    assert dev.request("/cron/process", SECRET)[0] == 200

    other = f"{SECRET}-that-is-another"
    (project / ".env").write_text(f"CRON_SECRET={other}\nDATABASE_URL={database_url}\n")
    dev.sees("reloaded, 1 action type")
    wait_until(lambda: dev.request("/cron/process", other)[0] == 200, within=15, what="the new secret opens")
    wait_until(lambda: dev.request("/cron/process", SECRET)[0] == 401, within=15, what="the old one does not")

    (project / ".env").write_text(f"CRON_SECRET={other}\nDATABASE_URL=postgresql://127.0.0.1/another\n")
    dev.sees("DATABASE_URL has changed: restart the server to use it")
    assert dev.request("/cron/process", other)[0] == 200
    assert dev.ends(signal.SIGINT) == 0


@pytest.mark.slow
def test_a_server_that_ends_by_itself_is_told_with_its_last_words(project, start, database_url):
    dev = start(project, DATABASE_URL=database_url, CRON_SECRET=SECRET, ADMIN_TOKEN=SECRET)

    os.kill(dev.descendants()[0], signal.SIGKILL)

    assert dev.process.wait(timeout=120) == 1
    dev.sees("local server: ended unexpectedly")
    dev.sees("Booting worker")
