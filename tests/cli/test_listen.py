"""`listen`: a process that runs what comes due, or has it run, until it is asked to end."""

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

#: Runs until the test lets it return.
HELD = """\
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
def listening(project, database_url):
    """Give a function that starts `listen` as a process, and returns it once it says that it listens."""
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
def pinged():
    """Give the address of a server, and the headers of each ping that it got."""
    got = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.append((self.path, dict(self.headers)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            return None

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", got
        server.shutdown()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_runs_what_comes_and_ends_in_order_when_it_is_asked_to(listening, connection, number):
    process = listening()
    greeted = insert(connection, action_type="greeting:say", payload={"name": "Ann"})
    insert(connection, action_type="greeting:say", payload={"name": "nobody"})

    wait_until(lambda: row(connection, greeted)["status"] == "completed" and row(connection, greeted)["result"])
    process.send_signal(number)
    said, complained = process.communicate(timeout=PATIENCE)

    assert process.returncode == 0
    assert CRON_SECRET not in said + complained
    assert "Traceback" not in complained
    assert statuses(connection)[greeted] == "completed"
    assert connection.execute("select count(*) from scheduled_action_ticks where finished_at is null").fetchone() == (
        0,
    )


def test_at_its_end_it_lets_what_runs_finish_and_tells_what_was_done(listening, run, project, connection):
    (project / "handlers" / "held.py").write_text(HELD, encoding="utf-8")
    run("registry", "build")
    started, leave = project / "started", project / "leave"
    process = listening()
    held = insert(connection, action_type="held:do", payload={"started": str(started), "leave": str(leave)})
    wait_until(started.exists)

    process.send_signal(signal.SIGINT)
    leave.touch()
    said, _ = process.communicate(timeout=PATIENCE)

    assert process.returncode == 0
    assert statuses(connection) == {held: "completed"}
    assert "1 processed, 1 succeeded\n" in said


def test_with_ping_it_runs_nothing_itself_and_pings_for_what_is_due(listening, pinged, project, connection):
    url, got = pinged
    (project / "handlers" / "_registry.py").unlink()
    process = listening("--ping", SCHEDULED_ACTIONS_URL=url)

    waiting = insert(connection, action_type="greeting:say", payload={"name": "Ann"})
    wait_until(lambda: got)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)

    path, headers = got[0]
    assert (path, headers["x-scheduled-actions-wake"]) == ("/cron/process", "1")
    assert process.returncode == 0
    assert statuses(connection) == {waiting: "pending"}


@pytest.mark.parametrize("missing", ["SCHEDULED_ACTIONS_URL", "CRON_SECRET"])
def test_a_ping_that_has_no_address_or_no_secret_is_refused_with_a_line(run, missing):
    environ = {"SCHEDULED_ACTIONS_URL": "http://127.0.0.1:1", missing: None}

    ran = run("listen", "--ping", **environ)

    assert (ran.exit_code, ran.stdout) == (1, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith("error: ")
    assert "CRON_SECRET" in line
    assert "url" in line


def test_it_fails_at_once_without_a_registry_and_says_how_to_build_one(run, project):
    (project / "handlers" / "_registry.py").unlink()

    ran = run("listen")

    assert ran.exit_code == 1
    assert "`scheduled-actions registry build`" in ran.stderr


def test_what_it_does_not_know_is_a_usage_error(run):
    assert run("listen", "--pong").exit_code == 2
