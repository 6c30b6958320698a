"""Python, HTTP and the CLI give the same times."""

from __future__ import annotations

import shutil
from datetime import datetime

import pytest

from scheduled_actions import get_action, get_deadline, schedule_action, set_deadline
from scheduled_actions.core import config
from scheduled_actions.core.checks import parse_moment
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.operations import registry_build
from scheduled_actions.runtime import Runtime, use
from tests.cli.conftest import ADMIN_TOKEN, CRON_SECRET
from tests.conftest import ROOT
from tests.web.conftest import Api, application

ANN = {"name": "Ann"}
TARGET = {"type": "license", "id": "42"}


@pytest.fixture
def api(project, database_url):
    """Yield the API of the CLI's project with the handlers of deadlines; its runtime is that of the process."""
    shutil.copy(ROOT / "handlers" / "deadline.py", project / "handlers" / "deadline.py")
    registry_build.write(project)
    values = {"DATABASE_URL": database_url, "CRON_SECRET": CRON_SECRET, "ADMIN_TOKEN": ADMIN_TOKEN}
    runtime = Runtime(config.load(project, values))
    before = use(runtime)
    yield Api(application(runtime).test_client(), ADMIN_TOKEN)
    use(before)
    runtime.close()


@pytest.mark.parametrize(
    ("value", "zone", "scheduled_at", "due_at"),
    [
        ("2036-12-31", None, "2036-12-31T00:00:00Z", "2036-12-31T23:59:59Z"),
        ("2036-12-31", "Europe/Berlin", "2036-12-30T23:00:00Z", "2036-12-31T22:59:59Z"),
        ("2036-10-26", "Europe/Berlin", "2036-10-25T22:00:00Z", "2036-10-26T22:59:59Z"),
        ("2036-12-31T09:00", "Europe/Berlin", "2036-12-31T08:00:00Z", "2036-12-31T08:00:00Z"),
        ("2036-12-31T09:00:00+05:00", "Europe/Berlin", "2036-12-31T04:00:00Z", "2036-12-31T04:00:00Z"),
        ("2036-12-31T09:00:00+05:00", None, "2036-12-31T04:00:00Z", "2036-12-31T04:00:00Z"),
    ],
)
def test_an_action_and_a_deadline_get_the_same_time_from_python_http_and_the_cli(  # noqa: PLR0917 - two fixtures and a row of the table
    run, api, value, zone, scheduled_at, due_at
):
    field = {} if zone is None else {"timezone": zone}
    option = () if zone is None else ("--timezone", zone)
    actions = [
        schedule_action("greeting:say", ANN, scheduled_at=value, timezone=zone).id,
        schedule_action("greeting:say", ANN, scheduled_at=parse_moment("at", value), timezone=zone).id,
        api("POST", "/actions", {"action_type": "greeting:say", "payload": ANN, "scheduled_at": value} | field).json[
            "id"
        ],
        run("schedule", "greeting:say", "--payload", '{"name": "Ann"}', "--at", value, *option, "--json").json["id"],
    ]
    deadlines = [
        set_deadline(TARGET, value, timezone=zone).id,
        set_deadline(TARGET, parse_moment("at", value), timezone=zone).id,
        api("POST", "/deadlines", {"target": TARGET, "due_at": value} | field).json["id"],
        run("deadlines", "create", "license", "42", "--due", value, *option, "--json").json["id"],
    ]

    assert {get_action(one).scheduled_at for one in actions} == {datetime.fromisoformat(scheduled_at)}
    assert {get_deadline(one).due_at for one in deadlines} == {datetime.fromisoformat(due_at)}


def test_a_local_time_without_a_time_zone_is_refused_by_python_http_and_the_cli(run, api):
    local = "2036-12-31T09:00"
    expected = f'{local!r} is not a time with an offset: write it as "2026-12-01T09:00:00+01:00", or set timezone'
    due = {"target": TARGET, "due_at": local}
    action = {"action_type": "greeting:say", "payload": ANN, "scheduled_at": local}

    with pytest.raises(InvalidArgument, match=expected.replace("+", r"\+")):
        set_deadline(TARGET, local)
    assert expected in run("deadlines", "create", "license", "42", "--due", local).stderr
    for path, body, field in (("/deadlines", due, "due_at"), ("/actions", action, "scheduled_at")):
        refused = api("POST", path, body)
        assert (refused.status_code, refused.json["code"]) == (400, "invalid_argument")
        assert f"{field}: {expected}" in refused.json["detail"]
    schedule = api("POST", "/schedules", action | {"recurrence": "daily"})
    assert f"scheduled_at: {expected}" in schedule.json["detail"]


@pytest.mark.parametrize(
    "command",
    [
        "schedule", "actions update", "actions list", "schedules create", "schedules backfill", "deadlines create",
        "deadlines move", "deadlines complete", "deadlines acknowledge", "deadlines list", "tokens create", "calendar",
        "preview", "simulate",
    ],
)  # fmt: skip
def test_the_help_of_a_time_contains_an_example(run, command):
    text = " ".join(run(*command.split(), "--help").stdout.split())

    assert text.count("Example: 2026-12-01T09:00+01:00") == text.count(" ISO ") > 0
