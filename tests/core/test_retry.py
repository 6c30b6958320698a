from __future__ import annotations

import inspect
import json
from datetime import timedelta
from typing import get_args

import pytest
from hypothesis import given, strategies as st

from scheduled_actions.core import retry
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.retry import (
    KINDS,
    LONGEST_WAIT_SECONDS,
    Delays,
    Exponential,
    Jitter,
    Linear,
    RetryPolicy,
    effective_policy,
    parse,
    shown_policy,
)

seconds = st.floats(0, LONGEST_WAIT_SECONDS)
#: Strategies for the fields of policies, by annotation.
FIELDS = {
    float: seconds,
    tuple[float, ...]: st.lists(seconds, min_size=1, max_size=100).map(tuple),
    Jitter: st.sampled_from(get_args(Jitter)),
}
draws = st.floats(0, 1, exclude_max=True)


def policies_of(policy):
    """Return a strategy for policies of a class with values for all fields."""
    return st.builds(policy, **{name: FIELDS[one.type] for name, one in policy.__dataclass_fields__.items()})


def waiting(kind, wait, **others):
    """Return the JSON form of a policy whose first wait has that many seconds."""
    first = {"seconds": [wait]} if "seconds" in KINDS[kind].__dataclass_fields__ else {"base_seconds": wait}
    return {"kind": kind, **first, **others}


policies = st.one_of(*map(policies_of, KINDS.values()))


def test_each_policy_is_among_the_kinds():
    classes = {one for _, one in inspect.getmembers(retry, inspect.isclass) if one.__module__ == retry.__name__}

    assert {one for one in classes if hasattr(one, "delay")} - {RetryPolicy} == set(KINDS.values())


WAITS = [
    (Exponential(60, 3600), [60, 120, 240, 480, 960, 1920, 3600, 3600]),
    (Exponential(0, 3600), [0, 0, 0]),
    (Exponential(100, 10), [10, 10, 10]),
    (Linear(60, 200), [60, 120, 180, 200, 200]),
    (Delays((0, 5, 300)), [0, 5, 300, 300, 300]),
]


def test_the_table_of_waits_covers_each_policy():
    assert {type(policy) for policy, _ in WAITS} == set(KINDS.values()), "add the waits of each policy to WAITS"


@pytest.mark.parametrize(("policy", "waits"), WAITS)
def test_each_policy_returns_the_expected_waits(policy, waits):
    found = [policy.delay(attempt, draw=0.5) for attempt in range(1, len(waits) + 1)]

    assert found == [timedelta(seconds=wait) for wait in waits]


@pytest.mark.parametrize(
    ("jitter", "draw", "wait"),
    [("none", 0.75, 100), ("full", 0.0, 0), ("full", 0.75, 75), ("equal", 0.0, 50), ("equal", 0.5, 75)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_jitter_changes_the_wait_by_the_random_draw(kind, jitter, draw, wait):
    assert parse(waiting(kind, 100, jitter=jitter)).delay(1, draw=draw) == timedelta(seconds=wait)


def test_jitter_applies_to_each_delay_of_a_list():
    assert Delays((10, 20), "full").delay(2, draw=0.25) == timedelta(seconds=5)


@given(policies, st.integers(1, 1000), draws)
def test_no_wait_is_negative_or_longer_than_the_cap_or_a_year(policy, attempt, draw):
    longest = getattr(policy, "cap_seconds", LONGEST_WAIT_SECONDS)

    assert timedelta(0) <= policy.delay(attempt, draw=draw) <= timedelta(seconds=longest)


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_the_json_of_a_policy_has_its_kind_and_parses_to_an_equal_policy(kind, data):
    policy = data.draw(policies_of(KINDS[kind]))

    assert policy.as_json()["kind"] == kind
    assert parse(json.loads(json.dumps(policy.as_json()))) == policy


def test_a_list_of_seconds_is_a_policy():
    assert parse([1, 2.5]) == Delays((1, 2.5))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("soon", "a policy, a list of seconds"),
        (7, "a policy, a list of seconds"),
        ({}, "retry.kind: None"),
        ({"kind": []}, f"one of {', '.join(KINDS)}"),
        ({"kind": "linear", 1: 2, "step": 1}, "'1' is not a field of linear"),
        ({"kind": "no-such-kind"}, f"one of {', '.join(KINDS)}"),
        *((waiting(kind, 1, step=1), f"'step' is not a field of {kind} (") for kind in KINDS),
        *((waiting(kind, 1, jitter="some"), "one of none, full, equal") for kind in KINDS),
        *((waiting(kind, -1), "between 0 and a year") for kind in KINDS),
        ({"kind": "linear", "step": 1}, "'step' is not a field of linear (base_seconds, cap_seconds, jitter"),
        (
            {"kind": "linear", "baseSeconds": 60},
            "'baseSeconds' is not a field of linear; did you mean \"base_seconds\"?",
        ),
        ({"kind": "linear", "base_seconds": "60"}, "between 0 and a year"),
        ({"kind": "linear", "base_seconds": True}, "between 0 and a year"),
        ({"kind": "exponential", "cap_seconds": float("inf")}, "between 0 and a year"),
        ({"kind": "exponential", "cap_seconds": 366 * 86400}, "between 0 and a year"),
        ({"kind": "delays"}, "a list of 1 to 100 delays"),
        ({"kind": "delays", "seconds": 5}, "a list of 1 to 100 delays"),
        ([], "a list of 1 to 100 delays"),
        ([1] * 101, "a list of 1 to 100 delays"),
        ([1, "2"], "between 0 and a year"),
        ([float("nan")], "between 0 and a year"),
        ([10**400], "between 0 and a year"),
    ],
)
def test_the_error_for_an_invalid_policy_describes_valid_policies(value, message):
    with pytest.raises(InvalidArgument, match=message.replace("(", r"\(")):
        parse(value)


@pytest.mark.parametrize(
    ("own", "of_handler", "chosen"),
    [
        ('{"kind": "delays", "seconds": [7]}', Linear(1), Delays((7,))),
        ("[7]", Linear(1), Delays((7,))),
        (None, Linear(1), Linear(1)),
        (None, None, Exponential(60, 3600)),
        # SQL may have written anything; an invalid policy must not prevent the settlement of the action.
        ('"soon"', Linear(1), Linear(1)),
        ('{"kind": ["linear"]}', None, Exponential(60, 3600)),
        ("[1e400]", None, Exponential(60, 3600)),
        (f"[{10**400}]", None, Exponential(60, 3600)),  # the notation of Postgres for 1e400
        ("[" * 7000 + "]" * 7000, Linear(1), Linear(1)),
    ],
)
def test_the_policy_of_an_action_overrides_those_of_its_handler_and_the_project(own, of_handler, chosen):
    assert effective_policy(own, of_handler, Exponential(60, 3600)) == chosen


class OwnPolicy(Linear):
    def as_json(self):
        raise AssertionError("the code of a project's own class was called")


def test_a_projects_own_policy_is_shown_by_its_name_without_calling_its_code():
    assert shown_policy(OwnPolicy(1)) == {"kind": "custom", "name": "OwnPolicy"}
