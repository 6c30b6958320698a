"""Properties of every cron expression, in any zone and from any moment.

At clock changes, the expected instants are those of cronsim, except in the cases listed in
`scheduled_actions.recurrence.cron.rule`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import assume, given, settings, strategies as st

from scheduled_actions.core.errors import NeverOccurs, RecurrenceInvalid
from scheduled_actions.recurrence.cron.rule import parse_cron

#: Clock changes, in UTC: by whole hours, without an effect on midnight.
ORDINARY = (
    ("America/New_York", "2026-11-01T06:00"),
    ("America/New_York", "2027-03-14T07:00"),
    ("Europe/Berlin", "2026-10-25T01:00"),
    ("Europe/Berlin", "2027-03-28T01:00"),
    ("Europe/Dublin", "2026-10-25T01:00"),
    ("Europe/Dublin", "2027-03-28T01:00"),
    ("Africa/Cairo", "2026-10-29T21:00"),
    ("America/Havana", "2026-11-01T05:00"),
    ("America/Sao_Paulo", "2018-02-18T02:00"),
    ("UTC", "2027-03-28T01:00"),
)
#: Clock changes, in UTC: by half an hour, a skipped midnight, a skipped day, a midnight that occurs twice.
ODD = (
    ("Australia/Lord_Howe", "2026-10-03T15:30"),
    ("Australia/Lord_Howe", "2027-04-03T15:00"),
    ("Africa/Cairo", "2026-04-23T22:00"),
    ("America/Havana", "2026-03-08T05:00"),
    ("America/Sao_Paulo", "2018-11-04T03:00"),
    ("Pacific/Apia", "2011-12-30T10:00"),
    ("America/St_Johns", "2010-11-07T02:31"),
)
MINUTE = timedelta(minutes=1)
limited = settings(max_examples=150, deadline=None, derandomize=True)


def items(low, high, steps):
    """Generate one item of a field; ranges have at least two values, because cronsim reads `5-5/10` as `5/10`."""
    number = st.integers(low, high)
    pair = st.lists(number, min_size=2, max_size=2, unique=True).map(sorted)
    step = st.integers(1, steps)
    return st.one_of(
        number.map(str),
        st.builds("*/{}".format, step),
        pair.map(lambda ends: f"{ends[0]}-{ends[1]}"),
        st.builds(lambda ends, each: f"{ends[0]}-{ends[1]}/{each}", pair, step),
        st.builds("{}/{}".format, number, step),
    )


def fields(low, high, steps, *others):
    listed = st.lists(st.one_of(items(low, high, steps), *others), min_size=1, max_size=3)
    return st.one_of(st.just("*"), listed.map(",".join))


#: The hours 0 to 4 are more frequent, because clocks change then.
minutes, hours = fields(0, 59, 60), st.one_of(fields(0, 23, 24), fields(0, 4, 24))
days_of_month, months = fields(1, 31, 31, st.just("L")), st.one_of(st.just("*"), fields(1, 12, 12))
nth = st.builds("{}#{}".format, st.integers(0, 7), st.integers(1, 5))
last = st.builds("L{}".format, st.integers(0, 7))
days_of_week = st.one_of(
    st.just("*"), fields(0, 7, 7), st.lists(st.one_of(nth, last), min_size=1, max_size=2).map(",".join)
)
often = st.tuples(minutes, hours, st.one_of(st.just("*"), days_of_month), st.just("*"), st.just("*"))
expressions = st.one_of(often, st.tuples(minutes, hours, days_of_month, months, days_of_week)).map(" ".join)


def moments(changes):
    """Generate the key of a zone and a moment up to two days before one of its clock changes.

    The moment is never after the change: in the second occurrence of an hour, cronsim returns times of the first, which
    are past.
    """
    before = st.one_of(st.integers(1, 5 * 3_600), st.integers(1, 48 * 3_600))
    return st.builds(
        lambda change, seconds: (
            change[0], datetime.fromisoformat(change[1]).replace(tzinfo=UTC) - timedelta(seconds=seconds),
        ),
        st.sampled_from(changes), before,
    )  # fmt: skip


def in_cronsim_syntax(text):
    """Return an expression with `L5` written as in cronsim: `5L`."""
    *others, weekdays = text.split()
    spelt = [f"{item[1:]}L" if item.startswith("L") else item for item in weekdays.split(",")]
    return " ".join([*others, ",".join(spelt)])


def occurrences(rule, moment, count):
    found = []
    try:
        for _ in range(count):
            found.append(rule.next_after(found[-1] if found else moment).at)
    except NeverOccurs:
        assume(found)
    return found


def assert_equal_to_cronsim(text, zone, moment, count):
    ours = occurrences(parse_cron(text, zone=zone, anchor=moment), moment, count)

    theirs = islice(CronSim(in_cronsim_syntax(text), moment.astimezone(zone)), len(ours))

    assert ours == [each.astimezone(UTC) for each in theirs]


@limited
@given(expressions, moments(ORDINARY))
def test_an_expression_has_the_same_instants_as_in_cronsim(text, where):
    assert_equal_to_cronsim(text, ZoneInfo(where[0]), where[1], 12)


@limited
@given(minutes, hours, moments(ODD))
def test_fixed_times_are_the_same_as_in_cronsim_even_at_unusual_clock_changes(minute, hour, where):
    assume(not minute.startswith("*") and not hour.startswith("*"))

    assert_equal_to_cronsim(f"{minute} {hour} * * *", ZoneInfo(where[0]), where[1], 12)


@limited
@given(minutes, hours, st.sampled_from(["*", "1", "5", "0,6"]), moments(ODD + ORDINARY))
def test_wildcard_rules_run_at_exactly_the_minutes_whose_wall_time_matches(minute, hour, weekday, where):
    assume(minute.startswith("*") or hour.startswith("*"))
    zone, start = ZoneInfo(where[0]), where[1].replace(second=0)
    text = f"{minute} {hour} * * {weekday}"

    found = occurrences(parse_cron(text, zone=zone, anchor=start), start, 12)

    end = min(found[-1], start + timedelta(hours=5))
    instants = [start + n * MINUTE for n in range(1, (end - start) // MINUTE + 1)]
    shown = {at: at.astimezone(zone).replace(tzinfo=None, fold=0) for at in instants}
    # Without a zone, cronsim returns the matching wall times.
    from_first = CronSim(text, min(shown.values()) - MINUTE)
    matching = set(takewhile(lambda wall: wall <= max(shown.values()), from_first))
    assert [at for at in found if at <= end] == [at for at in instants if shown[at] in matching]


@limited
@given(expressions, moments(ODD + ORDINARY), st.data())
def test_occurrences_are_the_same_increasing_sequence_wherever_a_search_begins(text, where, data):
    rule = parse_cron(text, zone=ZoneInfo(where[0]), anchor=where[1])

    found = occurrences(rule, where[1], 10)

    assert found == sorted(set(found))
    for earlier, later in pairwise(found):
        assert earlier > where[1]
        inside = earlier + (later - earlier) * data.draw(st.floats(0, 0.999))
        assert rule.next_after(inside).at == later
        assert rule.next_after(later - timedelta(microseconds=1)).at == later


@limited
@given(expressions, moments(ODD + ORDINARY))
def test_an_occurrence_is_a_matching_whole_minute_or_has_a_remark(text, where):
    zone = ZoneInfo(where[0])
    rule = parse_cron(text, zone=zone, anchor=where[1])

    for at in occurrences(rule, where[1], 5):
        shown = at.astimezone(zone).replace(tzinfo=None, fold=0)
        remarks = rule.next_after(at - timedelta(microseconds=1)).remarks
        assert (shown.second, shown.microsecond) == (0, 0)
        if not any("not exist" in remark for remark in remarks):
            assert next(CronSim(in_cronsim_syntax(text), shown - MINUTE)) == shown


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    st.one_of(
        st.text(max_size=40),
        st.lists(st.text("0123456789*/-,#LWlw?@jJanNMO", min_size=1, max_size=5), min_size=5, max_size=5).map(" ".join),
    )
)
def test_any_text_is_a_rule_or_an_invalid_recurrence(text):
    try:
        rule = parse_cron(text, zone=ZoneInfo("Europe/Berlin"), anchor=datetime(2026, 9, 1, tzinfo=UTC))
    except RecurrenceInvalid:
        return
    assert rule.description
    assert all(rule.warnings)


@pytest.mark.parametrize("text", ["0 9 * * 1", "*/30 * * * *", "30 2 * * *", "0 0 29 2 *", "* 1 1 1 *"])
def test_every_zone_has_occurrences(text):
    for key in ("Asia/Kathmandu", "Pacific/Chatham", "Africa/Casablanca", "Antarctica/Troll", "Asia/Gaza"):
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        assert_equal_to_cronsim(text, ZoneInfo(key), moment, 40)
