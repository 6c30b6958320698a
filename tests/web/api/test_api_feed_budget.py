"""Calendar feeds: the evaluation budget, skipped dates, and changed events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import icalendar
import pytest

from tests.factories import set_clock

NOW = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
#: A rule that examines ten thousand candidates to find the next occurrence.
SPARSE = "RRULE:FREQ=SECONDLY;INTERVAL=10007;BYHOUR=0,3,6,9,12,15,18,21;BYMINUTE=0;BYSECOND=0"


@pytest.fixture
def path(api, connection):
    set_clock(connection, NOW)
    return api("POST", "/calendar/feeds", {"name": "Work"}).json["path"]


@pytest.fixture
def schedule(api):
    def make(recurrence, **values):
        made = api("POST", "/schedules", {"action_type": "test:run", "payload": {}, "recurrence": recurrence, **values})
        assert made.status_code == 201, made.text
        return made.json

    return make


def read(client, path):
    response = client.get(path)
    assert response.status_code == 200
    return icalendar.Calendar.from_ical(response.data)


def test_expensive_schedules_are_truncated_to_their_next_run_and_others_are_complete(
    client, path, schedule, connection
):
    for number in range(30):
        schedule("daily", name=f"h{number}")
    connection.execute("update scheduled_action_schedules set recurrence = %s, kind = 'rrule'", [SPARSE])
    schedule("0 9 * * 1", name="standup")

    calendar = read(client, path)

    events = {str(one["summary"]): one for one in calendar.walk("VEVENT")}
    assert len(events) == 31
    assert "rrule" in events["standup"]
    assert "rrule" not in events["h0"]
    assert "Truncated: only the next runs are shown for 30 of the schedules" in str(calendar["description"])


def test_the_number_of_events_of_a_feed_is_limited(client, path, schedule, connection):
    for number in range(40):
        schedule("every 90 minutes", name=f"s{number}")

    assert len(read(client, path).walk("VEVENT")) <= 1500


def test_dates_skipped_long_after_the_first_run_are_excluded_from_a_feed(client, path, schedule, connection):
    skipped = NOW + timedelta(days=500)
    schedule("daily", name="report", scheduled_at=NOW.isoformat(), skip={"dates": [skipped.date().isoformat()]})
    connection.execute("update scheduled_action_schedules set next_occurrence_at = %s", [skipped - timedelta(days=9)])
    set_clock(connection, skipped - timedelta(days=10))

    (event,) = read(client, path).walk("VEVENT")

    assert [one.dt.date() for one in [*event["exdate"].dts]] == [skipped.date()]
    assert event.start < skipped < event["rrule"]["UNTIL"][0] < skipped + timedelta(days=200)


def test_a_changed_schedule_increases_the_sequence_of_its_event(api, client, path, schedule, connection):
    made = schedule("0 9 * * 1", name="standup")
    (before,) = read(client, path).walk("VEVENT")
    set_clock(connection, NOW + timedelta(hours=3))
    assert api("PATCH", f"/schedules/{made['id']}", {"recurrence": "0 10 * * 1"}).status_code == 200

    (after,) = read(client, path).walk("VEVENT")

    assert before["uid"] == after["uid"]
    assert after["sequence"] > before["sequence"]
    assert after["dtstamp"].dt == before["dtstamp"].dt + timedelta(hours=3)
