"""Claims of actions in lock groups: one action per group at a time, the oldest first."""

from __future__ import annotations

import time
from collections import defaultdict
from datetime import timedelta
from itertools import pairwise
from uuid import uuid4

import psycopg
import pytest

from scheduled_actions.actions import claims, settling, store as actions
from scheduled_actions.core.action import Status
from tests.factories import (
    a_tick,
    an_outcome,
    database_now,
    holds,
    insert,
    insert_many,
    is_waiting,
    move_clock,
    row,
    statuses,
    together,
    wait_until,
)

SECOND = timedelta(seconds=1)


def claim(connection, *, wanted=10, after=claims.START, excluded=(), tick=None):
    tick = tick or a_tick(connection)
    with connection.transaction():
        return claims.claim_grouped(connection, tick, wanted=wanted, after=after, excluded=excluded)


def claimed_ids(connection, **options):
    return [action.id for action in claim(connection, **options)[0]]


def settle(connection, *outcomes, tick=None):
    return settling.settle(connection, tick or a_tick(connection), outcomes, running=None).statuses


def insert_members(connection, count, group="g", **columns):
    """Insert members of a group, each due one second after the previous member."""
    first = database_now(connection) - timedelta(minutes=5)
    return [insert(connection, lock_group=group, scheduled_at=first + n * SECOND, **columns) for n in range(count)]


def test_eight_claimers_run_each_group_one_action_at_a_time_and_oldest_first(database_url, connection):
    groups = {f"g{n}": insert_members(connection, 12, f"g{n}") for n in range(6)}
    settled = len(groups) * 12

    def drain(own, _):
        tick, runs = a_tick(own), []
        while True:
            claimed, _ = claim(own, wanted=3, tick=tick)
            for action in claimed:
                began = time.monotonic_ns()
                own.execute("select pg_sleep(0.002)")
                runs.append((action.lock_group, began, time.monotonic_ns(), action.id))
                settle(own, an_outcome(action), tick=tick)
            if not claimed and own.execute(
                "select count(*) = %s from scheduled_actions where status = 'completed'", [settled]
            ).fetchone() == (True,):
                return runs

    shares = together(database_url, 8, drain)

    by_group = defaultdict(list)
    for share in shares:
        for group, began, ended, action_id in share:
            by_group[group].append((began, ended, action_id))
    assert sum(1 for share in shares if share) > 1, "several claimers claimed actions"
    for group, inserted in groups.items():
        runs = sorted(by_group[group])
        assert [action_id for *_, action_id in runs] == inserted
        assert all(ended <= began for (_, ended, _), (began, *_) in pairwise(runs)), "two members ran concurrently"
    assert holds(connection) == {}


def test_one_member_of_each_group_is_claimed_and_holds_it(connection):
    first, _ = insert_members(connection, 2, "one")
    (other,) = insert_members(connection, 1, "two")

    claimed = claimed_ids(connection)

    assert claimed == [first, other]
    assert holds(connection) == {"one": first, "two": other}


def test_no_member_is_claimed_while_another_one_runs(connection):
    insert_members(connection, 3)
    claimed_ids(connection)

    assert claimed_ids(connection) == []


def test_groups_with_the_same_name_in_different_teams_are_independent(connection):
    inserted = [insert_members(connection, 1, team_id=team)[0] for team in (None, "a", "b")]

    assert claimed_ids(connection) == inserted


@pytest.mark.parametrize("limit", [1, 2])
def test_a_claim_of_limited_size_holds_only_the_groups_of_claimed_actions(connection, limit):
    inserted = [insert_members(connection, 1, f"g{n}")[0] for n in range(4)]

    claimed = claimed_ids(connection, wanted=limit)

    assert claimed == inserted[:limit]
    assert set(holds(connection).values()) == set(claimed)


def test_priority_comes_before_age_within_a_group(connection):
    old = insert_members(connection, 1)[0]
    urgent = insert(connection, lock_group="g", priority=-1)
    (claimed,), _ = claim(connection)
    assert claimed.id == urgent

    settle(connection, an_outcome(claimed))

    assert claimed_ids(connection) == [old]


def test_the_scan_continues_after_the_last_row_and_reaches_groups_behind_a_large_one(connection):
    """A scan window is four times the wanted number; the large group fills several windows."""
    large_group = insert_members(connection, 30, "large")
    other = insert(connection, lock_group="other", scheduled_at=database_now(connection) - SECOND)
    tick, position, scanned = a_tick(connection), claims.START, []

    for _ in range(10):
        claimed, position = claim(connection, wanted=2, after=position, tick=tick)
        scanned += [action.id for action in claimed]
        if position == claims.START:
            break

    assert scanned == [large_group[0], other]
    assert position == claims.START


