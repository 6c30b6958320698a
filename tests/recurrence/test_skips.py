from __future__ import annotations

import sys
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings, strategies as st

from scheduled_actions.core.errors import BudgetExceeded, InvalidArgument, NeverOccurs, RecurrenceInvalid
from scheduled_actions.recurrence.compiling import compile_recurrence
from scheduled_actions.recurrence.custom import Functions
from scheduled_actions.recurrence.model import resolve
from scheduled_actions.recurrence.skips.model import Skips

NEW_YORK = "America/New_York"
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
#: A Thursday, 09:00 in New York: the day before Christmas.
ANCHOR = datetime(2026, 12, 24, 14, tzinfo=UTC)
WHOLE = {
    "weekends": True,
    "holidays": {"country": "US", "subdivision": "CA"},
    "dates": ["2026-12-24", "2027-05-07"],
    "ranges": [{"from": "2026-12-24", "to": "2027-01-02"}],
    "windows": [
        {"from": "22:00", "to": "02:00", "days": ["sat", "sun"]},
        {"from": "12:00", "to": "24:00"},
        {"from": "2026-12-24T22:00:00+00:00", "to": "2026-12-26T06:00:00+00:00"},
    ],
    "function": "quiet",
    "adjustment": "following",
}


def a_recurrence(text="daily", anchor=ANCHOR, timezone=NEW_YORK, functions=None, **skips):
    return compile_recurrence(
        text, timezone=timezone, anchor=anchor, skips=Skips.parse(skips), functions=functions or Functions()
    )


def first(recurrence, count, after=ANCHOR):
    return recurrence.between(after, after + timedelta(days=4000), limit=count)


def local(recurrence, count, after=ANCHOR):
    return [f"{one.at.astimezone(recurrence.zone):%a %Y-%m-%d %H:%M}" for one in first(recurrence, count, after)]


# The JSON object


def test_skips_survive_a_round_trip_through_json():
    skips = Skips.parse(WHOLE)

    assert skips.as_json() == WHOLE
    assert Skips.parse(skips.as_json()) == skips
    assert hash(Skips.parse(skips.as_json())) == hash(skips)
    assert Skips.parse(skips) is skips


def test_an_empty_object_skips_nothing():
    assert Skips.parse({}) == Skips()
    assert Skips.parse({"adjustment": "following", "weekends": False, "dates": [], "holidays": None}).is_empty
    assert not Skips.parse({"weekends": True}).is_empty


def test_python_dates_and_instants_are_accepted():
    own = {
        "dates": [date(2026, 12, 24)],
        "ranges": [{"from": date(2026, 12, 24), "to": date(2027, 1, 2)}],
        "windows": [{"from": time(22), "to": time(2)}, {"from": ANCHOR, "to": ANCHOR + DAY}],
    }

    assert Skips.parse(own).as_json() == {
        "dates": ["2026-12-24"],
        "ranges": [{"from": "2026-12-24", "to": "2027-01-02"}],
        "windows": [
            {"from": "22:00", "to": "02:00"},
            {"from": "2026-12-24T14:00:00+00:00", "to": "2026-12-25T14:00:00+00:00"},
        ],
        "adjustment": "drop",
    }


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("US", {"country": "US"}),
        ("us-ca", {"country": "US", "subdivision": "CA"}),
        ("US-California", {"country": "US", "subdivision": "California"}),
        ("DE-BY", {"country": "DE", "subdivision": "BY"}),
        ("NYSE", {"market": "NYSE"}),
        ("xnys", {"market": "XNYS"}),
        ({"country": "gb", "subdivision": "sct"}, {"country": "GB", "subdivision": "SCT"}),
        ({"market": "nyse"}, {"market": "NYSE"}),
    ],
)
def test_holidays_belong_to_a_country_a_subdivision_or_a_market(given, wanted):
    assert Skips.parse({"holidays": given}).as_json()["holidays"] == wanted


