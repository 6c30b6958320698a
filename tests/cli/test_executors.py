"""`executors`: run a worker until nothing is due, and list the executors."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack

import psycopg
import pytest

from scheduled_actions.database.migrate import migrate
from scheduled_actions.executors import takeover
from tests.cli.test_listen import BLOCKING_HANDLER
from tests.factories import PATIENCE, insert, insert_many, row, statuses, wait_until

SETTINGS = '[executors.media]\ntypes = ["greeting:*"]\n'


@pytest.fixture
def media(project):
    """Add an executor to the settings of the project."""
    (project / "scheduled_actions.toml").write_text(SETTINGS, encoding="utf-8")


@pytest.mark.usefixtures("media")
def test_work_once_runs_what_is_due_and_prints_the_counts(run, connection):
    ids = insert_many(connection, 3, action_type="greeting:say", payload={"name": "Ann"})

    done = run("executors", "work", "media", "--once", "--concurrency", "2")

    assert done.exit_code == 0, done.stderr
    assert "processed 3 actions (3 succeeded)" in done.stdout
    assert "no due actions left" in done.stdout
    assert " in 0 ms" not in done.stdout
    assert set(statuses(connection).values()) == {"completed"}
    assert len(ids) == 3
    assert "a handler prints" in done.stderr


@pytest.mark.usefixtures("media")
def test_work_prints_the_errors_of_actions(run, connection):
    one = insert(connection, action_type="greeting:say", payload={"name": "no one"})

    done = run("executors", "work", "media", "--once")

    assert (done.exit_code, row(connection, one)["attempts"]) == (0, 1)
    assert "there is no one to greet" in done.stdout


@pytest.mark.usefixtures("media")
def test_a_misspelled_name_is_an_error_with_the_name_to_use(run):
    done = run("executors", "work", "medai")

    assert done.exit_code == 1
    assert done.stderr == 'error: executor "medai" is unknown; did you mean "media"?\n'


@pytest.mark.usefixtures("media")
def test_another_unknown_name_is_an_error_with_the_known_names(run):
    done = run("executors", "work", "gpu")

    assert done.stderr == 'error: executor "gpu" is unknown; the settings have media\n'


def test_without_the_section_the_error_says_what_to_add(run):
    done = run("executors", "work", "media")

    assert done.exit_code == 1
    assert '[executors.media] with types = ["…"]' in done.stderr


@pytest.mark.usefixtures("media")
def test_work_refuses_to_start_while_the_settings_disable_processing(run, project):
    (project / "scheduled_actions.toml").write_text(f"enabled = false\n{SETTINGS}", encoding="utf-8")

    done = run("executors", "work", "media", "--once")

    assert done.exit_code == 1
    assert "enabled is false" in done.stderr


@pytest.mark.usefixtures("media")
def test_list_shows_types_due_and_running_actions_and_workers(run, connection):
    insert(connection, action_type="greeting:say", payload={"name": "Ann"})
    run("executors", "work", "media", "--once")
    insert_many(connection, 2, action_type="greeting:say", payload={"name": "Ann"})

    listed = run("executors", "list")
    [media] = run("executors", "list", "--json").json["executors"]

    assert listed.stdout.splitlines()[0].split("  ")[0] == "NAME"
    assert "greeting:*" in listed.stdout
    assert {name: media[name] for name in ("name", "types", "due", "queued", "running", "workers")} == {
        "name": "media", "types": ["greeting:*"], "due": 2, "queued": 0, "running": 0, "workers": 0,
    }  # fmt: skip
    assert media["last_taken_at"] is not None
    assert media["oldest_due_at"] is not None


def test_list_says_how_to_add_an_executor(run, connection):
    assert "add [executors.NAME]" in run("executors", "list").stdout


def test_list_shows_the_workers_in_a_second_table(run, connection, media):
    run("migrate")
    takeover.write_worker(
        connection, takeover.WorkerRow(executor="media", name="render-1:7", concurrency=4), has_finished=False
    )

    first, second = run("executors", "list").stdout.split("\n\n")

    assert first.splitlines()[0].split() == [
        "NAME",
        "TYPES",
        "DUE",
        "LIMITED",
        "UNTAKEN",
        "RUNNING",
        "WORKERS",
        "LAST",
        "TAKEN",
    ]
    headings, worker = second.splitlines()
    assert headings.split() == ["WORKER", "EXECUTOR", "STARTED", "LAST", "SEEN", "RUNNING"]
    assert worker.startswith("render-1:7  media ")
    assert worker.endswith("  0 of 4")


def test_list_shows_an_executor_as_removed_while_its_queue_returns(run, connection, media, project):
    run("migrate")
    insert(connection, action_type="greeting:say", parked_by="queue:media")
    (project / "scheduled_actions.toml").unlink()
    run("migrate")

    assert run("executors", "list").stdout.splitlines()[1].split()[:3] == ["media", "removed", "1"]


def test_migrate_shows_what_it_changes_in_the_executors(run, connection, media, project):
    added, again = run("migrate"), run("migrate")
    (project / "scheduled_actions.toml").write_text(SETTINGS.replace("greeting:*", "audio:*"), encoding="utf-8")
    changed = run("migrate")
    (project / "scheduled_actions.toml").unlink()
    removed = run("migrate", "--json")

    assert (added.stdout, again.stdout) == ("executor media added (greeting:*)\n", "nothing to do\n")
    assert changed.stdout == "executor media changed (greeting:* → audio:*)\n"
    assert removed.json == {"applied": [], "executors": [{"name": "media", "before": ["audio:*"], "after": []}]}


@pytest.mark.usefixtures("media")
def test_actions_that_wait_for_workers_are_counted(run, connection):
    before = run("counts", "--json").json
    insert_many(connection, 2, action_type="greeting:say", parked_by="queue:media")

    counts = run("counts", "--json").json

    assert "for_executors" not in before
    assert (counts["due"], counts["for_executors"]) == (2, 2)


@pytest.mark.parametrize(
    ("types", "warning"),
    [
        ('"greting:*"', 'no handler of this build matches "greting:*" of executors.media; did you mean "greeting:*"?'),
        ('"greeting:say", "greeting:sya"', 'matches "greeting:sya" of executors.media; did you mean "greeting:say"?'),
        ('"video:*"', 'matches "video:*" of executors.media; write one, then run `scheduled-actions registry build`'),
        ('"greeting:*"', None),
    ],
)
def test_work_warns_of_types_without_a_handler(run, project, types, warning):
    (project / "scheduled_actions.toml").write_text(f"[executors.media]\ntypes = [{types}]\n", encoding="utf-8")

    done = run("executors", "work", "media", "--once")

    assert done.exit_code == 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert len(lines) == (warning is not None)
    assert all(line.endswith(warning) for line in lines)


def test_without_an_address_of_the_database_work_ends_at_once(run_anywhere, media):
    done = run_anywhere("executors", "work", "media", DATABASE_URL=None, SCHEDULED_ACTIONS_ENV="production")

    assert (done.exit_code, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("error: DATABASE_URL is not configured")


# -- until it is stopped -----------------------------------------------------------------------------------------------


@pytest.fixture
def start_work(project, database_url):
    """Return a function that starts `executors work media` as a process; all are killed after the test."""
    with ExitStack() as running:

        def start(*options, url=database_url):
            process = subprocess.Popen(
                [sys.executable, "-m", "scheduled_actions.cli", "--project", str(project), "executors", "work", "media",
                 *options],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "DATABASE_URL": url},
            )  # fmt: skip
            running.enter_context(process)
            running.callback(process.kill)
            return process

        yield start


def test_work_says_what_it_does_and_a_signal_what_it_waits_for(start_work, run, project, connection):
    (project / "handlers" / "held.py").write_text(BLOCKING_HANDLER, encoding="utf-8")
    (project / "scheduled_actions.toml").write_text('[executors.media]\ntypes = ["held:*"]\n', encoding="utf-8")
    run("registry", "build")
    started, leave = project / "started", project / "leave"
    process = start_work("--concurrency", "2", "--grace", "15")
    first, second = process.stdout.readline(), process.stdout.readline()
    held = insert(connection, action_type="held:do", payload={"started": str(started), "leave": str(leave)})
    wait_until(started.exists)

    process.send_signal(signal.SIGINT)
    third = process.stdout.readline()
    leave.touch()
    stdout, stderr = process.communicate(timeout=PATIENCE)

    name = f"{socket.gethostname()}:{process.pid}"
    assert first == f"worker of media (held:*): 2 handlers at once, {name}; press Ctrl-C to stop\n"
    assert second == "listening\n"
    assert third == (
        "stopping: 1 handler has up to 15 s to end; a second Ctrl-C ends the process at once, and their actions return "
        "when their leases end\n"
    )
    assert stdout == "1 processed, 1 succeeded\nstopped: processed 1 action (1 succeeded)\n"
    assert (process.returncode, stderr, statuses(connection)) == (0, "", {held: "completed"})


@pytest.mark.usefixtures("media")
def test_a_second_signal_ends_work_at_once(start_work, run, project, connection):
    (project / "handlers" / "held.py").write_text(BLOCKING_HANDLER, encoding="utf-8")
    (project / "scheduled_actions.toml").write_text('[executors.media]\ntypes = ["held:*"]\n', encoding="utf-8")
    run("registry", "build")
    started = project / "started"
    process = start_work()
    held = insert(connection, action_type="held:do", payload={"started": str(started), "leave": "never"})
    wait_until(started.exists)

    process.send_signal(signal.SIGINT)
    wait_until(lambda: "stopping: " in process.stdout.readline())
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE)

    assert (process.returncode, stderr) == (1, "\nAborted!\n")
    assert statuses(connection) == {held: "processing"}


@pytest.mark.usefixtures("media")
def test_work_waits_until_the_database_is_migrated(start_work, empty_database):
    process = start_work(url=empty_database)
    lines = [process.stdout.readline() for _ in range(3)]

    with psycopg.connect(empty_database, autocommit=True) as connection:
        migrate(connection)
        one = insert(connection, action_type="greeting:say", payload={"name": "Ann"})
        wait_until(lambda: statuses(connection)[one] == "completed")
    process.send_signal(signal.SIGTERM)
    stdout, _ = process.communicate(timeout=PATIENCE)

    assert "scheduled-actions migrate" in "".join(lines)
    assert "trying again" in "".join(lines)
    assert process.returncode == 0
    assert stdout.endswith("stopped: processed 1 action (1 succeeded)\n")
