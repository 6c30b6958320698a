"""Claims of actions without a lock group."""

from __future__ import annotations

import random
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from scheduled_actions.actions import claims, settling
from scheduled_actions.ticks import store as tick_store
from tests.factories import a_tick, database_now, insert, insert_many, move_clock, row, statuses, together


def claim(connection, *, wanted=10, after=claims.START, excluded=(), tick=None):
    return claims.claim_free(connection, tick or a_tick(connection), wanted=wanted, after=after, excluded=excluded)


def ids(claimed):
    return [one.id for one in claimed]


def test_sixteen_claimers_claim_every_action_exactly_once(database_url, connection):
    due = insert_many(connection, 1200)

    def drain(own, number):
        tick, got = a_tick(own), []
        while claimed := claim(own, tick=tick, wanted=1 + number)[0]:
            got += ids(claimed)
        return got

    shares = together(database_url, 16, drain)

    claimed = [one for share in shares for one in share]
    assert len(claimed) == len(set(claimed)), "no row went to two"
    assert set(claimed) == set(due)
    assert sum(1 for share in shares if share) > 1, "they did race"


def test_a_claim_does_not_wait_for_locked_rows(database_url, connection):
    locked, other = insert_many(connection, 2)
    connection.execute("set lock_timeout = '1s'")

    with psycopg.connect(database_url) as holder:
        holder.execute("select from scheduled_actions where id = %s for update", [locked])
        first, _ = claim(connection)
    second, _ = claim(connection)

    assert ids(first) == [other]
    assert ids(second) == [locked]


def test_claims_are_ordered_by_priority_time_and_id(connection):
    now = database_now(connection)
    rows = [(priority, now - timedelta(minutes=minutes)) for priority in (-5, 0, 0, 3) for minutes in (1, 1, 2, 90)]
    random.Random(7).shuffle(rows)
    inserted = [(priority, at, insert(connection, priority=priority, scheduled_at=at)) for priority, at in rows]

    claimed, position = claim(connection, wanted=6)
    rest, _ = claim(connection, wanted=99, after=position)

    assert ids(claimed + rest) == [one for *_, one in sorted(inserted)]


def test_an_action_that_is_not_due_is_not_claimed_regardless_of_its_priority(connection):
    later = insert(connection, priority=-9, scheduled_at=database_now(connection) + timedelta(minutes=1))
    due = insert(connection)

    claimed, _ = claim(connection)

    assert ids(claimed) == [due]
    assert row(connection, later)["status"] == "pending"


def test_the_database_clock_decides_which_actions_are_due(connection):
    later = insert(connection, scheduled_at=database_now(connection) + timedelta(minutes=59))
    assert claim(connection)[0] == []

    move_clock(connection, timedelta(hours=1))

    assert ids(claim(connection)[0]) == [later]


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "skipped", "no_action"])
def test_only_pending_actions_are_claimed(connection, status):
    insert(connection, status=status)

    assert claim(connection) == ([], claims.START)


def test_a_scan_over_rows_of_the_same_instant_claims_each_once(connection):
    inserted = insert_many(connection, 95)
    tick, position, scanned = a_tick(connection), claims.START, []

    for _ in range(10):
        claimed, position = claim(connection, tick=tick, wanted=10, after=position)
        scanned += ids(claimed)
        # The claimed actions are due again immediately: only the position keeps the scan from claiming them again.
        connection.execute(
            "update scheduled_actions set status = 'pending', claim_token = null, lease_expires_at = null"
        )

    assert scanned == inserted
    assert claim(connection, tick=tick, wanted=10, after=position) == ([], claims.START)


def test_a_scan_continues_with_the_first_row_of_the_next_priority(connection):
    now = database_now(connection)
    urgent = insert_many(connection, 3, priority=-1, scheduled_at=now - timedelta(minutes=1))
    older = insert_many(connection, 3, priority=0, scheduled_at=now - timedelta(hours=1))

    first, position = claim(connection, wanted=2)
    second, _ = claim(connection, wanted=10, after=position)

    assert ids(first + second) == urgent + older


def test_an_action_inserted_before_the_scan_position_is_claimed_by_the_next_scan_from_the_start(connection):
    insert_many(connection, 4)
    _, position = claim(connection, wanted=2)
    urgent = insert(connection, priority=-1)

    continued, _ = claim(connection, wanted=10, after=position)
    restarted, _ = claim(connection, wanted=10)

    assert urgent not in ids(continued)
    assert ids(restarted) == [urgent]


def test_an_excluded_type_is_not_claimed(connection):
    insert(connection, action_type="too:long")
    other = insert(connection)

    assert ids(claim(connection, excluded={"too:long"})[0]) == [other]


