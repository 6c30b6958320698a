"""The same time of day in many time zones."""

from __future__ import annotations

from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest

from scheduled_actions import Person
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.notifications.local_scheduling import USERS_MOST, next_local, parse_clock, parse_users


@pytest.mark.parametrize(
    ("zone", "now", "clock", "expected"),
    [
        ("UTC", "2026-03-04T08:59:59", "09:00", "2026-03-04T09:00"),
        ("UTC", "2026-03-04T09:00:00", "09:00", "2026-03-05T09:00"),
        ("Asia/Tokyo", "2026-03-04T12:00:00", "09:00", "2026-03-05T00:00"),
        ("Pacific/Kiritimati", "2026-03-04T12:00:00", "02:00", "2026-03-05T12:00"),
        ("America/New_York", "2026-03-04T12:00:00", "09:00", "2026-03-04T14:00"),
        # 02:30 is in a DST gap on 29 March in Berlin, and moves to 03:30.
        ("Europe/Berlin", "2026-03-29T00:00:00", "02:30", "2026-03-29T01:30"),
        # 02:30 occurs twice on 25 October: after its first occurrence, the next one is on the next day.
        ("Europe/Berlin", "2026-10-25T00:00:00", "02:30", "2026-10-25T00:30"),
        ("Europe/Berlin", "2026-10-25T00:45:00", "02:30", "2026-10-26T01:30"),
    ],
)
def test_the_next_time_of_day_is_computed_in_the_zone(zone, now, clock, expected):
    found = next_local(parse_clock(clock), ZoneInfo(zone), datetime.fromisoformat(now).replace(tzinfo=UTC))

    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)


def test_the_next_time_of_day_passes_over_a_day_that_a_time_zone_skips():
    # Samoa skipped 30 December 2011.
    now = datetime(2011, 12, 30, 5, tzinfo=UTC)

    assert next_local(time(9), ZoneInfo("Pacific/Apia"), now) == datetime(2011, 12, 30, 19, tzinfo=UTC)


def test_users_can_be_given_in_three_forms():
    by_zone = parse_users({"ann": "Europe/Berlin", "bob": None}, usual_zone="Asia/Tokyo")
    listed = parse_users(
        [{"user_id": "ann", "timezone": "Europe/Berlin"}, Person(channels="b@example.org", id="bob")],
        usual_zone="Asia/Tokyo",
    )

    assert by_zone == listed
    assert listed == {"ann": ZoneInfo("Europe/Berlin"), "bob": ZoneInfo("Asia/Tokyo")}


@pytest.mark.parametrize(
    ("users", "name"),
    [
        ({}, "users"), ([], "users"), ("ann", "users"), ([7], "users"), ({"ann": "Mars"}, "users[0].timezone"),
        ({"": "UTC"}, "users[0].user_id"), ([{"timezone": "UTC"}], "users[0].user_id"), ([{"id": "ann"}], "users"),
        ([{"user_id": "ann"}, {"user_id": "ann"}], "users[1].user_id"),
        ({str(number): None for number in range(USERS_MOST + 1)}, "users"),
    ],
)  # fmt: skip
def test_an_invalid_user_is_rejected_by_position(users, name):
    with pytest.raises(InvalidArgument) as caught:
        parse_users(users, usual_zone="UTC")

    assert caught.value.name == name


@pytest.mark.parametrize("text", ["9", "25:00", "nine", None, 9])
def test_an_invalid_time_of_day_is_rejected(text):
    with pytest.raises(InvalidArgument, match="a time of day"):
        parse_clock(text)
