"""`explain`: the reason why an action has not run, on the command line and over HTTP."""

from __future__ import annotations

import re

import pytest

from scheduled_actions.core import config
from scheduled_actions.runtime import Runtime
from tests.cli.conftest import ADMIN_TOKEN, CRON_SECRET
from tests.factories import database_now, insert
from tests.limits.test_claims import claim, limits, schedule
from tests.operations.explain.cases import TOML, cases, due, later, ticked
from tests.web.conftest import Api, application

TYPE = "greeting:say"


@pytest.fixture
def project(project):
    (project / "scheduled_actions.toml").write_text(TOML, encoding="utf-8")
    return project


@pytest.fixture
def over_http(project, database_url):
    """Return a function that sends a GET request to the management API of the same project."""
    runtimes = []

    def get(path, **environ):
        values = {"DATABASE_URL": database_url, "CRON_SECRET": CRON_SECRET, "ADMIN_TOKEN": ADMIN_TOKEN, **environ}
        runtimes.append(Runtime(config.load(project, values)))
        return Api(application(runtimes[-1]).test_client(), ADMIN_TOKEN)("GET", path)

    yield get
    for runtime in runtimes:
        runtime.close()


@pytest.mark.parametrize("case", cases(), ids=str)
def test_the_command_and_the_api_return_the_same_reason(run, over_http, connection, case):
    action_id = case.arrange(connection, TYPE)

    printed = run("explain", action_id, "--json", **case.settings)
    response = over_http(f"/actions/{action_id}/explain", **case.settings)

    assert (printed.exit_code, response.status_code) == (0, 200)
    assert (printed.json["code"], response.json["code"]) == (case.code, case.code)
    assert case.says in printed.json["sentence"]
    assert case.says in response.json["sentence"]
    assert printed.json.keys() == response.json.keys() == {"id", "code", "sentence", "remedy", "details"}
    assert printed.json["id"] == response.json["id"] == str(action_id)


def test_an_unreadable_registry_is_the_reason(run, over_http, connection, project):
    action_id = due(connection, TYPE)
    (project / "handlers" / "_registry.py").unlink()

    printed = run("explain", action_id, "--json")

    assert printed.json["code"] == over_http(f"/actions/{action_id}/explain").json["code"] == "registry_unreadable"
    assert "registry build" in printed.json["remedy"]


def test_the_text_output_has_reason_remedy_and_details(run, connection):
    action_id = later(connection, TYPE)

    ran = run("explain", action_id)

    reason, remedy, empty, *details = ran.stdout.splitlines()
    assert re.fullmatch(r"not_due: it becomes due in 59 minutes, at 20\d\d-\d\d-\d\d [\d:]+Z", reason)
    assert remedy.startswith(f"  `scheduled-actions actions run {action_id}` (")
    assert empty == ""
    assert [line.split()[0] for line in details] == ["scheduled_at", "due_in_seconds"]


@pytest.mark.parametrize("wanted", ["not-an-id", "01890a5d-0000-7000-8000-000000000000"])
def test_an_unknown_action_is_rejected(run, over_http, wanted):
    ran = run("explain", wanted)

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert wanted in ran.stderr
    assert over_http(f"/actions/{wanted}/explain").json["code"] in {"unknown_action", "invalid_argument"}


def test_the_next_tick_does_what_explain_predicts(run, connection):
    statuses = {}
    for code, status in (("next_tick", "completed"), ("no_handler", "no_action"), ("series_skip", "skipped")):
        (case, *_) = [case for case in cases() if case.code == code]
        statuses[case.arrange(connection, TYPE)] = status
        connection.execute("update scheduled_actions set payload = '{\"name\": \"Ada\"}' where status = 'pending'")

    run("process")

    found = dict(connection.execute("select id, status from scheduled_actions").fetchall())
    assert {action_id: found[action_id] for action_id in statuses} == statuses


def test_the_tick_reports_a_too_long_action_with_the_same_sentence(run, connection):
    (case,) = [case for case in cases() if case.code == "too_long"]
    action_id = case.arrange(connection, TYPE)

    report = run("process", "--json", **case.settings).json

    assert report["errors"][0]["error"] == run("explain", action_id, "--json", **case.settings).json["sentence"]


def test_a_team_does_not_see_how_many_actions_of_other_teams_are_ahead(team_api, connection):
    team_id, get = team_api
    ticked(due)(connection, TYPE)
    insert(connection, scheduled_at=database_now(connection), team_id="another")
    mine = insert(connection, action_type=TYPE, team_id=team_id)

    response = get(f"/actions/{mine}/explain").json

    assert (response["code"], "ahead" in response["details"]) == ("next_tick", False)
    connection.execute("update scheduled_action_ticks set counts = '{\"remaining\": 3}', started_at = now()")
    response = get(f"/actions/{mine}/explain").json
    assert (response["code"], response["details"]["ahead"]) == ("in_line", None)


@pytest.fixture
def team_api(over_http, connection, project, database_url):
    from scheduled_actions.operations import tokens

    _, secret = tokens.create(connection, name="red", role="viewer", team_id="red")
    values = {"DATABASE_URL": database_url, "CRON_SECRET": CRON_SECRET, "ADMIN_TOKEN": ADMIN_TOKEN}
    mine = Runtime(config.load(project, values))
    api = Api(application(mine).test_client(), secret)
    yield "red", lambda path: api("GET", path)
    mine.close()


def test_a_team_does_not_see_actions_of_other_teams_that_hold_slots_nor_notes_of_other_pauses(team_api, connection):
    team_id, get = team_api
    ticked(due)(connection, TYPE)
    limits(connection, {"all:*": {"at_once": 2, "across_teams": True}})
    schedule(connection, "all:x", team_id="another")
    schedule(connection, "all:x", team_id=team_id)
    running = [one.id for one in claim(connection)]
    mine = schedule(connection, "all:x", team_id=team_id)[0]

    full = get(f"/actions/{mine}/explain").json
    connection.execute(
        "insert into scheduled_action_pauses (kind, name, note, paused_by) values ('limit', 'all:x', 'see red', 'ann')"
    )
    paused = get(f"/actions/{mine}/explain").json

    assert (full["code"], full["details"]["running"], paused["code"]) == ("limit_full", [str(running[1])], "paused")
    assert (paused["details"]["note"], paused["details"]["paused_by"]) == (None, None)
    connection.execute("update scheduled_action_pauses set team_id = %s", [team_id])
    assert get(f"/actions/{mine}/explain").json["details"]["note"] == "see red"
