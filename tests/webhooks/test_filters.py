from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from scheduled_actions.core.errors import BudgetExceeded, InvalidArgument
from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget
from scheduled_actions.webhooks.rules.filters import FILTER_STEPS, check, fits, required_paths

BODY = {
    "event": "task:updated",
    "team_id": "blue",
    "data": {
        "record": {"state": "done", "amount": 120, "tags": ["a", "b"], "is_open": True, "note": None},
        "changed": ["state"],
    },
}


def a_budget():
    return EvaluationBudget("the filter", steps=FILTER_STEPS)


@pytest.mark.parametrize(
    ("wanted", "is_wanted"),
    [
        (None, True),
        ({"event": "task:updated"}, True),
        ({"event": "task:created"}, False),
        ({"event": ["task:created", "task:updated"]}, True),
        ({"data.record.state": "done", "team_id": "blue"}, True),
        ({"data.record.state": "done", "team_id": "red"}, False),
        ({"data.record.amount": {"$gte": 100, "$lt": 200}}, True),
        ({"data.record.amount": {"$gt": 120}}, False),
        ({"data.record.amount": {"$lte": 120}}, True),
        ({"data.record.amount": {"$gt": "100"}}, False),
        ({"data.record.state": {"$gt": "a"}}, True),
        ({"data.record.is_open": 1}, False),
        ({"data.record.is_open": True}, True),
        ({"data.record.is_open": {"$gt": 0}}, False),
        ({"data.record.amount": 120.0}, True),
        ({"data.record.note": None}, True),
        ({"data.record.nothing": None}, False),
        ({"data.record.nothing": {"$exists": False}}, True),
        ({"data.record.note": {"$exists": True}}, True),
        ({"data.record.nothing": {"$ne": 5}}, True),
        ({"data.record.state": {"$in": ["open", "done"]}}, True),
        ({"data.record.state": {"$nin": ["open", "done"]}}, False),
        ({"data.changed": {"$contains": "state"}}, True),
        ({"data.changed": {"$contains": "title"}}, False),
        ({"data.changed.0": "state"}, True),
        ({"data.changed.7": "state"}, False),
        ({"data.changed.99999999999999999999": "state"}, False),
        ({"data.record.state": {"$contains": "on"}}, True),
        ({"data.record.state": {"$starts_with": "do"}}, True),
        ({"data.record.state": {"$ends_with": "do"}}, False),
        ({"data.record.amount": {"$starts_with": "1"}}, False),
        ({"$or": [{"team_id": "red"}, {"data.record.amount": 120}]}, True),
        ({"$or": [{"team_id": "red"}, {"data.record.amount": 1}]}, False),
        ({"$and": [{"team_id": "blue"}, {"data.record.amount": 120}]}, True),
        ({"$not": {"team_id": "blue"}}, False),
        ({"event.deeper": "x"}, False),
    ],
)
def test_a_filter_accepts_only_matching_bodies(wanted, is_wanted):
    assert fits(BODY, check(wanted), a_budget()) is is_wanted


def nested(depth):
    return {"a": 1} if depth == 0 else {"$not": nested(depth - 1)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("data.x = 1", "filter must be a JSON object"),
        ([], "must be a JSON object"),
        ({"$where": "1"}, "filter: '$where' is not a path such as data.record.state"),
        ({"": 1}, "is not a path"),
        ({5: 1}, "is not a path"),
        ({"a": {"$regex": ".*"}}, "filter.a: '$regex' is not one of $eq, $ne"),
        ({"a": {"b": 1}}, "write nested paths with dots"),
        ({"a": {"$in": "x"}}, "filter.a.$in must be a list of at most 100 strings"),
        ({"a": {"$nin": [1, {}]}}, "filter.a.$nin[1] must be a string, a number"),
        ({"a": ["x", "y", ["x"]]}, "filter.a[2] must be a string, a number"),
        ({"a": {"$eq": {}}}, "filter.a.$eq must be a string, a number"),
        ({"a": {"$exists": 1}}, "must be true or false"),
        ({"a": {"$starts_with": 1}}, "must be a string"),
        ({"a": {"$nin": [1] * 101}}, "filter.a.$nin must be a list of at most 100"),
        ({"a": [1] * 101}, "filter.a must be a list of at most 100"),
        ({"$or": []}, "filter.$or must be a list of 1 to 20 filters"),
        ({"$or": [{}, 1]}, "filter.$or[1] must be a filter"),
        ({"$and": [{"a": 1}, {"b": {"$eq": []}}]}, "filter.$and[1].b.$eq must be a string"),
        ({"$or": [{}] * 21}, "must be a list of 1 to 20 filters"),
        ({"$not": []}, "must be a filter"),
        ({"a": float("nan")}, "filter must contain JSON values only"),
        ({"a": {1, 2}}, "filter must contain JSON values only"),
        ({"a": "x" * 5000}, "the limit is 4,096"),
        ({f"a{n}": 1 for n in range(51)}, "filter has 51 names; the limit is 50"),
        (nested(5), "is nested deeper than 5 levels"),
    ],
)
def test_an_invalid_filter_is_rejected_by_path(given, message):
    with pytest.raises(InvalidArgument) as caught:
        check(given)

    assert message in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_a_valid_filter_evaluates_any_body(given, body):
    try:
        wanted = check(given)
    except InvalidArgument:
        return

    assert fits(json.loads(json.dumps(body)), wanted, a_budget()) in {True, False}


def test_repeated_searches_of_a_long_list_exceed_the_step_limit():
    body = {"data": {"items": [1] * 100_000}}
    wanted = check({"$or": [{"data.items": {"$contains": 0}}] * 20})

    with pytest.raises(BudgetExceeded, match="the filter needs more than 20,000 steps"):
        fits(body, wanted, a_budget())


def test_a_typical_filter_takes_one_step_per_comparison():
    budget = EvaluationBudget("the filter")

    assert fits({"data": {"state": "done", "amount": 7}}, {"data.state": "done", "data.amount": {"$gte": 5}}, budget)
    assert budget.steps_left == STEPS - 2


def test_paths_that_an_absent_value_can_satisfy_are_not_required():
    wanted = {
        "data.id": 1,
        "data.cancelled": {"$ne": True},
        "$or": [{"data.kind": {"$nin": ["x"]}}, {"data.size": {"$gt": 3, "$ne": 9}}],
        "$not": {"data.test": True},
        "data.note": {"$exists": False},
    }

    assert list(required_paths(wanted)) == ["data.id", "data.size"]
