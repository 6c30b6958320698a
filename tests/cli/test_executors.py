"""`executors`: run a worker until nothing is due, and list the executors."""

from __future__ import annotations

import pytest

from tests.factories import insert, insert_many, row, statuses

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
def test_an_unknown_name_is_an_error_with_a_suggestion_and_the_known_names(run):
    done = run("executors", "work", "medai")

    assert done.exit_code == 1
    assert 'executor "medai" is unknown; did you mean "media"? the settings have media' in done.stderr


def test_without_the_section_the_error_says_what_to_add(run):
    done = run("executors", "work", "media")

    assert done.exit_code == 1
    assert '[executors.NAME] with types = ["…"]' in done.stderr


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
