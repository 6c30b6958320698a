"""`schedule`, and `actions update`, `cancel`, `retry` and `run`."""

from __future__ import annotations

import getpass
import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.factories import a_tick, database_now, insert, row

ANN = ("--payload", '{"name": "Ann"}')
BY = f"cli:{getpass.getuser()}"


def moment(text):
    return datetime.fromisoformat(text)


@pytest.fixture
def limits(project):
    """Add limits to the settings of the project."""
    with (project / "scheduled_actions.toml").open("a", encoding="utf-8") as file:
        file.write('\n[limits."api:*"]\nat_once = 3\n\n[limits.reports]\nat_once = 1\n')


def test_schedule_prints_the_id_and_whether_the_action_was_merged(run, connection):
    first = run("schedule", "greeting:say", *ANN, "--dedup-key", "k", "--dedup-window", "60", "--json")
    second = run("schedule", "greeting:say", *ANN, "--dedup-key", "k", "--dedup-window", "60", "--json")

    assert first.exit_code == 0
    assert first.json.keys() == {"id", "deduplicated"}
    assert first.json["deduplicated"] is False
    assert second.json == {"id": first.json["id"], "deduplicated": True}
    assert row(connection, first.json["id"])["created_by"] == BY


def test_schedule_stores_every_option(run, connection):
    options = ["--team", "north", "--priority", "-3", "--max-attempts", "7", "--lock-group", "g", "--dedup-key", "k"]

    scheduled = run("schedule", "greeting:say", *ANN, *options, "--at", "2030-06-01T09:00:00+02:00", "--json").json

    found = row(connection, scheduled["id"])
    assert found["payload"] == {"name": "Ann"}
    assert (found["team_id"], found["priority"], found["max_attempts"]) == ("north", -3, 7)
    assert (found["lock_group"], found["dedup_key"]) == ("g", "k")
    assert moment(found["scheduled_at"]) == datetime(2030, 6, 1, 7, tzinfo=UTC)


@pytest.mark.usefixtures("limits")
def test_schedule_stores_limit_keys_and_the_expiry(run, connection):
    options = ["--limit", "api:acme", "--limit", "reports", "--expires-in", "90m", "--on-expiry", "fail"]

    scheduled = run("schedule", "greeting:say", *ANN, *options, "--at", "2030-06-01T09:00:00+02:00", "--json").json

    found = run("actions", "show", scheduled["id"], "--json").json
    assert (found["limit_keys"], found["parked_by"], found["on_expiry"]) == (["api:acme", "reports"], None, "fail")
    assert moment(found["expires_at"]) == datetime(2030, 6, 1, 8, 30, tzinfo=UTC)
    assert run("actions", "list", "--json").json["actions"][0]["limit_keys"] == ["api:acme", "reports"]
    assert "api:acme" in run("actions", "show", scheduled["id"]).stdout


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--limit", "unknown"], 1, "matches no pattern of [limits]"),
        (["--limit", "api:a", "--limit", "api:a"], 1, "differ from each other"),
        (["--expires-at", "2030-01-01", "--expires-in", "1h"], 2, "mutually exclusive"),
        (["--expires-at", "2020-01-01"], 1, "must be after scheduled_at"),
        (["--expires-at", "soon"], 2, "'soon' is not an ISO 8601 time"),
        (["--expires-in", "1"], 2, "'1' is not"),
        (["--expires-in", "0s"], 1, "above 0"),
        (["--on-expiry", "fail"], 1, "has no effect without expires_at"),
    ],
)
def test_schedule_refuses_an_invalid_limit_or_expiry(run, connection, options, code, message):
    ran = run("schedule", "greeting:say", *ANN, *options)

    assert ran.exit_code == code
    assert message in " ".join(ran.stderr.split())
    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (0,)


@pytest.mark.usefixtures("limits")
def test_update_changes_and_resets_the_limit_and_the_expiry(run, connection):
    later = insert(connection, scheduled_at=database_now(connection) + timedelta(days=1))

    changed = run("actions", "update", str(later), "--limit", "reports", "--expires-at", "2040-01-01", "--json").json
    assert (changed["limit_keys"], changed["on_expiry"]) == (["reports"], "skip")
    assert moment(changed["expires_at"]) == datetime(2040, 1, 1, 23, 59, 59, tzinfo=UTC)

    removed = run("actions", "update", str(later), "--reset", "limit", "--reset", "expires-at", "--json").json
    assert (removed["limit_keys"], removed["expires_at"], removed["on_expiry"]) == (None, None, None)


