"""Deadlines that take many steps to plan: one request spends one budget on all of them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduled_actions.core.errors import BudgetExceeded
from scheduled_actions.core.evaluation_budget import STEPS
from tests.deadlines.deadline_project import deadline_project
from tests.factories import NOW, set_clock, steps_spent

ANN = ["ann@example.org"]
YEAR = timedelta(days=365)
#: Each offset takes about 3,600 steps.
COSTLY = [f"{2_500 + n} business days before" for n in range(20)]


@pytest.fixture
def deadlines(database_url, connection):
    set_clock(connection, NOW)
    with deadline_project(database_url) as project:
        yield project.deadlines


def set_one(deadlines, number=1, *, reminders, **more):
    given = {
        "target": {"type": "order", "id": str(number)},
        "reminders": reminders,
        "recipients": ANN,
        **more,
    }
    return deadlines.set(given)[0]


def test_a_move_over_its_budget_moves_no_deadline(deadlines, monkeypatch):
    made = [set_one(deadlines, n, due_at=NOW + 12 * YEAR, reminders=COSTLY) for n in range(4)]
    spent = steps_spent(monkeypatch)

    with pytest.raises(BudgetExceeded, match="the move needs more than 100,000 steps"):
        deadlines.move_many({one.id: NOW + 13 * YEAR for one in made})

    assert sum(spent) <= STEPS
    assert {deadlines.get(one.id).due_at for one in made} == {NOW + 12 * YEAR}


def test_the_budget_of_a_move_grows_with_the_number_of_deadlines(deadlines, monkeypatch):
    made = deadlines.set_many(
        [
            {
                "target": {"type": "order", "id": str(n)},
                "due_at": NOW + YEAR,
                "reminders": ["60 business days before"],
                "recipients": ANN,
            }
            for n in range(1_300)
        ]
    )
    spent = steps_spent(monkeypatch)

    assert deadlines.move_many(dict.fromkeys(made, NOW + 2 * YEAR)) == 1_300
    assert sum(spent) > STEPS


def test_changing_a_series_spends_one_budget_on_all_its_deadlines(deadlines, connection, monkeypatch):
    first = set_one(deadlines, recurrence="every 60 days", due_at=NOW + YEAR, reminders=["3 days before"])
    rows = "definition, timezone, stages, recurrence, series_id, anchor_at, target_type"
    connection.execute(
        f"insert into scheduled_action_deadlines (target_id, due_at, occurrence_at, {rows})"
        f" select 'x', due_at + n * interval '60 days', due_at + n * interval '60 days', {rows}"
        " from scheduled_action_deadlines, generate_series(1, 9) n"
    )
    spent = steps_spent(monkeypatch)

    with pytest.raises(BudgetExceeded, match="the change needs more than 100,000 steps"):
        deadlines.update(first.id, reminders=COSTLY[:4])

    assert sum(spent) <= 2 * STEPS
