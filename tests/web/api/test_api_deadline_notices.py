"""The notifications of a deadline: the latest with the deadline, all of them in pages."""

from __future__ import annotations

import pytest
from psycopg.types.json import Jsonb

from scheduled_actions.deadlines.reading import MAX_TIMELINE
from tests.factories import NOW, set_clock

NOTICES = MAX_TIMELINE + 50
DAILY = {
    "key": "daily", "kind": "reminder", "offset": "1 day before", "repeat": "daily", "action_type": "reminder:send",
    "state": "begun", "occurrence": NOTICES, "begun": NOTICES,
}  # fmt: skip


@pytest.fixture
def deadline_id(api, connection):
    """Return the id of a deadline with more notifications than a response has, one per occurrence of a daily stage."""
    set_clock(connection, NOW)
    connection.execute(
        "insert into scheduled_action_deadlines (target_type, target_id, due_at, stages) values ('a', 'b', now(), %s)",
        [Jsonb([DAILY])],
    )
    connection.execute(
        "insert into scheduled_actions"
        " (action_type, status, scheduled_at, started_at, completed_at, deadline_id, deadline_stage)"
        " select 'reminder:send', 'completed', t.at, t.at, t.at, d.id, 'daily#' || n"
        " from scheduled_action_deadlines d, generate_series(1, %s) n,"
        " lateral (select now() + n * interval '1 day') t (at)",
        [NOTICES],
    )
    connection.execute(
        "insert into scheduled_action_deadline_notices"
        " (deadline_id, stage, action_id, subject, person_key, channel, address)"
        " select d.id, 'daily#' || n, gen_random_uuid(), 's', 'a', 'email', 'a***@example.org'"
        " from scheduled_action_deadlines d, generate_series(1, %s) n order by n",
        [NOTICES],
    )
    return connection.execute("select id from scheduled_action_deadlines").fetchone()[0]


def test_a_deadline_has_its_latest_notifications_and_timeline_entries(api, deadline_id):
    shown = api("GET", f"/deadlines/{deadline_id}").json

    latest = [f"daily#{n}" for n in range(NOTICES - MAX_TIMELINE + 1, NOTICES + 1)]
    assert [one["stage"] for one in shown["notices"]] == latest
    assert [f"{one['stage']}#{one['occurrence']}" for one in shown["timeline"]] == latest


def test_all_notifications_of_a_deadline_are_listed_in_pages_newest_first(api, deadline_id):
    first = api("GET", f"/deadlines/{deadline_id}/notices?limit=100").json
    second = api("GET", f"/deadlines/{deadline_id}/notices?limit=100&cursor={first['next_cursor']}").json
    exact = api("GET", f"/deadlines/{deadline_id}/notices?limit=50&cursor={first['next_cursor']}").json

    stages = [one["stage"] for one in first["notices"] + second["notices"]]
    assert stages == [f"daily#{n}" for n in range(NOTICES, 0, -1)]
    assert (second["next_cursor"], exact["next_cursor"], len(exact["notices"])) == (None, None, 50)
