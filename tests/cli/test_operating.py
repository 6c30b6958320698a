"""`migrate` and `process`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from scheduled_actions.database.schema import files
from scheduled_actions.operations import registry_build
from tests.factories import PATIENCE, insert, row, statuses, wait_until

TICK = {
    "success", "processed", "succeeded", "failed", "retried", "snoozed", "skipped", "rescued", "pruned", "remaining",
    "more", "busy", "errors", "duration_ms", "tick_id",
}  # fmt: skip


@pytest.fixture
def empty_database(postgres_server, admin):
    name = f"empty_{uuid4().hex}"
    admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    yield make_conninfo(postgres_server.dsn, dbname=name)
    admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def test_migrate_names_what_it_applies_and_then_finds_nothing_to_do(run, empty_database):
    first = run("migrate", DATABASE_URL=empty_database)
    second = run("migrate", DATABASE_URL=empty_database)

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.stdout.startswith("applying 0001_baseline_actions\n")
    assert first.stdout.endswith(" applied\n")
    assert second.stdout == "nothing to do\n"


def test_migrate_answers_the_names_in_json(run, empty_database):
    first = run("migrate", "--json", DATABASE_URL=empty_database)
    second = run("migrate", "--json", DATABASE_URL=empty_database)

    assert first.json["applied"][0] == "0001_baseline_actions"
    migrations = [name for name in first.json["applied"] if " " not in name]
    assert migrations[-1].startswith(f"{files.read().latest:04}_")
    assert "function schedule_action" in first.json["applied"]
    assert second.json == {"applied": []}


def test_migrate_copies_the_settings_that_the_databases_functions_need(run, connection):
    ran = run("migrate", SCHEDULED_ACTIONS_DEDUPLICATION_WINDOW_SECONDS="42")

    assert ran.exit_code == 0
    window = connection.execute("select value from scheduled_action_settings where name = 'dedup_window'").fetchone()
    assert window[0]["default"] == 42


def test_migrate_refuses_a_database_that_cannot_be_reached(run_anywhere):
    ran = run_anywhere("migrate", DATABASE_URL="postgresql://127.0.0.1:1/none")

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: the database cannot be reached")


def test_process_runs_one_tick_and_answers_its_json_whatever_handlers_print(run, connection):
    good = insert(connection, action_type="greeting:say", payload={"name": "Ann"})
    insert(connection, action_type="greeting:say", payload={"name": "nobody"})

    ran = run("process", "--json")

    assert ran.exit_code == 0
    assert ran.json.keys() == TICK
    assert (ran.json["processed"], ran.json["succeeded"], ran.json["retried"]) == (2, 1, 1)
    assert ran.stderr.count("a handler prints\n") == 2
    assert row(connection, good)["result"] == {"said": "Hello Ann!"}
    assert connection.execute("select caller from scheduled_action_ticks").fetchone()[0].startswith("cli:")


def test_process_tells_people_what_was_done(run, connection):
    insert(connection, action_type="greeting:say", payload={"name": "Ann"})
    bad = insert(connection, action_type="greeting:say", payload={"name": "nobody"})

    lines = run("process").stdout.splitlines()

    assert lines[0].startswith("processed 2 actions (1 succeeded, 1 retried) in ")
    assert lines[0].endswith(" ms; nothing due is left")
    assert lines[1].startswith(f"  {bad} greeting:say: RuntimeError: there is nobody to greet")


def test_process_says_that_it_is_switched_off(run, connection):
    action = insert(connection, action_type="greeting:say", payload={"name": "Ann"})

    ran = run("process", SCHEDULED_ACTIONS_ENABLED="false")

    assert (ran.exit_code, ran.stdout) == (0, "nothing was processed: the setting enabled is false\n")
    assert statuses(connection) == {action: "pending"}


def test_process_fails_when_the_database_is_down(run_anywhere):
    ran = run_anywhere("process", "--json", DATABASE_URL="postgresql://127.0.0.1:1/none")

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: the database cannot be reached")


def test_process_fails_without_a_registry_and_says_how_to_build_one(run, project):
    (project / "handlers" / "_registry.py").unlink()

    ran = run("process")

    assert ran.exit_code == 1
    assert "`scheduled-actions registry build`" in ran.stderr


def test_process_leaves_signals_alone_where_they_are_not_its_own(run, connection):
    insert(connection, action_type="greeting:say", payload={"name": "Ann"})

    with ThreadPoolExecutor(1) as another_thread:
        ran = another_thread.submit(run, "process", "--json").result(PATIENCE)

    assert (ran.exit_code, ran.json["succeeded"]) == (0, 1)


def test_process_gives_the_signals_back(run):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    run("process")

    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


@pytest.mark.parametrize("arguments", [["process", "now"], ["migrate", "--backwards"]])
def test_what_an_operating_command_does_not_know_is_a_usage_error(run, arguments):
    assert run(*arguments).exit_code == 2


#: Waits to be told to stop, says that it was, and then stops or does not.
WAITING = """\
import time
from pathlib import Path

