"""The calendar lists pending actions, reminders, deadlines and forecast occurrences in one order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from scheduled_actions import (
    action,
    schedule_action,
    schedule_actions,
    schedule_recurring_action,
    set_deadline,
    update_schedule,
)
from scheduled_actions.calendar.service import FORECAST_MOST
from scheduled_actions.core.errors import InvalidArgument
from tests.deadlines.deadline_project import OWN, deadline_project
from tests.factories import NOW, insert, set_clock

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
EAST, WEST = timezone(HOUR), timezone(-HOUR)


@action("test:run")
def run(payload: dict): ...


@action("email:send")
def send(payload: dict): ...


@pytest.fixture
def project(database_url, connection):
    set_clock(connection, NOW)
    with deadline_project(database_url, *OWN[:0], run, send) as project:
        yield project


def shown(page):
    return [(one.kind, one.title, one.at - NOW) for one in page.entries]


def test_all_entries_are_listed_in_one_order(project, connection):
    schedule_action("test:run", {}, scheduled_at=5 * DAY, priority=7)
    schedule_action("test:run", {}, scheduled_at=2 * DAY, lock_group="g")
    schedule_recurring_action("test:run", {}, "every 3 days", name="backup", scheduled_at=NOW + DAY)
    deadline = set_deadline(
        {"type": "license", "id": "7"}, NOW + 8 * DAY, name="renewal", reminders=["4 days before"],
        recipients=["ann@example.org"],
    )  # fmt: skip
    insert(connection, scheduled_at=NOW + DAY, status="completed", completed_at=NOW)
    insert(connection, scheduled_at=NOW - DAY)

    page = project.calendar.page(end=NOW + 9 * DAY)

    assert shown(page) == [
        ("action", "backup", DAY),
        ("action", "test:run", 2 * DAY),
        ("forecast", "backup", 4 * DAY),
        ("reminder", "renewal", 4 * DAY),
        ("action", "test:run", 5 * DAY),
        ("forecast", "backup", 7 * DAY),
        ("deadline", "renewal", 8 * DAY),
    ] or shown(page)[2:4] == [("reminder", "renewal", 4 * DAY), ("forecast", "backup", 4 * DAY)]
    assert [one.kind for one in page.entries][2:4] == ["reminder", "forecast"]
    reminder = page.entries[2]
    assert (reminder.deadline_id, reminder.target_type, reminder.target_id) == (deadline.id, "license", "7")
    assert (page.next_cursor, page.truncated_schedules, page.has_more_schedules) == (None, [], False)


def test_overdue_entries_are_listed_from_an_earlier_start(project, connection):
    insert(connection, scheduled_at=NOW - DAY)

    assert shown(project.calendar.page()) == []
    assert shown(project.calendar.page(start=NOW - 2 * DAY)) == [("action", "test:run", -DAY)]


def test_pages_continue_after_the_cursor(project):
    schedule_actions([{"action_type": "test:run", "payload": {}, "scheduled_at": NOW + DAY} for _ in range(7)])
    schedule_recurring_action("test:run", {}, "daily", scheduled_at=NOW + DAY)
    for number in range(3):
        set_deadline({"type": "t", "id": str(number)}, NOW + DAY)
    whole = project.calendar.page(end=NOW + 4 * DAY)

    pages, cursor = [], None
    while True:
        page = project.calendar.page(end=NOW + 4 * DAY, cursor=cursor, limit=4)
        pages.append(page.entries)
        cursor = page.next_cursor
        if cursor is None:
            break

    assert [len(one) for one in pages] == [4, 4, 4, 1]
    assert [one for page in pages for one in page] == whole.entries


def test_the_user_filter_returns_only_that_users_entries(project):
    schedule_action("test:run", {}, scheduled_at=DAY, user_id="ann")
    schedule_action("test:run", {}, scheduled_at=DAY, user_id="bob")
    schedule_recurring_action("test:run", {}, "daily", scheduled_at=NOW + DAY, user_id="bob")
    target = {"type": "t", "id": "1"}
    set_deadline(target, NOW + 2 * DAY, name="one", recipients=["ann@example.org"], reminders=["1 day before"])
    set_deadline(target, NOW + 2 * DAY, name="two", recipients=[{"id": "ann", "email": "x@example.org"}])

    def titles(user):
        return [(one.kind, one.title) for one in project.calendar.page(end=NOW + 3 * DAY, user_id=user).entries]

    assert titles("ann") == [("action", "test:run"), ("deadline", "two")]
    assert titles("ann@example.org") == [("reminder", "one"), ("deadline", "one")]
    assert titles("bob") == [("action", "test:run"), ("action", "test:run"), ("forecast", "test:run")]
    assert titles("unknown") == []


def test_the_team_filter_returns_only_that_teams_entries(project):
    for team_id in ("blue", "red"):
        schedule_action("test:run", {}, scheduled_at=DAY, team_id=team_id)
        schedule_recurring_action("test:run", {}, "daily", scheduled_at=NOW + DAY, team_id=team_id)
        set_deadline({"type": "t", "id": "1"}, NOW + DAY, team_id=team_id)

    entries = project.calendar.page(end=NOW + 3 * DAY, team_id="blue").entries

    assert {one.team_id for one in entries} == {"blue"}
    assert len(entries) == 4


def test_a_paused_deadline_is_marked_and_a_completed_one_is_left_out(project):
    from scheduled_actions import complete_deadline, pause_deadline

    target = {"type": "t", "id": "1"}
    paused, done = (set_deadline(target, NOW + DAY, name=name) for name in ("paused", "done"))
    pause_deadline(paused.id)
    complete_deadline(done.id)

    entries = project.calendar.page(end=NOW + 3 * DAY).entries

    assert [(one.title, one.status) for one in entries] == [("paused", "paused")]


def test_the_forecast_of_a_dense_schedule_is_truncated_and_its_id_is_listed(project):
    dense = schedule_recurring_action("test:run", {}, "every minute")

    first = project.calendar.page(start=NOW + DAY, end=NOW + 2 * DAY, limit=10)
    whole = project.calendar.page(start=NOW + DAY, end=NOW + 2 * DAY)

    assert (first.truncated_schedules, whole.truncated_schedules) == ([], [dense.id])
    assert len(whole.entries) == FORECAST_MOST
    assert whole.entries[0].at == NOW + DAY


def test_a_forecast_ends_with_the_schedule(project):
    schedule_recurring_action("test:run", {}, "daily", scheduled_at=NOW + DAY, remaining=3)
    schedule_recurring_action("test:run", {}, "daily", name="until", scheduled_at=NOW + DAY, until=NOW + 2 * DAY)
    schedule_recurring_action("test:run", {}, "PT1H", name="rolling", recurrence_type="rolling")
    from scheduled_actions import pause_schedule

    pause_schedule(schedule_recurring_action("test:run", {}, "daily", name="paused").id)

    found = [entry for entry in shown(project.calendar.page(end=NOW + 9 * DAY)) if entry[0] == "forecast"]

    assert found == [
        ("forecast", "test:run", 2 * DAY),
        ("forecast", "until", 2 * DAY),
        ("forecast", "test:run", 3 * DAY),
    ]


def test_a_forecast_has_the_jitter_that_the_occurrence_will_have(project, connection):
    schedule = schedule_recurring_action("test:run", {}, "daily", scheduled_at=NOW + DAY, jitter_seconds=3600)
    [_, foreseen] = project.calendar.page(end=NOW + 2.5 * DAY).entries

    set_clock(connection, NOW + DAY + HOUR)
    project.processor.tick()

    [planned] = project.scheduler.list_actions(status="pending")
    assert planned.schedule_id == schedule.id
    assert foreseen.at == planned.scheduled_at != NOW + 2 * DAY


def test_a_schedule_with_an_invalid_rule_does_not_hide_others(project, connection):
    schedule = schedule_recurring_action("test:run", {}, "daily", scheduled_at=NOW + DAY)
    connection.execute("update scheduled_action_schedules set recurrence = 'custom:gone', kind = 'custom'")
    schedule_action("test:run", {}, scheduled_at=DAY)

    assert [one.kind for one in project.calendar.page(end=NOW + 3 * DAY).entries] == ["action", "action"]
    assert update_schedule(schedule.id, recurrence="daily")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"start": datetime(2026, 1, 1)}, "start"),  # noqa: DTZ001
        ({"end": NOW}, "end"),
        ({"end": NOW - DAY}, "end"),
        ({"end": NOW + 367 * DAY}, "end"),
        ({"start": datetime.min.replace(tzinfo=EAST)}, "start"),
        ({"start": NOW, "end": datetime.max.replace(tzinfo=WEST)}, "end"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": 7}, "cursor"),
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"user_id": "a\0b"}, "user_id"),
    ],
)
def test_an_invalid_argument_is_rejected_by_name(project, arguments, name):
    with pytest.raises(InvalidArgument) as refusal:
        project.calendar.page(**arguments)

    assert refusal.value.name == name


def query_plan_of(connection, name, parameters):
    from tests.statements import statement

    rows = connection.execute(f"explain {statement(name)}", parameters).fetchall()
    return "\n".join(row[0] for row in rows)


def test_both_statements_use_an_index_if_many_actions_are_pending(project, connection):
    connection.execute(
        "insert into scheduled_actions (action_type, payload, scheduled_at, priority)"
        " select 'test:run', '{}', %s::timestamptz + make_interval(mins => n), n %% 3 from generate_series(1, 20000) n",
        [NOW],
    )
    connection.execute(
        "insert into scheduled_action_deadlines (target_type, target_id, due_at)"
        " select 't', n::text, %s::timestamptz + make_interval(mins => n) from generate_series(1, 5000) n",
        [NOW],
    )
    connection.execute("analyze scheduled_actions; analyze scheduled_action_deadlines")
    parameters = {
        "after_at": NOW + DAY, "after_id": "00000000-0000-0000-0000-000000000000", "to": NOW + 3 * DAY,
        "team_id": None, "user": None, "limit": 101,
    }  # fmt: skip

    actions, deadlines = (
        query_plan_of(connection, f"calendar_{name}", parameters) for name in ("actions", "deadlines")
    )

    assert "Seq Scan on scheduled_actions" not in actions
    assert "scheduled_actions_claim_free" in actions
    assert "scheduled_actions_claim_grouped" in actions
    assert "scheduled_action_deadlines_unresolved" in deadlines


def test_the_calendar_of_one_user_does_not_scan_other_users(project, connection):
    connection.execute(
        "insert into scheduled_actions (action_type, payload, scheduled_at, user_id)"
        " select 'test:run', '{}', %s::timestamptz + make_interval(mins => n), case when n %% 2 = 0 then 'u' || n end"
        " from generate_series(1, 20000) n",
        [NOW],
    )
    connection.execute(
        "insert into scheduled_action_deadlines (target_type, target_id, due_at, recipients)"
        " select 't', n::text, %s::timestamptz + make_interval(mins => n), jsonb_build_array('u' || n)"
        " from generate_series(1, 5000) n",
        [NOW],
    )
    connection.execute("vacuum (analyze) scheduled_actions, scheduled_action_deadlines")
    parameters = {
        "after_at": NOW, "after_id": "00000000-0000-0000-0000-000000000000", "to": NOW + 300 * DAY,
        "team_id": None, "user": "u1400", "limit": 101,
    }  # fmt: skip

    plans = [query_plan_of(connection, f"calendar_{name}_of_user", parameters) for name in ("actions", "deadlines")]

    assert "scheduled_actions_of_user" in plans[0]
    for plan in plans:
        assert "scheduled_action_deadlines_recipients" in plan
        assert "Seq Scan on scheduled_actions " not in plan
        assert "Seq Scan on scheduled_action_deadlines" not in plan


def test_an_action_of_a_user_and_of_their_deadline_is_listed_once(project, connection):
    target = {"type": "t", "id": "1"}
    set_deadline(target, NOW + 2 * DAY, name="one", recipients=["ann@example.org"], reminders=["1 day before"])
    connection.execute("update scheduled_actions set user_id = 'ann@example.org' where deadline_id is not null")

    entries = project.calendar.page(end=NOW + 3 * DAY, user_id="ann@example.org").entries

    assert [one.kind for one in entries] == ["reminder", "deadline"]


def test_a_range_without_an_end_ends_with_the_year_9999_at_the_latest(project):
    last = datetime.max.replace(tzinfo=UTC)

    assert project.calendar.page(start=last - DAY).end == last
