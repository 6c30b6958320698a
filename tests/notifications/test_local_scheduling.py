"""One action or one schedule per user, at the same local time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduled_actions import action, runtime, schedule_local
from scheduled_actions.core.errors import InvalidArgument, UnknownActionType
from tests.factories import NOW, projects, set_clock

USERS = {"ann": "Europe/Berlin", "kai": "Asia/Tokyo", "ned": "America/New_York"}


@action("test:greet")
def greet(payload: dict, context) -> str:
    return context.action.user_id


@pytest.fixture
def project(database_url, connection):
    set_clock(connection, NOW)
    with projects(database_url) as make:
        made = make(greet)
        before = runtime.use(made)
        yield made
        runtime.use(before)


class WithoutText:
    def __str__(self):
        raise ValueError

    __repr__ = __str__


def test_each_user_gets_an_action_at_their_local_time(project, connection):
    scheduled = schedule_local("test:greet", {"text": "Good morning"}, "09:00", USERS, priority=3)

    assert [(one.user_id, one.at.isoformat()) for one in scheduled] == [
        ("ann", "2026-03-05T09:00:00+01:00"),
        ("kai", "2026-03-05T09:00:00+09:00"),
        ("ned", "2026-03-04T09:00:00-05:00"),
    ]
    set_clock(connection, NOW + timedelta(hours=3))
    project.processor.tick()
    actions = {one.user_id: one for one in project.scheduler.list_actions()}
    assert [actions[user].status for user in USERS] == ["pending", "pending", "completed"]
    assert (actions["ned"].result, actions["ann"].priority, actions["ned"].id) == ("ned", 3, scheduled[2].action_id)


def test_with_a_recurrence_each_user_gets_a_schedule_that_follows_dst_changes(project, connection):
    set_clock(connection, datetime(2026, 3, 28, 12, tzinfo=UTC))

    scheduled = schedule_local("test:greet", {}, "02:30", USERS, recurrence="daily")

    berlin = project.schedules.get(scheduled[0].schedule_id)
    # 02:30 is in a DST gap on 29 March in Berlin: that occurrence moves forward by the gap, the next one does not.
    assert list(project.schedule_rules.upcoming(berlin, count=2)) == [
        datetime(2026, 3, 29, 1, 30, tzinfo=UTC), datetime(2026, 3, 30, 0, 30, tzinfo=UTC),
    ]  # fmt: skip
    assert {(one.user_id, one.timezone) for one in project.schedules.find()} == set(USERS.items())
    assert all(one.action_id is not None for one in scheduled)


def test_a_repeated_call_by_name_changes_nothing_and_another_time_moves_the_schedule(project, connection):
    first = schedule_local("test:greet", {}, "09:00", USERS, recurrence="weekly", name="greeting", team_id="blue")
    set_clock(connection, NOW + timedelta(hours=1))

    again = schedule_local("test:greet", {}, "09:00", USERS, recurrence="weekly", name="greeting", team_id="blue")
    moved = schedule_local("test:greet", {}, "10:00", USERS, recurrence="weekly", name="greeting", team_id="blue")

    assert (
        [one.schedule_id for one in first] == [one.schedule_id for one in again] == [one.schedule_id for one in moved]
    )
    assert [one.at for one in again] == [one.at for one in first]
    assert {one.at.hour for one in moved} == {10}
    names = {one.name for one in project.schedules.find(team_id="blue")}
    assert names == {"greeting:ann", "greeting:kai", "greeting:ned"}


def test_a_rule_with_another_time_of_day_is_rejected(project):
    assert schedule_local("test:greet", {}, "09:00", USERS, recurrence="0 9 * * MON")
    for rule in ("0 10 * * MON", "daily at 10:00", "FREQ=DAILY;BYHOUR=10;BYMINUTE=0", "every 2 hours"):
        with pytest.raises(InvalidArgument, match="is not a rule that occurs only at 09:00"):
            schedule_local("test:greet", {}, "09:00", USERS, recurrence=rule)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"action_type": "test:nothing"}, UnknownActionType, "test:nothing"),
        ({"local_time": "nine"}, InvalidArgument, "local_time"),
        ({"users": {"ann": "Mars"}}, InvalidArgument, "users[0].timezone: 'Mars'"),
        ({"name": "x"}, InvalidArgument, "needs a recurrence"),
        ({"recurrence": "sometimes"}, Exception, "sometimes"),
        ({"recurrence": WithoutText()}, InvalidArgument, "is not a string"),
        ({"misfire": "skip"}, Exception, "misfire"),
        ({"prioritee": 7}, TypeError, "prioritee"),
    ],
)
def test_one_invalid_user_schedules_nothing(project, connection, changes, error, message):
    given = {"action_type": "test:greet", "payload": {}, "local_time": "09:00", "users": USERS} | changes

    with pytest.raises(error) as caught:
        schedule_local(
            given.pop("action_type"), given.pop("payload"), given.pop("local_time"), given.pop("users"), **given
        )

    assert message in str(caught.value)
    for table in ("scheduled_actions", "scheduled_action_schedules"):
        assert connection.execute(f"select count(*) from {table}").fetchone() == (0,)


def test_local_scheduling_joins_the_callers_transaction(project, connection):
    with connection.transaction(force_rollback=True):
        schedule_local("test:greet", {}, "09:00", USERS, connection=connection)
        schedule_local("test:greet", {}, "09:00", USERS, recurrence="daily", connection=connection)

    assert connection.execute("select count(*) from scheduled_actions").fetchone() == (0,)