from scheduled_actions import Context, action


@action("waiting:do", timeout_seconds=30)
def do(payload: dict, context: Context):
    Path(payload["started"]).touch()
    while not context.should_stop:
        time.sleep(0.005)
    Path(payload["told"]).touch()
    while payload["is_stubborn"]:
        time.sleep(0.005)
"""


@pytest.fixture
def waiting(run, project, connection, database_url):
    """Give a function that starts a tick on two actions, one after the other, and returns once the first runs."""
    (project / "handlers" / "waiting.py").write_text(WAITING, encoding="utf-8")
    run("registry", "build")
    with ExitStack() as running:

        def start(*, is_stubborn):
            payload = {
                "started": str(project / "started"),
                "told": str(project / "told"),
                "is_stubborn": is_stubborn,
            }
            ids = [insert(connection, action_type="waiting:do", payload=payload) for _ in range(2)]
            process = subprocess.Popen(
                [sys.executable, "-m", "scheduled_actions.cli", "--project", str(project), "process", "--json"],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "DATABASE_URL": database_url, "SCHEDULED_ACTIONS_CONCURRENCY": "1"},
            )
            running.enter_context(process)
            running.callback(process.kill)
            wait_until((project / "started").exists)
            return process, ids

        yield start


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_runs_finish_and_starts_nothing_more(waiting, connection, number):
    process, (first, second) = waiting(is_stubborn=False)

    process.send_signal(number)
    answer, _ = process.communicate(timeout=PATIENCE)

    assert process.returncode == 0
    assert json.loads(answer)["succeeded"] == 1
    assert statuses(connection) == {first: "completed", second: "pending"}
    assert row(connection, second)["attempts"] == 0


def test_a_second_signal_ends_it_at_once(waiting, project):
    process, _ = waiting(is_stubborn=True)

    process.send_signal(signal.SIGINT)
    wait_until((project / "told").exists)
    process.send_signal(signal.SIGINT)
    answer, _ = process.communicate(timeout=PATIENCE)

    assert (process.returncode, answer) == (1, "")


def test_migrate_copies_which_types_the_database_roles_of_a_team_may_schedule(run, connection, project):
    opened = (project / "handlers" / "greeting.py").read_text(encoding="utf-8") + (
        '\n\n@action("greeting:post", open_to_teams=True)\ndef post(payload: Greeting): ...\n'
    )
    (project / "handlers" / "greeting.py").write_text(opened, encoding="utf-8")
    registry_build.write(project)

    ran = run("migrate")

    assert ran.exit_code == 0
    found = connection.execute("select value from scheduled_action_settings where name = 'types_open_to_teams'")
    assert found.fetchone() == (["greeting:post"],)


@pytest.fixture
def role(admin):
    name = f"app_{uuid4().hex[:12]}"
    admin.execute(sql.SQL("create role {}").format(sql.Identifier(name)))
    yield name
    admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def test_migrate_grants_roles_what_scheduling_and_reading_need(run, empty_database, role):
    made = run("migrate", "--grant-scheduler", role, "--team", "blue", DATABASE_URL=empty_database)
    again = run("migrate", "--grant-reader", role, "--json", DATABASE_URL=empty_database)

    assert made.stdout.endswith(f"role {role}: scheduler of team blue through schema scheduled_actions_team_blue\n")
    granted = {"role": role, "kind": "reader", "team_id": None, "schema": "scheduled_actions_api"}
    assert again.json == {"applied": [], "granted": [granted]}
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(sql.SQL("drop owned by {}").format(sql.Identifier(role)))


def test_migrate_refuses_a_grant_that_cannot_be(run, empty_database):
    unknown = run("migrate", "--grant-scheduler", "no_such_role", DATABASE_URL=empty_database)
    aimless = run("migrate", "--team", "blue", DATABASE_URL=empty_database)

    assert (unknown.exit_code, aimless.exit_code) == (1, 2)
    assert "no role is called no_such_role" in unknown.stderr
    assert "--team needs --grant-scheduler or --grant-reader" in aimless.stderr
