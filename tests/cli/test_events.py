"""`events`: emit, watch, unwatch, watched."""

from __future__ import annotations

import pytest

from scheduled_actions.operations import registry_build
from tests.conftest import ROOT


@pytest.fixture
def project(project):
    """Return the project with the handler of webhooks."""
    text = (ROOT / "handlers/webhook.py").read_text(encoding="utf-8")
    (project / "handlers" / "webhook.py").write_text(text, encoding="utf-8")
    registry_build.write(project)
    return project


@pytest.fixture
def tasks(connection):
    """Return a connection to a database with a table of tasks."""
    connection.execute("create table tasks (id int primary key, title text, team_id text)")
    return connection


def test_emit_schedules_an_event(run, connection):
    ran = run("events", "emit", "task:created", "--entity-id", "7", "--data", '{"n": 1}', "--team", "blue", "--json")

    assert ran.exit_code == 0, ran.stderr
    assert ran.json["deduplicated"] is False
    (row,) = connection.execute("select action_type, payload, team_id from scheduled_actions").fetchall()
    payload = {"event": "task:created", "entity_type": "task", "entity_id": "7", "data": {"n": 1}}
    assert row == ("webhook:send", payload, "blue")


def test_a_repeated_event_is_merged_unless_the_dedup_window_is_0(run):
    assert run("events", "emit", "task:created", "--entity-id", "7").stdout.startswith("emitted as ")
    assert run("events", "emit", "task:created", "--entity-id", "7").stdout.startswith("merged into ")
    assert run("events", "emit", "task:created", "--entity-id", "7", "--dedup-window", "0").stdout.startswith("emitted")


def test_an_invalid_event_type_is_rejected(run):
    ran = run("events", "emit", "task", "--entity-id", "7")

    assert ran.exit_code == 1
    assert "event: 'task' is not an event such as task:created" in ran.stderr


def test_an_event_for_an_unknown_endpoint_or_one_of_another_team_is_rejected(run, connection):
    (endpoint_of_blue,) = connection.execute(
        "insert into webhook_endpoints (team_id, url, patterns, secret)"
        " values ('blue', 'https://a.example/', '{*:*}', 's') returning id::text"
    ).fetchone()
    command = ["events", "emit", "task:created", "--entity-id", "7", "--endpoint"]

    unknown = run(*command, "nope")
    of_another_team = run(*command, endpoint_of_blue)
    accepted = run(*command, endpoint_of_blue, "--team", "blue")

    assert (unknown.exit_code, unknown.stderr) == (1, "error: no webhook endpoint has the id or name nope\n")
    assert of_another_team.exit_code == 2
    assert "receives only events of team blue: give --team blue" in of_another_team.stderr
    assert accepted.exit_code == 0
    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (1,)


def test_a_table_is_watched_listed_and_unwatched(run, tasks):
    ran = run("events", "watch", "tasks", "--entity", "task", "--team-column", "team_id", "--columns", "title, team_id")
    tasks.execute("insert into tasks values (1, 'Write', 'blue')")

    assert ran.stdout == "watching tasks: task:created, task:updated, task:deleted\n"
    assert tasks.execute("select payload ->> 'event', team_id from scheduled_actions").fetchall() == [
        ("task:created", "blue")
    ]
    assert run("events", "watched", "--json").json == {
        "watched": [
            {
                "table": "tasks", "entity": "task", "id_columns": ["id"], "team_column": "team_id",
                "columns": ["title", "team_id"], "on": ["created", "updated", "deleted"], "dedup_window": 0,
                "is_enabled": True, "missing": [],
            }
        ]
    }  # fmt: skip
    listed = run("events", "watched").stdout.splitlines()
    assert listed[1].split() == ["tasks", "task", "created,updated,deleted", "id", "team_id", "title,team_id"]
    assert run("events", "unwatch", "tasks").stdout == "removed 1 trigger\n"
    assert run("events", "unwatch", "tasks").stdout == "the table was not watched\n"
    assert "no table is watched" in run("events", "watched").stdout


def test_watched_lists_the_problems_of_a_watch(run, tasks):
    assert (
        run("events", "watch", "tasks", "--entity", "task", "--dedup-window", "9", "--json").json["dedup_window"] == 9
    )
    tasks.execute("alter table tasks rename id to number")
    tasks.execute("alter table tasks disable trigger all")

    listed = run("events", "watched").stdout

    assert "id is missing: watch the table again; a trigger is disabled; merged for 9 s" in listed


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["nothing", "--entity", "task"], 1, "no table is called nothing"),
        (["tasks", "--entity", "a:b"], 1, "no colon"),
        (
            ["tasks", "--entity", "task", "--on", "written"],
            1,
            'on: "written" is not a list of created, updated or deleted',
        ),
        (["tasks", "--entity", "task", "--columns", " , "], 2, "contains no name"),
        (["tasks"], 2, "Missing option '--entity'"),
    ],
)
def test_invalid_watches_are_rejected(run, tasks, arguments, exit_code, message):
    ran = run("events", "watch", *arguments)

    assert ran.exit_code == exit_code
    assert message in ran.stderr
