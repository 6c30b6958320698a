"""Zones that change their clocks by half an hour, at midnight, or by a whole day."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings, strategies as st

from scheduled_actions.recurrence.compiling import compile_recurrence
from scheduled_actions.recurrence.model import resolve
from scheduled_actions.recurrence.skips.model import Skips

ZONES = json.loads((Path(__file__).parents[1] / "vectors/recurrence/odd_zones.json").read_text())


@pytest.mark.parametrize("case", ZONES["cases"], ids=lambda case: f"{case['rule']} in {case['zone']}: {case['change']}")
def test_clock_changes_of_odd_zones_are_handled(case):
    anchor = datetime.fromisoformat(case["anchor"])
    recurrence = compile_recurrence(case["rule"], timezone=case["zone"], anchor=anchor)

    found = recurrence.between(anchor, anchor + timedelta(days=30), limit=len(case["at"]))

    assert [one.at.astimezone(ZoneInfo(case["zone"])).isoformat() for one in found] == case["at"]
    assert [number for number, one in enumerate(found) if one.remarks] == case["remarks"]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.sampled_from(ZONES["cases"]), st.integers(-50 * 3600, 50 * 3600), st.integers(0, 1))
def test_a_wall_time_near_a_change_means_its_first_instant_and_has_a_remark_if_it_is_affected(case, seconds, fold):
    zone = ZoneInfo(case["zone"])
    wall = datetime.fromisoformat(case["change"][:16]) + timedelta(seconds=seconds)
    first, second = zone.utcoffset(wall), zone.utcoffset(wall.replace(fold=1))

    found = resolve(wall.replace(fold=fold), zone)

    assert found.at == (wall - first).replace(tzinfo=UTC)
    assert bool(found.remarks) == (first != second)


def test_a_day_that_a_zone_skipped_has_a_remark():
    anchor = datetime(2011, 12, 28, 19, tzinfo=UTC)
    recurrence = compile_recurrence("daily", timezone="Pacific/Apia", anchor=anchor)

    _, moved = recurrence.between(anchor, anchor + timedelta(days=3), limit=2)

    assert moved.remarks == ("09:00 does not exist on 2011-12-30 in Pacific/Apia: moved to 2011-12-31 09:00",)


@pytest.mark.parametrize("adjustment", ["preceding", "following"])
def test_moving_past_a_day_that_a_zone_skipped_ends(adjustment):
    """In Apia, Thursday 29 December 2011 was followed by Saturday 31 December: the Friday between does not exist."""
    anchor = datetime(2011, 12, 27, 19, tzinfo=UTC)
    skips = Skips.parse({"weekends": True, "adjustment": adjustment})
    recurrence = compile_recurrence("daily", timezone="Pacific/Apia", anchor=anchor, skips=skips)

    found = recurrence.between(anchor, datetime(2012, 1, 3, tzinfo=UTC), limit=10)

    days = [one.at.astimezone(ZoneInfo("Pacific/Apia")).date().isoformat() for one in found]
    assert days == ["2011-12-28", "2011-12-29", "2012-01-02", "2012-01-03"]


def test_a_business_day_at_a_time_that_does_not_exist_moves_with_a_remark():
    anchor = datetime(2024, 4, 1, tzinfo=UTC)
    rule = "20th business day of the month at 00:30"

    (found,) = compile_recurrence(rule, timezone="Africa/Cairo", anchor=anchor).between(
        anchor, anchor + timedelta(days=30), limit=5
    )

    assert found.at.astimezone(ZoneInfo("Africa/Cairo")).isoformat() == "2024-04-26T01:30:00+03:00"
    assert found.remarks == ("00:30 does not exist on 2024-04-26 in Africa/Cairo: moved to 01:30",)


def test_a_last_business_day_that_a_zone_skipped_is_found_in_the_next_month():
    """In Manila, Monday 30 December 1844 was followed by Wednesday 1 January 1845."""
    manila = ZoneInfo("Asia/Manila")
    anchor = datetime(1844, 12, 2, tzinfo=manila)
    recurrence = compile_recurrence("last business day of the month at 09:00", timezone="Asia/Manila", anchor=anchor)

    found = recurrence.next_after(datetime(1845, 1, 1, tzinfo=manila))

    assert found.at == datetime(1845, 1, 1, 9, tzinfo=manila)
    assert found.remarks == ("09:00 does not exist on 1844-12-31 in Asia/Manila: moved to 1845-01-01 09:00",)


def test_a_window_that_ends_in_an_hour_that_occurs_twice_ends_the_first_time():
    skips = Skips.parse({"windows": [{"from": "00:00", "to": "01:30"}], "adjustment": "following"})
    anchor = datetime(2026, 10, 31, 4, 15, tzinfo=UTC)
    recurrence = compile_recurrence("daily", timezone="America/New_York", anchor=anchor, skips=skips)

    found = recurrence.between(anchor, anchor + timedelta(days=3), limit=3)

    assert [one.at.astimezone(recurrence.zone).isoformat() for one in found] == [
        "2026-10-31T01:30:00-04:00",
        "2026-11-01T01:30:00-04:00",
        "2026-11-02T01:30:00-05:00",
    ]


def test_anchors_at_both_instants_of_a_repeated_wall_time_are_compiled_separately():
    first = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    anchors = [first, first.replace(fold=1)]

    rules = [compile_recurrence("PT5H", timezone="Europe/Berlin", anchor=anchor) for anchor in anchors]

    assert [rule.next_after(first - timedelta(days=1)).at for rule in rules] == [one.astimezone(UTC) for one in anchors]
