import io
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from dateutil.tz import tzical
from icalendar import Calendar

from scheduled_actions.calendar.rules.ics import zone_component

FIRST = datetime(2026, 3, 9, tzinfo=UTC)


def written(key, first=FIRST):
    calendar = Calendar()
    calendar.add_component(zone_component(ZoneInfo(key), first, now=FIRST))
    return calendar.to_ical().decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    "key",
    [
        "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns", "Asia/Kolkata",
        "Asia/Jerusalem", "Africa/Cairo", "America/Santiago", "Pacific/Auckland", "Europe/Dublin",
    ],
)  # fmt: skip
def test_another_library_reads_the_same_offsets(key):
    read, zone = tzical(io.StringIO(written(key))).get(key), ZoneInfo(key)

    walls = [FIRST.replace(tzinfo=None, hour=12) + timedelta(hours=7 * n) for n in range(4 * 365 * 24 // 7)]
    steady = [wall for wall in walls if zone.utcoffset(wall) == zone.utcoffset(wall.replace(fold=1))]
    assert [wall for wall in steady if read.utcoffset(wall) != zone.utcoffset(wall)] == []


@pytest.mark.parametrize(
    ("key", "rules"),
    [
        ("Europe/Berlin", {"RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10", "RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3"}),
        ("America/New_York", {"RRULE:FREQ=YEARLY;BYDAY=2SU;BYMONTH=3", "RRULE:FREQ=YEARLY;BYDAY=1SU;BYMONTH=11"}),
        ("Asia/Kolkata", set()),
    ],
)
def test_clock_changes_that_follow_a_rule_are_written_as_one_rule(key, rules):
    assert {line for line in written(key).splitlines() if line.startswith("RRULE")} == rules
    assert "RDATE" not in written(key)


def test_clock_changes_without_a_rule_are_listed():
    # The clocks of Morocco change for Ramadan, whose dates follow no yearly rule.
    assert "RDATE" in written("Africa/Casablanca")


@pytest.mark.parametrize(
    "key",
    ["America/Sao_Paulo", "Europe/Istanbul", "America/Mexico_City", "America/New_York", "Europe/Berlin", "Asia/Amman"],
)
def test_an_event_from_before_a_change_of_time_zone_rules_keeps_its_hours(key):
    first = datetime(2005, 3, 1, tzinfo=UTC)
    read, zone = tzical(io.StringIO(written(key, first))).get(key), ZoneInfo(key)

    walls = [first.replace(tzinfo=None, hour=12) + timedelta(days=n) for n in range(25 * 365)]
    steady = [wall for wall in walls if zone.utcoffset(wall) == zone.utcoffset(wall.replace(fold=1))]
    assert [wall for wall in steady if read.utcoffset(wall) != zone.utcoffset(wall)] == []
