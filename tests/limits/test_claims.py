"""Claims from the queues of limit keys: slots and rates are never exceeded, by priority, and nothing gets stuck."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from scheduled_actions.actions import claims, settling
from scheduled_actions.core import config
from scheduled_actions.core.action import Status
from scheduled_actions.limits import claims as limit_claims, store
from scheduled_actions.limits.rules.admission import KeyId
from tests.factories import PATIENCE, a_tick, an_outcome, is_waiting, move_clock, together, wait_until

THREE = {"api:*": {"at_once": 3}}


def limits(connection, table):
    store.write_rules(connection, config.settings_of({"limits": table}).limits)


def schedule(connection, *limit, count=1, **columns):
    """Schedule due actions with limit keys through the SQL function; return their ids."""
    arguments = {"limits": list(limit), **columns}
    named = ", ".join(f"{name} => %({name})s" for name in arguments)
    statement = f"select id from schedule_action('test:run', {named})"
    return [connection.execute(statement, arguments).fetchone()[0] for _ in range(count)]


def claim(connection, *, wanted=100, tick=None, excluded=()):
    candidates = find(connection, wanted=wanted, excluded=excluded)
    return claim_of(connection, candidates, tick=tick)


def find(connection, *, wanted=100, excluded=()):
    return limit_claims.find_queued(connection, wanted=wanted, after=limit_claims.START, excluded=excluded).candidates


def claim_of(connection, candidates, *, tick=None):
    tick = tick or a_tick(connection)
    limit_claims.insert_keys(connection, {key for one in candidates for key in one.keys})
    with connection.transaction():
        return limit_claims.claim_queued(connection, tick, candidates)


def slots(connection):
    return Counter(row[0] for row in connection.execute("select limit_key from scheduled_action_limit_slots"))


def settle(connection, *outcomes):
    return settling.settle(connection, a_tick(connection), outcomes, running=None).statuses


def test_as_many_actions_of_a_key_run_as_the_limit_allows_and_settling_frees_their_slots(connection):
    limits(connection, THREE)
    ids = schedule(connection, "api:acme", count=5)

    first = claim(connection)
    assert [one.id for one in first] == ids[:3]
    assert claim(connection) == []

    settle(connection, an_outcome(first[1]))
    assert [one.id for one in claim(connection)] == [ids[3]]
    assert slots(connection) == {"api:acme": 3}


def test_a_plain_completion_frees_the_slots_of_its_own_claim_only(connection):
    limits(connection, THREE)
    schedule(connection, "api:acme", "api:other", count=2)
    first, second = claim(connection)
    completions = [
        settling.Completion(first.id, first.token, 0, 1, max_attempts=3, has_slots=True),
        settling.Completion(second.id, uuid4(), 0, 1, max_attempts=3, has_slots=True),
    ]

    assert settling.complete(connection, a_tick(connection), completions, running=[]).lost == {second.id}
    assert slots(connection) == {"api:acme": 1, "api:other": 1}


@pytest.mark.parametrize("at_once", [1, 3])
def test_claimers_in_parallel_never_exceed_a_limit_and_lose_nothing(database_url, connection, at_once):
    limits(connection, {"k:*": {"at_once": at_once}})
    for key in range(5):
        schedule(connection, f"k:{key}", count=40)

    def drain(own, _):
        own.execute("set lock_timeout = 0")
        most, done, idle = Counter(), 0, 0
        while idle < 20:
            claimed = claim(own, wanted=4)
            idle = 0 if claimed else idle + 1
            for key, used in slots(own).items():
                most[key] = max(most[key], used)
            settle(own, *map(an_outcome, claimed))
            done += len(claimed)
        return done, most

    results = together(database_url, 8, drain)

    assert sum(done for done, _ in results) == 200
    assert max(max(most.values(), default=0) for _, most in results) == at_once
    assert slots(connection) == {}


#: Where a claim counts slots, it reads the clock; in the session of this name, that waits for an advisory lock.
SLOW_CLOCK = """
create or replace function scheduled_actions_now() returns timestamptz language plpgsql stable as $$
begin
  if current_setting('application_name') = 'slow' then
    perform pg_advisory_lock_shared(8);
    perform pg_advisory_unlock_shared(8);
  end if;
  return statement_timestamp();
