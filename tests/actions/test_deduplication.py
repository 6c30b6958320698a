"""Deduplication: one action per key, also under races, and without harm to the caller's transaction."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import psycopg
import pytest
from psycopg.types.json import Jsonb

from scheduled_actions.actions import claims, settling
from scheduled_actions.core.action import Status
from scheduled_actions.database import shared_settings
from tests.factories import (
    PATIENCE,
    a_tick,
    an_outcome,
    database_now,
    delay_deadlock_detection,
    is_waiting,
    move_clock,
    row,
    statuses,
    together,
    wait_until,
)

#: Bounds, in seconds, for the time that the function waits for a key held by an open transaction.
WAIT_SECONDS, LIMIT_SECONDS = 0.25, 3


def schedule(connection, payload=None, *, action_type="test:run", **arguments):
    """Call the SQL function with the key `k` unless another one is given; return (id, deduplicated)."""
    arguments = {"dedup_key": "k"} | arguments
    arguments = {name: Jsonb(one) if isinstance(one, dict) else one for name, one in arguments.items()}
    named = "".join(f", {name} => %({name})s" for name in arguments)
    return connection.execute(
        f"select id, deduplicated from schedule_action(%(action_type)s, %(payload)s{named})",
        {"action_type": action_type, "payload": Jsonb({"n": 1} if payload is None else payload), **arguments},
    ).fetchone()


def payloads(connection):
    return [one for (one,) in connection.execute("select payload from scheduled_actions order by id")]


def claim_and_settle(connection, tick):
    """Claim and settle due actions; return their ids and payloads as claimed."""
    claimed, _ = claims.claim_free(connection, tick, wanted=5, after=claims.START, excluded=())
    settling.settle(connection, tick, [an_outcome(one) for one in claimed], running=None)
    return [(one.id, one.payload_text) for one in claimed]


# -- concurrent writers of one key -------------------------------------------------------------------------------------


def test_sixteen_concurrent_writers_of_one_key_create_one_action_with_the_last_payload_of_a_writer(
    database_url, connection
):
    answers = together(
        database_url,
        16,
        lambda own, writer: [schedule(own, {"writer": writer, "n": n}, dedup_window=60) for n in range(15)],
    )

    found = {action_id for written in answers for action_id, _ in written}
    assert len(found) == 1
    assert sum(1 for written in answers for _, merged in written if not merged) == 1, (
        "exactly one call inserted the action"
    )
    (payload,) = payloads(connection)
    assert payload["n"] == 14, "the stored payload is the last one of its writer"


def test_sixteen_concurrent_writers_after_the_window_create_one_new_action(database_url, connection):
    for hours in range(1, 6):
        schedule(connection, dedup_window=60)
        move_clock(connection, timedelta(hours=hours))

        answers = together(database_url, 16, lambda own, _: schedule(own, dedup_window=60))

        assert len({action_id for action_id, _ in answers}) == 1
        assert sum(1 for _, merged in answers if not merged) == 1
        connection.execute("update scheduled_actions set dedup_open = false")
    assert len(statuses(connection)) == 10


def test_a_merge_that_loses_the_race_against_a_claim_becomes_a_new_action(database_url, connection):
    """With eight writers and two claimers, every acknowledged action is claimed exactly once."""
    writers, finished = 8, []

    def work(own, number):
        if number < writers:
            written = [schedule(own, {"writer": number, "n": n}, dedup_window=60) for n in range(40)]
            finished.append(number)
            return written
        tick, delivered = a_tick(own), []
        while True:
            is_last = len(finished) == writers
            got = claim_and_settle(own, tick)
            delivered += got
            if is_last and not got:
                return delivered

    shares = together(database_url, writers + 2, work)

    acknowledged = {action_id for written in shares[:writers] for action_id, _ in written}
    delivered = [one for share in shares[writers:] for one in share]
    assert len(acknowledged) > 1, "writers and claimers ran concurrently"
    assert sorted(action_id for action_id, _ in delivered) == sorted(acknowledged), (
        "each action was claimed exactly once"
    )
    final = dict(connection.execute("select id, payload::text from scheduled_actions").fetchall())
    assert dict(delivered) == final, "no payload was merged into a claimed action"


# -- modes and windows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "payload"),
    [("latest", {"n": 3}), ("first", {"n": 1}), ("append", [{"n": 1}, {"n": 2}, {"n": 3}])],
)
def test_the_mode_selects_the_payload_of_merged_actions(connection, mode, payload):
    first, *others = [schedule(connection, {"n": n}, dedup_mode=mode) for n in (1, 2, 3)]

    assert first[1] is False
    assert others == [(first[0], True)] * 2
    assert payloads(connection) == [payload]


def test_payloads_are_appended_to_an_action_scheduled_with_another_mode(connection):
    schedule(connection, {"n": 1})

    schedule(connection, {"n": 2}, dedup_mode="append")

    assert payloads(connection) == [[{"n": 1}, {"n": 2}]]


def test_appended_payloads_over_the_limit_start_a_new_list(connection):
    large = {"text": "x" * 200_000}
    schedule(connection, large, dedup_mode="append")

    _, merged = schedule(connection, large, dedup_mode="append")
    _, merged_again = schedule(connection, {"n": 3}, dedup_mode="append")

    assert (merged, merged_again) == (False, True)
    assert payloads(connection) == [[large], [large, {"n": 3}]]


@pytest.mark.parametrize(("seconds", "merged"), [(4.9, True), (5.1, False)])
def test_the_window_starts_with_the_creation_of_the_first_action(connection, seconds, merged):
    schedule(connection, dedup_window=5)
    move_clock(connection, timedelta(seconds=3))
    schedule(connection, dedup_window=5)
    move_clock(connection, timedelta(seconds=seconds))

    assert schedule(connection, dedup_window=5)[1] is merged


def test_after_the_window_both_the_old_and_the_new_action_run(connection):
    schedule(connection, {"n": 1}, dedup_window=5)
    move_clock(connection, timedelta(seconds=6))

    schedule(connection, {"n": 2}, dedup_window=5)

    assert payloads(connection) == [{"n": 1}, {"n": 2}]
    assert set(statuses(connection).values()) == {"pending"}


def test_a_window_of_zero_merges_nothing(connection):
    assert [schedule(connection, dedup_window=0)[1] for _ in range(2)] == [False, False]


def test_the_window_of_the_call_precedes_that_of_the_type_the_project_and_the_default(connection):
    assert default_window(connection, "test:run") == 5

    shared_settings.write(connection, "dedup_window", {"default": 30, "by_type": {"test:run": 9}})

    assert default_window(connection, "test:run") == 9
    assert default_window(connection, "test:other") == 30
    schedule(connection)
    move_clock(connection, timedelta(seconds=12))
    assert schedule(connection, dedup_window=15)[1] is True
    assert schedule(connection)[1] is False


def default_window(connection, action_type):
    return connection.execute("select scheduled_actions_dedup_window(%s)", [action_type]).fetchone()[0]


@pytest.mark.parametrize("status", ["processing", "completed", "failed", "cancelled", "skipped"])
def test_nothing_is_merged_into_an_action_that_is_no_longer_pending(connection, status):
    """The status is changed directly in SQL and the key left open: the merge also checks the status."""
    action_id, _ = schedule(connection)
    lease = "gen_random_uuid(), lease_expires_at = now()" if status == "processing" else "null"
    connection.execute(f"update scheduled_actions set status = %s, claim_token = {lease}", [status])

    assert schedule(connection, {"n": 2})[1] is False

    assert row(connection, action_id)["payload"] == {"n": 1}


def test_nothing_is_merged_into_an_action_that_returned_to_pending(connection):
    """The claim closes the key, because a new action with the key may be scheduled before the retry."""
    schedule(connection)
    tick = a_tick(connection)
    (claimed,), _ = claims.claim_free(connection, tick, wanted=1, after=claims.START, excluded=())
    retried = an_outcome(claimed, status=Status.PENDING, delay=timedelta(0))
    settling.settle(connection, tick, [retried], running=None)

    assert schedule(connection, {"n": 2})[1] is False

    assert payloads(connection) == [{"n": 1}, {"n": 2}]


# -- actions that are never merged -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"team_id": "a"}, {"team_id": "b"}),
        ({"team_id": "a"}, {}),
        ({"action_type": "test:run"}, {"action_type": "test:other"}),
        ({"payload": {"event": "task:created"}}, {"payload": {"event": "task:deleted"}}),
        ({"payload": {"event": "task:created"}}, {"payload": {}}),
        ({"dedup_key": "a"}, {"dedup_key": "b"}),
    ],
)
def test_nothing_is_merged_across_teams_types_events_or_keys(connection, one, other):
    schedule(connection, **one)

    assert schedule(connection, **other)[1] is False
    assert schedule(connection, **one)[1] is schedule(connection, **other)[1] is True


ENTITY = {"entity_type": "task", "entity_id": "1", "event": "task:created", "endpoint": "crm"}


def schedule_entity(connection, **changes):
    arguments = {name: changes.pop(name) for name in ("team_id", "action_type", "scheduled_at") if name in changes}
    return schedule(connection, ENTITY | {"data": changes.pop("data", 1)} | changes, dedup_key=None, **arguments)


def test_a_payload_with_an_entity_has_a_derived_key(connection):
    action_id, _ = schedule_entity(connection, data=1)

    assert schedule_entity(connection, data=2) == (action_id, True)
    assert payloads(connection) == [ENTITY | {"data": 2}]


@pytest.mark.parametrize(
    "other",
    [
        {"entity_type": "note"},
        {"entity_id": "2"},
        {"entity_id": 1},
        {"event": "task:deleted"},
        {"endpoint": "audit"},
        {"team_id": "a"},
        {"action_type": "test:other"},
    ],
)
def test_a_derived_key_differs_by_entity_event_endpoint_team_and_type(connection, other):
    schedule_entity(connection)

    assert schedule_entity(connection, **other)[1] is False


def test_the_same_event_at_another_time_is_not_merged(connection):
    now = database_now(connection)
    later, latest = now + timedelta(hours=1), now + timedelta(hours=2)
    schedule_entity(connection)
    schedule_entity(connection, scheduled_at=later)

    assert schedule_entity(connection, scheduled_at=latest)[1] is False
    assert schedule_entity(connection, scheduled_at=later)[1] is True
    assert schedule_entity(connection, scheduled_at=now - timedelta(days=1))[1] is True, "both are due now"


@pytest.mark.parametrize("entity_id", [None, "absent"])
def test_a_payload_without_an_entity_is_not_merged(connection, entity_id):
    payload = {"event": "task:created"} if entity_id == "absent" else {"event": "task:created", "entity_id": None}

    assert [schedule(connection, payload, dedup_key=None)[1] for _ in range(2)] == [False, False]


def test_entities_with_long_ids_are_distinguished(connection):
    """The names are longer than an index entry may be, so the key contains a digest."""
    name = "x" * 5000
    schedule_entity(connection, entity_id=name + "a")

    assert schedule_entity(connection, entity_id=name + "b")[1] is False
    assert schedule_entity(connection, entity_id=name + "a")[1] is True


# -- the caller's own transaction --------------------------------------------------------------------------------------


def test_an_action_of_a_rolled_back_transaction_does_not_exist(connection):
    with connection.transaction(force_rollback=True):
        schedule(connection)

    assert statuses(connection) == {}
    assert schedule(connection)[1] is False


def test_a_merge_in_a_rolled_back_transaction_has_no_effect(connection):
    schedule(connection, {"n": 1})

    with connection.transaction(force_rollback=True):
        assert schedule(connection, {"n": 2})[1] is True

    assert payloads(connection) == [{"n": 1}]


def test_a_call_waits_briefly_for_a_key_locked_by_an_open_transaction_and_then_inserts_a_new_action(
    database_url, connection
):
    connection.execute("set statement_timeout = '5s'")
    with psycopg.connect(database_url) as holder:
        held, _ = schedule(holder, {"n": 1})

        began = time.monotonic()
        other, merged = schedule(connection, {"n": 2})
        waited = time.monotonic() - began

    assert merged is False
    assert WAIT_SECONDS < waited < LIMIT_SECONDS
    assert statuses(connection) == {held: "pending", other: "pending"}
    found = row(connection, other)
    assert (found["dedup_key"], found["dedup_open"]) == ("k", False)


def test_an_action_is_merged_if_the_transaction_that_locks_its_key_commits_in_time(database_url, connection):
    (patient,) = connection.execute(
        "select replace(pg_get_functiondef('scheduled_actions_insert_with_timeout'::regproc), '300', '20000')"
    ).fetchone()
    connection.execute(patient)
    with psycopg.connect(database_url) as holder:
        held, _ = schedule(holder, {"n": 1})

        def work(own, number):
            if number == 0:
                return schedule(own, {"n": 2})
            wait_until(lambda: is_waiting(own))
            return holder.commit()

        answer, _ = together(database_url, 2, work)

    assert answer == (held, True)
    assert payloads(connection) == [{"n": 2}]


def test_waiting_for_a_key_does_not_change_the_settings_of_the_caller(database_url, connection):
    with psycopg.connect(database_url) as holder, connection.transaction():
        schedule(holder)
        connection.execute("set local lock_timeout = '7s'")

        schedule(connection, dedup_key="free")
        schedule(connection)

        assert connection.execute("show lock_timeout").fetchone() == ("7s",)


def run_in_opposite_order(database_url, schedule_pair):
    """Run two transactions that lock two keys in opposite order; return the seconds until both have committed."""
    first_taken = threading.Barrier(2)

    def work(own, number):
        with own.transaction():
            schedule_pair(own, ("a", "b") if number == 0 else ("b", "a"), lambda: first_taken.wait(PATIENCE))

    began = time.monotonic()
    together(database_url, 2, work)
    return time.monotonic() - began


@pytest.mark.parametrize("are_pending", [True, False])
def test_two_transactions_that_lock_keys_in_opposite_order_both_commit_without_a_deadlock(
    database_url, connection, are_pending
):
    delay_deadlock_detection(connection)
    if are_pending:
        for key in ("a", "b"):
            schedule(connection, dedup_key=key, dedup_window=60)

    def pair(own, keys, meet):
        schedule(own, {"n": 1}, dedup_key=keys[0], dedup_window=60)
        meet()
        schedule(own, {"n": 2}, dedup_key=keys[1], dedup_window=60)

    assert run_in_opposite_order(database_url, pair) < LIMIT_SECONDS
    assert len(statuses(connection)) >= 2


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
@pytest.mark.parametrize("meanwhile", ["inserted", "merged", "claimed", "cancelled"])
def test_a_caller_with_an_old_snapshot_schedules_a_new_action_without_a_serialization_failure(
    database_url, connection, isolation, meanwhile
):
    if meanwhile != "inserted":
        schedule(connection, {"n": 1}, dedup_window=60)
    with psycopg.connect(database_url) as caller:
        caller.execute(f"set transaction isolation level {isolation}")
        caller.execute("select count(*) from scheduled_actions")
        match meanwhile:
            case "inserted" | "merged":
                schedule(connection, {"n": 2}, dedup_window=60)
            case "claimed":
                claims.claim_free(connection, a_tick(connection), wanted=1, after=claims.START, excluded=())
            case "cancelled":
                connection.execute("update scheduled_actions set status = 'cancelled', dedup_open = false")

        action_id, merged = schedule(caller, {"n": 3}, dedup_window=60)
        caller.execute("create table of_the_caller ()")

    assert merged is False
    assert row(connection, action_id)["payload"] == {"n": 3}
    assert connection.execute("select to_regclass('of_the_caller') is not null").fetchone() == (True,)


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_callers_with_snapshots_and_different_keys_do_not_affect_each_other(database_url, connection, isolation):
    with psycopg.connect(database_url) as one, psycopg.connect(database_url) as other:
        for caller in (one, other):
            caller.execute(f"set transaction isolation level {isolation}")
        for n, caller in enumerate((one, other, one, other)):
            assert schedule(caller, dedup_key=f"k{n}")[1] is False

    assert len(statuses(connection)) == 4


def test_a_caller_in_autocommit_without_a_key_does_not_wait(database_url, connection):
    connection.execute("set lock_timeout = '200ms'")
    with psycopg.connect(database_url) as holder:
        schedule(holder, dedup_key=None)

        assert schedule(connection, dedup_key=None)[1] is False
