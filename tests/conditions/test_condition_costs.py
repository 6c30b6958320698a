"""Conditions that cost more than one action may: they fail their own action, and tick and process stay as they are."""

from __future__ import annotations

import json

import pytest

from scheduled_actions import action
from scheduled_actions.actions import claims, waits
from scheduled_actions.actions import evaluation as conditional
from scheduled_actions.actions.model import NewAction
from scheduled_actions.conditions.project_functions import condition
from scheduled_actions.core.evaluation_budget import BYTES
from tests.factories import a_tick, projects, row, statuses

INVOICE = {"type": "invoice", "id": "7"}
LARGE = [1] * 5_000


@pytest.fixture
def a_project(database_url):
    """Return a function that makes a project of a handler and the functions given."""

    @action("invoice:pay")
    def pay(payload: dict): ...

    with projects(database_url) as make:
        yield lambda *functions: make(pay, *functions)


@pytest.fixture
def project(a_project):
    return a_project()


@pytest.fixture
def looks(monkeypatch):
    """Return how many bytes of facts each look at the tables brought."""
    looking, found = waits.look, []

    def look(connection, waiters):
        seen = looking(connection, waiters)
        found.append(sum(fact.size for facts in seen.facts.values() for fact in facts.values()))
        return seen

    monkeypatch.setattr(waits, "look", look)
    return found


def contains(value, name="lines"):
    return {"kind": "field_value", "target": INVOICE, "field": name, "op": "contains", "value": value}


def schedule(project, wanted):
    new = NewAction(action_type="invoice:pay", payload={}, condition=wanted, dedup_window=0)
    return project.scheduler.schedule_action(new).id


def report_many(connection, pattern, count, *, value):
    """Store facts of the invoice, one for each number."""
    connection.execute(
        "insert into scheduled_action_facts (target_type, target_id, name, value)"
        " select 'invoice', '7', format(%s, n), %s from generate_series(1, %s) n",
        [pattern, json.dumps(value), count],
    )


def test_a_condition_over_its_budget_fails_its_own_action_with_the_reason(project, connection):
    project.facts.report(INVOICE, "lines", LARGE)
    hostile = schedule(project, {"any": [contains("x")] * 99})
    usual = schedule(project, {"any": [contains("x"), contains(1)]})

    project.processor.tick()

    assert statuses(connection) == {hostile: "failed", usual: "completed"}
    assert "the condition needs more than 2,000 steps to evaluate" in row(connection, hostile)["error_message"]


def test_a_condition_that_asks_fifty_functions_is_judged_again_after_each_answer(a_project, connection):
    asked = []

    @condition("yes")
    def yes(check):
        asked.append(check.parameters["n"])
        return True

    project = a_project(yes)
    project.facts.report(INVOICE, "lines", LARGE)
    functions = [{"kind": "custom", "name": "yes", "parameters": {"n": n}} for n in range(50)]
    made = schedule(project, {"all": [contains(1)] * 3 + functions})

    project.processor.tick()

    assert statuses(connection) == {made: "completed"}
    assert asked == list(range(50))


def test_pointers_into_a_large_document_cost_no_more_than_what_they_find(project, connection):
    project.facts.report(INVOICE, "document", {"lines": LARGE, "paid": True})
    paid = {"kind": "field_value", "target": INVOICE, "field": "document", "pointer": "/paid", "value": True}
    made = schedule(project, {"all": [paid] * 99})

    project.processor.tick()

    assert statuses(connection) == {made: "completed"}


def test_approvals_beyond_those_that_are_looked_at_are_not_counted_in_vain(project, connection):
    report_many(connection, "approval:%s", 1_000, value={"approved": False})
    made = schedule(project, {"kind": "approval_complete", "target": INVOICE})

    project.processor.tick()

    assert statuses(connection)[made] in {"failed", "pending"}
    assert 'more than 200 facts begin with "approval:"' in row(connection, made)["error_message"]


@pytest.mark.parametrize("value", [True, "approved", {"approved": True, "note": "x" * 10_000}], ids=type)
def test_any_of_many_approvals_are_enough(project, connection, value):
    report_many(connection, "approval:%s", 300, value=value)
    report_many(connection, "approval:not-%s", 300, value=False)
    made = schedule(project, {"kind": "approval_complete", "target": INVOICE, "required": 100})

    project.processor.tick()

    assert statuses(connection) == {made: "completed"}


def test_one_of_a_thousand_users_is_enough(project, connection):
    report_many(connection, "user_action:seen:%s", 1_000, value=False)
    report_many(connection, "user_action:seen:x%s", 1, value={"at": "noon"})
    made = schedule(project, {"kind": "user_action", "target": INVOICE, "action": "seen"})

    project.processor.tick()

    assert statuses(connection) == {made: "completed"}


def test_a_fact_that_is_wanted_by_its_name_is_whole_where_others_want_all_that_begin_so(project, connection):
    project.facts.report(INVOICE, "approval:ann", {"approved": True, "limit": 5})
    limit = {"kind": "field_value", "target": INVOICE, "field": "approval:ann", "pointer": "/limit", "value": 5}
    made = schedule(project, {"all": [limit, {"kind": "approval_complete", "target": INVOICE}]})

    project.processor.tick()

    assert statuses(connection) == {made: "completed"}


def test_a_tick_holds_the_facts_of_few_actions_at_once(project, connection, looks):
    report_many(connection, "lines-%s", 600, value=LARGE)
    for start in range(0, 600, 50):
        schedule(project, {"all": [contains(1, f"lines-{n}") for n in range(start + 1, start + 51)]})
    claimed, _ = claims.claim_free(connection, a_tick(connection), wanted=100, after=claims.START, excluded=())

    assert len(claimed) == 12
    conditional.judge(claimed, lambda step: step(connection))

    assert sum(looks) > BYTES
    assert max(looks) <= BYTES
