"""Schedules whose rules cost more than a page may spend: their pages open, and say what could not be evaluated."""

from __future__ import annotations

import pytest

from scheduled_actions.core.evaluation_budget import STEPS
from scheduled_actions.registry import Registry
from scheduled_actions.schedules.project_functions import skip_occurrence
from tests.factories import steps_spent
from tests.web.conftest import ADMIN_TOKEN, Api, run

#: Its end lies behind forty thousand candidates: it may be stored, and twenty of them are more than a page looks at.
COSTLY = "RRULE:FREQ=SECONDLY;INTERVAL=10007;BYHOUR=0,3,6,9,12,15,18,21;BYMINUTE=0;BYSECOND=0;COUNT=4"


@pytest.fixture
def calls():
    """Return the instants that the project's function was asked about."""
    return []


@pytest.fixture
def runtime(a_runtime, calls):
    """Give a project whose function skips everything."""

    @skip_occurrence("always")
    def always(at):
        calls.append(at)
        return True

    return a_runtime(registry=Registry.of(run, always))


@pytest.fixture
def store(client, connection):
    """Return a function that stores schedules, each with another start and with the given columns."""
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
    """Return the steps that are spent."""
    return steps_spent(monkeypatch)


def test_the_list_calls_no_function_of_the_project_to_put_rules_into_words(admin_person, store, calls):
    store(3, skip='{"function": "always", "adjustment": "following"}')

    page = admin_person.opens("/schedules")

    assert page.text.count("Every day at") == 3
    assert calls == []


def test_the_list_spends_one_budget_on_all_its_rules_and_names_those_beyond_it(admin_person, store, spent):
    store(30, recurrence=COSTLY, kind="rrule")
    spent.clear()

    page = admin_person.opens("/schedules")

    assert page.status_code == 200
    assert sum(spent) <= STEPS
    assert "not computed: " in page.text


def test_a_schedule_whose_rule_costs_too_much_is_shown_in_words_and_says_that_more_could_not_be_computed(
    admin_person, store, client, spent
):
    (schedule_id,) = store(1, skip='{"function": "always"}')
    spent.clear()

    shown = Api(client, ADMIN_TOKEN)("GET", f"/schedules/{schedule_id}").json

    assert sum(spent) <= STEPS
    assert shown["description"].startswith("Every day at")
    assert (len(shown["upcoming"]), shown["truncated"]) == (1, True)
    assert "Further runs could not be computed" in admin_person.opens(f"/schedules/{schedule_id}").text


def test_a_schedule_with_fewer_instants_than_asked_for_is_not_truncated(store, client, connection):
    (schedule_id,) = store(1, remaining=2)

    shown = Api(client, ADMIN_TOKEN)("GET", f"/schedules/{schedule_id}").json

    assert (len(shown["upcoming"]), shown["truncated"]) == (2, False)