def test_schedule_reads_a_time_without_offset_in_the_given_time_zone(run, connection):
    scheduled = run(
        "schedule", "greeting:say", *ANN, "--at", "2030-06-01T09:00", "--timezone", "Europe/Berlin", "--json"
    )

    assert moment(row(connection, scheduled.json["id"])["scheduled_at"]) == datetime(2030, 6, 1, 7, tzinfo=UTC)


@pytest.mark.parametrize("delay", ["PT5M", "5m", "300s"])
def test_schedule_counts_delays_from_the_clock_of_the_database(run, connection, delay):
    before = database_now(connection)
    scheduled = run("schedule", "greeting:say", *ANN, "--in", delay, "--json").json
    after = database_now(connection)

    assert before <= moment(row(connection, scheduled["id"])["scheduled_at"]) - timedelta(minutes=5) <= after


def test_schedule_reads_a_payload_from_a_file_or_standard_input(run, connection, tmp_path):
    (tmp_path / "payload.json").write_text('{"name": "Bob"}', encoding="utf-8")

    from_file = run("schedule", "greeting:say", "--payload", f"@{tmp_path / 'payload.json'}", "--json").json
    from_input = run("schedule", "greeting:say", "--payload", "-", "--json", stdin='{"name": "Cleo"}').json

    assert row(connection, from_file["id"])["payload"]["name"] == "Bob"
    assert row(connection, from_input["id"])["payload"]["name"] == "Cleo"


def test_schedule_prints_the_id_as_text(run):
    ran = run("schedule", "greeting:say", *ANN)

    assert ran.exit_code == 0
    assert ran.stdout.startswith("scheduled 0")


def test_schedule_warns_if_nothing_pings_the_project(run, connection):
    before = run("schedule", "greeting:say", *ANN)
    a_tick(connection)
    after = run("schedule", "greeting:say", *ANN)

    assert before.stderr.startswith("warning: nothing calls /cron/process, so the action waits: run `scheduled-actions")
    assert after.stderr == ""


def test_schedule_names_the_module_with_a_mistake_that_the_registry_lacks(run, project, connection):
    (project / "handlers" / "orders.py").write_text(
        "from scheduled_actions import action\n\n\n@action('greeting:see')\ndef see(payload: dict) -> None\n"
    )

    ran = run("schedule", "greeting:see")

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr == (
        'error: action type "greeting:see" has no handler; the registry cannot be built: handlers/orders.py:5: '
        "the file is not valid Python: expected ':'. Correct that file, then run `scheduled-actions registry build`\n"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["gretting:say", *ANN],
            'did you mean "greeting:say"? After adding a handler, run `scheduled-actions registry build`',
        ),
        (["greeting:say"], 'payload of "greeting:say": name'),
        (["greeting:say", *ANN, "--at", "2030-06-01T09:00", "--timezone", "Mars"], "timezone: 'Mars' is not"),
        (["greeting:say", *ANN, "--at", "2030-06-01T09:00"], "--at: '2030-06-01T09:00' is not a time with an offset"),
        (["greeting:say", *ANN, "--priority", "99999"], "priority: 99999 is not"),
        (["greeting:say", *ANN, "--in", "200000d"], "--in: 200000 days, 0:00:00 is not"),
    ],
)
def test_an_invalid_action_is_rejected_in_one_line_and_not_scheduled(run, connection, arguments, expected):
    ran = run("schedule", *arguments)

    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: ")
    assert expected in ran.stderr
    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (0,)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--payload", '{"password": hunter2}'], ["--payload", "line 1 column 14", "is not JSON", "@FILE"]),
        (["--payload", "NaN"], ["--payload", "is not JSON"]),
        (["--payload", "[1]"], ["--payload", """the document is not a JSON object, such as '{"id": 42}'"""]),
        (["--payload", "null"], ["--payload", "the document is not a JSON object"]),
        (["--payload", "@nowhere.json"], ["--payload", "'nowhere.json' cannot be read: No such file"]),
        ([*ANN, "--at", "tomorrow"], ["--at", "'tomorrow' is not an ISO 8601 time", "2026-12-01T09:00+01:00"]),
        ([*ANN, "--at", "0001-01-01T00:00+10:00"], ["--at", "'0001-01-01T00:00+10:00' is not"]),
        ([*ANN, "--in", "soon"], ["--in", "'soon' is not a duration", "PT5M"]),
        ([*ANN, "--in", "P1M"], ["--in", "'P1M' is not a fixed duration", "PT5M"]),
        ([*ANN, "--in", "5m", "--at", "2030-06-01T09:00Z"], ["--at and --in are mutually exclusive"]),
        ([*ANN, "--priority", "high"], ["--priority", "'high'"]),
        ([*ANN, "--dedup-window", "long"], ["--dedup-window", "'long' is not a number of seconds"]),
        ([*ANN, "--when", "now"], ["--when"]),
    ],
)
def test_an_unparsable_value_is_a_usage_error_with_an_example(run, arguments, expected):
    ran = run("schedule", "greeting:say", *arguments)

    assert (ran.exit_code, ran.stdout) == (2, "")
    assert all(words in " ".join(ran.stderr.split()) for words in expected), ran.stderr
    assert "hunter2" not in ran.stderr


