"""Schedules whose rules exceed the budget of a page: their pages open, and show that instants are missing."""

from __future__ import annotations

import pytest

from scheduled_actions.core.evaluation_budget import STEPS
from scheduled_actions.registry import Registry
from scheduled_actions.schedules.project_functions import skip_occurrence
from tests.factories import steps_spent
from tests.web.conftest import ADMIN_TOKEN, Api, run

#: Its last occurrence comes after about 40,000 candidates: the rule can be stored, but evaluating twenty such rules
#: exceeds the budget of a page.
COSTLY = "RRULE:FREQ=SECONDLY;INTERVAL=10007;BYHOUR=0,3,6,9,12,15,18,21;BYMINUTE=0;BYSECOND=0;COUNT=4"


@pytest.fixture
def calls():
    """Return the list of the instants that were passed to the project function."""
    return []


@pytest.fixture
def runtime(a_runtime, calls):
    """Return a project with a function that skips every occurrence."""

    @skip_occurrence("always")
    def always(at):
        calls.append(at)
        return True

    return a_runtime(registry=Registry.of(run, always))


@pytest.fixture
def store(client, connection):
    """Return a function that stores schedules with different anchors and the given column values."""
    api = Api(client, ADMIN_TOKEN)

    def make(count, **columns):
        made = [
            api("POST", "/schedules", {"action_type": "test:run", "payload": {}, "recurrence": "daily"}).json["id"]
            for _ in range(count)
        ]
        for name, value in columns.items():
            connection.execute(
                f"update scheduled_action_schedules set {name} = %s, anchor_at = anchor_at + random() * interval '1 h'",
                [value],
            )
        return made

    return make


@pytest.fixture
def spent(monkeypatch):
    """Return the list of the evaluation steps used."""
    return steps_spent(monkeypatch)


def test_the_list_describes_rules_without_calling_project_functions(admin_person, store, calls):
    store(3, skip='{"function": "always", "adjustment": "following"}')

    page = admin_person.opens("/schedules")

    assert page.text.count("Every day at") == 3
    assert calls == []


def test_the_list_evaluates_all_rules_within_one_budget_and_marks_the_others(admin_person, store, spent):
    store(30, recurrence=COSTLY, kind="rrule")
    spent.clear()

    page = admin_person.opens("/schedules")

    assert page.status_code == 200
    assert sum(spent) <= STEPS
    assert "not computed: " in page.text


def test_a_schedule_with_a_costly_rule_shows_its_description_and_a_truncated_preview(
    admin_person, store, client, spent
):
    (schedule_id,) = store(1, skip='{"function": "always"}')
    spent.clear()

    shown = Api(client, ADMIN_TOKEN)("GET", f"/schedules/{schedule_id}").json

    assert sum(spent) <= STEPS
    assert shown["description"].startswith("Every day at")
    assert (len(shown["upcoming"]), shown["truncated"]) == (1, True)
    assert "Further runs could not be computed" in admin_person.opens(f"/schedules/{schedule_id}").text


def test_the_preview_of_a_schedule_with_few_remaining_runs_is_not_truncated(store, client, connection):
    (schedule_id,) = store(1, remaining=2)

    shown = Api(client, ADMIN_TOKEN)("GET", f"/schedules/{schedule_id}").json

    assert (len(shown["upcoming"]), shown["truncated"]) == (2, False)