def test_a_claim_fences_the_row_and_gives_it_a_lease(connection):
    due = insert(connection, dedup_key="k", dedup_open=True)
    tick = a_tick(connection, lease_seconds=70)

    (claimed,), _ = claim(connection, tick=tick)

    found = row(connection, due)
    assert found["status"] == "processing"
    assert found["claim_token"] == str(claimed.token)
    assert connection.execute("select lease_expires_at from scheduled_actions").fetchone() == (tick.lease_expires_at,)
    assert tick.lease_expires_at - tick.started_at == timedelta(seconds=70)
    assert found["dedup_open"] is False, "a later action with the same key is not merged"
    assert found["attempts"] == 0, "an attempt is charged when the handler starts"


def test_each_claim_has_its_own_token(connection):
    insert_many(connection, 4)

    (first, *_), position = claim(connection, wanted=2)
    (second, *_), _ = claim(connection, wanted=2, after=position)

    assert first.token != second.token


def test_a_claim_without_series_claims_nothing_if_the_batch_has_an_occurrence(connection):
    insert_many(connection, 3)
    of_series = insert(connection, schedule_id=uuid4(), occurrence_at=database_now(connection))
    tick = a_tick(connection)

    def claim_alone(wanted, after=claims.START):
        return claims.claim_free(connection, tick, wanted=wanted, after=after, excluded=(), with_series=False)

    assert claim_alone(4) == ([], claims.START)
    assert set(statuses(connection).values()) == {"pending"}
    claimed, position = claim_alone(3)
    assert len(claimed) == 3
    assert claim_alone(3, after=position) == ([], claims.START)
    assert ids(claim(connection, after=position)[0]) == [of_series]


def test_a_row_scheduled_at_minus_infinity_is_claimed(connection):
    ancient = insert(connection, scheduled_at="-infinity")
    other = insert(connection)

    first, position = claim(connection, wanted=1)
    second, _ = claim(connection, wanted=1, after=position)

    assert ids(first + second) == [ancient, other]


@pytest.mark.parametrize("payload", ['{"n": ' + "9" * 5001 + "}", '{"n": ' + "[" * 7000 + "]" * 7000 + "}"])
def test_an_unreadable_payload_does_not_affect_its_batch(connection, payload):
    unreadable = insert(connection, payload=payload)
    other = insert(connection)

    claimed, _ = claim(connection)

    assert ids(claimed) == [unreadable, other]


def test_future_rows_of_a_higher_priority_are_not_scanned(connection):
    """The scan of a priority ends at its first row that is not due, as the statistics of the indexes show."""
    connection.execute(
        "insert into scheduled_actions (action_type, priority, scheduled_at)"
        " select 'test:run', -1, now() + interval '1 day' from generate_series(1, 5000)"
    )
    due = insert(connection)
    connection.execute("analyze scheduled_actions")
    before = connection.execute(
        "select pg_stat_force_next_flush(), sum(idx_tup_read) from pg_stat_user_indexes"
        " where relname = 'scheduled_actions'"
    ).fetchone()

    claimed, _ = claim(connection)

    connection.execute("select pg_stat_force_next_flush()")
    after = connection.execute(
        "select sum(idx_tup_read) from pg_stat_user_indexes where relname = 'scheduled_actions'"
    ).fetchone()
    assert ids(claimed) == [due]
    assert after[0] - before[1] < 100


def test_the_count_of_due_actions_includes_lock_groups_and_all_priorities(connection):
    later = database_now(connection) + timedelta(minutes=1)
    for priority in (-1, 0, 7):
        insert(connection, priority=priority)
        insert(connection, priority=priority, lock_group="g")
        insert(connection, priority=priority, scheduled_at=later)
    insert(connection, status="completed")

    assert tick_store.count_due(connection) == 6


def test_the_count_of_due_actions_stops_at_ten_thousand(connection):
    connection.execute(
        "insert into scheduled_actions (action_type, scheduled_at)"
        " select 'test:run', now() - interval '1 day' from generate_series(1, 10100)"
    )

    assert tick_store.count_due(connection) == 10_000


def test_beginning_a_tick_twice_keeps_its_first_lease(connection):
    tick_id = uuid4()
    first = tick_store.begin_tick(connection, tick_id, lease_seconds=70, caller="", budget={})
    second = tick_store.begin_tick(connection, tick_id, lease_seconds=70, caller="", budget={})

    assert second == first
    assert statuses(connection) == {}


def test_the_commit_of_an_announcement_waits_for_the_disk_and_those_of_a_tick_and_a_claim_do_not(connection):
    insert(connection)

    def synchronous_commit(step):
        with connection.transaction():
            found = step()
            return connection.execute("show synchronous_commit").fetchone()[0], found

    begun, tick = synchronous_commit(lambda: a_tick(connection))
    claimed, ((action,), _) = synchronous_commit(lambda: claim(connection, tick=tick))
    announced, _ = synchronous_commit(lambda: settling.announce(connection, tick, running=[action.id]))
    completion = settling.Completion(action.id, action.token, started=0, ended=0, max_attempts=3)
    completed, _ = synchronous_commit(lambda: settling.complete(connection, tick, [completion], running=[]))

    assert (begun, claimed, announced, completed) == ("off", "off", "on", "on")
    assert connection.execute("show synchronous_commit").fetchone()[0] == "on"
