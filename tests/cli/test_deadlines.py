"""`deadlines`: create, list, show, complete, move, cancel, pause, resume, acknowledge, reassign."""

from __future__ import annotations

import getpass
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from scheduled_actions.deadlines import store
from scheduled_actions.operations import registry_build
from tests.factories import NOW, set_clock

DAY = timedelta(days=1)
DUE = "2026-06-02T14:00:00"
UNKNOWN_ID = "00000000-0000-0000-0000-000000000000"
NOW_IN_BERLIN = NOW.astimezone(ZoneInfo("Europe/Berlin")).isoformat(" ", "seconds")
HANDLERS = Path(__file__).parents[2] / "handlers"


@pytest.fixture(autouse=True)
def with_handlers(project, connection):
    """Add the handlers that deadlines need to the project."""
    set_clock(connection, NOW)
    shutil.copy(HANDLERS / "deadline.py", project / "handlers" / "deadline.py")
    registry_build.write(project)


@pytest.fixture
def create(run):
    """Return a function that creates a deadline and returns its document."""

    def create_deadline(*options, name="renewal"):
        usual = ("--due", DUE, "--timezone", "Europe/Berlin", "--recipient", "ann@example.org", "--name", name)
        ran = run("deadlines", "create", "license", "42", *usual, "--reminder", "60 days before", *options, "--json")
        assert ran.exit_code == 0, ran.stderr
        return ran.json

    return create_deadline


def test_update_changes_given_options_and_removes_reset_ones(run, create):
    create("--escalate", "2 days after: cfo@example.org")

    rejected = run("deadlines", "update", "renewal", "--repeat", "3")
    kept = run("deadlines", "show", "renewal").stdout
    changed = run(
        "deadlines", "update", "renewal", "--reminder", "10 days before", "--reset", "escalate", "--json"
    ).json
    nothing = run("deadlines", "update", "renewal")

    assert (rejected.exit_code, "--repeat and --interval" in rejected.stderr, "escalation:1" in kept) == (2, True, True)
    assert [stage["key"] for stage in changed["stages"]] == ["reminder:10 days before", "due"]
    assert (nothing.exit_code, "nothing to change" in nothing.stderr) == (2, True)


def test_create_with_an_existing_name_prints_what_it_changed(run):
    usual = ("deadlines", "create", "license", "42", "--due", f"{DUE}Z", "--name", "renewal")
    first = run(*usual, "--recipient", "ann@example")
    again = run(*usual, "--recipient", "ann@example")
    changed = run(*usual, "--recipient", "ann@example.org", "--reminder", "60 days before")

    due = "due 2026-06-02 14:00:00+00:00\n"
    assert (first.stdout, again.stdout) == (f"renewal created: {due}", f"renewal is up to date: {due}")
    assert changed.stdout == f"renewal changed (recipients, stages): {due}"


def test_a_deadline_is_created_and_shown_as_a_timeline(run, create):
    created = create(
        "--reminder", '{"offset": "7 days before at 09:00", "repeat": "daily"}',
        "--reminder", "30",
        "--escalate", "2: cfo@example.org, ceo@example.org",
        "--action", '{"offset": "30 days before", "action_type": "greeting:say", "payload": {"name": "Ann"}}',
    )  # fmt: skip

    shown = run("deadlines", "show", "renewal")
    document = run("deadlines", "show", created["id"], "--json").json
    listed = run("deadlines", "list")

    assert created["due_at"] == "2026-06-02T12:00:00+00:00"
    assert "recipients  ann@example.org\n" in shown.stdout
    assert "notices" not in shown.stdout
    timeline = shown.stdout[shown.stdout.index("timeline") :].splitlines()
    assert "2026-04-03 14:00:00+02:00  planned    reminder:60 days before" in timeline[1]
    assert "2026-06-04 14:00:00+02:00  planned    escalation:1" in timeline[6]
    assert [step["stage"] for step in document["timeline"]] == [
        "reminder:60 days before",
        "action:greeting:say 30 days before",
        "reminder:30 days before",
        "reminder:7 days before at 09:00",
        "due",
        "escalation:1",
    ]
    assert "renewal" in listed.stdout
    assert "2026-04-03 14:00:00+02:00 reminder:60 days before" in listed.stdout


def test_show_prints_the_condition_of_a_stage(run, create):
    create(
        "--escalate", '{"offset": 2, "to": "cfo@example.org", "condition": {"kind": "time_elapsed", "seconds": 5}}',
    )  # fmt: skip

    assert '  escalation:1  if {"kind": "time_elapsed", "seconds": 5}\n' in run("deadlines", "show", "renewal").stdout


