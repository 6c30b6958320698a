from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from scheduled_actions.core.errors import InvalidArgument, NeverOccurs, RecurrenceInvalid
from scheduled_actions.recurrence.custom import Functions
from scheduled_actions.recurrence.preview import preview
from scheduled_actions.recurrence.skips.model import Skips

NEW_YORK = "America/New_York"
START = datetime(2026, 10, 30, 13, tzinfo=UTC)


def previewed(text="daily", count=3, start=START, timezone=NEW_YORK, skips=None, **options):
    return preview(
        text,
        timezone=timezone,
        start=start,
        count=count,
        skips=None if skips is None else Skips.parse(skips),
        **options,
    )


def test_a_preview_has_the_documented_fields():
    found = previewed()

    assert found == {
        "rule": "daily",
        "kind": "interval",
        "description": "Every day at 09:00 in America/New_York",
        "occurrences": [
            {"at": "2026-10-31T09:00:00-04:00", "utc": "2026-10-31T13:00:00+00:00"},
            {"at": "2026-11-01T09:00:00-05:00", "utc": "2026-11-01T14:00:00+00:00"},
            {"at": "2026-11-02T09:00:00-05:00", "utc": "2026-11-02T14:00:00+00:00"},
        ],
        "warnings": [],
    }
    assert json.loads(json.dumps(found)) == found


def test_the_start_is_not_an_occurrence_but_intervals_count_from_it():
    assert previewed("PT10M", 1)["occurrences"] == [
        {"at": "2026-10-30T09:10:00-04:00", "utc": "2026-10-30T13:10:00+00:00"}
    ]


def test_count_counts_the_occurrences_after_the_start():
    found = previewed("FREQ=DAILY;COUNT=2")

    assert [one["at"] for one in found["occurrences"]] == ["2026-10-31T09:00:00-04:00", "2026-11-01T09:00:00-05:00"]
    assert "The rule ends after 2 occurrences" in found["warnings"]


def test_naive_times_are_wall_times_in_the_zone():
    start, until = datetime(2026, 10, 30, 9), datetime(2026, 11, 1, 9)  # noqa: DTZ001

    found = previewed(start=start, until=until)

    assert [one["at"] for one in found["occurrences"]] == ["2026-10-31T09:00:00-04:00", "2026-11-01T09:00:00-05:00"]


def test_only_affected_occurrences_have_remarks():
    found = previewed(start=datetime(2026, 3, 7, 7, 30, tzinfo=UTC), count=2)

    assert found["occurrences"] == [
        {
            "at": "2026-03-08T03:30:00-04:00",
            "utc": "2026-03-08T07:30:00+00:00",
            "remarks": ["02:30 does not exist on 2026-03-08 in America/New_York: moved to 03:30"],
        },
        {"at": "2026-03-09T02:30:00-04:00", "utc": "2026-03-09T06:30:00+00:00"},
    ]


def test_the_second_occurrence_of_an_hour_has_its_own_offset():
    start = datetime(2026, 11, 1, 5, tzinfo=UTC)

    assert [one["at"] for one in previewed("PT30M", 3, start)["occurrences"]] == [
        "2026-11-01T01:30:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T01:30:00-05:00",
    ]  # fmt: skip


def test_warnings_come_from_the_rule():
    found = previewed("monthly", start=START.replace(day=31))

    assert found["warnings"] == ["In months without day 31, the rule occurs on the last day"]


@pytest.mark.parametrize(
    ("dates", "count", "others"),
    [(["2026-11-03"], 6, "2 others"), (["2026-11-03", "2026-11-04"], 3, "1 other")],
)
def test_three_dropped_occurrences_are_listed_and_the_others_are_counted(dates, count, others):
    found = previewed(skips={"weekends": True, "dates": dates}, count=count)

    (warning,) = found["warnings"]
    assert warning == (
        "Left out: Saturday 2026-10-31 09:00 is skipped (weekend), Sunday 2026-11-01 09:00 is skipped (weekend), "
        f"Tuesday 2026-11-03 09:00 is skipped (a named date) and {others}"
    )


def test_an_end_is_a_warning():
    until = datetime(2026, 11, 1, 23, tzinfo=UTC)

    assert previewed(until=until)["warnings"] == ["The rule ends after 2 occurrences"]
    assert previewed(until=until, count=2)["warnings"] == []


def test_a_far_occurrence_is_a_warning():
    found = previewed("0 0 29 2 *", 1)

    assert found["warnings"][-1] == "The first occurrence is more than a year after the start, on Tuesday 2028-02-29"


def test_the_preview_of_a_rule_that_occurs_only_at_its_start_is_empty():
    functions = Functions(next={"once": lambda moment: START if moment < START else None})

    found = previewed("custom:once", functions=functions)

    assert found["occurrences"] == []
    assert found["warnings"] == ["The rule has no occurrence after the start: it has ended"]


@pytest.mark.parametrize("count", [0, 1001, -1, 1.5, True, "10"])
def test_a_count_out_of_range_is_rejected(count):
    with pytest.raises(InvalidArgument, match="is not an integer between 1 and 1000"):
        previewed(count=count)


def test_a_thousand_occurrences_are_shown():
    found = previewed(count=1000)["occurrences"]

    assert len(found) == 1000
    instants = [datetime.fromisoformat(one["utc"]) for one in found]
    assert all(one < another <= one + timedelta(hours=25) for one, another in pairwise(instants))


def test_an_invalid_preview_is_rejected():
    with pytest.raises(RecurrenceInvalid):
        previewed("dayly")
    with pytest.raises(NeverOccurs):
        previewed("0 0 30 2 *")
    with pytest.raises(InvalidArgument, match="start: 'today' is not an ISO 8601 time or day"):
        previewed(start="today")
    with pytest.raises(InvalidArgument, match="start: "):
        previewed(start=datetime(9999, 12, 31, 23))  # noqa: DTZ001
    with pytest.raises(InvalidArgument, match="timezone: "):
        previewed(timezone="Europe/Bonn")