end
$$
"""


def test_a_claim_that_is_slow_to_count_slots_does_not_exceed_a_limit(database_url, connection):
    limits(connection, {"k:*": {"at_once": 1}})
    ids = schedule(connection, "k:1", count=2)
    [first] = find(connection)
    second = first._replace(id=ids[1])
    tick = a_tick(connection)
    limit_claims.insert_keys(connection, first.keys)
    connection.execute(SLOW_CLOCK)
    connection.execute("select pg_advisory_lock(8)")

    def claim_slowly():
        with psycopg.connect(database_url, autocommit=True, application_name="slow") as own, own.transaction():
            return limit_claims.claim_queued(own, tick, [first])

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(claim_slowly)
        try:
            wait_until(lambda: is_waiting(connection))
            fast = claim_of(connection, [second], tick=tick)
        finally:
            connection.execute("select pg_advisory_unlock(8)")
        assert len(fast + slow.result(PATIENCE)) == 1


def test_an_action_with_several_keys_needs_room_in_each(connection):
    limits(connection, {"api:*": {"at_once": 3}, "customer:*": {"at_once": 1}})
    [first, second] = schedule(connection, "api:x", "customer:1", count=2)
    [third] = schedule(connection, "api:x", "customer:2")

    claimed = claim(connection)
    assert [one.id for one in claimed] == [first, third]
    settle(connection, an_outcome(claimed[0]))
    assert [one.id for one in claim(connection)] == [second]


def test_a_rate_allows_its_burst_and_then_one_action_per_interval(connection):
    limits(connection, {"api:*": {"rate": "60 per minute", "burst": 2}})
    schedule(connection, "api:acme", count=6)

    assert len(claim(connection)) == 2
    assert claim(connection) == []
    move_clock(connection, timedelta(seconds=1.5))
    assert len(claim(connection)) == 1
    move_clock(connection, timedelta(seconds=60))
    assert len(claim(connection)) == 2


def test_actions_of_a_key_are_claimed_by_priority_and_then_by_time(connection):
    limits(connection, {"api:*": {"at_once": 1}})
    [low] = schedule(connection, "api:acme", priority=5)
    [high] = schedule(connection, "api:acme", priority=-5)
    [normal] = schedule(connection, "api:acme")

    order = []
    while claimed := claim(connection):
        order += [one.id for one in claimed]
        settle(connection, *map(an_outcome, claimed))
    assert order == [high, normal, low]


def test_a_key_without_a_rule_is_not_claimed_until_there_is_one(connection):
    schedule(connection, "api:acme")
    assert claim(connection) == []
    limits(connection, {"api:*": {}})
    assert len(claim(connection)) == 1


def test_limits_apply_per_team_unless_they_apply_across_teams(connection):
    limits(connection, {"own:*": {"at_once": 1}, "all:*": {"at_once": 1, "across_teams": True}})
    for team in ("red", "blue"):
        schedule(connection, "own:x", team_id=team)
        schedule(connection, "all:x", team_id=team)

    claimed = claim(connection)
    assert Counter(one.limit_keys[0] for one in claimed) == {"own:x": 2, "all:x": 1}


def test_a_lower_limit_holds_from_the_next_claim_on(connection):
    limits(connection, THREE)
    schedule(connection, "api:acme", count=6)
    first = claim(connection)
    limits(connection, {"api:*": {"at_once": 2}})
    settle(connection, an_outcome(first[0]))
    assert claim(connection) == []
    settle(connection, an_outcome(first[1]))
    assert len(claim(connection)) == 1


def test_an_action_that_becomes_due_later_joins_the_queue_of_its_key(connection):
    limits(connection, {"api:*": {"at_once": 1}})
    connection.execute(
        "select schedule_action('test:run', limits => '{api:acme}', "
        "scheduled_at => scheduled_actions_now() + interval '1 hour')"
    )
    move_clock(connection, timedelta(hours=2))

    claimed, position = claims.claim_free(connection, a_tick(connection), wanted=10, after=claims.START, excluded=())
    assert (claimed, position == claims.START) == ([], False)
    assert len(claim(connection)) == 1


def test_a_limited_member_of_a_lock_group_needs_its_group_and_a_slot(connection):
    limits(connection, {"api:*": {"at_once": 3}})
    first, second = schedule(connection, "api:acme", lock_group="g", count=2)
    [other] = schedule(connection, "api:acme", lock_group="h")

    claimed = claim(connection)
    assert [one.id for one in claimed] == [first, other]
    assert claim(connection) == []
    assert settle(connection, an_outcome(claimed[0])) == {first: Status.COMPLETED}
    assert [one.id for one in claim(connection)] == [second]


def test_a_key_whose_claim_is_not_committed_yet_is_passed_over(database_url, connection):
    limits(connection, {"own:*": {"at_once": 1}, "shared": {"at_once": 1}})
    for number in (1, 2):
        schedule(connection, f"own:{number}", "shared")
    found = [
        limit_claims.find_queued(connection, wanted=1, after=after, excluded=()).candidates
        for after in (limit_claims.START, KeyId("", "own:1"))
    ]
    limit_claims.insert_keys(connection, {key for [one] in found for key in one.keys})
    tick = a_tick(connection)

    with psycopg.connect(database_url, autocommit=True) as other, other.transaction():
        [claimed] = limit_claims.claim_queued(other, tick, found[0])
        with connection.transaction():
            assert limit_claims.claim_queued(connection, tick, found[1]) == []
    with connection.transaction():
        assert limit_claims.claim_queued(connection, tick, found[1]) == []
    settle(connection, an_outcome(claimed))
    with connection.transaction():
        assert len(limit_claims.claim_queued(connection, tick, found[1])) == 1


def test_a_claim_counts_slots_that_were_taken_after_its_candidates_were_found(database_url, connection):
    limits(connection, {"own:*": {}, "shared": {"at_once": 2}})
    for number in range(8):
        schedule(connection, f"own:{number}", "shared", count=10)

    def drain(own, number):
        tick, most, done = a_tick(own), 0, 0
        until = time.monotonic() + 30
        while done < 10 and time.monotonic() < until:
            after = KeyId("", f"own:{number - 1}") if number else limit_claims.START
            queued = limit_claims.find_queued(own, wanted=2, after=after, excluded=(), most_queues=1)
            limit_claims.insert_keys(own, {key for one in queued.candidates for key in one.keys})
            with own.transaction():
                claimed = limit_claims.claim_queued(own, tick, queued.candidates)
            most = max(most, slots(own)["shared"])
            settle(own, *map(an_outcome, claimed))
            done += len(claimed)
        return done, most

    results = together(database_url, 8, drain)

    assert sum(done for done, _ in results) == 80
    assert max(most for _, most in results) == 2


def test_an_action_that_keeps_its_lock_group_for_a_retry_goes_before_members_that_were_due_earlier(connection):
    limits(connection, {"api:*": {"at_once": 3}})
    [first] = schedule(connection, "api:acme", lock_group="g", lock_group_blocks=True)
    [later] = schedule(connection, "api:acme", lock_group="g")
    [claimed] = claim(connection)
    settle(connection, an_outcome(claimed, status=Status.PENDING, delay=timedelta(seconds=5), hold="keep"))
    assert claim(connection) == []

    move_clock(connection, timedelta(seconds=10))
    claims.claim_grouped(connection, a_tick(connection), wanted=10, after=claims.START, excluded=())
    [claimed] = claim(connection)
    assert claimed.id == first
    settle(connection, an_outcome(claimed))
    assert [one.id for one in claim(connection)] == [later]


@pytest.mark.parametrize("delay", [None, timedelta(0)], ids=["not started", "retry without delay"])
def test_an_action_that_is_due_again_goes_before_less_urgent_actions_of_its_key(connection, delay):
    limits(connection, {"api:*": {"at_once": 1}})
    [first] = schedule(connection, "api:acme", priority=-1)
    schedule(connection, "api:acme")
    [claimed] = claim(connection)

    settle(connection, an_outcome(claimed, status=Status.PENDING, charge=0, delay=delay))

    assert [one.id for one in claim(connection)] == [first]


def test_an_action_that_has_lost_its_lock_group_since_it_was_found_is_not_claimed(connection):
    limits(connection, {"api:*": {"at_once": 3}})
    [kept] = schedule(connection, "api:acme", lock_group="g", lock_group_blocks=True)
    connection.execute(
        "insert into scheduled_action_holds (team_id, lock_group, action_id) values ('', 'g', %s)", [kept]
    )
    found = limit_claims.find_queued(connection, wanted=9, after=limit_claims.START, excluded=()).candidates
    limit_claims.insert_keys(connection, {key for one in found for key in one.keys})
    assert [(one.id, one.holds_group) for one in found] == [(kept, True)]

    connection.execute("delete from scheduled_action_holds")
    with connection.transaction():
        assert limit_claims.claim_queued(connection, a_tick(connection), found) == []
