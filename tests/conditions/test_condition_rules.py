"""What conditions mean: read with clear errors, judged by tables and laws."""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduled_actions.conditions.rules.evaluation import Progress, Ruling, rule
from scheduled_actions.conditions.rules.model import (
    ActionState,
    Checked,
    DeadlineState,
    Fact,
    FactKey,
    Known,
    Needs,
    Truth,
)
from scheduled_actions.conditions.rules.parsing import read_condition
from scheduled_actions.conditions.rules.plan import Plan, plan_of, stored_plan
from scheduled_actions.core.errors import InvalidArgument, TooLarge
from tests.factories import NOW

ORDER = {"type": "order", "id": "7"}
OTHER = UUID("0197a000-0000-7000-8000-000000000002")


def facts(**values):
    """Return what is known, each fact an hour old; `__` in a name stands for a colon."""
    return Known(
        now=NOW,
        created_at=NOW - timedelta(days=1),
        facts={
            FactKey("order", "7", name.replace("__", ":")): Fact(value, NOW - timedelta(hours=1))
            for name, value in values.items()
        },
        actions={OTHER: ActionState("failed")},
        deadlines={OTHER: DeadlineState("missed")},
    )


def field(op, value, **more):
    return {"kind": "field_value", "target": ORDER, "field": "amount", "op": op, "value": value, **more}


def approvals(**more):
    return {"kind": "approval_complete", "target": ORDER, **more}


MET, UNMET, BROKEN = Truth.MET, Truth.UNMET, Truth.BROKEN
JUDGED = [
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


@pytest.mark.parametrize(("condition", "known", "truth"), JUDGED)
def test_each_kind_holds_exactly_when_it_should(condition, known, truth):
    assert read_condition(condition).judge(facts(**known)).truth is truth


@pytest.mark.parametrize(("condition", "known", "truth"), JUDGED)
def test_what_is_not_met_says_where_and_why(condition, known, truth):
    reason = read_condition({"all": [condition]}).judge(facts(**known)).reason

    assert reason.startswith("condition.all.0: ") is (truth is not MET)


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
        st.lists(parts, min_size=1, max_size=3).map(lambda many: {"all": many}),
        st.lists(parts, min_size=1, max_size=3).map(lambda many: {"any": many}),
        parts.map(lambda one: {"not": one}),
    ),
    max_leaves=8,
)


def truth_of(condition):
    return read_condition(condition).judge(facts()).truth


@given(st.lists(truths, min_size=1, max_size=4))
def test_all_and_any_go_by_the_part_that_settles_them(parts):
    leaves = [LEAVES[one] for one in parts]

    order_of_all, order_of_any = (UNMET, Truth.OPEN, BROKEN, MET), (MET, Truth.OPEN, BROKEN, UNMET)
    assert truth_of({"all": leaves}) is next(one for one in order_of_all if one in parts)
    assert truth_of({"any": leaves}) is next(one for one in order_of_any if one in parts)


@given(st.lists(conditions, min_size=1, max_size=3))
def test_de_morgan_holds_whatever_is_open_or_broken(parts):
    assert truth_of({"not": {"all": parts}}) is truth_of({"any": [{"not": one} for one in parts]})


@given(conditions)
def test_denying_twice_changes_nothing_and_what_cannot_be_judged_never_becomes_true(condition):
    assert truth_of({"not": {"not": condition}}) is truth_of(condition)
    if truth_of(condition) is BROKEN:
        assert truth_of({"not": condition}) is BROKEN


@given(conditions)
def test_a_condition_is_kept_as_it_was_given_and_needs_the_same(condition):
    text = stored_plan({"wait": condition})
    needs, again = Needs(), Needs()
    read_condition(condition).add_needs(needs)
    plan_of(text).condition.add_needs(again)

    assert json.loads(text) == {"wait": condition}
    assert needs == again


def test_what_should_not_hold_is_named_with_all_that_it_asks():
    late = {"kind": "time_elapsed", "seconds": 0}

    reason = read_condition({"all": [{"not": late}]}).judge(facts()).reason

    assert reason == 'condition.all.0: what should not hold does: {"kind": "time_elapsed", "seconds": 0}'


# -- rulings -----------------------------------------------------------------------------------------------------------


def a_plan(truth, **changes):
    return Plan(condition=read_condition(LEAVES[truth]), **changes)


