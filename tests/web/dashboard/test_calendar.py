"""The calendar: a month, a week or an agenda of ended, pending and forecast entries."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from html import unescape
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from scheduled_actions import set_deadline
from scheduled_actions.web.dashboard.calendar import bounds_of
from tests.deadlines.deadline_project import deadline_project
from tests.factories import insert, insert_many, set_clock
from tests.statements import statement
from tests.web.conftest import ADMIN_TOKEN, Api

NOW = datetime(2026, 3, 11, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def api(client, connection):
    set_clock(connection, NOW)
    return Api(client, ADMIN_TOKEN)


def cells(text):
    """Return the text of each day of a month or a week, by date."""
    found = re.findall(r'<a id="d([\d-]+)" class="date".*?(?=</?ol|<a id="d|<li class="open-day|$)', text, re.DOTALL)
    parts = re.split(r'<a id="d[\d-]+" class="date"', text)[1:]
    plain = [" ".join(unescape(re.sub(r"<[^>]+>", " ", "<a" + part.partition("</ol>")[0])).split()) for part in parts]
    return dict(zip(found, plain, strict=True))


def test_a_month_shows_ended_pending_and_forecast_actions(admin_person, api, connection):
    insert(connection, action_type="report:build", scheduled_at=NOW - DAY, status="completed", completed_at=NOW - DAY)
    insert_many(connection, 3, action_type="email:send", scheduled_at=NOW + DAY)
    failed = insert(connection, scheduled_at=NOW, status="failed", completed_at=NOW - 2 * DAY)
    made = api(
        "POST", "/schedules", {"action_type": "test:run", "payload": {}, "recurrence": "0 9 * * FRI", "name": "weekly"}
    ).json

    page = admin_person.opens("/calendar")
    days = cells(page.text)

    assert "March 2026" in page.text
    assert (min(days), max(days), len(days)) == ("2026-02-23", "2026-04-05", 42)
    assert "report:build" in days["2026-03-10"]
    assert "email:send 3" in days["2026-03-12"]
    assert [day for day, text in days.items() if "weekly" in text] == [
        "2026-03-13", "2026-03-20", "2026-03-27", "2026-04-03"
    ]  # fmt: skip
    assert page.text.count('class="mark forecast" href') == 3
    assert f'class="mark bad" href="/dashboard/actions/{failed}"' in page.text
    assert f'class="mark forecast" href="/dashboard/schedules/{made["id"]}"' in page.text
    assert 'href="/dashboard/actions?status=pending&amp;action_type=email%3Asend&amp;' in page.text


def test_deadlines_and_their_reminders_link_to_the_deadline(admin_person, api, database_url):
    with deadline_project(database_url):
        deadline = set_deadline(
            {"type": "license", "id": "7"}, NOW + 8 * DAY, name="renewal", reminders=["4 days before"],
            recipients=["ann@example.org"],
        )  # fmt: skip

    text = admin_person.opens("/calendar").text
    days = cells(text)

    assert "renewal" in days["2026-03-15"]
    assert "renewal" in days["2026-03-19"]
    assert text.count(f'href="/dashboard/deadlines/{deadline.id}"') == 2
    assert "renewal" in cells(admin_person.opens("/calendar?user_id=ann%40example.org").text)["2026-03-15"]
    assert "renewal" not in admin_person.opens("/calendar?user_id=bob").text


def day_links(text, day):
    """Return whether the links of a day open it."""
    return {"open=" in link for link in re.findall(rf'href="([^"]*)#d{day}"', text)}


def test_a_day_opens_in_place_without_a_script(admin_person, api, connection):
    for number in range(7):
        insert(connection, action_type=f"test:kind{number}", scheduled_at=NOW + timedelta(minutes=number))

    closed = admin_person.opens("/calendar").text
    opened = admin_person.opens("/calendar?open=2026-03-11").text

    assert "3 more" in cells(closed)["2026-03-11"]
    assert closed.count("test:kind6") == 0
    assert 'id="open"' not in closed
    assert 'id="open"' in opened
    assert "Wednesday, 11 March" in opened
    assert opened.count(">test:kind6<") >= 2
    assert day_links(closed, "2026-03-11") == {True}
    assert day_links(opened, "2026-03-11") == {False}


def test_the_counts_of_a_crowded_day_are_capped_until_the_day_is_opened(admin_person, api, connection):
    connection.execute(
        "insert into scheduled_actions (action_type, status, scheduled_at, completed_at, attempts)"
        " select 'search:index', 'completed', %(at)s, %(at)s - n * interval '1 s', 1 from generate_series(1, 400) n",
        {"at": NOW},
    )

    days = cells(admin_person.opens("/calendar").text)

    assert "search:index 50+" in days["2026-03-11"]
    opened = admin_person.opens("/calendar?open=2026-03-11").text.partition('id="open"')[2]
    assert re.search(r"search:index</span><b>400</b>", opened)


def test_a_very_frequent_schedule_is_listed_once(admin_person, api):
    values = {"action_type": "test:run", "payload": {}, "recurrence": "every 5 minutes", "name": "poll"}
    made = api("POST", "/schedules", values).json

    text = admin_person.opens("/calendar").text

    assert "No forecast for schedules that run at least 24 times a day" in text
    assert text.count('class="mark forecast" href') == 0
    assert f'href="/dashboard/schedules/{made["id"]}">poll' in text


def test_days_begin_and_end_in_the_viewers_time_zone(admin_person, api, connection):
    insert(connection, action_type="late:night", scheduled_at=datetime(2026, 3, 11, 23, 30, tzinfo=UTC))
    admin_person.client.set_cookie("scheduled_actions_zone", "Europe/Berlin", path="/")

    text = admin_person.opens("/calendar").text
    days = cells(text)

    assert "00:30 late:night" in days["2026-03-12"]
    assert "2026-03-11 23:30 UTC" in text


@pytest.mark.parametrize(
    ("zone", "first", "hours"),
    [
        ("Europe/Berlin", date(2026, 3, 28), [24, 23, 24]),
        ("Europe/Berlin", date(2026, 10, 24), [24, 25, 24]),
        # Midnight itself is skipped: the day begins at one o'clock.
        ("America/Santiago", date(2026, 9, 5), [24, 23, 24]),
        ("Australia/Lord_Howe", date(2026, 10, 3), [24, 23.5, 24]),
        ("UTC", date(2026, 3, 28), [24, 24, 24]),
    ],
)
def test_the_length_of_a_day_follows_clock_changes(zone, first, hours):
    bounds = bounds_of(first, 3, ZoneInfo(zone))

    lengths = [(after - before) / timedelta(hours=1) for before, after in pairwise(bounds)]
    assert lengths == hours
    assert [at.astimezone(ZoneInfo(zone)).date() for at in bounds] == [first + n * DAY for n in range(4)]


@pytest.mark.parametrize(
    ("view", "first", "count"),
    [("week", "2026-03-09", 7), ("month", "2026-02-23", 42), ("nonsense", "2026-02-23", 42)],
)
def test_each_view_has_its_days_and_steps(admin_person, api, view, first, count):
    text = admin_person.opens(f"/calendar?view={view}&day=2026-03-11").text

    days = cells(text)
    assert (min(days), len(days)) == (first, count)
    assert ("day=2026-03-18" if view == "week" else "day=2026-04-01") in text


def test_an_agenda_lists_the_days_with_entries(admin_person, api, connection):
    assert "No entries on these days" in admin_person.opens("/calendar?view=agenda").text

    insert(connection, action_type="email:send", scheduled_at=NOW + 3 * DAY)

    text = admin_person.opens("/calendar?view=agenda").text
    assert "Saturday, 14 March" in text
    assert "Friday, 13 March" not in text
    assert "email:send" in text


@pytest.mark.parametrize("query", ["day=tomorrow", "day=0001-01-01", "day=9999-12-31", "open=x"])
def test_the_error_of_an_invalid_date_or_filter_names_the_parameter(admin_person, api, query):
    page = admin_person.opens(f"/calendar?{query}")

    assert page.status_code == 400
    assert query.partition("=")[0] in re.search(r'role="alert">([^<]+)', page.text)[1]


def test_the_first_and_last_month_link_no_further(admin_person, api):
    assert 'rel="prev"' not in admin_person.opens("/calendar?day=2000-01-01").text
    assert 'rel="next"' not in admin_person.opens("/calendar?day=2199-12-31").text


def test_a_team_sees_only_its_own_entries(a_person, admin_person, api, connection):
    for team in ("red", "blue"):
        insert(connection, action_type=f"{team}:waits", team_id=team, scheduled_at=NOW + DAY)
        insert(
            connection, action_type=f"{team}:ran", team_id=team, status="completed", scheduled_at=NOW,
            completed_at=NOW - DAY,
        )  # fmt: skip
        values = {"action_type": "test:run", "payload": {}, "recurrence": "0 9 * * FRI", "name": f"{team}-weekly"}
        api("POST", "/schedules", values | {"team_id": team})
    person = a_person("viewer", "red")

    for path in ("/calendar", "/calendar?view=week", "/calendar?view=agenda", "/calendar?open=2026-03-12"):
        text = person.opens(path).text
        assert "blue" not in text
        assert "red:waits" in text
    days = cells(person.opens("/calendar").text)
    assert "red:ran" in days["2026-03-10"]
    assert "red-weekly" in days["2026-03-20"]
    assert person.opens("/calendar?team_id=blue").status_code == 400
    assert "blue:ran" in admin_person.opens("/calendar?team_id=blue").text
    assert "red:ran" not in admin_person.opens("/calendar?team_id=blue").text


def test_markup_in_names_is_shown_as_text(admin_person, api, connection):
    values = {"action_type": "test:run", "payload": {}, "recurrence": "0 9 * * FRI", "name": "<img src=x onerror=a()>"}
    assert api("POST", "/schedules", values).status_code == 201

    assert "<img" not in admin_person.opens("/calendar?open=2026-03-13").text


def test_the_calendar_of_a_large_team_shows_that_older_actions_are_missing(a_person, api, connection):
    connection.execute(
        "insert into scheduled_actions (action_type, team_id, scheduled_at)"
        " select 'email:send', 'red', %(at)s + n * interval '1 s' from generate_series(1, 5000) n",
        {"at": NOW},
    )

    text = a_person("viewer", "red").opens("/calendar").text

    assert "email:send 5,000" in cells(text)["2026-03-11"]
    assert "newest 5,000" in text


def test_the_user_filter_shows_only_that_users_actions(admin_person, api, connection):
    for user in ("ann", "bob"):
        insert(connection, action_type=f"{user}:waits", user_id=user, scheduled_at=NOW + DAY)
        insert(
            connection, action_type=f"{user}:ran", user_id=user, status="completed", scheduled_at=NOW,
            completed_at=NOW - DAY,
        )  # fmt: skip

    text = admin_person.opens("/calendar?user_id=ann").text
    opened = admin_person.opens(f"/calendar?user_id=ann&open={NOW + DAY:%Y-%m-%d}")

    assert "ann:waits" in text
    assert "ann:ran" in text
    assert "bob" not in text
    assert opened.status_code == 200
    assert "bob" not in opened.text


def test_the_statements_of_a_month_use_an_index(api, connection):
    connection.execute(
        "insert into scheduled_actions (action_type, status, scheduled_at, completed_at, attempts, team_id)"
        " select 'search:index', 'completed', %(at)s, %(at)s - n * interval '90 s', 1, 'team-' || n %% 50"
        " from generate_series(1, 20000) n",
        {"at": NOW},
    )
    connection.execute("analyze scheduled_actions")
    starts = [NOW + n * DAY for n in range(-21, 21)]
    values = {"starts": starts, "ends": [at + DAY for at in starts], "user": None, "most": 200, "team_id": "team-1"}

    for name in ("calendar_days_ended", "calendar_days_waiting", "calendar_days_of_team"):
        plan = connection.execute("explain " + statement(name), values).fetchall()
        assert not [line for (line,) in plan if "Seq Scan on scheduled_actions " in line], name


@pytest.mark.parametrize("view", ["month", "week", "agenda"])
def test_an_empty_view_shows_a_message_and_a_link(admin_person, view):
    alone = admin_person.opens(f"/calendar?view={view}").text
    of_a_team = admin_person.opens(f"/calendar?view={view}&team_id=blue").text

    assert "No entries on these days" in alone
    assert "Open the schedules" in alone
    assert "Clear the filters" in unescape(of_a_team)