def test_schedule_without_a_registry_names_the_build_command(run, project):
    (project / "handlers" / "_registry.py").unlink()

    ran = run("schedule", "greeting:say", *ANN)

    assert ran.exit_code == 1
    assert (
        ran.stderr
        == "error: handlers/_registry.py: the generated file is missing; run `scheduled-actions registry build`\n"
    )


def test_output_of_a_handler_module_goes_to_stderr(run, project):
    (project / "handlers" / "loud.py").write_text(
        "from scheduled_actions import action\nprint('imported')\n@action('loud:say')\ndef say(payload: dict): ...\n",
        encoding="utf-8",
    )
    run("registry", "build")

    ran = run("schedule", "loud:say", "--json")

    assert ran.json["deduplicated"] is False
    assert "imported" in ran.stderr


def insert_due_in_an_hour(connection, **columns):
    at = database_now(connection) + timedelta(hours=1)
    return insert(
        connection, **{"action_type": "greeting:say", "payload": {"name": "Ann"}, "scheduled_at": at} | columns
    )


def test_update_changes_the_given_columns_and_prints_the_action(run, connection):
    action = insert_due_in_an_hour(connection)

    ran = run(
        "actions",
        "update",
        action,
        "--payload",
        '{"name": "Bob"}',
        "--at",
        "2030-06-01T09:00Z",
        "--priority",
        "2",
        "--json",
    )

    assert ran.exit_code == 0
    assert ran.json["id"] == str(action)
    assert ran.json["payload"] == {"name": "Bob"}
    assert ran.json["scheduled_at"] == "2030-06-01T09:00:00+00:00"
    found = row(connection, action)
    assert (found["priority"], found["max_attempts"]) == (2, None)
    assert found["history"][-1]["by"] == BY
    assert found["history"][-1]["changes"] == ["payload", "priority", "scheduled_at"]


def test_update_prints_the_due_time_as_text(run, connection):
    ran = run("actions", "update", insert_due_in_an_hour(connection), "--max-attempts", "4")

    assert ran.exit_code == 0
    assert "updated: due 20" in ran.stdout


def test_update_sets_and_removes_a_condition(run, connection):
    action = insert_due_in_an_hour(connection)
    closed = '{"kind": "document_state", "target": {"type": "books", "id": "2026"}, "state": "closed"}'

    given = run("actions", "update", action, "--condition", closed, "--wait", "--timeout", "1h", "--json").json
    gone = run("actions", "update", action, "--reset", "condition", "--json").json
    rejected = run("actions", "update", action, "--reset", "condition", "--condition", closed)

    assert (given["condition"]["timeout"], gone["condition"]) == (3600.0, None)
    assert (rejected.exit_code, "are mutually exclusive" in rejected.stderr) == (2, True)


def test_update_without_a_change_is_a_usage_error(run, connection):
    ran = run("actions", "update", insert_due_in_an_hour(connection))

    assert ran.exit_code == 2
    assert "nothing to change: give --payload" in ran.stderr


def test_update_rejects_a_payload_that_does_not_match_the_handlers_model(run, connection):
    ran = run("actions", "update", insert_due_in_an_hour(connection), "--payload", '{"nickname": "Bob"}')

    assert ran.exit_code == 1
    assert 'payload of "greeting:say": name' in ran.stderr


@pytest.mark.parametrize("command", [("update", "--priority", "2"), ("cancel",)])
def test_an_action_that_is_due_soon_is_locked_without_force(run, connection, command):
    name, *options = command
    action = insert_due_in_an_hour(connection, scheduled_at=database_now(connection) + timedelta(seconds=100))

    rejected = run("actions", name, action, *options)
    forced = run("actions", name, action, *options, "--force", "--json")

    assert rejected.exit_code == 1
    assert rejected.stderr == (
        f"error: action {action} is locked: it cannot be changed later than 120 seconds (edit_lock_seconds) before its "
        "due time; --force overrides the lock, unless a tick claims the action first\n"
    )
    assert forced.exit_code == 0
    assert forced.json["id"] == str(action)