HOUR = timedelta(hours=1)
RULED = [
    (a_plan(MET), Progress(), Ruling.RUN),
    (a_plan(UNMET), Progress(), Ruling.SKIP),
    (a_plan(BROKEN), Progress(), Ruling.FAIL),
    (a_plan(Truth.OPEN), Progress(), Ruling.ASK),
    (a_plan(MET, waits=True, max_checks=1), Progress(), Ruling.RUN),
    (a_plan(UNMET, waits=True), Progress(NOW - HOUR, 99), Ruling.WAIT),
    (a_plan(BROKEN, waits=True), Progress(), Ruling.WAIT),
    (a_plan(UNMET, waits=True, timeout_seconds=3600), Progress(NOW - HOUR, 1), Ruling.EXPIRE),
    (a_plan(UNMET, waits=True, timeout_seconds=3601), Progress(NOW - HOUR, 1), Ruling.WAIT),
    (a_plan(UNMET, waits=True, timeout_seconds=1), Progress(), Ruling.WAIT),
    (a_plan(BROKEN, waits=True, timeout_seconds=1), Progress(NOW - HOUR, 1), Ruling.EXPIRE),
    (a_plan(UNMET, waits=True, max_checks=3), Progress(NOW, 1), Ruling.WAIT),
    (a_plan(UNMET, waits=True, max_checks=3), Progress(NOW, 2), Ruling.EXPIRE),
    (Plan(after=read_condition(LEAVES[MET])), Progress(), Ruling.RUN),
    (Plan(after=read_condition(LEAVES[UNMET])), Progress(NOW - HOUR, 9), Ruling.WAIT),
    (Plan(after=read_condition(LEAVES[BROKEN])), Progress(), Ruling.FAIL),
    (Plan(after=read_condition(LEAVES[UNMET]), condition=read_condition(LEAVES[UNMET])), Progress(), Ruling.WAIT),
    (Plan(after=read_condition(LEAVES[MET]), condition=read_condition(LEAVES[UNMET])), Progress(), Ruling.SKIP),
]


@pytest.mark.parametrize(("plan", "progress", "ruling"), RULED)
def test_what_becomes_of_an_action_follows_from_its_plan_and_its_wait(plan, progress, ruling):
    assert rule(plan, facts(), progress).ruling is ruling


def test_a_wait_is_looked_at_again_when_time_alone_may_change_it():
    in_ten_days = rule(a_plan(UNMET, waits=True), facts(), Progress())
    sooner = rule(a_plan(UNMET, waits=True, timeout_seconds=60), facts(), Progress(NOW, 1))

    assert in_ten_days.changes_at == NOW + timedelta(days=8)
    assert sooner.changes_at == NOW + timedelta(seconds=60)


def test_an_answer_of_the_world_settles_what_was_open():
    plan = a_plan(Truth.OPEN)
    (outside,) = plan.condition.outsides()

    for answer, ruling in ((True, Ruling.RUN), (False, Ruling.SKIP)):
        known = Known(now=NOW, created_at=NOW, answers={outside: Checked(answer, "no")})
        assert rule(plan, known, Progress()).ruling is ruling


# -- errors ------------------------------------------------------------------------------------------------------------

DEEP = LEAVES[MET]
for _ in range(10):
    DEEP = {"not": DEEP}
REFUSED = [
    (7, "condition: a number is not a condition"),
    ({"any": {}}, "condition.any: an object is not a list of conditions"),
    ({"all": [], "any": []}, 'condition.any: this is not there beside "all"'),
    (DEEP, "at most 10 levels deep"),
    ({"all": [LEAVES[MET]] * 100}, "of at most 100 parts"),
    (
        {"kind": "approval_complete", "target": ORDER, "approvers": ["a"], "required": 2},
        "required: 2 is not a whole number",
    ),
    ({"kind": "approval_complete", "target": ORDER, "approvers": ["*"]}, "a list of names without *"),
    (field("in", 7), "condition.value: 7 is not a list"),
    (field("gt", value=True), "condition.value: True is not a number or a text"),
    (field("eq", 1, pointer="a"), "condition.pointer: 'a' is not a JSON pointer"),
    (field("eq", 1, color="red"), "condition.color: 'red' is not there: kind \"field_value\" has no such field"),
    ({"kind": "time_elapsed", "duration": "P1M"}, "condition.duration: 'P1M' is not a number of seconds"),
    ({"kind": "time_elapsed", "seconds": -1}, "condition.seconds: -1 is not"),
    ({"kind": "time_elapsed", "seconds": 1, "since": "2026-01-01"}, "condition.since: '2026-01-01' is not"),
    ({"kind": "action_status", "action_id": str(OTHER), "status": "pending"}, "condition.status: 'pending' is not"),
    ({"wait": LEAVES[MET], "check_interval": 0.5}, "condition.check_interval: 0.5 is not"),
    ({"wait": LEAVES[MET], "max_checks": 0}, "condition.max_checks: 0 is not"),
    ({"wait": LEAVES[MET], "timeuot": 1}, "condition.timeuot: this is not there"),
    ({"wait": {"wait": LEAVES[MET]}}, "condition.wait: an object without a kind"),
]


@pytest.mark.parametrize(("condition", "message"), REFUSED)
def test_what_is_no_condition_is_refused_with_its_place(condition, message):
    with pytest.raises(InvalidArgument) as refused:
        stored_plan(condition)

    assert message in str(refused.value)


def test_a_condition_over_its_size_is_refused():
    with pytest.raises(TooLarge):
        stored_plan({"kind": "field_value", "target": ORDER, "field": "a", "value": "x" * 20_000})


WORDS = st.sampled_from(["kind", "all", "any", "not", "wait", "target", "field", "value", "seconds"]) | st.text()
LITERALS = st.none() | st.booleans() | st.integers() | st.text()


@given(st.recursive(LITERALS, lambda one: st.lists(one) | st.dictionaries(WORDS, one)))
def test_whatever_is_given_is_read_or_refused(anything):
    try:
        plan_of(stored_plan(anything))
    except (InvalidArgument, TooLarge):
        return