@pytest.mark.parametrize(
    ("day", "holidays", "name"),
    [
        ("2027-01-01", "US", "is a holiday (New Year's Day, US)"),
        ("2027-03-31", "US", None),
        ("2027-03-31", "US-CA", "is a holiday (Cesar Chavez Day, US-CA)"),
        ("2027-03-26", "US", None),
        ("2027-03-26", "NYSE", "is a holiday (Good Friday, NYSE)"),
        ("2027-12-31", "NYSE", None),
        ("2027-10-03", "DE", "is a holiday (German Unity Day, DE)"),
    ],
)
def test_a_holiday_has_its_english_name(day, holidays, name, monkeypatch):
    monkeypatch.setenv("LANGUAGE", "de")

    assert Skips.parse({"holidays": holidays}).day_off(date.fromisoformat(day)) == name


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("weekends", "skip: 'weekends' is not an object with some of the keys weekends, holidays, dates"),
        (["weekends"], "skip: ['weekends'] is not an object"),
        ({"weekend": True}, "skip: 'weekend' is not a key of skip; did you mean \"weekends\"?"),
        ({1: True}, "skip: 1 is not a key of skip; use weekends, holidays, dates"),
        ({"weekends": "yes"}, "skip.weekends: 'yes' is not true or false"),
        ({"weekends": 1}, "skip.weekends: 1 is not true or false"),
        ({"dates": "2026-12-24"}, "skip.dates: '2026-12-24' is not a list of at most 1,000 items"),
        ({"dates": ["2026-12-24", "2026-02-30"]}, "skip.dates[1]: '2026-02-30' is not a day, such as 2026-12-24"),
        ({"dates": ["20261224"]}, "skip.dates[0]: '20261224' is not a day"),
        ({"dates": [ANCHOR]}, "skip.dates[0]: 2026-12-24"),
        ({"dates": [20261224]}, "skip.dates[0]: 20261224 is not a day"),
        ({"dates": ["2026-12-24"] * 1001}, "skip.dates: ["),
        (
            {"ranges": [{"from": "2026-12-24"}]},
            "skip.ranges[0]: {'from': '2026-12-24'} is not a range of days, such as",
        ),
        (
            {"ranges": [{"from": "2027-01-02", "to": "2026-12-24"}]},
            "skip.ranges[0].to is 2026-12-24, before from (2027-01-02)",
        ),
        ({"ranges": [{"from": "x", "to": "2026-12-24"}]}, "skip.ranges[0].from: 'x' is not a day"),
        (
            {"windows": {"from": "22:00", "to": "02:00"}},
            "skip.windows: {'from': '22:00', 'to': '02:00'} is not a list",
        ),
        (
            {"windows": [{"from": "22:00"}]},
            "skip.windows[0]: {'from': '22:00'} is not an object with \"from\" and \"to\"",
        ),
        (
            {"windows": [{"from": "22:00", "to": "25:00"}]},
            "skip.windows[0].to: '25:00' is not a time of day",
        ),
        (
            {"windows": [{"from": "24:00", "to": "02:00"}]},
            "skip.windows[0].from: '24:00' is not a time of day",
        ),
        (
            {"windows": [{"from": "22:00", "to": "22:00"}]},
            "skip.windows[0].to equals from (22:00): for a whole day, write 00:00 to 24:00",
        ),
        (
            {"windows": [{"from": "22:00", "to": "02:00", "day": ["sat"]}]},
            "skip.windows[0]: 'day' is not a key of a window; did you mean \"days\"?",
        ),
        (
            {"windows": [{"from": "22:00", "to": "02:00", "days": "sat"}]},
            "skip.windows[0].days: 'sat' is not a list of days",
        ),
        (
            {"windows": [{"from": "22:00", "to": "02:00", "days": ["satt"]}]},
            "skip.windows[0].days[0]: 'satt' is not a day; did you mean \"sat\"?",
        ),
        (
            {"windows": [{"from": "22:00", "to": "02:00", "days": [5]}]},
            "skip.windows[0].days[0]: 5 is not a day; use mon, tue",
        ),
        (
            {"windows": [{"from": "22:00", "to": "2026-12-24T22:00:00Z"}]},
            "skip.windows[0] mixes a time of day with an instant: use two times of day",
        ),
        (
            {"windows": [{"from": "2026-12-24T22:00:00", "to": "2026-12-24T23:00:00Z"}]},
            "skip.windows[0].from: '2026-12-24T22:00:00' is not a time of day",
        ),
        (
            {"windows": [{"from": "2026-12-24T22:00:00Z", "to": "2026-12-24T22:00:00Z"}]},
            "skip.windows[0].to: '2026-12-24T22:00:00Z' is not an instant after from (2026-12-24T22:00:00Z)",
        ),
        (
            {"windows": [{"from": "2026-12-24T22:00Z", "to": "2026-12-25T22:00Z", "days": ["sat"]}]},
            "skip.windows[0].days is not allowed with two instants",
        ),
        ({"function": ""}, "skip.function: '' is not a function name"),
        ({"function": 7}, "skip.function: 7 is not a function name"),
        ({"adjustment": "next"}, "skip.adjustment: 'next' is not one of drop, preceding, following"),
        ({"holidays": "United States"}, "skip.holidays: 'United States' is not a holiday calendar, such as \"US\""),
        ({"holidays": {}}, 'skip.holidays: {} is not a holiday calendar, such as "US"'),
        ({"holidays": ["US"]}, "skip.holidays: ['US'] is not a holiday calendar, such as \"US\""),
        (
            {"holidays": {"countri": "US"}},
            "skip.holidays: 'countri' is not a key of holidays; did you mean \"country\"?",
        ),
        ({"holidays": {"country": 1}}, "skip.holidays.country: 1 is not a name, such as US, CA or NYSE"),
        ({"holidays": {"subdivision": "CA"}}, "is not a holiday calendar with either a country or a market"),
        (
            {"holidays": {"country": "US", "market": "NYSE"}},
            "is not a holiday calendar with either a country or a market",
        ),
    ],
)  # fmt: skip
def test_invalid_skips_are_rejected_with_their_path(given, message):
    with pytest.raises(InvalidArgument) as caught:
        Skips.parse(given)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("ZZ", 'skip.holidays "ZZ": is an unknown country; known values: AF'),
        ("UZB1", 'skip.holidays "UZB1": is an unknown country; did you mean "UZB"?'),
        ("US-XX", 'skip.holidays "XX": is an unknown subdivision of US; known values: AK'),
        ("US-Californa", 'skip.holidays "Californa": is an unknown subdivision of US; did you mean "California"?'),
        ("UA-30", 'skip.holidays "30": is an unknown subdivision of UA; this country has no known subdivisions'),
        ({"market": "NYS"}, 'skip.holidays "NYS": is an unknown market; did you mean "XNYS"?'),
    ],
)  # fmt: skip
def test_unknown_holidays_are_rejected_with_a_suggestion(given, problem):
    with pytest.raises(RecurrenceInvalid) as caught:
        Skips.parse({"holidays": given})

    assert str(caught.value).startswith(problem)


