"""`calendar`: for people a table, for programs the names of the API."""

from __future__ import annotations

import json
from datetime import timedelta

from tests.factories import NOW, insert, set_clock


def test_it_shows_what_is_to_come(run, connection):
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


def test_an_empty_one_says_so_and_a_bad_one_why(run, connection):
    set_clock(connection, NOW)

    assert run("calendar").stdout.startswith("no entries between 2026-03-04 ")
    refused = run("calendar", "--to", "2020-01-01T00:00:00Z")
    assert (refused.exit_code, "--to must be after the start of the range" in refused.stderr) == (1, True)
