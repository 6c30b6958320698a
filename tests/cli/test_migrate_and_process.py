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

from scheduled_actions.database import versions
from scheduled_actions.operations import registry_build
from tests.factories import PATIENCE, insert, row, statuses, wait_until

TICK = {
    "success", "processed", "succeeded", "failed", "retried", "snoozed", "skipped", "rescued", "pruned", "remaining",
    "more", "busy", "errors", "duration_ms", "tick_id",
}  # fmt: skip


def test_migrate_prints_each_migration_and_a_second_run_does_nothing(run, empty_database):
    first = run("migrate", DATABASE_URL=empty_database)
    second = run("migrate", DATABASE_URL=empty_database)

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.stdout.startswith("applying 0001_baseline_actions\n")
    assert first.stdout.endswith(" applied\n")
    assert second.stdout == "nothing to do\n"


def test_migrate_json_lists_the_applied_migrations(run, empty_database):
    first = run("migrate", "--json", DATABASE_URL=empty_database)
    second = run("migrate", "--json", DATABASE_URL=empty_database)

    assert first.json["applied"][0] == "0001_baseline_actions"
    migrations = [name for name in first.json["applied"] if " " not in name]
    assert migrations[-1].startswith(f"{versions.read_files().latest:04}_")
    assert "function schedule_action" in first.json["applied"]
    assert second.json == {"applied": []}


def test_migrate_copies_the_settings_that_the_sql_functions_need(run, connection):
    ran = run("migrate", SCHEDULED_ACTIONS_DEDUPLICATION_WINDOW_SECONDS="42")

    assert ran.exit_code == 0
    window = connection.execute("select value from scheduled_action_settings where name = 'dedup_window'").fetchone()
    assert window[0]["default"] == 42


def test_migrate_fails_with_an_unreachable_database(run_anywhere):
    ran = run_anywhere("migrate", DATABASE_URL="postgresql://127.0.0.1:1/none")

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: the database cannot be reached")


def test_process_runs_one_tick_and_prints_only_its_json_on_stdout(run, connection):
    good = insert(connection, action_type="greeting:say", payload={"name": "Ann"})
    insert(connection, action_type="greeting:say", payload={"name": "no one"})

    ran = run("process", "--json")

    assert ran.exit_code == 0
    assert ran.json.keys() == TICK
    assert (ran.json["processed"], ran.json["succeeded"], ran.json["retried"]) == (2, 1, 1)
    assert ran.stderr.count("a handler prints\n") == 2
    assert row(connection, good)["result"] == {"said": "Hello Ann!"}
    assert connection.execute("select caller from scheduled_action_ticks").fetchone()[0].startswith("cli:")


def test_process_prints_a_summary_and_the_errors(run, connection):
    insert(connection, action_type="greeting:say", payload={"name": "Ann"})
    bad = insert(connection, action_type="greeting:say", payload={"name": "no one"})

    lines = run("process").stdout.splitlines()

    assert lines[0].startswith("processed 2 actions (1 succeeded, 1 retried) in ")
    assert lines[0].endswith(" ms; no due actions left")
    assert lines[1].startswith(f"  {bad} greeting:say: RuntimeError: there is no one to greet")


def test_process_does_nothing_when_enabled_is_false(run, connection):
    action = insert(connection, action_type="greeting:say", payload={"name": "Ann"})

    ran = run("process", SCHEDULED_ACTIONS_ENABLED="false")

    assert (ran.exit_code, ran.stdout) == (0, "nothing was processed: the setting enabled is false\n")
    assert statuses(connection) == {action: "pending"}


def test_process_fails_with_an_unreachable_database(run_anywhere):
    ran = run_anywhere("process", "--json", DATABASE_URL="postgresql://127.0.0.1:1/none")

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: the database cannot be reached")


def test_process_without_a_registry_fails_and_names_the_build_command(run, project):
    (project / "handlers" / "_registry.py").unlink()

    ran = run("process")

    assert ran.exit_code == 1
    assert "`scheduled-actions registry build`" in ran.stderr


def test_process_runs_outside_the_main_thread(run, connection):
    insert(connection, action_type="greeting:say", payload={"name": "Ann"})

    with ThreadPoolExecutor(1) as another_thread:
        ran = another_thread.submit(run, "process", "--json").result(PATIENCE)

    assert (ran.exit_code, ran.json["succeeded"]) == (0, 1)


def test_process_restores_the_signal_handlers(run):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    run("process")

    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


@pytest.mark.parametrize("arguments", [["process", "now"], ["migrate", "--backwards"]])
def test_unknown_arguments_are_a_usage_error(run, arguments):
    assert run(*arguments).exit_code == 2


#: A handler that creates a file when `should_stop` is set; a stubborn one runs on.
STOPPABLE_HANDLER = """\
import time
from pathlib import Path

from scheduled_actions import Context, action


@action("waiting:do", timeout_seconds=30)
def do(payload: dict, context: Context):
    Path(payload["started"]).touch()
    while not context.should_stop:
        time.sleep(0.005)
    Path(payload["stop_seen"]).touch()
    while payload["is_stubborn"]:
        time.sleep(0.005)
"""


@pytest.fixture
def start_process(run, project, connection, database_url):
    """Return a function that starts a tick with two actions and concurrency 1, and waits until the first runs."""
    (project / "handlers" / "waiting.py").write_text(STOPPABLE_HANDLER, encoding="utf-8")
    run("registry", "build")
    with ExitStack() as running:

        def start(*, is_stubborn):
            payload = {
                "started": str(project / "started"),
                "stop_seen": str(project / "stop_seen"),
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
def test_a_signal_lets_the_running_handler_finish_and_starts_no_other(start_process, connection, number):
    process, (first, second) = start_process(is_stubborn=False)

    process.send_signal(number)
    stdout, _ = process.communicate(timeout=PATIENCE)

    assert process.returncode == 0
    assert json.loads(stdout)["succeeded"] == 1
    assert statuses(connection) == {first: "completed", second: "pending"}
    assert row(connection, second)["attempts"] == 0


def test_a_second_signal_ends_the_process_immediately(start_process, project):
    process, _ = start_process(is_stubborn=True)

    process.send_signal(signal.SIGINT)
    wait_until((project / "stop_seen").exists)
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=PATIENCE)

    assert (process.returncode, stdout) == (1, "")


def test_migrate_copies_the_action_types_that_team_roles_may_schedule(run, connection, project):
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


def test_migrate_grants_scheduler_and_reader_rights_to_a_role(run, empty_database, role):
    scheduler = run("migrate", "--grant-scheduler", role, "--team", "blue", DATABASE_URL=empty_database)
    reader = run("migrate", "--grant-reader", role, "--json", DATABASE_URL=empty_database)

    assert scheduler.stdout.endswith(
        f"role {role}: scheduler of team blue through schema scheduled_actions_team_blue\n"
    )
    granted = {"role": role, "kind": "reader", "team_id": None, "schema": "scheduled_actions_api"}
    assert reader.json == {"applied": [], "granted": [granted]}
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(sql.SQL("drop owned by {}").format(sql.Identifier(role)))


def test_migrate_rejects_an_unknown_role_and_a_team_without_a_grant(run, empty_database):
    unknown = run("migrate", "--grant-scheduler", "no_such_role", DATABASE_URL=empty_database)
    without_grant = run("migrate", "--team", "blue", DATABASE_URL=empty_database)

    assert (unknown.exit_code, without_grant.exit_code) == (1, 2)
    assert "role no_such_role does not exist: create it with" in unknown.stderr
    assert "--team requires --grant-scheduler or --grant-reader" in without_grant.stderr