def test_a_missing_library_is_an_error_with_the_command_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "holidays", None)

    with pytest.raises(RecurrenceInvalid) as caught:
        Skips.parse({"holidays": "NP"})

    assert str(caught.value) == (
        'skip.holidays "NP": needs the library "holidays": run pip install "scheduled-actions[holidays]"'
    )


# Dropped and moved occurrences


def test_dropped_occurrences_are_left_out():
    recurrence = a_recurrence(weekends=True, holidays="US", dates=["2026-12-29"])

    assert local(recurrence, 3) == ["Mon 2026-12-28 09:00", "Wed 2026-12-30 09:00", "Thu 2026-12-31 09:00"]
    assert (
        recurrence.description
        == "Every day at 09:00 in America/New_York, except weekends, holidays (US) and 2026-12-29"
    )


def test_occurrences_that_move_to_the_same_day_become_one_with_all_remarks():
    recurrence = a_recurrence(weekends=True, holidays="US", adjustment="following")

    monday, tuesday = first(recurrence, 2)

    assert local(recurrence, 2) == ["Mon 2026-12-28 09:00", "Tue 2026-12-29 09:00"]
    assert monday.remarks == (
        "Friday 2026-12-25 is a holiday (Christmas Day, US): moved to Monday 2026-12-28",
        "Saturday 2026-12-26 is skipped (weekend): moved to Monday 2026-12-28",
        "Sunday 2026-12-27 is skipped (weekend): moved to Monday 2026-12-28",
    )
    assert tuesday.remarks == ()


