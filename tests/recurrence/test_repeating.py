"""Repeating intervals of ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from scheduled_actions.core.errors import RecurrenceInvalid
from scheduled_actions.recurrence.compiling import compile_recurrence

NEW_YORK = ZoneInfo("America/New_York")
#: A Friday, 09:00 in New York.
ANCHOR = datetime(2026, 10, 30, 13, tzinfo=UTC)


def compiled(text):
    return compile_recurrence(text, timezone=NEW_YORK.key, anchor=ANCHOR)


def local(text):
    found = compiled(text).between(ANCHOR.replace(year=2025), ANCHOR.replace(year=2028), limit=4)
    return [f"{one.at.astimezone(NEW_YORK):%Y-%m-%d %H:%M%z}" for one in found]


@pytest.mark.parametrize(
    ("text", "occurrences"),
    [
        ("R2/2026-12-01T14:00:00Z/P1D", ["2026-12-01 09:00-0500", "2026-12-02 09:00-0500"]),
        ("R2/2026-12-01T09:00/P1D", ["2026-12-01 09:00-0500", "2026-12-02 09:00-0500"]),
        ("R2/2026-12-01/P1W", ["2026-12-01 00:00-0500", "2026-12-08 00:00-0500"]),
        ("r2/20261201T150000+0100/pt90m", ["2026-12-01 09:00-0500", "2026-12-01 10:30-0500"]),
        ("R1/P1Y", ["2026-10-30 09:00-0400"]),
        ("R2/P1Y2M", ["2026-10-30 09:00-0400", "2027-12-30 09:00-0500"]),
        ("R3//P1D", ["2026-10-30 09:00-0400", "2026-10-31 09:00-0400", "2026-11-01 09:00-0500"]),
        ("R3/PT24H", ["2026-10-30 09:00-0400", "2026-10-31 09:00-0400", "2026-11-01 08:00-0500"]),
    ],
)
def test_a_number_is_the_number_of_occurrences_with_the_start(text, occurrences):
    assert local(text) == occurrences


@pytest.mark.parametrize("text", ["R/P1W", "R//P1W", "R/2026-10-30T09:00/P1W"])
def test_a_repeating_interval_without_a_number_has_no_end(text):
    rule = compiled(text)

    assert rule.next_after(ANCHOR.replace(year=2050)) is not None
    assert rule.description.startswith("Every week on Friday")


def test_a_start_in_a_gap_moves_later_and_the_next_day_has_the_time_of_day_as_written():
    assert local("R2/2027-03-14T02:30/P1D") == ["2027-03-14 03:30-0400", "2027-03-15 02:30-0400"]


def test_a_start_in_the_second_occurrence_of_an_hour_is_kept_for_hours():
    assert local("R2/2026-11-01T06:30:00Z/PT1H") == ["2026-11-01 01:30-0500", "2026-11-01 02:30-0500"]


def test_a_repeating_interval_is_described():
    rule = compiled("R5/2026-12-01T14:00:00Z/P1D")

    assert (rule.kind, rule.description) == ("rrule", "Every day at 09:00 in America/New_York, 5 times")
    assert rule.warnings == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("R5/2026-12-01T09:00:00Z/2026-12-02T09:00:00Z", "has an end after its start: write the start and a duration"),
        ("R5/P1D at 10:00", "is not a repeating interval: write the start and a duration, such as R5/2026-12-01T09"),
        ("R5/P1D/2026-12-02T09:00:00Z", "has an end after its duration: write the start and a duration, such as R5/20"),
        ("R5/2026-12-01T09:00:00Z", "has no duration: write the start and a duration"),
        ("R5/2026-12-01T09:00:00Z/", "has no duration: write the start and a duration"),
        ("R5/", "has no duration"),
        ("R5/a/b/c", "is not a repeating interval: write the start and a duration"),
        ("R0/P1D", "R0 is not from R1 to R10000"),
        ("R10001/P1D", "R10001 is not from R1 to R10000"),
        ("R5/soon/P1D", '"SOON" is not an ISO 8601 time, such as 2026-12-01T09:00:00Z'),
        ("R5/P1DT12H", "P1DT12H is a duration in several units or fractions: use one unit, such as P1D or PT36H"),
        ("R5/PT1.5S", "PT1.5S is a duration in several units or fractions"),
        ("R5/P1", "is not an interval"),
        ("R5/2020-01-01T09:00:00Z/P1D", "has no occurrence at or after its start"),
    ],
)
def test_an_invalid_repeating_interval_is_refused_with_what_to_write(text, problem):
    with pytest.raises(RecurrenceInvalid) as caught:
        compiled(text)

    assert caught.value.problem.startswith(problem)
