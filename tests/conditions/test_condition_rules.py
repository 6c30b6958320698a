"""Conditions: parsing errors, evaluation tables and laws of composition."""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from scheduled_actions.conditions.model import (
    BUDGETED,
    STEPS_MOST,
    ActionState,
    CheckResult,
    EvaluationInput,
    FactKey,
    FactValue,
    Needs,
    Truth,
)
from scheduled_actions.conditions.rules.parsing import parse_condition
from scheduled_actions.conditions.rules.plan import NextStep, WaitPlan, WaitProgress, decide, decode_plan, encode_plan
from scheduled_actions.core.errors import InvalidArgument, TooLarge
from scheduled_actions.core.evaluation_budget import EvaluationBudget
from tests.factories import NOW

ORDER = {"type": "order", "id": "7"}
OTHER = UUID("0197a000-0000-7000-8000-000000000002")


def facts(**values):
    """Return an evaluation input with facts that are an hour old; `__` in a name is replaced by a colon."""
    return EvaluationInput(
        now=NOW,
        created_at=NOW - timedelta(days=1),
        budget=EvaluationBudget(BUDGETED, steps=STEPS_MOST),
        facts={
            FactKey("order", "7", name.replace("__", ":")): FactValue(value, NOW - timedelta(hours=1))
            for name, value in values.items()
        },
        actions={OTHER: ActionState("failed")},
        deadlines={OTHER: "missed"},
    )


def field(op, value, **more):
    return {"kind": "field_value", "target": ORDER, "field": "amount", "op": op, "value": value, **more}


def approvals(**more):
    return {"kind": "approval_complete", "target": ORDER, **more}


MET, UNMET, BROKEN = Truth.MET, Truth.UNMET, Truth.BROKEN
EVALUATIONS = [
    ({"kind": "document_state", "target": ORDER, "state": "open"}, {"state": "open"}, MET),
    ({"kind": "document_state", "target": ORDER, "state": "open"}, {"state": "shut"}, UNMET),
    ({"kind": "document_state", "target": ORDER, "state": "open"}, {}, UNMET),
    ({"kind": "document_state", "target": ORDER, "states": ["a", "open"]}, {"state": "open"}, MET),
    (field("eq", 1), {"amount": 1.0}, MET),
    (field("eq", 1), {"amount": True}, UNMET),
    (field("eq", {"a": [1]}), {"amount": {"a": [1]}}, MET),
    (field("ne", 1), {"amount": 2}, MET),
    (field("ne", 1), {}, UNMET),
    (field("lt", 2), {"amount": 1}, MET),
    (field("lt", 2), {"amount": 2}, UNMET),
    (field("lte", 2), {"amount": 2}, MET),
    (field("gt", 2), {"amount": "3"}, UNMET),
    (field("gt", "2026-01"), {"amount": "2026-02"}, MET),
    (field("gte", 0), {"amount": True}, UNMET),
    (field("in", [1, 2]), {"amount": 2}, MET),
    (field("not_in", [1, 2]), {"amount": 3}, MET),
    (field("not_in", [1, 2]), {}, UNMET),
    (field("contains", "b"), {"amount": "abc"}, MET),
    (field("contains", 1), {"amount": [True, 2]}, UNMET),
    (field("exists", value=False), {}, MET),
    (field("exists", value=True), {"amount": None}, MET),
    (field("eq", 3, pointer="/lines/1/n"), {"amount": {"lines": [{}, {"n": 3}]}}, MET),
    (field("eq", 3, pointer="/a~1b"), {"amount": {"a/b": 3}}, MET),
    (field("eq", 3, pointer="/lines/01"), {"amount": {"lines": [1, 3]}}, UNMET),
    (approvals(), {"approval__ann": True}, MET),
    (approvals(required=2), {"approval__ann": True}, UNMET),
    (approvals(approvers=["ann", "bob"]), {"approval__ann": True, "approval__eve": True}, UNMET),
    (approvals(approvers=["ann", "bob"]), {"approval__ann": "approved", "approval__bob": {"approved": True}}, MET),
    (approvals(approvers=["ann", "bob"], required=1), {"approval__bob": True}, MET),
    (approvals(), {"approval__ann": "rejected", "approval__bob": {"approved": "yes"}}, UNMET),
    ({"kind": "user_action", "target": ORDER, "action": "signed"}, {"user_action__signed__ann": "2026"}, MET),
    ({"kind": "user_action", "target": ORDER, "action": "signed"}, {"user_action__signed": False}, UNMET),
    ({"kind": "user_action", "target": ORDER, "action": "sign"}, {"user_action__signed": True}, UNMET),
    (
        {"kind": "user_action", "target": ORDER, "action": "signed", "user": "bob"},
        {"user_action__signed__ann": 1},
        UNMET,
    ),
    ({"kind": "time_elapsed", "duration": "24h"}, {}, MET),
    ({"kind": "time_elapsed", "duration": "25h"}, {}, UNMET),
    ({"kind": "time_elapsed", "seconds": 3600, "since": {"target": ORDER, "field": "amount"}}, {"amount": 1}, MET),
    ({"kind": "time_elapsed", "seconds": 3601, "since": {"target": ORDER, "field": "amount"}}, {"amount": 1}, UNMET),
    ({"kind": "time_elapsed", "seconds": 0, "since": {"target": ORDER, "field": "amount"}}, {}, UNMET),
    ({"kind": "time_elapsed", "seconds": 0, "since": NOW.isoformat()}, {}, MET),
    ({"kind": "time_elapsed", "seconds": 1, "since": "9999-12-31T23:59:59.5+00:00"}, {}, UNMET),
    ({"kind": "action_status", "action_id": str(OTHER), "status": ["failed", "cancelled"]}, {}, MET),
    ({"kind": "action_status", "action_id": str(OTHER)}, {}, UNMET),
    ({"kind": "action_status", "action_id": "0197a000-0000-7000-8000-00000000dead"}, {}, BROKEN),
    ({"kind": "deadline_open", "deadline_id": str(OTHER)}, {}, UNMET),
    ({"kind": "deadline_open", "deadline_id": str(OTHER), "or_missed": True}, {}, MET),
]


