"""Claims that leave out the dominant teams."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from scheduled_actions.actions import claims
from tests.factories import a_tick, database_now, holds, insert, insert_many, row, together

CLAIMS = [claims.claim_free_of_others, claims.claim_grouped_of_others]


def claim(connection, claim_of_others, *, wanted=10, after=claims.START, left_out=("a",), **options):
    with connection.transaction():
        return claim_of_others(
            connection, a_tick(connection), wanted=wanted, after=after, excluded=(), left_out=left_out, **options
        )


def fill(connection, claim_of_others, count, **columns):
    """Insert due actions, each in a separate lock group if the claim is for actions with a lock group."""
    if claim_of_others is claims.claim_free_of_others:
        return insert_many(connection, count, **columns)
    at = database_now(connection) - timedelta(minutes=1)
    name = columns.get("team_id") or "none"
    return [insert(connection, lock_group=f"{name}-{n}", scheduled_at=at, **columns) for n in range(count)]


def ids(claimed):
    return [one.id for one in claimed]


@pytest.mark.parametrize("claim_of_others", CLAIMS)
def test_due_actions_of_a_team_left_out_stay_pending(connection, claim_of_others):
    large = fill(connection, claim_of_others, 30, team_id="a")
    small = fill(connection, claim_of_others, 3, team_id="b") + fill(connection, claim_of_others, 2)

    claimed, position = claim(connection, claim_of_others)

    assert ids(claimed) == small
    assert not position.has_more
    assert {row(connection, one)["status"] for one in large} == {"pending"}
    assert set(holds(connection).values()) <= set(small)


@pytest.mark.parametrize("claim_of_others", CLAIMS)
def test_actions_without_a_team_can_be_left_out(connection, claim_of_others):
    fill(connection, claim_of_others, 30)
    small = fill(connection, claim_of_others, 3, team_id="b")

    claimed, _ = claim(connection, claim_of_others, left_out=[""])

    assert ids(claimed) == small


@pytest.mark.parametrize("claim_of_others", CLAIMS)
def test_a_scan_proceeds_window_by_window_and_finds_each_action_once(connection, claim_of_others):
    expected = []
    for _ in range(4):
        fill(connection, claim_of_others, 13, team_id="a") if claim_of_others is CLAIMS[0] else None
        expected += insert_many(connection, 3, team_id="b", lock_group=None) if claim_of_others is CLAIMS[0] else []
    if claim_of_others is CLAIMS[1]:
        fill(connection, claim_of_others, 30, team_id="a")
        expected = fill(connection, claim_of_others, 12, team_id="b")
    position, walked = claims.START._replace(has_more=True), []

    while position.has_more:
        claimed, position = claim(connection, claim_of_others, wanted=2, after=position, window=5)
        walked += ids(claimed)

    assert walked == expected


@pytest.mark.parametrize("claim_of_others", CLAIMS)
def test_eight_fair_share_and_ordinary_claimers_share_no_action(database_url, connection, claim_of_others):
    usual = claims.claim_free if claim_of_others is CLAIMS[0] else claims.claim_grouped
    small = fill(connection, claim_of_others, 40, team_id="b")
    large = fill(connection, claim_of_others, 40, team_id="a")

    def drain(own, number):
        tick, got = a_tick(own), []
        for _ in range(60):
            with own.transaction():
                if number % 2:
                    claimed, _ = usual(own, tick, wanted=3, after=claims.START, excluded=())
                else:
                    claimed, _ = claim_of_others(own, tick, wanted=3, after=claims.START, excluded=(), left_out=["a"])
            got += ids(claimed)
        return got

    shares = together(database_url, 8, drain)

    claimed = [one for share in shares for one in share]
    assert len(claimed) == len(set(claimed)), "no action was claimed twice"
    assert set(claimed) == set(small) | set(large)
    assert all(set(share) <= set(small) for share in shares[::2])


def test_an_action_locked_by_another_session_is_not_claimed(database_url, connection):
    insert_many(connection, 5, team_id="a")
    changing, other = insert_many(connection, 2, team_id="b")

    with psycopg.connect(database_url) as holder:
        holder.execute("update scheduled_actions set lock_group = 'g' where id = %s", [changing])
        claimed, _ = claim(connection, CLAIMS[0])

    assert ids(claimed) == [other]


def test_actions_of_a_held_lock_group_are_not_claimed(connection):
    insert_many(connection, 5, team_id="a", lock_group="large")
    first, _ = insert_many(connection, 2, team_id="b", lock_group="g")
    assert ids(claim(connection, CLAIMS[1])[0]) == [first]

    assert claim(connection, CLAIMS[1])[0] == []
