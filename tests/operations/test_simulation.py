from datetime import UTC, datetime, timedelta

import pytest

from scheduled_actions.core.evaluation_budget import EvaluationBudget
from scheduled_actions.operations.simulation.rules import Capacity, Load, simulate
from scheduled_actions.recurrence.compiling import compile_recurrence
from scheduled_actions.recurrence.skips.model import Skips
from tests.factories import a_schedule

START = datetime(2026, 3, 2, tzinfo=UTC)
PLENTY = Capacity(concurrency=8, run_seconds=20)


def new_series(text, *, timezone="UTC", skip=None, **changes):
    rule = compile_recurrence(text, timezone=timezone, anchor=START, skips=None if skip is None else Skips.parse(skip))
    return a_schedule(recurrence=text, timezone=timezone, **changes), rule


def simulate_load(*series, waiting=(), start=START, hours=24.0, seconds=None, capacity=PLENTY, budget=None):
    end = start + timedelta(hours=hours)
    return simulate(
        series,
        waiting,
        start=start,
        end=end,
        seconds=seconds or {},
        capacity=capacity,
        budget=budget or EvaluationBudget("the simulation"),
    )


def test_each_occurrence_is_counted_in_its_hour():
    found = simulate_load(new_series("*/20 9-10 * * *", action_type="report:send"), new_series("30 9 * * *"))

    assert {hour.at.hour: dict(hour.runs) for hour in found.hours if hour.runs} == {
        9: {"report:send": 3, "test:run": 1},
        10: {"report:send": 3},
    }
    assert len(found.hours) == 24
    assert not found.is_capped


def test_an_occurrence_in_a_dst_gap_has_a_remark():
    start = datetime(2026, 3, 8, 5, tzinfo=UTC)

    found = simulate_load(new_series("30 2 * * *", timezone="America/New_York", name="nightly"), start=start)

    assert [hour.at for hour in found.hours if hour.runs] == [datetime(2026, 3, 8, 7, tzinfo=UTC)]
    assert [remark.series for remark in found.remarks] == ["nightly"]
    assert "03:00" in found.remarks[0].text


def test_a_skipped_occurrence_has_a_remark():
    found = simulate_load(new_series("0 9 * * *", skip={"dates": ["2026-03-03"]}), hours=72)

    assert found.runs == 2
    assert [remark.at for remark in found.remarks] == [datetime(2026, 3, 3, 9, tzinfo=UTC)]


@pytest.mark.parametrize(("overlap", "runs", "overlapping"), [("skip", 3, 3), ("queue", 6, 0), ("allow", 6, 0)])
def test_the_overlap_policy_skips_or_queues_overlapping_occurrences(overlap, runs, overlapping):
    series = new_series("every 10 minutes", overlap=overlap)

    found = simulate_load(series, hours=1, seconds={"test:run": 900})

    assert (found.runs, found.hours[0].overlapping) == (runs, overlapping)


def test_a_rolling_schedule_counts_from_the_end_of_the_previous_run():
    found = simulate_load(new_series("every 10 minutes", recurrence_type="rolling"), hours=1, seconds={"test:run": 600})

    assert found.runs == 3


def test_a_schedule_ends_with_its_last_execution():
    found = simulate_load(new_series("every 10 minutes", remaining=2))

    assert found.runs == 2


def test_load_over_the_capacity_of_a_minute_moves_to_the_next():
    waiting = [Load(START, "mail:send", 1200), Load(START + timedelta(minutes=1), "mail:send", 600)]

    found = simulate_load(waiting=waiting, hours=1, seconds={"mail:send": 0.1}, capacity=Capacity(2, 30))

    first = found.hours[0]
    assert first.runs == {"mail:send": 1800}
    assert first.seconds == pytest.approx(180)
    assert first.peak == pytest.approx(2.0)
    # Minute 0 has the load of two minutes and processes one; minute 1 adds the load of one more.
    assert first.behind_seconds == pytest.approx(60)


def test_load_outside_the_range_is_not_counted():
    waiting = [Load(START - timedelta(minutes=1), "test:run", 5), Load(START + timedelta(days=2), "test:run", 5)]

    assert simulate_load(waiting=waiting).runs == 0


def test_a_dense_series_is_simulated_up_to_its_budget():
    schedule, rule = new_series("every second", overlap="allow")
    budget = EvaluationBudget("the simulation", steps=3_000)

    found = simulate_load((schedule, rule.within(budget)), budget=budget)

    assert found.is_capped
    assert 500 < found.runs < 3_000


def test_a_series_that_uses_up_its_share_of_the_budget_leaves_the_rest_to_the_others():
    budget = EvaluationBudget("the simulation", steps=10_000)
    dense, daily = new_series("every second", overlap="allow"), new_series("0 9 * * *", action_type="test:daily")
    parts = [EvaluationBudget("the simulation", steps=3_000, within=budget) for _ in range(2)]

    found = simulate_load(
        *((schedule, rule.within(part)) for (schedule, rule), part in zip((dense, daily), parts, strict=True)),
        budget=budget,
    )

    assert found.is_capped
    assert sum(hour.runs["test:daily"] for hour in found.hours) == 1
