"""`listen`: a process that runs due actions, or pings for them, until it receives a signal."""

from __future__ import annotations

import http.server
import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest

from tests.cli.conftest import CRON_SECRET
from tests.factories import PATIENCE, insert, row, statuses, wait_until

#: A handler that runs until the test creates the file `leave`.
BLOCKING_HANDLER = """\
import time
from pathlib import Path

from scheduled_actions import action


@action("held:do", timeout_seconds=30)
def do(payload: dict):
    Path(payload["started"]).touch()
    while not Path(payload["leave"]).exists():
        time.sleep(0.005)
"""


@pytest.fixture
def start_listen(project, database_url):
    """Return a function that starts `listen` as a process and waits until it prints "listening"."""
    with ExitStack() as running:

        def start(*options, **environ):
            values = {"DATABASE_URL": database_url, "CRON_SECRET": CRON_SECRET}
            process = subprocess.Popen(
                [sys.executable, "-m", "scheduled_actions.cli", "--project", str(project), "listen", *options],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, **values, **environ},
            )
            running.enter_context(process)
            running.callback(process.kill)
            assert process.stdout.readline() == "listening\n"
            return process

        yield start


@pytest.fixture
def ping_server():
    """Run a server; return its URL and the list of pings that it received."""
    pings = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            pings.append((self.path, dict(self.headers)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            return None

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", pings
        server.shutdown()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_listen_runs_due_actions_and_a_signal_ends_it_with_exit_code_0(start_listen, connection, number):
    process = start_listen()
    greeted = insert(connection, action_type="greeting:say", payload={"name": "Ann"})
    insert(connection, action_type="greeting:say", payload={"name": "no one"})

    wait_until(lambda: row(connection, greeted)["status"] == "completed" and row(connection, greeted)["result"])
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=PATIENCE)

    assert process.returncode == 0
    assert CRON_SECRET not in stdout + stderr
    assert "Traceback" not in stderr
    assert statuses(connection)[greeted] == "completed"
    assert connection.execute("select count(*) from scheduled_action_ticks where finished_at is null").fetchone() == (
        0,
    )


def test_a_signal_lets_running_handlers_finish_and_the_totals_are_printed(start_listen, run, project, connection):
    (project / "handlers" / "held.py").write_text(BLOCKING_HANDLER, encoding="utf-8")
    run("registry", "build")
    started, leave = project / "started", project / "leave"
    process = start_listen()
    held = insert(connection, action_type="held:do", payload={"started": str(started), "leave": str(leave)})
    wait_until(started.exists)

    process.send_signal(signal.SIGINT)
    leave.touch()
    stdout, _ = process.communicate(timeout=PATIENCE)

    assert process.returncode == 0
    assert statuses(connection) == {held: "completed"}
    assert "1 processed, 1 succeeded\n" in stdout


def test_listen_with_ping_pings_for_due_actions_and_runs_none_itself(start_listen, ping_server, project, connection):
    url, pings = ping_server
    (project / "handlers" / "_registry.py").unlink()
    process = start_listen("--ping", SCHEDULED_ACTIONS_URL=url)

    waiting = insert(connection, action_type="greeting:say", payload={"name": "Ann"})
    wait_until(lambda: pings)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)

    path, headers = pings[0]
    assert (path, headers["x-scheduled-actions-wake"]) == ("/cron/process", "1")
    assert process.returncode == 0
    assert statuses(connection) == {waiting: "pending"}


@pytest.mark.parametrize("missing", ["SCHEDULED_ACTIONS_URL", "CRON_SECRET"])
def test_listen_with_ping_requires_a_url_and_a_secret(run, missing):
    environ = {"SCHEDULED_ACTIONS_URL": "http://127.0.0.1:1", missing: None}

    ran = run("listen", "--ping", **environ)

    assert (ran.exit_code, ran.stdout) == (1, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith("error: ")
    assert "CRON_SECRET" in line
    assert "url" in line


def test_listen_without_a_registry_fails_and_names_the_build_command(run, project):
    (project / "handlers" / "_registry.py").unlink()

    ran = run("listen")

    assert ran.exit_code == 1
    assert "`scheduled-actions registry build`" in ran.stderr


def test_an_unknown_option_is_a_usage_error(run):
    assert run("listen", "--pong").exit_code == 2