@pytest.mark.parametrize(("condition", "known", "truth"), EVALUATIONS)
def test_each_condition_kind_evaluates_to_the_expected_truth(condition, known, truth):
    assert parse_condition(condition).evaluate(facts(**known)).truth is truth


@pytest.mark.parametrize(("condition", "known", "truth"), EVALUATIONS)
def test_an_unmet_condition_has_a_reason_with_its_path(condition, known, truth):
    reason = parse_condition({"all": [condition]}).evaluate(facts(**known)).reason

    assert reason.startswith("condition.all.0: ") is (truth is not MET)


@pytest.mark.parametrize(("count", "listed"), [(10, "a0, a1, a2, a3, a4, a5, a6, a7, a8, a9"), (12, "a9 and 2 more")])
def test_the_reason_names_ten_approvers_who_have_not_approved(count, listed):
    reason = parse_condition(approvals(approvers=[f"a{i}" for i in range(count)])).evaluate(facts()).reason

    assert f"0 of {count} approvals" in reason
    assert reason.endswith(listed)


# -- compositions ------------------------------------------------------------------------------------------------------

LEAVES = {
    MET: {"kind": "time_elapsed", "seconds": 0},
    UNMET: {"kind": "time_elapsed", "duration": "P9D"},
    BROKEN: {"kind": "action_status", "action_id": "0197a000-0000-7000-8000-00000000dead"},
    Truth.OPEN: {"kind": "custom", "name": "x"},
}
truths = st.sampled_from(list(LEAVES))
conditions = st.recursive(
    truths.map(LEAVES.get),
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(lambda items: {"all": items}),
        st.lists(parts, min_size=1, max_size=3).map(lambda items: {"any": items}),
        parts.map(lambda part: {"not": part}),
    ),
    max_leaves=8,
)


def truth_of(condition):
    return parse_condition(condition).evaluate(facts()).truth


@given(st.lists(truths, min_size=1, max_size=4))
def test_the_deciding_part_of_all_and_any_follows_their_order_of_precedence(parts):
    leaves = [LEAVES[part] for part in parts]

    order_of_all, order_of_any = (UNMET, Truth.OPEN, BROKEN, MET), (MET, Truth.OPEN, BROKEN, UNMET)
    assert truth_of({"all": leaves}) is next(truth for truth in order_of_all if truth in parts)
    assert truth_of({"any": leaves}) is next(truth for truth in order_of_any if truth in parts)


@given(st.lists(conditions, min_size=1, max_size=3))
def test_de_morgans_law_also_holds_for_open_and_broken_parts(parts):
    assert truth_of({"not": {"all": parts}}) is truth_of({"any": [{"not": part} for part in parts]})


@given(conditions)
def test_double_negation_changes_nothing_and_a_broken_condition_never_becomes_true(condition):
    assert truth_of({"not": {"not": condition}}) is truth_of(condition)
    if truth_of(condition) is BROKEN:
        assert truth_of({"not": condition}) is BROKEN


