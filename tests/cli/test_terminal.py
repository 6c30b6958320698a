"""Output on a terminal: colours, progress bars, repeated counts and shell completion."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from scheduled_actions.cli import main
from scheduled_actions.cli.output import print_table
from tests.factories import database_now, insert

RED = "\x1b[31m"
COMMAND = [sys.executable, "-m", "scheduled_actions.cli"]


@pytest.fixture
def on_a_terminal(project, database_url):
    """Return a function that runs a command on a pseudo-terminal and returns its output."""

    def run(*arguments, **environ):
        controller, terminal = pty.openpty()
        values = {
            **os.environ,
            "DATABASE_URL": database_url,
            "SCHEDULED_ACTIONS_PROJECT": str(project),
            "TERM": "xterm",
        }
        values.pop("NO_COLOR", None)
        process = subprocess.Popen(
            [*COMMAND, *arguments], stdin=terminal, stdout=terminal, stderr=terminal, env=values | environ
        )
        os.close(terminal)
        shown = b""
        while chunk := _read(controller):
            shown += chunk
        os.close(controller)
        assert process.wait(30) == 0, shown
        return shown.decode()

    return run


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""  # Linux raises this error after the other end has closed.


def test_statuses_are_coloured_only_on_a_terminal(on_a_terminal, run, connection):
    insert(connection, status="failed")

    coloured = on_a_terminal("actions", "list")

    assert f"{RED}failed" in coloured
    assert "\x1b" not in run("actions", "list").stdout


def test_no_color_is_respected(on_a_terminal, connection):
    insert(connection, status="failed")

    assert "\x1b" not in on_a_terminal("actions", "list", NO_COLOR="1")


def test_a_bulk_command_draws_a_progress_bar_on_a_terminal(on_a_terminal, connection):
    for _ in range(3):
        insert(connection, status="failed")

    shown = on_a_terminal("actions", "retry", "--all", "--yes")

    assert re.search(r"\[#+\].*3/3", shown)
    assert "3 actions made pending" in shown


def test_columns_are_aligned_with_wide_and_combining_characters(capsys):
    print_table(("NAME", "NOTE"), [("请求", "a"), ("e\u0301té", "b"), ("plain", "c")])

    assert capsys.readouterr().out.splitlines() == ["NAME   NOTE", "请求   a", "e\u0301té    b", "plain  c"]


def test_counts_with_watch_repeats_until_a_signal(project, database_url, connection):
    insert(connection)
    environ = {**os.environ, "DATABASE_URL": database_url, "SCHEDULED_ACTIONS_PROJECT": str(project)}
    with subprocess.Popen(
        [*COMMAND, "counts", "--watch", "0.1", "--json"], stdout=subprocess.PIPE, env=environ, text=True
    ) as watching:
        first = json.loads(watching.stdout.readline())
        insert(connection)
        last = first
        while last["pending"] == 1:
            last = json.loads(watching.stdout.readline())
        watching.send_signal(signal.SIGINT)
        assert watching.wait(30) == 0

    assert (first["pending"], last["pending"]) == (1, 2)


def test_counts_with_watch_prints_the_changes(run, connection, monkeypatch):
    insert(connection)
    started = database_now(connection)
    insert(connection, status="completed", scheduled_at=started, started_at=started, completed_at=started)
    is_stopped = iter([False, True])

    class StopAfterTwoWaits:
        def set(self):
            """Do nothing: no signal arrives in this test."""

        def wait(self, seconds):
            assert seconds == 2
            insert(connection)
            return next(is_stopped)

    monkeypatch.setattr("scheduled_actions.cli.counts.threading.Event", StopAfterTwoWaits)

    lines = [line.split() for line in run("counts", "--watch").stdout.splitlines()]

    assert [line for line in lines if line[:1] == ["pending"]] == [["pending", "1"], ["pending", "2", "+1"]]
    assert [line for line in lines if line[:1] == ["test:run"]] == [["test:run", "1", *["0.00"] * 3]] * 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_the_shell(run_anywhere, shell):
    script = run_anywhere("completion", shell)

    assert script.exit_code == 0
    assert f"_SCHEDULED_ACTIONS_COMPLETE={shell}_complete" in script.stdout


def test_bash_can_parse_its_completion_script(run_anywhere):
    script = run_anywhere("completion", "bash").stdout

    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("scheduled-actions coun", ["counts"]),
        ("scheduled-actions webhooks end", ["endpoints"]),
        ("scheduled-actions actions list --sta", ["--status"]),
    ],
)
def test_commands_and_options_are_completed(words, wanted):
    environ = {
        "_SCHEDULED_ACTIONS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")),
    }  # fmt: skip

    completed = CliRunner().invoke(main, [], env=environ, prog_name="scheduled-actions")

    assert [line.split(",")[1] for line in completed.stdout.splitlines()] == wanted
