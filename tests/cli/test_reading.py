"""`list`, `show` and `counts`."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest

from scheduled_actions.cli.output import local
from scheduled_actions.core.action import Action, Status
from tests.factories import database_now, insert, insert_many

#: The columns that programs rely on.
COLUMNS = {
    "id", "action_type", "status", "payload", "team_id", "priority", "scheduled_at", "occurrence_at",
    "started_at", "completed_at", "error_message", "attempts", "max_attempts", "result", "state", "metadata",
    "history", "target_type", "target_id", "user_id", "created_by", "schedule_id", "deadline_id", "dedup_key",
    "lock_group", "lease_expires_at", "created_at", "updated_at",
}  # fmt: skip
#: What only the whole action shows.
WHOLE = COLUMNS | {"condition", "claim_token"}
AT = datetime(2030, 6, 1, 7, tzinfo=UTC)


def test_list_answers_actions_by_their_column_names_the_newest_first(run, connection):
    first, second = insert(connection), insert(connection, status="failed", error_message="no")

    ran = run("list", "--json")

    assert ran.exit_code == 0
    assert ran.json.keys() == {"actions", "next_cursor"}
    assert [action["id"] for action in ran.json["actions"]] == [str(second), str(first)]
    assert all(action.keys() >= COLUMNS for action in ran.json["actions"])
    assert ran.json["next_cursor"] is None


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--status", "failed"], "b"),
        (["--type", "test:b"], "b"),
        (["--team", "north"], "b"),
        (["--lock-group", "g"], "b"),
        (["--from", "2030-06-01T07:00:01Z"], "b"),
        (["--to", "2030-06-01T09:00:01+02:00"], "a"),
        (["--q", "st:b"], "b"),
        (["--status", "skipped"], ""),
    ],
)
def test_list_narrows_by_every_filter(run, connection, options, wanted):
    insert(connection, action_type="test:a", scheduled_at=AT)
    insert(
        connection, action_type="test:b", scheduled_at=AT + timedelta(hours=1), status="failed",
        team_id="north", lock_group="g",
    )  # fmt: skip

    listed = run("list", *options, "--json").json["actions"]

    assert [action["action_type"] for action in listed] == [f"test:{one}" for one in wanted]


def test_list_reads_a_time_without_offset_as_this_machines(run, connection):
    insert(connection, scheduled_at=AT)
    here = AT.astimezone().replace(tzinfo=None)

    from_then = run("list", "--from", here.isoformat(), "--json").json["actions"]
    from_later = run("list", "--from", (here + timedelta(seconds=1)).isoformat(), "--json").json["actions"]

    assert (len(from_then), len(from_later)) == (1, 0)


def test_the_cursor_leads_through_all_pages_and_ends(run, connection):
    ids = [str(insert(connection)) for _ in range(4)]

    first = run("list", "--limit", "2", "--json").json
    second = run("list", "--limit", "2", "--cursor", first["next_cursor"], "--json").json

    assert [action["id"] for page in (first, second) for action in page["actions"]] == ids[::-1]
    assert second["next_cursor"] is None


def test_list_tells_people_in_columns_and_local_time(run, connection):
    action = insert(connection, scheduled_at=AT, attempts=1, max_attempts=3, error_message="one\x1b[2J\ntwo")

    lines = run("list").stdout.splitlines()

    assert lines[0].split() == ["ID", "TYPE", "STATUS", "SCHEDULED", "AT", "ATTEMPTS", "NOTE"]
    assert lines[1].startswith(f"{action}  test:run  pending  {local(AT)}  1 of 3")
    assert lines[1].endswith(r"one\x1b[2J\ntwo")
    assert lines[0].index("NOTE") == lines[1].index("one")


def test_local_time_bears_its_offset(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    import time

    time.tzset()
    try:
        shown = local(AT)
    finally:
        monkeypatch.undo()
        time.tzset()

    assert shown == "2030-06-01 12:45:00+05:45"


def test_list_names_the_option_for_the_next_page(run, connection):
    insert(connection)
    second = insert(connection)

    assert run("list", "--limit", "1").stdout.endswith(f"there are more: --cursor {second}\n")


def test_empty_lists_say_what_to_do(run):
    assert run("list").stdout.startswith("no actions yet: `scheduled-actions schedule")
    assert run("list", "--status", "failed").stdout == "no action matches\n"
    assert run("counts").stdout.startswith("no actions yet")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--status", "done"], "'done' is not one of 'pending', 'processing'"),
        (["--from", "yesterday"], "'yesterday' is not an ISO 8601 time"),
        (["--limit", "0"], "'0' is not a whole number from 1 to 100"),
        (["--limit", "101"], "'101' is not a whole number from 1 to 100"),
        (["--limit", "all"], "'all' is not a whole number from 1 to 100"),
    ],
)
def test_a_filter_that_cannot_be_read_is_a_usage_error(run, options, expected):
    ran = run("list", *options)

    assert (ran.exit_code, ran.stdout) == (2, "")
    assert expected in ran.stderr


def test_a_cursor_that_is_no_id_is_refused(run):
    ran = run("list", "--cursor", "page-2")

    assert ran.exit_code == 1
    assert "page-2" in ran.stderr


def test_show_answers_every_column_and_the_whole_history(run, connection):
    history = [{"outcome": "snoozed", "attempt": 1, "count": number} for number in range(50)]
    action = insert(connection, history=history, retry={"kind": "delays", "seconds": [5]}, payload={"a": [1, None]})

    ran = run("show", action, "--json")

    assert ran.exit_code == 0
    assert ran.json.keys() >= WHOLE | {field.name for field in fields(Action)}
    assert ran.json["history"] == history
    assert ran.json["payload"] == {"a": [1, None]}
    assert ran.json["retry"] == {"kind": "delays", "seconds": [5]}


def test_show_tells_what_an_action_scheduled_and_which_one_scheduled_it(run, connection):
    parent = insert(connection, status="completed", completed_at=database_now(connection))
    child = insert(connection, action_type="email:send", scheduled_by=parent)

    assert f"  {child}  email:send  pending" in run("show", parent).stdout.splitlines()
    told = run("show", parent, "--json").json
    assert [one["id"] for one in told["scheduled"]] == [str(child)]
    assert told["scheduled_has_more"] is False
    assert run("show", child, "--json").json["scheduled_by"] == str(parent)
    assert f"scheduled_by  {parent}" in run("show", child).stdout


def test_show_tells_people_what_happened(run, connection):
    at = "2030-06-01T07:00:00+00:00"
    action = insert(
        connection, payload={"name": "Ann"}, team_id="north",
        history=[
            {"outcome": "failed", "attempt": 1, "started_at": at, "ended_at": at, "error": "no\nanswer"},
            {"outcome": "snoozed", "attempt": 2, "started_at": at, "ended_at": at, "count": 3},
            {"outcome": "updated", "at": at, "by": "cli:ann", "changes": ["payload", "priority"]},
            {"outcome": "cancelled", "at": at, "by": "api", "reason": "not wanted"},
            {"strange": "left out"},
        ],
    )  # fmt: skip

    lines = run("show", action).stdout.splitlines()

    assert lines[0].split() == ["id", str(action)]
    assert "team_id       north" in lines
    assert '                "name": "Ann"' in lines
    assert not any(line.startswith("schedule_id") for line in lines)
    assert lines[lines.index("history") + 1 :] == [
        rf"  {local(AT)}  attempt 1 failed: no\nanswer",
        f"  {local(AT)}  attempt 2 snoozed 3 times until {local(AT)}",
        f"  {local(AT)}  updated payload, priority by cli:ann",
        f"  {local(AT)}  cancelled by api: not wanted",
    ]


def test_counts_answers_every_status_and_what_is_due(run, connection):
    insert(connection)
    insert(connection, scheduled_at=database_now(connection) + timedelta(hours=1))
    insert(connection, status="failed", completed_at=database_now(connection))

    ran = run("counts", "--json")

    assert ran.exit_code == 0
    assert ran.json == dict.fromkeys(Status, 0) | {"pending": 2, "failed": 1, "due": 1}
    assert run("counts", "--exact", "--json").json == ran.json


def test_counts_stop_at_ten_thousand_unless_they_are_to_be_exact(run, connection):
    insert_many(connection, 10_001)

    bounded, exact = run("counts", "--json").json, run("counts", "--json", "--exact").json
    told = [line.split() for line in run("counts").stdout.splitlines()]

    assert bounded == dict.fromkeys(Status, 0) | {"pending": 10_000, "due": 10_000, "capped": ["pending", "due"]}
    assert exact == dict.fromkeys(Status, 0) | {"pending": 10_001, "due": 10_001}
    assert (told[0], told[-1]) == (["pending", "10,000+"], ["due", "10,000+"])


def test_counts_tells_people_in_columns(run, connection):
    insert(connection)

    lines = [line.split() for line in run("counts").stdout.splitlines()]

    assert ["pending", "1"] in lines
    assert ["due", "1"] in lines


def test_counts_tells_how_late_actions_start_to_people_and_to_programs_that_ask(run, connection):
    now = database_now(connection)
    due = now - timedelta(seconds=12.5)
    insert(connection, status="completed", scheduled_at=due, started_at=now, completed_at=now)

    lines = [line.split() for line in run("counts").stdout.splitlines()]

    assert lines[-2:] == [["TYPE", "ACTIONS", "MEDIAN", "95", "%", "LATEST"], ["test:run", "1", *["12.50"] * 3]]
    measured = {"measured": 1, "p50_seconds": 12.5, "p95_seconds": 12.5, "max_seconds": 12.5}
    assert run("counts", "--json", "--lateness").json["lateness"] == {"test:run": measured}
    assert "lateness" not in run("counts", "--json").json


@pytest.mark.parametrize("command", ["list", "counts"])
def test_tables_that_are_not_there_are_named_with_what_to_do(run, connection, command):
    connection.execute("drop table scheduled_actions cascade")

    ran = run(command)

    assert ran.exit_code == 1
    assert ran.stderr.endswith("run `scheduled-actions migrate`\n")


@pytest.mark.parametrize("arguments", [["list", "--what"], ["counts", "more"], ["show", "a", "b"]])
def test_what_a_reading_command_does_not_know_is_a_usage_error(run, arguments):
    assert run(*arguments).exit_code == 2


def test_a_row_that_python_cannot_hold_does_not_hide_the_others(run, connection):
    insert(connection, scheduled_at="infinity")
    insert(connection, scheduled_at="-infinity")
    insert(connection)

    ran = run("list", "--json")

    instants = [one["scheduled_at"] for one in json.loads(ran.stdout)["actions"]]
    assert len(instants) == 3
    assert instants[1].startswith("0001-01-03")
    assert instants[2].startswith("9999-12-29")
