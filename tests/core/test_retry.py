from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.retry import LONGEST_WAIT_SECONDS, Delays, Exponential, Linear, parse, policy_of

seconds = st.floats(0, LONGEST_WAIT_SECONDS)
jitters = st.sampled_from(["none", "full", "equal"])
draws = st.floats(0, 1, exclude_max=True)
policies = st.one_of(
    st.builds(Exponential, seconds, seconds, jitters),
    st.builds(Linear, seconds, seconds, jitters),
    st.builds(Delays, st.lists(seconds, min_size=1, max_size=100).map(tuple), jitters),
)


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        (Exponential(60, 3600), [60, 120, 240, 480, 960, 1920, 3600, 3600]),
        (Exponential(0, 3600), [0, 0, 0]),
        (Exponential(100, 10), [10, 10, 10]),
        (Linear(60, 200), [60, 120, 180, 200, 200]),
        (Delays((0, 5, 300)), [0, 5, 300, 300, 300]),
    ],
)
def test_each_failure_waits_as_the_policy_says(policy, waits):
    found = [policy.delay(attempt, draw=0.5) for attempt in range(1, len(waits) + 1)]

    assert found == [timedelta(seconds=wait) for wait in waits]


@pytest.mark.parametrize(
    ("jitter", "draw", "wait"),
    [("none", 0.75, 100), ("full", 0.0, 0), ("full", 0.75, 75), ("equal", 0.0, 50), ("equal", 0.5, 75)],
)
@pytest.mark.parametrize("policy", [Exponential, Linear])
def test_jitter_spreads_the_wait_by_the_draw(policy, jitter, draw, wait):
    assert policy(100, 1000, jitter).delay(1, draw=draw) == timedelta(seconds=wait)


def test_jitter_spreads_a_list_of_delays_too():
    assert Delays((10, 20), "full").delay(2, draw=0.25) == timedelta(seconds=5)


@given(policies, st.integers(1, 1000), draws)
def test_no_policy_waits_longer_than_a_year_or_backwards(policy, attempt, draw):
    assert timedelta(0) <= policy.delay(attempt, draw=draw) <= timedelta(seconds=LONGEST_WAIT_SECONDS)


@given(policies)
def test_a_policy_reads_back_what_it_writes(policy):
    assert parse(policy.as_json()) == policy


def test_a_list_of_seconds_is_a_policy():
    assert parse([1, 2.5]) == Delays((1, 2.5))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("soon", "a policy, a list of seconds"),
        (7, "a policy, a list of seconds"),
        ({}, "retry.kind: None"),
        ({"kind": []}, "one of exponential, linear, delays"),
        ({"kind": "linear", 1: 2, "step": 1}, "'1' is not a field of linear"),
        ({"kind": "fibonacci"}, "one of exponential, linear, delays"),
        ({"kind": "linear", "step": 1}, "'step' is not a field of linear: base_seconds, cap_seconds, jitter"),
        ({"kind": "linear", "base_seconds": -1}, "between 0 and a year"),
        ({"kind": "linear", "base_seconds": "60"}, "between 0 and a year"),
        ({"kind": "linear", "base_seconds": True}, "between 0 and a year"),
        ({"kind": "exponential", "cap_seconds": float("inf")}, "between 0 and a year"),
        ({"kind": "exponential", "cap_seconds": 366 * 86400}, "between 0 and a year"),
        ({"kind": "exponential", "jitter": "some"}, "one of none, full, equal"),
        ({"kind": "delays"}, "a list of 1 to 100 delays"),
        ({"kind": "delays", "seconds": 5}, "a list of 1 to 100 delays"),
        ([], "a list of 1 to 100 delays"),
        ([1] * 101, "a list of 1 to 100 delays"),
        ([1, "2"], "between 0 and a year"),
        ([float("nan")], "between 0 and a year"),
        ([10**400], "between 0 and a year"),
    ],
)
def test_what_is_no_policy_is_refused_with_what_would_be_one(value, message):
    with pytest.raises(InvalidArgument, match=message.replace("(", r"\(")):
        parse(value)


@pytest.mark.parametrize(
    ("own", "of_handler", "chosen"),
    [
        ('{"kind": "delays", "seconds": [7]}', Linear(1), Delays((7,))),
        ("[7]", Linear(1), Delays((7,))),
        (None, Linear(1), Linear(1)),
        (None, None, Exponential(60, 3600)),
        # SQL may have put anything there: it must not keep the action from being settled.
        ('"soon"', Linear(1), Linear(1)),
        ('{"kind": ["linear"]}', None, Exponential(60, 3600)),
        ("[1e400]", None, Exponential(60, 3600)),
        (f"[{10**400}]", None, Exponential(60, 3600)),  # as Postgres writes 1e400
        ("[" * 7000 + "]" * 7000, Linear(1), Linear(1)),
    ],
)
def test_the_actions_own_policy_comes_before_its_handlers_and_the_projects(own, of_handler, chosen):
    assert policy_of(own, of_handler, Exponential(60, 3600)) == chosen