@given(conditions)
def test_a_stored_condition_round_trips_with_the_same_needs(condition):
    text = encode_plan({"wait": condition})
    needs, decoded_needs = Needs(), Needs()
    parse_condition(condition).add_needs(needs)
    decode_plan(text).condition.add_needs(decoded_needs)

    assert json.loads(text) == {"wait": condition}
    assert needs == decoded_needs


@given(conditions)
def test_no_condition_changes_because_of_time_before_its_stated_instant(condition):
    evaluation = parse_condition(condition).evaluate(facts())
    later = NOW + timedelta(days=9)

    if evaluation.changes_at is None or evaluation.changes_at > later:
        assert parse_condition(condition).evaluate(facts()._replace(now=later)).truth is evaluation.truth


def test_the_reason_of_not_contains_the_condition_that_holds():
    late = {"kind": "time_elapsed", "seconds": 0}

    reason = parse_condition({"all": [{"not": late}]}).evaluate(facts()).reason

    assert reason == 'condition.all.0: this condition holds but must not: {"kind": "time_elapsed", "seconds": 0}'


# -- decisions ---------------------------------------------------------------------------------------------------------


def plan_of(truth, **changes):
    return WaitPlan(condition=parse_condition(LEAVES[truth]), **changes)


HOUR = timedelta(hours=1)
DECISIONS = [
    (plan_of(MET), WaitProgress(), NextStep.RUN),
    (plan_of(UNMET), WaitProgress(), NextStep.SKIP),
    (plan_of(BROKEN), WaitProgress(), NextStep.FAIL),
    (plan_of(Truth.OPEN), WaitProgress(), NextStep.CHECK),
    (plan_of(MET, waits=True, max_checks=1), WaitProgress(), NextStep.RUN),
    (plan_of(UNMET, waits=True), WaitProgress(NOW - HOUR, 99), NextStep.WAIT),
    (plan_of(BROKEN, waits=True), WaitProgress(), NextStep.WAIT),
    (plan_of(UNMET, waits=True, timeout_seconds=3600), WaitProgress(NOW - HOUR, 1), NextStep.EXPIRE),
    (plan_of(UNMET, waits=True, timeout_seconds=3601), WaitProgress(NOW - HOUR, 1), NextStep.WAIT),
    (plan_of(UNMET, waits=True, timeout_seconds=1), WaitProgress(), NextStep.WAIT),
    (plan_of(BROKEN, waits=True, timeout_seconds=1), WaitProgress(NOW - HOUR, 1), NextStep.EXPIRE),
    (plan_of(UNMET, waits=True, max_checks=3), WaitProgress(NOW, 1), NextStep.WAIT),
    (plan_of(UNMET, waits=True, max_checks=3), WaitProgress(NOW, 2), NextStep.EXPIRE),
    (WaitPlan(after=parse_condition(LEAVES[MET])), WaitProgress(), NextStep.RUN),
    (WaitPlan(after=parse_condition(LEAVES[UNMET])), WaitProgress(NOW - HOUR, 9), NextStep.WAIT),
    (WaitPlan(after=parse_condition(LEAVES[BROKEN])), WaitProgress(), NextStep.FAIL),
    (
        WaitPlan(after=parse_condition(LEAVES[UNMET]), condition=parse_condition(LEAVES[UNMET])),
        WaitProgress(),
        NextStep.WAIT,
    ),
    (
        WaitPlan(after=parse_condition(LEAVES[MET]), condition=parse_condition(LEAVES[UNMET])),
        WaitProgress(),
        NextStep.SKIP,
    ),
]


@pytest.mark.parametrize(("plan", "progress", "next_step"), DECISIONS)
def test_the_next_step_follows_from_the_plan_and_the_progress(plan, progress, next_step):
    assert decide(plan, facts(), progress).next_step is next_step


def test_a_wait_is_checked_again_when_time_alone_may_change_it():
    in_ten_days = decide(plan_of(UNMET, waits=True), facts(), WaitProgress())
    sooner = decide(plan_of(UNMET, waits=True, timeout_seconds=60), facts(), WaitProgress(NOW, 1))

    assert in_ten_days.changes_at == NOW + timedelta(days=8)
    assert sooner.changes_at == NOW + timedelta(seconds=60)


def test_the_result_of_an_external_check_decides_an_open_condition():
    plan = plan_of(Truth.OPEN)
    (check,) = plan.needs().checks

    for result, next_step in ((True, NextStep.RUN), (False, NextStep.SKIP)):
        known = facts()._replace(results={check: CheckResult(result, "no")})
        assert decide(plan, known, WaitProgress()).next_step is next_step


# -- errors ------------------------------------------------------------------------------------------------------------