def test_the_oldest_member_is_claimed_when_it_is_behind_the_scan_position(connection):
    """The oldest member became due after the scan had passed its position."""
    inserted = insert_members(connection, 3)
    (first,), position = claim(connection, wanted=1)
    settle(connection, an_outcome(first, status=Status.PENDING, delay=timedelta(0), charge=0))
    connection.execute("update scheduled_actions set scheduled_at = '-infinity' where id = %s", [inserted[0]])
    insert(connection, lock_group="g", scheduled_at=database_now(connection) - SECOND)

    claimed, _ = claim(connection, wanted=1, after=position)

    assert [action.id for action in claimed] == [inserted[0]]


def test_a_group_whose_oldest_member_is_locked_waits(database_url, connection):
    oldest, _ = insert_members(connection, 2)
    connection.execute("set lock_timeout = '1s'")

    with psycopg.connect(database_url) as editor:
        editor.execute("select from scheduled_actions where id = %s for update", [oldest])
        assert claimed_ids(connection) == [], "the second member is not started before the first"
        assert holds(connection) == {}, "no hold is left"

    assert claimed_ids(connection) == [oldest]


def test_eight_claimers_of_two_groups_claim_each_member_once(database_url, connection):
    first, second = insert_members(connection, 1, "a")[0], insert_members(connection, 1, "b")[0]
    groups = ["a", "b"]

    def take(own, _):
        tick = a_tick(own)
        return [action.id for _ in range(20) for action in claim(own, tick=tick)[0]]

    shares = together(database_url, 8, take)

    assert sorted(action_id for share in shares for action_id in share) == sorted([first, second])
    assert sorted(holds(connection)) == groups


@pytest.mark.parametrize(
    "settlement",
    [
        {"status": Status.COMPLETED},
        {"status": Status.FAILED, "error": "no"},
        {"status": Status.PENDING, "delay": timedelta(hours=1)},
        {"status": Status.NO_ACTION, "charge": 0},
        {"status": Status.PENDING, "charge": 0, "delay": timedelta(hours=1)},
    ],
)
def test_settling_frees_the_group_for_the_next_member(connection, settlement):
    _, second = insert_members(connection, 2)
    (claimed,), _ = claim(connection)

    settle(connection, an_outcome(claimed, **settlement))

    assert claimed_ids(connection) == [second]


def test_a_late_settlement_does_not_free_the_hold_of_another_action(connection):
    insert_members(connection, 2)
    (stale,), _ = claim(connection)
    connection.execute("delete from scheduled_action_holds")
    connection.execute("update scheduled_actions set status = 'pending', claim_token = null, lease_expires_at = null")
    (holder,), _ = claim(connection)

    settled = settle(connection, an_outcome(stale))

    assert settled == {}
    assert holds(connection) == {"g": holder.id}


def blocked(connection):
    """Let a blocking member wait a minute for its retry; return it and the next member of the group."""
    blocking, following = insert_members(connection, 2, lock_group_blocks=True)
    (claimed,), _ = claim(connection)
    assert claimed.id == blocking
    settle(connection, an_outcome(claimed, status=Status.PENDING, delay=timedelta(minutes=1), hold="keep"))
    return blocking, following


def test_no_member_is_claimed_while_a_blocking_member_waits_for_its_retry(connection):
    blocking, _ = blocked(connection)

    assert claimed_ids(connection) == []
    assert holds(connection) == {"g": blocking}


def test_a_blocking_member_is_retried_under_its_hold(connection):
    blocking, following = blocked(connection)
    move_clock(connection, timedelta(minutes=2))

    (retried,), _ = claim(connection)

    assert retried.id == blocking
    settle(connection, an_outcome(retried))
    assert claimed_ids(connection) == [following]


def test_a_kept_hold_is_claimed_by_only_one_of_eight_claimers(database_url, connection):
    blocking, _ = blocked(connection)
    move_clock(connection, timedelta(minutes=2))

    shares = together(database_url, 8, lambda own, _: claimed_ids(own))

    assert [action_id for share in shares for action_id in share] == [blocking]


def test_cancelling_a_waiting_blocking_member_frees_the_group(connection):
    blocking, following = blocked(connection)

    actions.one(
        connection,
        "cancel_action",
        id=blocking,
        by=None,
        reason=None,
        statuses=["pending", "no_action", "processing"],
        team_id=None,
        edit_lock_seconds=None,
    )

    assert claimed_ids(connection) == [following]


def test_a_kept_hold_of_an_excluded_type_is_not_claimed(connection):
    blocked(connection)
    move_clock(connection, timedelta(minutes=2))

    assert claimed_ids(connection, excluded={"test:run"}) == []


