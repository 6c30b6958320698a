"""`actions list`, `actions show` and `counts`."""

from __future__ import annotations

import json
import re
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
#: `show` adds these columns.
SHOW_COLUMNS = COLUMNS | {"condition", "claim_token"}
AT = datetime(2030, 6, 1, 7, tzinfo=UTC)
AN_ID = "0197a000-0000-7000-8000-000000000001"


def test_list_returns_the_columns_of_actions_newest_first(run, connection):
    first, second = insert(connection), insert(connection, status="failed", error_message="no")

    ran = run("actions", "list", "--json")

    assert ran.exit_code == 0
    assert ran.json.keys() == {"actions", "next_cursor"}
    assert [action["id"] for action in ran.json["actions"]] == [str(second), str(first)]
    assert all(action.keys() >= COLUMNS for action in ran.json["actions"])
    assert ran.json["next_cursor"] is None


def test_the_commands_show_that_only_a_change_makes_an_action_due(run, connection):
    state = {"kind": "document_state", "target": {"type": "invoice", "id": "42"}, "state": "approved"}
    run("schedule", "greeting:say", "--payload", '{"name": "Ann"}', "--condition", json.dumps(state), "--wait")
    run("process")
    (one,) = run("actions", "list", "--json").json["actions"]

    assert "on a change" in run("actions", "list").stdout
    assert re.search("^scheduled_at +on a change$", run("actions", "show", one["id"]).stdout, re.MULTILINE)
    explained = run("explain", one["id"]).stdout
    assert re.search("^scheduled_at +on a change$", explained, re.MULTILINE)
    assert "due_in_seconds" not in explained
    details = run("explain", one["id"], "--json").json["details"]
    assert (details["scheduled_at"][:4], details["due_in_seconds"]) == ("9999", None)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--status", "failed"], "b"),
        (["--type", "test:b"], "b"),
        (["--team", "north"], "b"),
        (["--lock-group", "g"], "b"),
        (["--from", "2030-06-01T07:00:01Z"], "b"),
        (["--to", "2030-06-01T09:00:01+02:00"], "a"),
        (["--user", "ann"], "b"),
        (["--target", "invoice", "7"], "b"),
        (["--target", "invoice", "8"], ""),
        (["--schedule", AN_ID], "b"),
        (["--deadline", AN_ID], "b"),
        (["--parent", AN_ID], "b"),
        (["--q", "st:b"], "b"),
        (["--status", "skipped"], ""),
    ],
)
def test_list_applies_every_filter(run, connection, options, wanted):
    insert(connection, action_type="test:a", scheduled_at=AT)
    insert(
        connection, action_type="test:b", scheduled_at=AT + timedelta(hours=1), status="failed",
        team_id="north", lock_group="g", user_id="ann", target_type="invoice", target_id="7",
        schedule_id=AN_ID, deadline_id=AN_ID, scheduled_by=AN_ID,
    )  # fmt: skip

    listed = run("actions", "list", *options, "--json").json["actions"]

    assert [action["action_type"] for action in listed] == [f"test:{letter}" for letter in wanted]


def test_list_reads_a_time_without_offset_in_the_local_time_zone(run, connection):
    insert(connection, scheduled_at=AT)
    here = AT.astimezone().replace(tzinfo=None)

    from_then = run("actions", "list", "--from", here.isoformat(), "--json").json["actions"]
    from_later = run("actions", "list", "--from", (here + timedelta(seconds=1)).isoformat(), "--json").json["actions"]

    assert (len(from_then), len(from_later)) == (1, 0)


def test_the_cursor_reaches_every_page_and_ends(run, connection):
    ids = [str(insert(connection)) for _ in range(4)]

    first = run("actions", "list", "--limit", "2", "--json").json
    second = run("actions", "list", "--limit", "2", "--cursor", first["next_cursor"], "--json").json

    assert [action["id"] for page in (first, second) for action in page["actions"]] == ids[::-1]
    assert second["next_cursor"] is None


def test_list_prints_columns_and_local_times(run, connection):
    action = insert(connection, scheduled_at=AT, attempts=1, max_attempts=3, error_message="one\x1b[2J\ntwo")

    lines = run("actions", "list").stdout.splitlines()

    assert lines[0].split() == ["ID", "TYPE", "STATUS", "SCHEDULED", "AT", "ATTEMPTS", "NOTE"]
    assert lines[1].startswith(f"{action}  test:run  pending  {local(AT)}  1 of 3")
    assert lines[1].endswith(r"one\x1b[2J\ntwo")
    assert lines[0].index("NOTE") == lines[1].index("one")


def test_local_times_include_their_offset(monkeypatch):
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

    assert run("actions", "list", "--limit", "1").stdout.endswith(f"more results: --cursor {second}\n")


def test_empty_lists_name_the_schedule_command(run):
    assert run("actions", "list").stdout.startswith("no actions yet: `scheduled-actions schedule")
    assert run("actions", "list", "--status", "failed").stdout == "no action matches\n"
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
def test_an_invalid_filter_is_a_usage_error(run, options, expected):
    ran = run("actions", "list", *options)

    assert (ran.exit_code, ran.stdout) == (2, "")
    assert expected in ran.stderr


def test_an_invalid_cursor_is_rejected(run):
    ran = run("actions", "list", "--cursor", "page-2")

    assert ran.exit_code == 1
    assert "page-2" in ran.stderr


