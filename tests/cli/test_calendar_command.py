"""`calendar`: a table on the terminal, and the fields of the API in JSON."""

from __future__ import annotations

import json
from datetime import timedelta

from tests.factories import NOW, insert, set_clock


def test_upcoming_actions_are_listed_in_pages_and_by_user_and_team(run, connection):
    set_clock(connection, NOW)
    first = insert(connection, scheduled_at=NOW + timedelta(hours=1), user_id="ann", team_id="blue")
    insert(connection, scheduled_at=NOW + timedelta(hours=2))

    shown = run("calendar")
    page = json.loads(run("calendar", "--limit", "1", "--json").stdout)
    mine = json.loads(run("calendar", "--user", "ann", "--team", "blue", "--json").stdout)

    assert [line.split()[0] for line in shown.stdout.splitlines()] == ["AT", "2026-03-04", "2026-03-04"]
    assert page["next_cursor"]
    assert [(one["id"], one["kind"], one["forecast"]) for one in page["entries"]] == [(str(first), "action", False)]
    assert [one["id"] for one in mine["entries"]] == [str(first)]


def test_an_empty_range_is_reported_and_an_invalid_one_is_rejected(run, connection):
    set_clock(connection, NOW)

    assert run("calendar").stdout.startswith("no entries between 2026-03-04 ")
    rejected = run("calendar", "--to", "2020-01-01T00:00:00Z")
    assert (rejected.exit_code, "--to must be after the start of the range" in rejected.stderr) == (1, True)
