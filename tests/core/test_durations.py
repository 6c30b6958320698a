from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from scheduled_actions.core.durations import parse_duration
from scheduled_actions.core.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("PT5M", timedelta(minutes=5)),
        ("P1D", timedelta(days=1)),
        ("PT1H30M", timedelta(hours=1, minutes=30)),
        ("P2W", timedelta(weeks=2)),
        ("P1W2DT3H4M5S", timedelta(weeks=1, days=2, hours=3, minutes=4, seconds=5)),
        ("PT0S", timedelta(0)),
        ("PT36H", timedelta(hours=36)),
        ("PT1.5S", timedelta(seconds=1.5)),
        ("PT0,25H", timedelta(minutes=15)),
        ("P0.5D", timedelta(hours=12)),
        ("5m", timedelta(minutes=5)),
        ("90s", timedelta(seconds=90)),
        ("2h", timedelta(hours=2)),
        ("3d", timedelta(days=3)),
        ("1w", timedelta(weeks=1)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("0.5h", timedelta(minutes=30)),
    ],
)
def test_durations_in_both_forms_are_parsed(text, wanted):
    assert parse_duration(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "", "P", "PT", "P1DT", "T5M", "5", "5 m", " 5m", "5m ", "m", "-5m", "PT-5M", "-PT5M", "5M", "pt5m", "PT5m",
        "30m1h", "PT5M3H", "PT1.5H30M", "1.5h30m", "PT1.S", "PT.5S", "1e3s", "infs", "nans", "P1D2W", "5min", "PT5M\n",
        "PT\N{FULLWIDTH DIGIT FIVE}M",
    ],
)  # fmt: skip
def test_the_error_for_an_invalid_duration_shows_valid_durations(text):
    expected = r"is not a duration such as PT5M, P1D or PT1H30M .* 90s, 5m, 2h or 3d$"
    with pytest.raises(InvalidArgument, match=expected) as caught:
        parse_duration(text)

    assert caught.value.value == text


@pytest.mark.parametrize("text", ["P1Y", "P1M", "P1Y2M3DT4H", "P0M", "P1.5Y"])
def test_years_and_months_are_refused_because_their_length_varies(text):
    with pytest.raises(InvalidArgument, match=r"use days or weeks .* instead of years and months.*\(PT5M\)"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["1000000000d", "P999999999999W"])
def test_a_duration_too_long_for_a_timedelta_is_refused(text):
    with pytest.raises(InvalidArgument, match="is not a duration of at most 999,999,999 days"):
        parse_duration(text)


def test_the_error_contains_the_name_of_the_callers_argument():
    with pytest.raises(InvalidArgument, match=r"^every: 'soon' is not"):
        parse_duration("soon", name="every")


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=36500)))
def test_every_duration_can_be_formatted_and_parsed_again(length):
    text = f"P{length.days}DT{length.seconds}.{length.microseconds:06}S"

    assert abs(parse_duration(text) - length) <= timedelta(microseconds=1)


@given(st.text())
def test_no_text_raises_any_other_error(text):
    try:
        assert parse_duration(text) >= timedelta(0)
    except InvalidArgument:
        return