def test_show_returns_every_column_and_the_whole_history(run, connection):
    history = [{"outcome": "snoozed", "attempt": 1, "count": number} for number in range(50)]
    action = insert(connection, history=history, retry={"kind": "delays", "seconds": [5]}, payload={"a": [1, None]})

    ran = run("actions", "show", action, "--json")

    assert ran.exit_code == 0
    assert ran.json.keys() >= SHOW_COLUMNS | {field.name for field in fields(Action)}
    assert ran.json["history"] == history
    assert ran.json["payload"] == {"a": [1, None]}
    assert ran.json["retry"] == {"kind": "delays", "seconds": [5]}


def test_show_links_an_action_to_its_follow_ups_and_its_parent(run, connection):
    parent = insert(connection, status="completed", completed_at=database_now(connection))
    child = insert(connection, action_type="email:send", scheduled_by=parent)

    assert f"  {child}  email:send  pending" in run("actions", "show", parent).stdout.splitlines()
    shown = run("actions", "show", parent, "--json").json
    assert [action["id"] for action in shown["scheduled"]] == [str(child)]
    assert shown["scheduled_has_more"] is False
    assert run("actions", "show", child, "--json").json["scheduled_by"] == str(parent)
    assert f"scheduled_by  {parent}" in run("actions", "show", child).stdout


def test_show_prints_the_fields_and_the_history(run, connection):
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

    lines = run("actions", "show", action).stdout.splitlines()

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


def test_counts_returns_every_status_and_the_due_actions(run, connection):
    insert(connection)
    insert(connection, scheduled_at=database_now(connection) + timedelta(hours=1))
    insert(connection, status="failed", completed_at=database_now(connection))

    ran = run("counts", "--json")

    assert ran.exit_code == 0
    assert ran.json == dict.fromkeys(Status, 0) | {"pending": 2, "failed": 1, "due": 1}
    assert run("counts", "--exact", "--json").json == ran.json


def test_counts_name_queued_and_paused_actions_if_there_are_any(run, connection):
    insert(connection)
    insert(connection, limit_keys=["api:acme"], parked_by="limit")
    queued = run("counts", "--json").json
    insert(connection, parked_by="0197a000-0000-7000-8000-000000000001")

    assert queued == dict.fromkeys(Status, 0) | {"pending": 2, "due": 2, "queued": 1}
    assert run("counts", "--json", "--exact").json == dict.fromkeys(Status, 0) | {
        "pending": 3, "due": 3, "queued": 1, "paused": 1,
    }  # fmt: skip
    assert [line.split() for line in run("counts").stdout.splitlines()[-3:]] == [
        ["due", "3"], ["queued", "1"], ["paused", "1"],
    ]  # fmt: skip


def test_counts_stop_at_ten_thousand_without_exact(run, connection):
    insert_many(connection, 10_001)

    bounded, exact = run("counts", "--json").json, run("counts", "--json", "--exact").json
    lines = [line.split() for line in run("counts").stdout.splitlines()]

    assert bounded == dict.fromkeys(Status, 0) | {"pending": 10_000, "due": 10_000, "capped": ["pending", "due"]}
    assert exact == dict.fromkeys(Status, 0) | {"pending": 10_001, "due": 10_001}
    assert (lines[0], lines[-1]) == (["pending", "10,000+"], ["due", "10,000+"])


def test_counts_prints_columns(run, connection):
    insert(connection)

    lines = [line.split() for line in run("counts").stdout.splitlines()]

    assert ["pending", "1"] in lines
    assert ["due", "1"] in lines


def test_counts_prints_the_lateness_and_returns_it_in_json_with_lateness(run, connection):
    now = database_now(connection)
    due = dict.fromkeys(("created_at", "scheduled_at"), now - timedelta(seconds=12.5))
    insert(connection, status="completed", **due, started_at=now, completed_at=now)

    lines = [line.split() for line in run("counts").stdout.splitlines()]

    assert lines[-2:] == [["TYPE", "ACTIONS", "MEDIAN", "95", "%", "LATEST"], ["test:run", "1", *["12.50"] * 3]]
    measured = {"sample_count": 1, "p50_seconds": 12.5, "p95_seconds": 12.5, "max_seconds": 12.5}
    assert run("counts", "--json", "--lateness").json["lateness"] == {"test:run": measured}
    assert "lateness" not in run("counts", "--json").json


@pytest.mark.parametrize("command", [["actions", "list"], ["counts"]])
def test_missing_tables_are_rejected_with_the_migrate_command(run, connection, command):
    connection.execute("drop table scheduled_actions cascade")

    ran = run(*command)

    assert ran.exit_code == 1
    assert ran.stderr.endswith("run `scheduled-actions migrate`\n")


@pytest.mark.parametrize(
    "arguments", [["actions", "list", "--what"], ["counts", "more"], ["actions", "show", "a", "b"]]
)
def test_unknown_arguments_are_a_usage_error(run, arguments):
    assert run(*arguments).exit_code == 2


def test_infinite_timestamps_are_listed_as_the_nearest_representable_ones(run, connection):
    insert(connection, scheduled_at="infinity")
    insert(connection, scheduled_at="-infinity")
    insert(connection)

    ran = run("actions", "list", "--json")

    instants = [action["scheduled_at"] for action in json.loads(ran.stdout)["actions"]]
    assert len(instants) == 3
    assert instants[1].startswith("0001-01-03")
    assert instants[2].startswith("9999-12-29")
