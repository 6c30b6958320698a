"""The budget of a recurrence: steps are counted, so that a rule gives the same result on every machine."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from scheduled_actions.core.errors import BudgetExceeded, NeverOccurs
from scheduled_actions.core.evaluation_budget import STEPS, EvaluationBudget
from scheduled_actions.recurrence.compiling import compile_recurrence, compile_stored, outline
from scheduled_actions.recurrence.custom import NO_FUNCTIONS, Functions
from scheduled_actions.recurrence.preview import preview
from scheduled_actions.recurrence.skips.model import Skips

ANCHOR = datetime(2026, 11, 21, 14, 7, 10, tzinfo=UTC)
#: Its occurrences are days apart, with about ten thousand candidates between them.
SPARSE = "RRULE:FREQ=SECONDLY;INTERVAL=10007;BYHOUR=0,3,6,9,12,15,18,21;BYMINUTE=0;BYSECOND=0"
QUARTERS = [
    {"from": f"{number // 4:02}:{number % 4 * 15:02}", "to": f"{(number + 1) // 4 % 24:02}:{(number + 1) % 4 * 15:02}"}
    for number in range(96)
]
WORKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat"]


def steps_of(text, *, answers=1, skips=None):
    """Return the number of steps for compiling a rule and finding some of its occurrences."""
    budget = EvaluationBudget("the recurrence", steps=10 * STEPS)
    recurrence = compile_recurrence(text, anchor=ANCHOR, skips=skips, budget=budget)
    moment = ANCHOR
    for _ in range(answers):
        moment = recurrence.next_after(moment).at
    return 10 * STEPS - budget.steps_left


@pytest.mark.parametrize(
    "text",
    [
        "daily",
        "every 10 minutes",
        "0 9 * * MON-FRI",
        "FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=9;BYMINUTE=0;BYSECOND=0",
        "FREQ=MINUTELY;INTERVAL=5",
    ],
)
def test_a_common_rule_costs_few_steps_per_result(text):
    assert steps_of(text, answers=100) < 100 * 20


def test_a_count_with_too_many_candidates_is_rejected_with_the_limit():
    with pytest.raises(BudgetExceeded, match=r"the recurrence needs more than 100,000 steps to evaluate"):
        compile_recurrence(f"{SPARSE};COUNT=10000", anchor=ANCHOR)


def test_a_preview_shows_the_occurrences_found_and_is_marked_as_truncated():
    found = preview(SPARSE, start=ANCHOR, count=1000)

    assert found["truncated"] is True
    assert 1 <= len(found["occurrences"]) < 20


def test_a_preview_that_reached_the_end_is_not_truncated():
    assert "truncated" not in preview("daily", start=ANCHOR, count=1000)


def test_windows_that_leave_no_time_open_are_detected_without_a_search():
    budget = EvaluationBudget("the recurrence")

    with pytest.raises(NeverOccurs, match="that is not skipped"):
        compile_recurrence(
            "daily", anchor=ANCHOR, skips=Skips.parse({"windows": QUARTERS, "adjustment": "following"}), budget=budget
        )

    assert budget.steps_left > STEPS - 100


def test_moving_out_of_windows_that_touch_takes_one_move():
    windows = [{**window, "days": WORKDAYS} for window in QUARTERS]

    assert steps_of("daily", skips=Skips.parse({"windows": windows[:95], "adjustment": "following"})) < STEPS // 10


def test_a_day_in_a_thousand_ranges_is_found_by_binary_search():
    first = date(2027, 1, 1)
    ranges = [
        {"from": f"{first + timedelta(days=3 * number)}", "to": f"{first + timedelta(days=3 * number + 1)}"}
        for number in range(1000)
    ]
    budget = EvaluationBudget("the recurrence")
    recurrence = compile_recurrence("daily", anchor=ANCHOR, skips=Skips.parse({"ranges": ranges}), budget=budget)

    assert len(recurrence.between(ANCHOR, ANCHOR + timedelta(days=3000), limit=1000)) == 1000
    assert budget.steps_left > STEPS * 4 // 5


def test_a_cached_result_costs_as_much_as_a_new_one():
    first, again = steps_of(SPARSE), steps_of(SPARSE)

    assert first == again > 1000


def test_a_rule_and_a_skip_of_the_project_are_called_at_most_a_few_thousand_times():
    calls = []
    functions = Functions(
        next={"hourly": lambda at: calls.append(at) or at + timedelta(hours=1)},
        skip={"always": lambda at: calls.append(at) or True},
    )

    with pytest.raises(BudgetExceeded, match="the recurrence needs more than 100,000 steps"):
        compile_recurrence(
            "custom:hourly", anchor=ANCHOR, skips=Skips.parse({"function": "always"}), functions=functions
        )

    assert 1_000 < len(calls) < 2_500


@pytest.mark.parametrize("compiled_before", [False, True])
def test_a_stored_rule_is_compiled_without_a_search_for_its_first_occurrence(compiled_before):
    rule = f"{SPARSE};BYMONTH={1 if compiled_before else 2}"
    if compiled_before:
        compile_recurrence(rule, anchor=ANCHOR)
    budget = EvaluationBudget("the recurrence", steps=100)

    stored = compile_stored(
        rule, timezone="UTC", anchor=ANCHOR, skips=None, until=None, functions=NO_FUNCTIONS, budget=budget
    )

    assert budget.steps_left > 0
    with pytest.raises(BudgetExceeded):
        stored.next_after(ANCHOR)


def test_a_stored_rule_without_occurrences_has_ended():
    stored = compile_stored(
        "daily", timezone="UTC", anchor=ANCHOR, skips=None, until=ANCHOR - timedelta(days=1), functions=NO_FUNCTIONS,
        budget=None,
    )  # fmt: skip

    assert stored.next_after(ANCHOR - timedelta(days=9)) is None


def test_all_calls_of_a_recurrence_spend_one_budget():
    budget = EvaluationBudget("the feed", steps=2_000)
    recurrence = compile_recurrence("every 5 minutes", anchor=ANCHOR, budget=budget)

    with pytest.raises(BudgetExceeded, match="the feed needs more than 2,000 steps"):
        recurrence.between(ANCHOR, ANCHOR + timedelta(days=365), limit=100_000)


def test_a_share_of_a_budget_spends_the_total():
    whole = EvaluationBudget("the calendar", steps=100)
    part = EvaluationBudget("the calendar", steps=60, within=whole)
    part.spend(60)

    with pytest.raises(BudgetExceeded, match="60 steps"):
        part.spend()
    with pytest.raises(BudgetExceeded, match="100 steps"):
        EvaluationBudget("the calendar", steps=60, within=whole).spend(41)


@pytest.mark.parametrize("rule", ["daily", "every 7 minutes", "0 9 * * 1", "RRULE:FREQ=DAILY;COUNT=3", "custom:never"])
def test_an_outline_describes_the_recurrence_and_calls_no_function(rule):
    calls = []

    def called(at):
        calls.append(at)
        return at + timedelta(days=1) if rule == "custom:never" else False

    functions = Functions(next={"never": called}, skip={"some": called})
    given = {
        "timezone": "Europe/Berlin",
        "anchor": ANCHOR,
        "skips": Skips.parse({"weekends": True, "function": "some"}) if rule != "custom:never" else None,
        "until": datetime(2027, 1, 1, tzinfo=UTC),
        "functions": functions,
        "budget": EvaluationBudget("the recurrence"),
    }

    outlined = outline(rule, **given)
    assert calls == []

    recurrence = compile_recurrence(rule, **given)
    assert (outlined.kind, outlined.description) == (recurrence.kind, recurrence.description)
    assert calls