def test_preceding_moves_to_the_business_day_before_but_not_before_the_start():
    saturdays = a_recurrence("weekly", anchor=ANCHOR + 2 * DAY, weekends=True, adjustment="preceding")

    found = first(saturdays, 2, after=ANCHOR - DAY)

    assert local(saturdays, 2, after=ANCHOR - DAY) == ["Fri 2027-01-01 09:00", "Fri 2027-01-08 09:00"]
    assert found[0].remarks == ("Saturday 2027-01-02 is skipped (weekend): moved to Friday 2027-01-01",)


def test_an_occurrence_moves_to_a_business_day_even_if_weekends_are_not_skipped():
    recurrence = a_recurrence("monthly", anchor=ANCHOR + DAY, holidays="US", adjustment="following")

    assert local(recurrence, 1, after=ANCHOR) == ["Mon 2026-12-28 09:00"]


def test_an_occurrence_in_a_window_moves_to_its_end_or_to_the_minute_before_it():
    window = {"from": "08:30", "to": "10:00"}

    (after,) = first(a_recurrence(windows=[window], adjustment="following"), 1)
    (before,) = first(a_recurrence(windows=[window], adjustment="preceding"), 1)

    assert after.at.astimezone(ZoneInfo(NEW_YORK)).time() == time(10)
    assert before.at.astimezone(ZoneInfo(NEW_YORK)).time() == time(8, 29)
    assert before.remarks == (
        "Friday 2026-12-25 09:00 is in a maintenance window (08:30-10:00): moved to Friday 2026-12-25 08:29",
    )


def test_an_occurrence_in_the_minute_before_a_window_has_the_remarks_of_occurrences_that_move_there():
    window = {"from": "09:00", "to": "09:20"}
    recurrence = a_recurrence("PT1M", anchor=ANCHOR - 2 * MINUTE, windows=[window], adjustment="preceding")

    (found,) = first(recurrence, 1, after=ANCHOR - 2 * MINUTE)

    assert found.at == ANCHOR - MINUTE
    assert found.remarks[0].startswith("Thursday 2026-12-24 09:00 is in a maintenance window (09:00-09:20): moved to")
    assert found.remarks[-1] == "… and 16 more like these"


def test_the_end_of_a_window_is_outside_it_and_its_beginning_inside():
    recurrence = a_recurrence("every 30 minutes", windows=[{"from": "09:30", "to": "10:30"}])

    assert local(recurrence, 2) == ["Thu 2026-12-24 10:30", "Thu 2026-12-24 11:00"]


def test_a_window_past_midnight_belongs_to_the_day_on_which_it_begins():
    recurrence = a_recurrence("hourly", windows=[{"from": "22:00", "to": "02:00", "days": ["fri"]}])

    hours = local(recurrence, 60)

    left_out = {"Fri 2026-12-25 22:00", "Fri 2026-12-25 23:00", "Sat 2026-12-26 00:00", "Sat 2026-12-26 01:00"}
    assert not left_out & set(hours)
    assert {"Thu 2026-12-24 22:00", "Fri 2026-12-25 01:00", "Sat 2026-12-26 02:00", "Sat 2026-12-26 22:00"} <= set(
        hours
    )


def test_a_window_may_be_a_whole_day():
    recurrence = a_recurrence(windows=[{"from": "00:00", "to": "24:00", "days": ["fri"]}], adjustment="following")

    assert local(recurrence, 2) == ["Sat 2026-12-26 00:00", "Sat 2026-12-26 09:00"]


def test_overlapping_windows_are_joined():
    windows = [{"from": "08:00", "to": "09:30"}, {"from": "08:30", "to": "11:00"}, {"from": "10:30", "to": "12:00"}]

    assert local(a_recurrence(windows=windows, adjustment="following"), 1) == ["Thu 2026-12-24 12:00"]
    assert local(a_recurrence(windows=windows, adjustment="preceding"), 1) == ["Fri 2026-12-25 07:59"]


