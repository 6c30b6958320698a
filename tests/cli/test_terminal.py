"""What people see on a terminal, and programs behind a pipe do not."""

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
    """Give a function that runs a command on a pseudo-terminal and returns all that it shows."""

    def run(*arguments, **environ):
        ours, theirs = pty.openpty()
        values = {
            **os.environ,
            "DATABASE_URL": database_url,
            "SCHEDULED_ACTIONS_PROJECT": str(project),
            "TERM": "xterm",
        }
        values.pop("NO_COLOR", None)
        process = subprocess.Popen(
            [*COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=values | environ
        )
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
        os.close(ours)
        assert process.wait(30) == 0, shown
        return shown.decode()

    return run


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""  # Linux says so when the other end has closed.


def test_a_status_has_its_colour_on_a_terminal_alone(on_a_terminal, run, connection):
    insert(connection, status="failed")

    coloured = on_a_terminal("actions", "list")

    assert f"{RED}failed" in coloured
    assert "\x1b" not in run("actions", "list").stdout


def test_no_color_is_respected(on_a_terminal, connection):
    insert(connection, status="failed")

    assert "\x1b" not in on_a_terminal("actions", "list", NO_COLOR="1")


def test_long_work_draws_a_bar_on_a_terminal(on_a_terminal, connection):
    for _ in range(3):
        insert(connection, status="failed")

    shown = on_a_terminal("actions", "retry", "--all", "--yes")

    assert re.search(r"\[#+\].*3/3", shown)
    assert "3 actions made pending" in shown


def test_columns_stand_under_each_other_whatever_the_width_of_a_letter(capsys):
    print_table(("NAME", "NOTE"), [("请求", "a"), ("e\u0301té", "b"), ("plain", "c")])

    assert capsys.readouterr().out.splitlines() == ["NAME   NOTE", "请求   a", "e\u0301té    b", "plain  c"]


def test_watching_counts_goes_on_until_it_is_stopped(project, database_url, connection):
    insert(connection)
    environ = {**os.environ, "DATABASE_URL": database_url, "SCHEDULED_ACTIONS_PROJECT": str(project)}
    with subprocess.Popen(
        [*COMMAND, "counts", "--watch", "0.1", "--json"], stdout=subprocess.PIPE, env=environ, text=True
    ) as watching:
        first = json.loads(watching.stdout.readline())
        insert(connection)
        later = first
        while later["pending"] == 1:
            later = json.loads(watching.stdout.readline())
        watching.send_signal(signal.SIGINT)
        assert watching.wait(30) == 0

    assert (first["pending"], later["pending"]) == (1, 2)


def test_watching_says_how_much_has_changed(run, connection, monkeypatch):
    insert(connection)
    started = database_now(connection)
    insert(connection, status="completed", scheduled_at=started, started_at=started, completed_at=started)
    looks = iter([False, True])

    class Impatient:
        def set(self):
            """Nothing stops it here."""

        def wait(self, seconds):
            assert seconds == 2
            insert(connection)
            return next(looks)

    monkeypatch.setattr("scheduled_actions.cli.counts.threading.Event", Impatient)

    lines = [line.split() for line in run("counts", "--watch").stdout.splitlines()]

    assert [line for line in lines if line[:1] == ["pending"]] == [["pending", "1"], ["pending", "2", "+1"]]
    assert [line for line in lines if line[:1] == ["test:run"]] == [["test:run", "1", *["0.00"] * 3]] * 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_what_completes_commands(run_anywhere, shell):
    script = run_anywhere("completion", shell)

    assert script.exit_code == 0
    assert f"_SCHEDULED_ACTIONS_COMPLETE={shell}_complete" in script.stdout


def test_the_script_of_bash_can_be_read_by_it(run_anywhere):
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
def test_the_tab_key_completes(words, wanted):
    environ = {
        "_SCHEDULED_ACTIONS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")),
    }  # fmt: skip

    completed = CliRunner().invoke(main, [], env=environ, prog_name="scheduled-actions")

    assert [line.split(",")[1] for line in completed.stdout.splitlines()] == wanted
