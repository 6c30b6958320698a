"""Fairness between teams: dominant teams, the order of turns, and the time limit of scans for other teams."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from scheduled_actions.ticks.rules.plan import ScanBudget, dominant_teams, round_robin


@pytest.mark.parametrize(
    ("teams", "dominant"),
    [
        ([], set()),
        (["a"] * 100, {"a"}),
        (["a"] * 89 + ["b"] * 11, {"a", "b"}),
        (["a"] * 90 + ["b"] * 10, {"a"}),
        ([None] * 50 + ["b"] * 50, {"", "b"}),
        ([f"t{n}" for n in range(100)], set()),
    ],
)
def test_a_team_fills_a_batch_with_more_than_a_tenth_of_it(teams, dominant):
    assert dominant_teams(teams, wanted=100) == dominant


def test_teams_alternate_and_actions_without_a_team_count_as_one_team():
    teams = ["a", "a", "a", "b", None, "b", "a"]

    assert [teams[n] for n in round_robin(teams)] == ["a", "b", None, "a", "b", "a", "a"]


@given(st.lists(st.sampled_from(["a", "b", "c", None])))
def test_round_robin_keeps_every_action_and_the_order_of_each_team(teams):
    turns = round_robin(teams)

    assert sorted(turns) == list(range(len(teams)))
    for team in set(teams):
        own = [n for n in turns if teams[n] == team]
        assert own == sorted(own)


def test_the_next_scan_waits_until_scans_took_a_twentieth_of_the_time():
    allowance = ScanBudget(started=100.0, run_until=120.0)
    assert allowance.may_begin(100.0)

    allowance.spend(0.05, claimed=0, wanted=10)

    assert not allowance.may_begin(100.9)
    assert allowance.may_begin(101.0)


def test_scans_take_at_most_a_twentieth_of_a_tick():
    allowance = ScanBudget(started=100.0, run_until=120.0)

    allowance.spend(0.99, claimed=0, wanted=10)
    assert allowance.has_more()

    allowance.spend(0.02, claimed=0, wanted=10)
    assert not allowance.has_more()


def test_claimed_actions_reduce_the_cost_of_a_scan():
    allowance = ScanBudget(started=100.0, run_until=120.0)

    allowance.spend(0.4, claimed=10, wanted=10)
    assert allowance.spent == 0

    allowance.spend(0.4, claimed=5, wanted=10)
    assert allowance.spent == pytest.approx(0.2)