def test_an_occurrence_that_moves_into_another_skip_moves_again():
    recurrence = a_recurrence(
        "weekly", anchor=ANCHOR + 2 * DAY, weekends=True, adjustment="following",
        windows=[{"from": "08:00", "to": "10:00", "days": ["mon"]}],
    )  # fmt: skip

    (found,) = first(recurrence, 1, after=ANCHOR)

    assert found.remarks == ("Saturday 2026-12-26 is skipped (weekend): moved to Monday 2026-12-28 10:00",)


def test_a_function_skips_and_gives_its_reason():
    functions = Functions(skip={"quiet": lambda at: "stock-taking" if at.day == 28 else at.weekday() > 4})

    dropped = a_recurrence(functions=functions, function="quiet")
    (moved, _) = first(a_recurrence("P4D", functions=functions, function="quiet", adjustment="following"), 2)

    assert local(dropped, 2) == ["Fri 2026-12-25 09:00", "Tue 2026-12-29 09:00"]
    assert moved.remarks == ("Monday 2026-12-28 09:00 is skipped (stock-taking): moved to Tuesday 2026-12-29 09:00",)


@pytest.mark.parametrize("text", ["daily", "30 2 * * *", "FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0"])
def test_a_moved_occurrence_keeps_the_rules_time_if_a_gap_moved_it_on_the_skipped_day(text):
    """Otherwise Monday would have two occurrences: its own at 02:30, and that of Sunday at 03:30."""
    anchor = datetime(2026, 3, 5, 7, 30, tzinfo=UTC)
    recurrence = a_recurrence(text, anchor=anchor, weekends=True, adjustment="following")

    assert local(recurrence, 3, after=anchor) == [
        "Fri 2026-03-06 02:30",
        "Mon 2026-03-09 02:30",
        "Tue 2026-03-10 02:30",
    ]


@pytest.mark.parametrize("adjustment", ["drop", "following"])
def test_the_remaining_day_is_not_skipped_if_the_clocks_go_back_across_midnight(adjustment):
    """In St. John's, the clocks went back from 00:01 on 1 November 2009 to 23:01 on 31 October."""
    anchor = datetime(2009, 11, 1, 2, 10, tzinfo=UTC)
    recurrence = a_recurrence("PT20M", anchor, "America/St_Johns", dates=["2009-11-01"], adjustment=adjustment)

    assert local(recurrence, 2, after=anchor) == ["Sat 2009-10-31 23:20", "Sat 2009-10-31 23:40"]


def test_two_occurrences_of_a_day_may_change_their_order_when_they_move():
    """Saturday 10:00 and Sunday 09:00 both move to Monday, where the later occurrence is the first."""
    recurrence = a_recurrence(
        "PT23H", anchor=datetime(2026, 12, 26, 15, tzinfo=UTC), weekends=True, adjustment="following"
    )

    found = first(recurrence, 3)

    assert [f"{one.at:%a %H:%M}" for one in found] == ["Mon 13:00", "Mon 14:00", "Mon 15:00"]


def test_an_occurrence_is_moved_at_most_a_year_and_left_out_otherwise():
    recurrence = a_recurrence("P3M", ranges=[{"from": "2027-01-01", "to": "2029-06-30"}], adjustment="following")

    (found,) = first(recurrence, 1)

    assert found.at.astimezone(ZoneInfo(NEW_YORK)).date() == date(2029, 7, 2)
    assert [remark[: remark.index(" is")] for remark in found.remarks] == [
        "Sunday 2028-09-24", "Sunday 2028-12-24", "Saturday 2029-03-24", "Sunday 2029-06-24",
    ]  # fmt: skip


def test_occurrences_of_a_dense_rule_are_dropped_rather_than_moved_past_a_weekend():
    friday = datetime(2026, 12, 26, 4, 58, tzinfo=UTC)
    recurrence = a_recurrence("every minute", weekends=True, adjustment="following")

    found = first(recurrence, 2, after=friday)

    assert local(recurrence, 2, after=friday) == ["Fri 2026-12-25 23:59", "Mon 2026-12-28 00:00"]
    assert found[1].remarks == ()


