"""List and show commands print rows with invalid columns and name the column."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scheduled_actions.operations import registry_build
from tests.hostile_values import without_checks

HANDLERS = Path(__file__).parents[2] / "handlers"
TABLE = "scheduled_action_deadlines"
BROKEN = {
    "due_at": "'infinity'",
    "timezone": "'Europe/Nowhere'",
    "stages": "'[7]'",
    "recipients": "'5'",
    "history": "'[{}]'",
}


@pytest.mark.parametrize("column", BROKEN)
def test_lists_of_deadlines_show_a_broken_row(project, run, connection, column):
    shutil.copy(HANDLERS / "deadline.py", project / "handlers" / "deadline.py")
    registry_build.write(project)
    without_checks(connection, TABLE)
    created = run("deadlines", "create", "license", "42", "--in", "P9D", "--name", "renewal", "--json")
    connection.execute(f"update {TABLE} set {column} = {BROKEN[column]}")

    ran = [run("deadlines", *command) for command in (["list"], ["list", "--json"], ["show", "renewal"])]

    assert (created.exit_code, [(one.exit_code, one.stderr) for one in ran]) == (0, [(0, "")] * 3)
    assert column == "due_at" or f"broken: {column}" in ran[0].stdout


def test_lists_of_schedules_show_a_broken_row(run, connection):
    without_checks(connection, "scheduled_action_schedules")
    created = run("schedules", "create", "greeting:say", "daily", "--payload", '{"name": "Ann"}', "--name", "hello")
    connection.execute(
        "update scheduled_action_schedules set jitter_seconds = 'NaN', anchor_at = '-infinity', timezone = 'x'"
    )

    ran = [run("schedules", *command) for command in (["list"], ["list", "--json"], ["show", "hello"])]

    assert (created.exit_code, [(one.exit_code, one.stderr) for one in ran]) == (0, [(0, "")] * 3)
    assert "broken: jitter_seconds" in ran[0].stdout
    assert "nan is not a number of seconds" in ran[2].stdout
