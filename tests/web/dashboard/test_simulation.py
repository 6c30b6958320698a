"""The simulation page: its counts, its window, and its limitation to a team."""

from __future__ import annotations

from scheduled_actions.operations import tokens
from tests.web.conftest import ADMIN_TOKEN, Api


def test_the_simulation_counts_and_charts_future_runs(admin_person, client):
    Api(client, ADMIN_TOKEN)(
        "POST", "/schedules", {"action_type": "test:run", "payload": {}, "recurrence": "every hour"}
    )

    page = admin_person.opens("/simulate?window=week&from=2031-03-03T00:00").text

    assert "<b>168</b>" in page
    assert 'class="done"' in page
    assert "test:run" in page


def test_a_window_without_runs_shows_a_message(admin_person):
    assert "No runs in the forecast" in admin_person.opens("/simulate").text


def test_the_error_of_an_invalid_start_shows_the_value(admin_person):
    shown = admin_person.opens("/simulate?from=soon")

    assert (shown.status_code, "soon" in shown.text) == (400, True)


def test_a_team_simulates_only_its_own_load(a_person, client, connection):
    api = Api(client, ADMIN_TOKEN)
    for team, rule in (("red", "every hour"), ("blue", "every minute")):
        api("POST", "/schedules", {"action_type": "test:run", "payload": {}, "recurrence": rule, "team_id": team})
    assert tokens.newest(connection) == []

    page = a_person("viewer", "red").opens("/simulate?from=2031-03-03T00:00").text

    assert "<b>24</b>" in page