@pytest.mark.parametrize(
    ("text", "skips"),
    [
        ("daily", {"ranges": [{"from": "2020-01-01", "to": "2120-01-01"}]}),
        ("PT1S", {"ranges": [{"from": "2020-01-01", "to": "2120-01-01"}]}),
        ("last business day of the month", {"ranges": [{"from": "2020-01-01", "to": "2120-01-01"}]}),
        ("every minute", {"windows": [{"from": "00:00", "to": "13:00"}, {"from": "12:00", "to": "24:00"}]}),
    ],
)
@pytest.mark.parametrize("adjustment", ["drop", "preceding", "following"])
def test_if_every_occurrence_is_skipped_the_search_ends_and_the_rule_never_occurs(text, skips, adjustment):
    with pytest.raises(NeverOccurs):
        a_recurrence(text, **skips, adjustment=adjustment)


@pytest.mark.parametrize(("adjustment", "error"), [("drop", NeverOccurs), ("preceding", BudgetExceeded)])
def test_a_function_that_skips_everything_is_called_a_bounded_number_of_times(adjustment, error):
    calls = []
    functions = Functions(skip={"always": lambda at: calls.append(at) or True})

    with pytest.raises(error):
        a_recurrence("monthly", functions=functions, function="always", adjustment=adjustment)

    assert len(calls) <= 5_000


# The law: a search gives the same occurrences as moving and sorting all candidates


days = st.integers(0, 24).map(lambda n: (ANCHOR + n * DAY).date().isoformat())
quarters = st.integers(0, 95).map(lambda n: f"{n // 4:02}:{n % 4 * 15:02}")
windows = st.tuples(quarters, quarters).filter(lambda edges: edges[0] != edges[1]).flatmap(
    lambda edges: st.one_of(
        st.just({"from": edges[0], "to": edges[1]}),
        st.sets(st.sampled_from(["mon", "wed", "fri", "sat", "sun"]), min_size=1).map(
            lambda on: {"from": edges[0], "to": edges[1], "days": sorted(on)}
        ),
    )
)  # fmt: skip
skips = st.fixed_dictionaries(
    {"adjustment": st.sampled_from(["drop", "preceding", "following"])},
    optional={
        "weekends": st.just(value=True),
        "dates": st.lists(days, max_size=4),
        "ranges": st.tuples(days, days).map(lambda two: [{"from": min(two), "to": max(two)}]),
        "windows": st.lists(windows, min_size=1, max_size=2),
        "function": st.just("sometimes"),
    },
)
FUNCTIONS = Functions(skip={"sometimes": lambda at: (at.day + at.hour) % 3 == 0})
#: Zones, and dates near a clock change: at 02:00, at midnight, across midnight, by a whole day, and none in UTC.
places = st.sampled_from(
    [
        ("America/New_York", "2026-10-20"), ("America/New_York", "2026-02-25"), ("America/Sao_Paulo", "2018-10-25"),
        ("America/Sao_Paulo", "2018-02-08"), ("America/St_Johns", "2009-10-22"), ("Pacific/Apia", "2011-12-20"),
        ("UTC", "2026-05-01"),
    ]
)  # fmt: skip


