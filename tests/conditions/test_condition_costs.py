"""Conditions over their cost limits fail their own action and do not affect the tick."""

from __future__ import annotations

import json

import pytest

from scheduled_actions import action
from scheduled_actions.actions import claims, evaluation, waits
from scheduled_actions.actions.model import NewAction
from scheduled_actions.conditions.project_functions import condition
from scheduled_actions.core.evaluation_budget import BYTES
from tests.factories import a_tick, projects, row, statuses

INVOICE = {"type": "invoice", "id": "7"}
LARGE = [1] * 5_000


@pytest.fixture
def create_project(database_url):
    """Return a function that creates a project of a handler and the given functions."""

    @action("invoice:pay")
    def pay(payload: dict): ...

    with projects(database_url) as create:
        yield lambda *functions: create(pay, *functions)


@pytest.fixture
def project(create_project):
    return create_project()


@pytest.fixture
def snapshot_sizes(monkeypatch):
    """Return a list with the bytes of facts that each snapshot read."""
    read_snapshot, sizes = waits.read_snapshot, []

    def measure(connection, waiters):
        snapshot = read_snapshot(connection, waiters)
        sizes.append(sum(fact.size for facts in snapshot.facts.values() for fact in facts.values()))
        return snapshot

    monkeypatch.setattr(waits, "read_snapshot", measure)
    return sizes


def contains(value, name="lines"):
    return {"kind": "field_value", "target": INVOICE, "field": name, "op": "contains", "value": value}


def schedule(project, wanted):
    new = NewAction(action_type="invoice:pay", payload={}, condition=wanted, dedup_window=0)
    return project.scheduler.schedule_action(new).id


def insert_facts(connection, pattern, count, *, value):
    """Insert one fact of the invoice per number from 1 to `count`."""
    connection.execute(
        "insert into scheduled_action_facts (target_type, target_id, name, value)"
        " select 'invoice', '7', format(%s, n), %s from generate_series(1, %s) n",
        [pattern, json.dumps(value), count],
    )


def test_a_condition_over_its_budget_fails_its_own_action_with_the_reason(project, connection):
    project.facts.report(INVOICE, "lines", LARGE)
    hostile = schedule(project, {"any": [contains("x")] * 99})
    valid = schedule(project, {"any": [contains("x"), contains(1)]})

    project.processor.tick()

    assert statuses(connection) == {hostile: "failed", valid: "completed"}
    assert "the condition needs more than 2,000 steps to evaluate" in row(connection, hostile)["error_message"]


def test_a_condition_with_fifty_functions_is_evaluated_after_each_result(create_project, connection):
    checked = []

    @condition("yes")
    def yes(check):
        checked.append(check.parameters["n"])
        return True

    project = create_project(yes)
    project.facts.report(INVOICE, "lines", LARGE)
    functions = [{"kind": "custom", "name": "yes", "parameters": {"n": n}} for n in range(50)]
    action_id = schedule(project, {"all": [contains(1)] * 3 + functions})

    project.processor.tick()

    assert statuses(connection) == {action_id: "completed"}
    assert checked == list(range(50))


def test_pointers_into_a_large_document_cost_only_the_values_they_find(project, connection):
    project.facts.report(INVOICE, "document", {"lines": LARGE, "paid": True})
    paid = {"kind": "field_value", "target": INVOICE, "field": "document", "pointer": "/paid", "value": True}
    action_id = schedule(project, {"all": [paid] * 99})

    project.processor.tick()

    assert statuses(connection) == {action_id: "completed"}


def test_approvals_over_the_read_limit_break_the_condition(project, connection):
    insert_facts(connection, "approval:%s", 1_000, value={"approved": False})
    action_id = schedule(project, {"kind": "approval_complete", "target": INVOICE})

    project.processor.tick()

    assert statuses(connection)[action_id] in {"failed", "pending"}
    assert 'more than 200 facts begin with "approval:"' in row(connection, action_id)["error_message"]


@pytest.mark.parametrize("value", [True, "approved", {"approved": True, "note": "x" * 10_000}], ids=type)
def test_the_required_number_of_many_approvals_meets_the_condition(project, connection, value):
    insert_facts(connection, "approval:%s", 300, value=value)
    insert_facts(connection, "approval:not-%s", 300, value=False)
    action_id = schedule(project, {"kind": "approval_complete", "target": INVOICE, "required": 100})

    project.processor.tick()

    assert statuses(connection) == {action_id: "completed"}


def test_the_user_action_of_one_of_a_thousand_users_meets_the_condition(project, connection):
    insert_facts(connection, "user_action:seen:%s", 1_000, value=False)
    insert_facts(connection, "user_action:seen:x%s", 1, value={"at": "noon"})
    action_id = schedule(project, {"kind": "user_action", "target": INVOICE, "action": "seen"})

    project.processor.tick()

    assert statuses(connection) == {action_id: "completed"}


def test_a_fact_needed_by_name_is_read_in_full_even_if_a_prefix_is_needed(project, connection):
    project.facts.report(INVOICE, "approval:ann", {"approved": True, "limit": 5})
    limit = {"kind": "field_value", "target": INVOICE, "field": "approval:ann", "pointer": "/limit", "value": 5}
    action_id = schedule(project, {"all": [limit, {"kind": "approval_complete", "target": INVOICE}]})

    project.processor.tick()

    assert statuses(connection) == {action_id: "completed"}


def test_a_tick_reads_facts_in_snapshots_of_limited_size(project, connection, snapshot_sizes):
    insert_facts(connection, "lines-%s", 600, value=LARGE)
    for start in range(0, 600, 50):
        schedule(project, {"all": [contains(1, f"lines-{n}") for n in range(start + 1, start + 51)]})
    claimed, _ = claims.claim_free(connection, a_tick(connection), wanted=100, after=claims.START, excluded=())

    assert len(claimed) == 12
    evaluation.evaluate(claimed, lambda step: step(connection))

    assert sum(snapshot_sizes) > BYTES
    assert max(snapshot_sizes) <= BYTES
