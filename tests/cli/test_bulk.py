"""`actions retry`, `actions cancel` and `actions delete` with filters."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.factories import database_now, insert


def _statuses(connection):
    return sorted(status for (status,) in connection.execute("select status from scheduled_actions").fetchall())


def test_failed_actions_that_match_are_pending_again(run, connection):
    insert(connection, status="failed", action_type="test:a", team_id="north")
    insert(connection, status="failed", action_type="test:b", team_id="north")
    insert(connection, status="cancelled", action_type="test:a", team_id="north")

    ran = run("actions", "retry", "--type", "test:a", "--team", "north", "--yes")

    assert (ran.exit_code, ran.stdout) == (0, "1 action made pending\n")
    assert _statuses(connection) == ["cancelled", "failed", "pending"]


def test_a_dry_run_counts_and_changes_nothing(run, connection):
    for _ in range(3):
        insert(connection, status="failed")

    document = run("actions", "retry", "--all", "--dry-run", "--json").json

    assert document == {"matched": 3, "changed": 0, "more": False, "dry_run": True}
    assert run("actions", "retry", "--all", "--dry-run").stdout == "3 would be made pending\n"
    assert _statuses(connection) == ["failed"] * 3


def test_retrying_many_actions_requires_confirmation(run, connection):
    insert(connection, status="failed")

    declined = run("actions", "retry", "--all", stdin="n\n")

    assert declined.exit_code == 1
    assert "Retry 1 action?" in declined.stderr
    assert _statuses(connection) == ["failed"]
    assert run("actions", "retry", "--all", stdin="y\n").exit_code == 0
    assert _statuses(connection) == ["pending"]


def test_a_bulk_command_works_in_batches_and_reports_its_progress(run, connection):
    connection.execute(
        "insert into scheduled_actions (action_type, status, payload, scheduled_at, completed_at)"
        " select 'test:many', 'failed', '{}', now(), now() from generate_series(1, 1200)"
    )

    ran = run("actions", "retry", "--status", "failed", "--yes", "--json")

    assert ran.json == {"matched": 1200, "changed": 1200, "more": False, "dry_run": False}
    assert ran.stderr.splitlines() == ["500 of 1,200", "1,000 of 1,200", "1,200 of 1,200"]


def test_cancel_all_skips_locked_actions_unless_forced(run, connection):
    now = database_now(connection)
    insert(connection, scheduled_at=now + timedelta(seconds=30))
    insert(connection, scheduled_at=now + timedelta(hours=1))
    insert(connection, status="no_action", scheduled_at=now)

    first = run("actions", "cancel", "--all", "--yes", "--reason", "a mistake", "--json")
    second = run("actions", "cancel", "--all", "--yes", "--force", "--json")

    assert (first.json["changed"], second.json["changed"]) == (2, 1)
    assert _statuses(connection) == ["cancelled"] * 3
    (history,) = connection.execute(
        "select history from scheduled_actions where history::text like '%a mistake%' limit 1"
    ).fetchone()
    assert history[-1]["by"].startswith("cli:")


def test_deleting_shows_the_count_and_deletes_only_old_finished_matches(run, connection):
    now = database_now(connection)
    for number in range(3):
        insert(connection, status="completed", action_type="test:old", completed_at=now - timedelta(days=31 + number))
    kept = {
        insert(connection, status="completed", action_type="test:old", completed_at=now),
        insert(connection, status="completed", action_type="test:new", completed_at=now - timedelta(days=31)),
        insert(connection, status="failed", action_type="test:old", completed_at=now - timedelta(days=31)),
        insert(connection, action_type="test:old"),
    }
    command = ("actions", "delete", "--status", "completed", "--older-than", "30d", "--type", "test:old")

    declined = run(*command, stdin="n\n")
    counted = run(*command, "--dry-run")
    ran = run(*command, "--yes")

    assert (declined.exit_code, "Delete 3 actions?" in declined.stderr) == (1, True)
    assert counted.stdout == "3 would be deleted\n"
    assert (ran.exit_code, ran.stdout) == (0, "3 actions deleted\n")
    assert {action_id for (action_id,) in connection.execute("select id from scheduled_actions")} == kept


def test_delete_all_deletes_no_unfinished_action(run, connection):
    insert(connection)
    insert(connection, status="no_action")
    for status in ("completed", "failed", "cancelled", "skipped"):
        insert(connection, status=status, completed_at=database_now(connection))

    assert run("actions", "delete", "--all", "--yes").stdout == "4 actions deleted\n"
    assert _statuses(connection) == ["no_action", "pending"]


def test_one_finished_action_is_deleted(run, connection):
    finished, waiting = insert(connection, status="failed"), insert(connection)

    refused = run("actions", "delete", str(waiting))

    assert run("actions", "delete", str(finished)).stdout == f"{finished} deleted\n"
    assert (refused.exit_code, "completed, failed, cancelled, skipped" in refused.stderr) == (1, True)
    assert _statuses(connection) == ["pending"]


def test_no_matching_action_is_not_an_error(run):
    ran = run("actions", "cancel", "--all", "--yes")

    assert (ran.exit_code, ran.stdout) == (0, "no action matches\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["retry"],
        ["cancel", "--yes"],
        ["delete", "--yes"],
        ["retry", "--all", "--type", "test:a"],
        ["cancel", "an-id", "--all"],
    ],
)
def test_exactly_one_of_an_id_filters_and_all_is_required(run, arguments):
    ran = run("actions", *arguments)

    assert ran.exit_code == 2
    assert "give either an ID, a filter such as --type or --status, or --all" in ran.stderr


def test_an_interruption_reports_the_number_of_changed_actions(run, connection, monkeypatch):
    from scheduled_actions.actions.management import ActionOperations

    for _ in range(3):
        insert(connection, status="failed")
    monkeypatch.setattr("scheduled_actions.cli.actions._BATCH_SIZE", 2)
    retry, calls = ActionOperations.retry_matching, []

    def interrupted(self, *arguments, **options):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return retry(self, *arguments, **options)

    monkeypatch.setattr(ActionOperations, "retry_matching", interrupted)

    ran = run("actions", "retry", "--all", "--yes")

    assert ran.exit_code == 1
    assert "interrupted with 2 done; run the command again to continue" in ran.stderr
    assert run("actions", "retry", "--all", "--yes").stdout == "1 action made pending\n"