@given(
    st.sampled_from(["daily", "P2D", "PT17H", "PT6H", "weekly", "monthly"]),
    skips,
    places,
    st.integers(0, 1439),
    st.lists(st.integers(-1440, 20 * 1440), min_size=5, max_size=5),
)
@settings(max_examples=120, derandomize=True, deadline=None)
@example(
    "PT23H", {"adjustment": "following", "weekends": True}, ("UTC", "2026-05-01"), 600, [0, 1440, 2880, 4320, 5760]
)
def test_a_search_gives_the_same_occurrences_as_moving_and_sorting_all_candidates(
    text, given_skips, place, minute, moments
):
    timezone, day = place
    shift = date.fromisoformat(day) - ANCHOR.date()
    given_skips = shifted(given_skips, shift)
    anchor = datetime.combine(date.fromisoformat(day), time(), UTC) + minute * MINUTE
    plain = compile_recurrence(text, timezone=timezone, anchor=anchor)
    candidates = plain.between(anchor - MINUTE, anchor + 55 * DAY, limit=2000)
    try:
        recurrence = a_recurrence(text, anchor, timezone, FUNCTIONS, **given_skips)
    except NeverOccurs:
        assert landings(candidates, given_skips, plain.zone) == []
        return
    listed = [at for at in landings(candidates, given_skips, plain.zone) if at >= anchor]

    searched = list(each_occurrence(recurrence, anchor - MINUTE, anchor + 20 * DAY))

    assert [one.at for one in searched] == [at for at in listed if at <= anchor + 20 * DAY]
    for moment in (anchor + n * MINUTE for n in moments):
        later = [one for one in searched if one.at > moment]
        assert not later or recurrence.next_after(moment) == later[0]


def each_occurrence(recurrence, after, end):
    """Yield the occurrences after `after` and up to `end`; each search has its own evaluation budget."""
    while (found := recurrence.next_after(after)) is not None and found.at <= end:
        yield found
        after = found.at


def shifted(given_skips, shift):
    """Return the skips with their dates moved by `shift`, so that they are near the anchor."""

    def moved(day):
        return (date.fromisoformat(day) + shift).isoformat()

    changed = dict(given_skips)
    if "dates" in changed:
        changed["dates"] = [moved(day) for day in changed["dates"]]
    if "ranges" in changed:
        changed["ranges"] = [{edge: moved(day) for edge, day in one.items()} for one in changed["ranges"]]
    return changed


def landings(candidates, given_skips, zone):
    """Return the instants to which the candidates move, in order and without duplicates."""
    return sorted({at for one in candidates if (at := landing(one, given_skips, zone)) is not None})


def landing(candidate, given_skips, zone):
    adjustment = given_skips["adjustment"]
    step = -DAY if adjustment == "preceding" else DAY
    at, wall = candidate.at, named_wall(candidate, zone)
    for _ in range(51):
        covering = spans_over(at, given_skips, zone)
        shown = at.astimezone(zone)
        is_free = is_day_off(shown.date(), given_skips) or (given_skips.get("weekends") and shown.weekday() > 4)
        if is_free or (not covering and "function" in given_skips and FUNCTIONS.skip["sometimes"](shown)):
            wall += step
            while wall.weekday() > 4 or is_day_off(wall.date(), given_skips):
                wall += step
            at = resolve(wall, zone).at
        elif covering:
            at = (
                min(start for start, _ in covering) - MINUTE if step < timedelta(0) else max(end for _, end in covering)
            )
            wall = at.astimezone(zone).replace(tzinfo=None, fold=0)
        else:
            return at
        if adjustment == "drop":
            return None
    return None


def named_wall(candidate, zone):
    shown = candidate.at.astimezone(zone).replace(tzinfo=None, fold=0)
    gap = candidate.at.astimezone(zone).utcoffset() - (candidate.at - DAY).astimezone(zone).utcoffset()
    is_put_off = candidate.remarks and "does not exist" in candidate.remarks[0]
    return shown - gap if is_put_off else shown


def is_day_off(day, given_skips):
    text = day.isoformat()
    in_range = any(one["from"] <= text <= one["to"] for one in given_skips.get("ranges", []))
    return in_range or text in given_skips.get("dates", [])


def spans_over(at, given_skips, zone):
    found = []
    for window in given_skips.get("windows", []):
        for ago in range(-3, 4):
            day = at.astimezone(zone).date() + ago * DAY
            start, end = span_on(day, window["from"], window["to"], zone)
            if start <= at < end and day.strftime("%a").lower() in window.get("days", [day.strftime("%a").lower()]):
                found.append((start, end))
    return found


@lru_cache(maxsize=10_000)
def span_on(day, start, end, zone):
    end_day = day + DAY if end <= start else day
    return (
        resolve(datetime.combine(day, time.fromisoformat(start)), zone).at,
        resolve(datetime.combine(end_day, time.fromisoformat(end)), zone).at,
    )