def test_a_timed_out_member_holds_its_group_until_its_handler_returns(connection):
    late, following = insert_members(connection, 2)
    tick = a_tick(connection)
    (claimed,), _ = claim(connection, tick=tick)
    settle(
        connection,
        an_outcome(claimed, status=Status.PENDING, delay=timedelta(hours=9), hold="linger"),
        tick=tick,
    )
    assert claimed_ids(connection) == []

    settling.end_linger(connection, late, uuid4())

    assert claimed_ids(connection) == [following]


def test_a_timed_out_member_holds_its_group_no_longer_than_its_lease(connection):
    _, following = insert_members(connection, 2)
    tick = a_tick(connection, lease_seconds=70)
    (claimed,), _ = claim(connection, tick=tick)
    settle(
        connection,
        an_outcome(claimed, status=Status.PENDING, delay=timedelta(hours=9), hold="linger"),
        tick=tick,
    )
    move_clock(connection, timedelta(seconds=60))
    settling.free_stale_holds(connection)
    assert claimed_ids(connection) == []

    move_clock(connection, timedelta(seconds=75))
    settling.free_stale_holds(connection)

    assert claimed_ids(connection) == [following]


@pytest.mark.parametrize("end", ["returns", "lease"])
def test_a_timed_out_blocking_member_holds_its_group_until_its_retry(connection, end):
    late, following = insert_members(connection, 2, lock_group_blocks=True)
    tick = a_tick(connection, lease_seconds=70)
    (claimed,), _ = claim(connection, tick=tick)
    settle(
        connection,
        an_outcome(claimed, status=Status.PENDING, delay=timedelta(minutes=3), hold="linger"),
        tick=tick,
    )

    if end == "returns":
        settling.end_linger(connection, late, uuid4())
    move_clock(connection, timedelta(minutes=2))
    settling.free_stale_holds(connection)
    assert claimed_ids(connection) == []
    move_clock(connection, timedelta(minutes=4))

    (retried,), _ = claim(connection)
    assert retried.id == late
    settle(connection, an_outcome(retried))
    assert claimed_ids(connection) == [following]


def test_a_hold_without_an_action_is_freed_after_a_minute(connection):
    first, second = insert_members(connection, 2)
    claimed_ids(connection)
    connection.execute("delete from scheduled_actions where id = %s", [first])
    settling.free_stale_holds(connection)
    assert claimed_ids(connection) == []

    move_clock(connection, timedelta(seconds=61))
    settling.free_stale_holds(connection)

    assert claimed_ids(connection) == [second]


def test_the_hold_of_a_running_action_is_never_stale(connection):
    insert_members(connection, 2)
    (claimed,), _ = claim(connection)

    move_clock(connection, timedelta(days=1))
    settling.free_stale_holds(connection)

    assert holds(connection) == {"g": claimed.id}


def test_an_open_transaction_that_frees_a_hold_does_not_block_claims(database_url, connection):
    """A long transaction cancels a waiting blocking member; ticks continue with the other groups."""
    blocking, _ = blocked(connection)
    other = insert(connection, lock_group="other")
    connection.execute("set statement_timeout = '2s'")

    with psycopg.connect(database_url) as caller:
        actions.one(
            caller,
            "cancel_action",
            id=blocking,
            by=None,
            reason=None,
            statuses=["pending", "no_action", "processing"],
            team_id=None,
            edit_lock_seconds=None,
        )
        assert claimed_ids(connection) == [other]


def test_a_claim_waits_for_an_uncommitted_hold_and_respects_it(database_url, connection):
    first, _ = insert_members(connection, 2)

    with psycopg.connect(database_url) as taking:
        taking.execute(
            "insert into scheduled_action_holds (team_id, lock_group, action_id) values ('', 'g', %s)", [first]
        )

        def claim_or_commit(own, number):
            if number == 0:
                return claimed_ids(own)
            wait_until(lambda: is_waiting(own))
            taking.commit()
            return []

        assert together(database_url, 2, claim_or_commit) == [[], []]
    assert holds(connection) == {"g": first}


def test_claims_with_and_without_lock_groups_are_separate(connection):
    free = insert(connection)
    grouped = insert(connection, lock_group="g")

    assert claimed_ids(connection) == [grouped]
    claimed, _ = claims.claim_free(connection, a_tick(connection), wanted=9, after=claims.START, excluded=())
    assert [action.id for action in claimed] == [free]


def test_a_grouped_claim_fences_the_row_and_closes_its_key(connection):
    due = insert_many(connection, 1, lock_group="g", dedup_key="k", dedup_open=True)[0]

    (claimed,), _ = claim(connection)

    found = row(connection, due)
    assert (found["claim_token"], found["dedup_open"]) == (str(claimed.token), False)
    assert statuses(connection) == {due: "processing"}
