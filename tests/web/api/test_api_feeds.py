"""The routes of `/api/v1/calendar/feeds`, and the iCalendar files of feeds."""

from __future__ import annotations

import logging
import warnings
from datetime import UTC, datetime, timedelta

import icalendar
import pytest

from scheduled_actions import set_deadline
from tests.deadlines.deadline_project import deadline_project
from tests.factories import insert, set_clock
from tests.web.conftest import Api

NOW = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)


@pytest.fixture
def feed(api, client, connection):
    """Return a function that creates a feed and returns the response with its calendar."""
    set_clock(connection, NOW)

    def read(**filters):
        made = api("POST", "/calendar/feeds", {"name": "Work", **filters}).json
        return client.get(made["path"])

    return read


@pytest.fixture
def schedule(api):
    def make(recurrence, **values):
        made = api("POST", "/schedules", {"action_type": "test:run", "payload": {}, "recurrence": recurrence, **values})
        assert made.status_code == 201, made.text
        return made.json

    return make


def events(response):
    return {str(one["summary"]): one for one in icalendar.Calendar.from_ical(response.data).walk("VEVENT")}


def parsed_by_vobject(response):
    """Parse the calendar with a second, independent library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import vobject

        return vobject.readOne(response.text)


def test_a_weekly_schedule_is_one_recurring_event_to_two_parsers(feed, schedule):
    made = schedule("0 9 * * 1", timezone="Europe/Berlin", name="standup")

    response = feed()

    assert response.content_type == "text/calendar; charset=utf-8"
    (event,) = events(response).values()
    assert event["rrule"].to_ical() == b"FREQ=WEEKLY;BYMINUTE=0;BYHOUR=9;BYDAY=MO"
    assert event.start.isoformat() == "2026-03-09T09:00:00+01:00"
    assert event["uid"] == f"schedule-{made['id']}@scheduled-actions"
    other = parsed_by_vobject(response)
    assert other.vevent.uid.value == event["uid"]
    instants = other.vevent.getrruleset()[:4]
    # DST begins on 29 March; the local time does not change.
    assert [one.strftime("%m-%d %H:%M %z") for one in instants] == [
        "03-09 09:00 +0100",
        "03-16 09:00 +0100",
        "03-23 09:00 +0100",
        "03-30 09:00 +0200",
    ]


def test_occurrences_without_an_equivalent_rrule_are_separate_events(feed, schedule):
    schedule("last business day of the month at 17:00", name="closing")

    found = icalendar.Calendar.from_ical(feed().data).walk("VEVENT")

    assert [one.start.date().isoformat() for one in found] == ["2026-03-31", "2026-04-30", "2026-05-29"]
    assert len({str(one["uid"]) for one in found}) == 3


def test_skipped_dates_are_exceptions_of_the_event(feed, schedule):
    schedule("daily", name="report", skip={"dates": ["2026-03-04"]}, scheduled_at="2026-03-02T09:00:00Z")

    (event,) = events(feed()).values()

    assert [one.dt.isoformat() for one in event["exdate"].dts] == ["2026-03-04T09:00:00+00:00"]


def test_a_feed_follows_the_text_format_of_icalendar(feed, schedule):
    name = "Lösung; with, signs \\ and a line far longer than seventy-five octets, and some more of it"
    schedule("0 9 * * 1", timezone="America/New_York", name=name)

    response = feed()

    lines = response.data.split(b"\r\n")
    assert b"\n" not in response.data.replace(b"\r\n", b"")
    assert max(map(len, lines)) <= 75
    assert lines[0] == b"BEGIN:VCALENDAR"
    assert lines[-2:] == [b"END:VCALENDAR", b""]
    assert "SUMMARY:Lösung\\; with\\, signs \\\\ and" in response.data.replace(b"\r\n ", b"").decode()
    assert b"REFRESH-INTERVAL;VALUE=DURATION:PT1H" in lines
    assert b"BEGIN:VTIMEZONE" in lines
    assert b"TZID:America/New_York" in lines
    assert parsed_by_vobject(response).vevent.summary.value == name


def test_a_schedule_that_occurs_too_often_is_left_out_and_named(feed, schedule):
    schedule("every 10 minutes", name="sweep")

    response = feed()

    assert not events(response)
    assert "sweep" in str(icalendar.Calendar.from_ical(response.data)["description"])


def test_twenty_of_the_schedules_left_out_are_named(feed, schedule):
    for number in range(22):
        schedule("every 10 minutes", name=f"sweep{number:02}")

    description = str(icalendar.Calendar.from_ical(feed().data)["description"])

    assert description.count("sweep") == 20
    assert description.endswith(" and 2 more.")


def test_a_paused_schedule_has_no_event(api, feed, schedule):
    made = schedule("daily", name="report")
    api("POST", f"/schedules/{made['id']}/pause")

    assert not events(feed())


def test_the_filters_of_a_feed_limit_its_schedules(feed, schedule):
    schedule("daily", name="a", team_id="red", user_id="ann")
    schedule("daily", name="b", team_id="blue", user_id="bob")
    schedule("daily", name="c")

    assert set(events(feed())) == {"a", "b", "c"}
    assert set(events(feed(team_id="red"))) == {"a"}
    assert set(events(feed(user_id="bob"))) == {"b"}
    assert set(events(feed(action_type="test:welcome"))) == set()


def test_an_unchanged_feed_returns_304(api, client, connection, schedule):
    set_clock(connection, NOW)
    schedule("daily", name="report")
    path = api("POST", "/calendar/feeds", {"name": "Work"}).json["path"]
    first = client.get(path)
    set_clock(connection, NOW + timedelta(hours=3))

    again = client.get(path, headers={"If-None-Match": first.headers["ETag"]})

    assert (again.status_code, again.data) == (304, b"")
    schedule("daily", name="another")
    assert client.get(path, headers={"If-None-Match": first.headers["ETag"]}).status_code == 200


def test_a_revoked_feed_is_not_found(api, client):
    made = api("POST", "/calendar/feeds", {"name": "Work"}).json
    assert client.get(made["path"]).status_code == 200

    revoked = api("POST", f"/calendar/feeds/{made['id']}/revoke")

    assert revoked.json["revoked_at"]
    answer = client.get(made["path"])
    assert (answer.status_code, answer.json["code"]) == (404, "unknown_feed")


def test_a_feed_with_an_infinite_instant_can_be_read_listed_and_revoked(api, client, connection):
    made = api("POST", "/calendar/feeds", {"name": "Work"}).json
    connection.execute("update scheduled_action_feeds set created_at = '-infinity', last_used_at = 'infinity'")

    assert client.get(made["path"]).status_code == 200
    assert api("GET", "/calendar/feeds").json["feeds"][0]["name"] == "Work"
    assert api("POST", f"/calendar/feeds/{made['id']}/revoke").status_code == 200
    assert client.get(made["path"]).status_code == 404


@pytest.mark.parametrize("secret", ["x", "saf_" + "a" * 43, "%00"])
def test_an_unknown_feed_is_not_found(client, secret):
    assert client.get(f"/calendar/{secret}.ics").status_code == 404


def test_revoking_a_token_ends_the_feeds_that_it_created(api, client):
    token = api("POST", "/tokens", {"name": "ann", "role": "operator"}).json
    path = Api(client, token["token"])("POST", "/calendar/feeds", {"name": "Mine"}).json["path"]
    assert client.get(path).status_code == 200

    api("POST", f"/tokens/{token['id']}/revoke")

    assert client.get(path).status_code == 404


def test_a_token_of_a_team_creates_feeds_only_for_the_team(api, client, connection, schedule):
    set_clock(connection, NOW)
    schedule("daily", name="ours", team_id="red")
    schedule("daily", name="theirs", team_id="blue")
    token = api("POST", "/tokens", {"name": "ann", "role": "operator", "team_id": "red"}).json["token"]

    made = Api(client, token)("POST", "/calendar/feeds", {"name": "Ours"})

    assert made.json["team_id"] == "red"
    assert set(events(client.get(made.json["path"]))) == {"ours"}
    assert Api(client, token)("POST", "/calendar/feeds", {"name": "Ours", "team_id": "blue"}).status_code == 403


def test_feeds_are_listed_without_their_secrets(api):
    made = [api("POST", "/calendar/feeds", {"name": f"f{n}"}).json for n in range(3)]

    first = api("GET", "/calendar/feeds?limit=2").json
    second = api("GET", f"/calendar/feeds?limit=2&cursor={first['next_cursor']}").json

    assert [one["id"] for one in first["feeds"] + second["feeds"]] == [one["id"] for one in made[::-1]]
    assert {"path", "digest"}.isdisjoint(first["feeds"][0])


# -- entries other than schedules --------------------------------------------------------------------------------------


@pytest.fixture
def deadline(connection, database_url):
    set_clock(connection, NOW)
    with deadline_project(database_url):
        return set_deadline(
            {"type": "license", "id": "7"}, NOW + timedelta(days=8), name="renewal", team_id="red",
            reminders=["4 days before", "1 day before"], recipients=["ann@example.org"],
        )  # fmt: skip


def test_a_deadline_has_an_alarm_for_each_reminder(feed, deadline):
    response = feed()

    (event,) = events(response).values()
    assert (str(event["summary"]), event.start) == ("renewal", NOW + timedelta(days=8))
    assert event["uid"] == f"deadline-{deadline.id}@scheduled-actions"
    alarms = [one["trigger"].dt for one in event.walk("VALARM")]
    assert alarms == [timedelta(days=-4), timedelta(days=-1)]
    other = parsed_by_vobject(response)
    assert [one.trigger.value for one in other.vevent.valarm_list] == alarms
    assert str(other.vevent.uid.value) == str(event["uid"])


def test_a_pending_action_without_a_schedule_is_an_event(feed, schedule, connection):
    made = insert(connection, action_type="email:send", scheduled_at=NOW + timedelta(days=1), user_id="ann")
    schedule("0 9 * * 1", name="standup")
    insert(connection, scheduled_at=NOW - timedelta(days=40))
    insert(connection, status="completed", scheduled_at=NOW, completed_at=NOW)

    found = events(feed())

    assert set(found) == {"email:send", "standup"}
    assert found["email:send"]["uid"] == f"action-{made}@scheduled-actions"
    assert found["email:send"].start == NOW + timedelta(days=1)


def test_the_filters_of_a_feed_limit_its_actions_and_deadlines(feed, deadline, connection):
    for team, user in (("red", "ann"), ("blue", "bob")):
        insert(connection, action_type=f"{team}:send", scheduled_at=NOW + timedelta(days=1), team_id=team, user_id=user)

    assert set(events(feed(team_id="red"))) == {"renewal", "red:send"}
    assert set(events(feed(team_id="blue"))) == {"blue:send"}
    assert set(events(feed(user_id="ann@example.org"))) == {"renewal"}
    assert set(events(feed(user_id="bob"))) == {"blue:send"}
    assert set(events(feed(action_type="red:send"))) == {"red:send"}


def test_the_etag_of_a_feed_does_not_change_with_time(api, client, deadline, connection):
    insert(connection, action_type="email:send", scheduled_at=NOW + timedelta(days=1))
    path = api("POST", "/calendar/feeds", {"name": "Work"}).json["path"]
    first = client.get(path)
    set_clock(connection, NOW + timedelta(hours=2))

    assert client.get(path, headers={"If-None-Match": first.headers["ETag"]}).status_code == 304


def test_a_failed_feed_returns_a_problem_document_and_its_secret_is_not_logged(api, client, connection, caplog):
    path = api("POST", "/calendar/feeds", {"name": "Work"}).json["path"]
    connection.execute(
        "create or replace function scheduled_actions_now() returns timestamptz language plpgsql stable"
        " as $$ begin raise exception 'the clock has stopped'; end $$"
    )

    response = client.get(path)

    assert (response.status_code, response.json["code"]) == (503, "database_error")
    assert "the clock has stopped" in caplog.text
    assert path.rpartition("/")[2].partition(".")[0] not in caplog.text + response.text


@pytest.mark.parametrize("logger", ["gunicorn.error", "gunicorn.access", "werkzeug"])
def test_servers_log_the_paths_of_feeds_without_their_secrets(client, caplog, logger):
    secret = "saf_" + "aB3_-" * 8 + "xyz"
    caplog.set_level(logging.DEBUG, logger=logger)

    logging.getLogger(logger).debug("%s %s", "GET", f"/calendar/{secret}.ics")
    logging.getLogger(logger).error("Error handling request /calendar/%(path)s", {"path": f"{secret}.ics?x=1"})

    assert secret[8:] not in caplog.text
    assert "GET /calendar/saf_aB3_….ics" in caplog.text
