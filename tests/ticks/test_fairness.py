"""Turns between teams: who fills a batch, who comes next, and what looking for others may cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduled_actions.ticks.rules.fairness import Allowance, by_turns, crowd_of


@pytest.mark.parametrize(
    ("teams", "crowd"),
    [
        ([], set()),
        (["a"] * 100, {"a"}),
        (["a"] * 89 + ["b"] * 11, {"a", "b"}),
        (["a"] * 90 + ["b"] * 10, {"a"}),
        ([None] * 50 + ["b"] * 50, {"", "b"}),
        ([f"t{n}" for n in range(100)], set()),
    ],
)
def test_a_team_fills_a_batch_with_more_than_a_tenth_of_it(teams, crowd):
    assert crowd_of(teams, wanted=100) == crowd


def test_teams_take_turns_and_those_of_none_are_a_team():
    teams = ["a", "a", "a", "b", None, "b", "a"]

    assert [teams[n] for n in by_turns(teams)] == ["a", "b", None, "a", "b", "a", "a"]


@given(st.lists(st.sampled_from(["a", "b", "c", None])))
def test_turns_leave_nobody_out_and_each_team_in_its_order(teams):
    turns = by_turns(teams)

    assert sorted(turns) == list(range(len(teams)))
    for team in set(teams):
        own = [n for n in turns if teams[n] == team]
        assert own == sorted(own)


def test_the_first_look_may_begin_at_once_and_the_next_when_it_was_a_twentieth():
    allowance = Allowance(started=100.0, run_until=120.0)
    assert allowance.may_begin(100.0)

    allowance.spend(0.05, claimed=0, wanted=10)

    assert not allowance.may_begin(100.9)
    assert allowance.may_begin(101.0)


def test_looks_of_one_tick_take_a_twentieth_of_its_time_and_no_more():
    allowance = Allowance(started=100.0, run_until=120.0)

    allowance.spend(0.99, claimed=0, wanted=10)
    assert allowance.has_more()

    allowance.spend(0.02, claimed=0, wanted=10)
    assert not allowance.has_more()


def test_what_a_look_claims_had_to_be_claimed_anyhow():
    allowance = Allowance(started=100.0, run_until=120.0)

    allowance.spend(0.4, claimed=10, wanted=10)
    assert allowance.spent == 0

    allowance.spend(0.4, claimed=5, wanted=10)
    assert allowance.spent == pytest.approx(0.2)
