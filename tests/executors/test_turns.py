"""Teams take turns in the claims of a worker, however many actions each has and one claim takes."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from hypothesis import given, strategies as st

from scheduled_actions.executors.turns import Turns
from scheduled_actions.limits.rules.admission import QueuedAction


def an_action(number, team_id="", *, priority=0):
    return QueuedAction(UUID(int=number), (), priority=priority, scheduled_epoch=float(number), team_id=team_id)


def test_each_team_gets_its_actions_by_priority_and_then_by_time():
    actions = [an_action(1, "a"), an_action(2, "a", priority=-1), an_action(3, "b"), an_action(4, "b")]

    chosen = Turns().choose(reversed(actions), wanted=10)

    assert [one.id.int for one in chosen] == [2, 3, 1, 4]


def test_a_team_that_comes_back_has_saved_up_no_turns():
    turns = Turns()
    large = [an_action(number, "large") for number in range(1, 40)]
    for _ in range(10):
        (taken,) = turns.choose(large, wanted=1)
        large.remove(taken)
    back = [an_action(number, "back") for number in range(100, 110)]

    chosen = turns.choose([*large, *back], wanted=6)

    assert Counter(one.team_id for one in chosen) == {"large": 3, "back": 3}


def test_a_team_whose_action_could_not_run_has_the_next_turn():
    turns = Turns()
    actions = [an_action(number, team) for number, team in enumerate("abab")]
    [first] = turns.choose(actions, wanted=1)

    turns.give_back([first.team_id])

    assert turns.choose(actions, wanted=1) == [first]


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 30), min_size=1),
    st.lists(st.integers(1, 7), min_size=1, max_size=40),
)
def test_while_two_teams_have_actions_their_turns_differ_by_one_at_most(counts, wanted):
    left = {
        team: [an_action(100 * ord(team) + number, team) for number in range(count)] for team, count in counts.items()
    }
    turns, had = Turns(), Counter()

    for number in wanted:
        chosen = turns.choose([one for waiting in left.values() for one in waiting], wanted=number)
        assert len(chosen) == min(number, sum(map(len, left.values())))
        for one in chosen:
            left[one.team_id].remove(one)
            had[one.team_id] += 1
            busy = [had[team] for team, waiting in left.items() if waiting]
            assert not busy or max(busy) - min(busy) <= 1
