"""The evaluation budget of caller-supplied rules."""

from __future__ import annotations

import pytest

from scheduled_actions.core.errors import BudgetExceeded
from scheduled_actions.core.evaluation_budget import EvaluationBudget


def test_the_last_step_is_allowed_and_the_next_raises_an_error_with_the_limit():
    budget = EvaluationBudget("the recurrence", steps=3)
    budget.spend(3)
    assert not budget.is_spent
    with pytest.raises(BudgetExceeded, match="the recurrence needs more than 3 steps"):
        budget.spend()
    assert budget.is_spent


def test_bytes_and_steps_are_counted_separately():
    budget = EvaluationBudget("the feed", steps=1, size=10)
    budget.spend_bytes(10)
    budget.spend()
    with pytest.raises(BudgetExceeded, match="more than 10 bytes") as refused:
        budget.spend_bytes(1)
    assert (refused.value.what, refused.value.unit, refused.value.limit) == ("the feed", "bytes", 10)


def test_a_spent_budget_refuses_every_later_step():
    budget = EvaluationBudget("the recurrence", steps=1)
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            budget.spend(2)


def test_preparing_the_same_value_again_costs_no_steps():
    budget = EvaluationBudget("the recurrence", steps=10)
    for day in (1, 1, 1, 2, 2, 1):
        budget.spend_to_prepare(day, 2)
    assert budget.steps_left == 4