def test_the_setting_edit_lock_seconds_sets_the_length_of_the_lock(run, connection):
    action = insert_due_in_an_hour(connection, scheduled_at=database_now(connection) + timedelta(seconds=100))

    ran = run("actions", "cancel", action, SCHEDULED_ACTIONS_EDIT_LOCK_SECONDS="10")

    assert ran.exit_code == 0


@pytest.mark.parametrize(
    "command", [("update", "--priority", "2"), ("cancel",), ("cancel", "--force"), ("retry",), ("run",)]
)
def test_a_command_for_a_claimed_action_is_rejected_with_its_status(run, connection, command):
    name, *options = command
    lease = {"claim_token": "0197a000-0000-4000-8000-00000000000f", "lease_expires_at": "2100-01-01"}
    action = insert_due_in_an_hour(connection, status="processing", **lease)

    ran = run("actions", name, action, *options)

    assert ran.exit_code == 1
    assert f"action {action} is processing" in ran.stderr
    assert row(connection, action)["cancel_requested_at"] is None


def test_the_command_that_explain_suggests_makes_a_pending_action_due(run, connection):
    action = insert_due_in_an_hour(connection)

    proposed = re.search(r"`scheduled-actions (.*?)`", run("explain", action).stdout)
    ran = run(*proposed[1].split(), "--json")

    assert ran.exit_code == 0
    assert (ran.json["status"], ran.json["history"][-1]["by"]) == ("pending", BY)
    assert moment(row(connection, action)["scheduled_at"]) <= database_now(connection)
    assert run("actions", "run", action).stdout == f"{action} is due now\n"


def test_cancel_stores_the_reason_and_the_user(run, connection):
    action = insert_due_in_an_hour(connection)

    ran = run("actions", "cancel", action, "--reason", "no longer wanted", "--json")

    assert ran.exit_code == 0
    assert (ran.json["status"], ran.json["error_message"]) == ("cancelled", "no longer wanted")
    assert ran.json["history"][-1]["by"] == BY


def test_cancel_prints_the_id_as_text(run, connection):
    action = insert_due_in_an_hour(connection)

    assert run("actions", "cancel", action).stdout == f"{action} cancelled\n"


def test_cancelling_a_completed_action_is_rejected_with_its_status(run, connection):
    action = insert_due_in_an_hour(connection, status="completed")

    ran = run("actions", "cancel", action)

    assert ran.exit_code == 1
    assert f"action {action} is completed" in ran.stderr


@pytest.mark.parametrize("status", ["failed", "cancelled", "skipped"])
def test_retry_makes_an_action_pending_and_resets_its_attempts(run, connection, status):
    action = insert_due_in_an_hour(connection, status=status, attempts=2, completed_at="2026-01-01")

    ran = run("actions", "retry", action, "--json")

    assert ran.exit_code == 0
    assert (ran.json["status"], ran.json["attempts"], ran.json["completed_at"]) == ("pending", 0, None)
    assert ran.json["history"][-1]["by"] == BY


def test_retrying_a_pending_action_is_rejected_with_its_status(run, connection):
    ran = run("actions", "retry", insert_due_in_an_hour(connection))

    assert ran.exit_code == 1
    assert "is pending, not failed, cancelled or skipped: it is already scheduled" in ran.stderr


@pytest.mark.parametrize("command", [("show",), ("update", "--priority", "2"), ("cancel",), ("retry",)])
@pytest.mark.parametrize("action_id", ["0197a000-0000-7000-8000-000000000001", "no-id-at-all"])
def test_an_unknown_id_is_rejected(run, command, action_id):
    name, *options = command

    ran = run("actions", name, action_id, *options)

    assert (ran.exit_code, ran.stderr) == (1, f"error: no action has the id {action_id}\n")


@pytest.mark.parametrize("name", ["show", "update", "cancel", "retry", "delete"])
def test_a_command_for_one_action_requires_an_id(run, name):
    assert run("actions", name).exit_code == 2


def test_reading_and_changing_work_without_a_registry(run, project, connection):
    action = insert_due_in_an_hour(connection)
    (project / "handlers" / "_registry.py").unlink()

    codes = [
        run(*command).exit_code
        for command in (
            ["actions", "list"],
            ["counts"],
            ["actions", "show", action],
            ["actions", "update", action, "--priority", "1"],
            ["actions", "cancel", action],
        )
    ]

    assert codes == [0] * 5