DEEP = LEAVES[MET]
for _ in range(10):
    DEEP = {"not": DEEP}
REJECTED = [
    (7, "condition is a number, not a condition"),
    ({"any": {}}, "condition.any is an object, not a list of one or more conditions"),
    ({"all": [], "any": []}, 'condition.any cannot be combined with "all"'),
    (DEEP, "is nested deeper than 10 levels"),
    ({"all": [LEAVES[MET]] * 100}, "exceeds the limit of 100 conditions in total"),
    (
        {"kind": "approval_complete", "target": ORDER, "approvers": ["a"], "required": 2},
        "required: 2 is not an integer from 1 to 1",
    ),
    ({"kind": "approval_complete", "target": ORDER, "approvers": ["*"]}, "a list of names without *"),
    (field("in", 7), "condition.value: 7 is not a list"),
    (field("gt", value=True), "condition.value: True is not a number or a string"),
    (field("eq", 1, pointer="a"), "condition.pointer: 'a' is not a JSON pointer"),
    (field("eq", 1, color="red"), 'condition.color is not a field of kind "field_value"'),
    (field("eq", 1, Pointer="/a"), 'condition.Pointer is not a field of kind "field_value"; did you mean "pointer"?'),
    (
        {"kind": "action_status", "actionId": str(OTHER)},
        'condition.actionId is not a field of kind "action_status"; did you mean "action_id"?',
    ),
    ({"kind": "document_state", "target": ORDER}, 'condition has neither "state" nor "states"'),
    (
        {"kind": "document_state", "target": ORDER, "stat": "x"},
        'condition.stat is not a field of kind "document_state"; did you mean "state"?',
    ),
    ({"kind": "document_state", "target": ORDER, "state": 7}, "condition.state: 7 is not a string of 1 to 255"),
    ({"kind": "document_state", "state": "x"}, 'condition.target is missing: it must be a target such as {"type": '),
    (
        {"kind": "document_state", "target": {"type": "o", "id": 1}, "state": "x"},
        'is not a target such as {"type": "invoice", "id": "42"}, with two strings of 1 to 255 characters',
    ),
    ({"kind": "time_elapsed"}, 'condition has neither "duration" nor "seconds"'),
    (
        {"kind": "time_elapsed", "seconds": 1, "since": {"target": ORDER, "fild": "x"}},
        'condition.since.fild is not a field of kind "time_elapsed"; did you mean "field"?',
    ),
    ({"kind": "time_elapsed", "duration": "P1M"}, "condition.duration ('P1M') must be a number of seconds"),
    ({"kind": "time_elapsed", "seconds": -1}, "condition.seconds (-1) must be"),
    ({"kind": "time_elapsed", "seconds": 1, "since": "2026-01-01T09:00"}, "condition.since: '2026-01-01T09:00' is not"),
    ({"kind": "action_status", "action_id": str(OTHER), "status": "pending"}, "condition.status: 'pending' is not"),
    ({"wait": LEAVES[MET], "check_interval": 0.5}, "condition.check_interval (0.5) must be"),
    ({"wait": LEAVES[MET], "max_checks": 0}, "condition.max_checks: 0 is not"),
    ({"wait": LEAVES[MET], "timeuot": 1}, 'timeuot is not a field of a wait; did you mean "timeout"?'),
    ({"wait": LEAVES[MET], "every": 1}, "condition.every is not a field of a wait; the fields are wait, "),
    (LEAVES[MET] | {"timeout": 1}, 'is not a field of a wait; a condition belongs inside "wait"'),
    ({"wait": {"wait": LEAVES[MET]}}, 'condition.wait has none of "kind", "all", "any" and "not"'),
]


@pytest.mark.parametrize(("condition", "message"), REJECTED)
def test_an_invalid_condition_is_rejected_with_its_path(condition, message):
    with pytest.raises(InvalidArgument) as refused:
        encode_plan(condition)

    assert message in str(refused.value)


def test_a_condition_over_its_size_limit_is_rejected():
    with pytest.raises(TooLarge):
        encode_plan({"kind": "field_value", "target": ORDER, "field": "a", "value": "x" * 20_000})


WORDS = st.sampled_from(["kind", "all", "any", "not", "wait", "target", "field", "value", "seconds"]) | st.text()
LITERALS = st.none() | st.booleans() | st.integers() | st.text()


@given(st.recursive(LITERALS, lambda items: st.lists(items) | st.dictionaries(WORDS, items)))
def test_any_json_is_parsed_or_rejected(anything):
    try:
        decode_plan(encode_plan(anything))
    except (InvalidArgument, TooLarge):
        return