def test_show_prints_the_sent_notices_as_a_table(run, create, connection):
    stage = {"deadline_id": create()["id"], "stage": "reminder:60 days before#1", "action_id": UNKNOWN_ID}
    sent = {**stage, "subject": "Coming up", "recipient": "Ann", "person_key": "ann", "channel": "email"}
    rejected = {**sent, "address": "old@example.org", "problem": "550 no such mailbox"}
    store.insert_receipts(connection, [rejected], team_id=None)
    store.insert_receipts(
        connection, [{**sent, "address": "ann@example.org", "message_id": "<1@example.org>"}], team_id=None
    )

    shown = run("deadlines", "show", "renewal").stdout

    lines = [line.split("  ") for line in shown[shown.index("notices") : shown.index("\nhistory")].splitlines()[2:]]
    assert [[cell.strip() for cell in line if cell.strip()] for line in lines] == [
        [NOW_IN_BERLIN, stage["stage"], "Ann", "email old@example.org", "Coming up", "550 no such mailbox"],
        [NOW_IN_BERLIN, stage["stage"], "Ann", "email ann@example.org", "Coming up", "<1@example.org>"],
    ]


def test_a_deadline_is_moved_paused_resumed_acknowledged_reassigned_and_completed(run, create, connection):
    create()

    moved = run("deadlines", "move", "renewal", "--due", "2026-06-03T14:00:00", "--reason", "agreed")
    paused = run("deadlines", "pause", "renewal")
    set_clock(connection, NOW + DAY)
    resumed = run("deadlines", "resume", "renewal")
    acknowledged = run("deadlines", "acknowledge", "renewal", "--for", "P2D", "--json").json
    reassigned = run("deadlines", "reassign", "renewal", "bob@example.org")
    done = run("deadlines", "complete", "renewal", "--reason", "signed", "--json").json
    shown = run("deadlines", "show", "renewal").stdout

    assert moved.stdout == "renewal moved: due 2026-06-03 14:00:00+02:00\n"
    assert paused.stdout == "renewal paused\n"
    assert resumed.stdout == "renewal resumed: due 2026-06-04 14:00:00+02:00\n"
    assert acknowledged["acknowledged_until"] == "2026-03-07T12:00:00+00:00"
    assert reassigned.stdout == "renewal reassigned to bob@example.org\n"
    assert (done["status"], done["days_late"], done["closed_by"]) == ("completed", 0, f"cli:{getpass.getuser()}")
    assert "completed on time" in shown
    assert "withdrawn" in shown


@pytest.mark.parametrize(("days", "late"), [(1, "1 day late"), (3, "3 days late")])
def test_a_late_completion_prints_the_number_of_days(run, create, connection, days, late):
    create()
    set_clock(connection, datetime.fromisoformat(f"{DUE}+02:00") + days * DAY - timedelta(hours=1))

    assert run("deadlines", "complete", "renewal").stdout == f"renewal completed {late}\n"


def test_a_series_is_created_and_cancelled(run):
    rule = "last business day of the quarter at 17:00"
    created = run("deadlines", "create", "report", "vat", "--rule", rule, "--name", "vat", "--json").json

    cancelled = run("deadlines", "cancel", "vat", "--series", "--json").json

    assert created["due_at"] == "2026-03-31T17:00:00+00:00"
    assert cancelled["status"] == "cancelled"


def test_deadlines_are_listed_by_user_and_by_target(run, create):
    created = create()["id"]

    for options, wanted in (
        (["--user", "ann@example.org"], [created]),
        (["--user", "bob@example.org"], []),
        (["--target", "license", "42"], [created]),
        (["--target", "license", "43"], []),
    ):
        found = run("deadlines", "list", *options, "--json").json["deadlines"]
        assert [one["id"] for one in found] == wanted, options


def test_empty_lists_name_the_create_command(run):
    assert "deadlines create" in run("deadlines", "list").stdout
    assert run("deadlines", "list", "--overdue").stdout == "no deadline matches\n"
    assert run("deadlines", "list", "--json").json == {"deadlines": [], "next_cursor": None}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("create", "license", "42"), 1, "--due or --in"),
        (("create", "license", "42", "--due", "soon"), 2, "ISO 8601"),
        (
            ("create", "license", "42", "--in", "P9D", "--recipient", "a@b.example", "--reminder", "9 dogs before"),
            1,
            "reminders[0]",
        ),
        (("create", "license", "42", "--in", "P9D", "--reminder", "{"), 2, "JSON"),
        (("create", "license", "42", "--in", "P9D", "--escalate", "2 days after"), 2, "cfo@example.org"),
        (
            (
                "create",
                "license",
                "42",
                "--in",
                "P9D",
                "--escalate",
                '{"offset": 2, "to": "a@b.example", "condition": {}}',
            ),
            1,
            "escalation[0].condition has none of",
        ),
        (("show", "nothing"), 1, "no deadline"),
        (("complete", UNKNOWN_ID), 1, "no deadline"),
        (("move", UNKNOWN_ID), 2, "--due"),
    ],
)
def test_invalid_arguments_are_rejected(run, arguments, code, message):
    ran = run("deadlines", *arguments)

    assert (ran.exit_code, message in ran.stderr) == (code, True), ran.stderr
