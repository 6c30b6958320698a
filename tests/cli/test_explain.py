"""`explain`: the one true reason why an action has not run, on the command line and over HTTP."""

from __future__ import annotations

import re

import pytest

from scheduled_actions.core import config
from scheduled_actions.runtime import Runtime
from tests.cli.conftest import ADMIN_TOKEN, CRON_SECRET
from tests.factories import database_now, insert
from tests.operations.explain.cases import TOML, cases, due, later, ticked
from tests.web.conftest import Api, application

TYPE = "greeting:say"


@pytest.fixture
def project(project):
    (project / "scheduled_actions.toml").write_text(TOML, encoding="utf-8")
    return project


@pytest.fixture
def over_http(project, database_url):
    """Give a function that asks the management API of the same project."""
    made = []

    def ask(path, **environ):
        values = {"DATABASE_URL": database_url, "CRON_SECRET": CRON_SECRET, "ADMIN_TOKEN": ADMIN_TOKEN, **environ}
        made.append(Runtime(config.load(project, values)))
        return Api(application(made[-1]).test_client(), ADMIN_TOKEN)("GET", path)

    yield ask
    for one in made:
        one.close()


@pytest.mark.parametrize("case", cases(), ids=str)
def test_the_true_reason_is_told_on_the_command_line_and_over_http(run, over_http, connection, case):
    action_id = case.arrange(connection, TYPE)

    told = run("explain", action_id, "--json", **case.settings)
    answered = over_http(f"/actions/{action_id}/explain", **case.settings)

    assert (told.exit_code, answered.status_code) == (0, 200)
    assert (told.json["code"], answered.json["code"]) == (case.code, case.code)
    assert case.says in told.json["sentence"]
    assert case.says in answered.json["sentence"]
    assert told.json.keys() == answered.json.keys() == {"id", "code", "sentence", "remedy", "details"}
    assert told.json["id"] == answered.json["id"] == str(action_id)


def test_a_registry_that_cannot_be_read_is_the_reason(run, over_http, connection, project):
    action_id = due(connection, TYPE)
    (project / "handlers" / "_registry.py").unlink()

    told = run("explain", action_id, "--json")

    assert told.json["code"] == over_http(f"/actions/{action_id}/explain").json["code"] == "registry_unreadable"
    assert "registry build" in told.json["remedy"]


def test_people_read_the_reason_what_to_do_and_the_facts(run, connection):
    action_id = later(connection, TYPE)

    ran = run("explain", action_id)

    reason, remedy, empty, *details = ran.stdout.splitlines()
    assert re.fullmatch(r"not_due: it is not due yet: it comes due in 59 minutes, at 20\d\d-\d\d-\d\d [\d:]+Z", reason)
    assert remedy.startswith(f"  `scheduled-actions run-now {action_id}` (")
    assert empty == ""
    assert [line.split()[0] for line in details] == ["scheduled_at", "due_in_seconds"]


@pytest.mark.parametrize("wanted", ["not-an-id", "01890a5d-0000-7000-8000-000000000000"])
def test_an_action_that_is_not_there_is_refused(run, over_http, wanted):
    ran = run("explain", wanted)

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert wanted in ran.stderr
    assert over_http(f"/actions/{wanted}/explain").json["code"] in {"unknown_action", "invalid_argument"}


def test_what_is_said_comes_true_with_the_next_tick(run, connection):
    statuses = {}
    for code, status in (("next_tick", "completed"), ("no_handler", "no_action"), ("series_skip", "skipped")):
        (case, *_) = [case for case in cases() if case.code == code]
        statuses[case.arrange(connection, TYPE)] = status
        connection.execute("update scheduled_actions set payload = '{\"name\": \"Ada\"}' where status = 'pending'")

    run("process")

    found = dict(connection.execute("select id, status from scheduled_actions").fetchall())
    assert {action_id: found[action_id] for action_id in statuses} == statuses


def test_an_action_that_is_too_long_is_reported_by_the_tick_in_the_same_words(run, connection):
    (case,) = [case for case in cases() if case.code == "too_long"]
    action_id = case.arrange(connection, TYPE)

    report = run("process", "--json", **case.settings).json

    assert report["errors"][0]["error"] == run("explain", action_id, "--json", **case.settings).json["sentence"]


def test_a_team_is_told_nothing_of_how_many_of_others_go_first(a_team, connection):
    team_id, ask = a_team
    ticked(due)(connection, TYPE)
    insert(connection, scheduled_at=database_now(connection), team_id="another")
    mine = insert(connection, action_type=TYPE, team_id=team_id)

    answered = ask(f"/actions/{mine}/explain").json

    assert (answered["code"], "ahead" in answered["details"]) == ("next_tick", False)
    connection.execute("update scheduled_action_ticks set counts = '{\"remaining\": 3}', started_at = now()")
    answered = ask(f"/actions/{mine}/explain").json
    assert (answered["code"], answered["details"]["ahead"]) == ("in_line", None)


@pytest.fixture
def a_team(over_http, connection, project, database_url):
    from scheduled_actions.operations import tokens

    _, secret = tokens.create(connection, name="of red", role="viewer", team_id="red")
    values = {"DATABASE_URL": database_url, "CRON_SECRET": CRON_SECRET, "ADMIN_TOKEN": ADMIN_TOKEN}
    mine = Runtime(config.load(project, values))
    api = Api(application(mine).test_client(), secret)
    yield "red", lambda path: api("GET", path)
    mine.close()
