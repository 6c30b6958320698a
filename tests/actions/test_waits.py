"""No wake is lost when facts and ends of actions commit while conditions are evaluated (real connections)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from scheduled_actions.actions import claims, settling, waits
from scheduled_actions.conditions.model import FactKey, Needs
from tests.factories import PATIENCE, a_tick, an_outcome, insert, is_waiting, move_clock, row, wait_until

ORDER = FactKey("order", "42", "state")
HOUR = 3600.0


@pytest.fixture
def other(database_url):
    """Return a second connection, in autocommit mode."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


class Check:
    """One check of a waiting action, in separate steps."""

    def __init__(self, connection, action_id, *, tick=None, needs=None):
        self.connection = connection
        self.tick = tick or a_tick(connection)
        (self.claimed,), _ = claims.claim_free(connection, self.tick, wanted=1, after=claims.START, excluded=())
        assert self.claimed.id == action_id
        self.waiter = waits.Waiter(action_id, "", needs or Needs(facts={ORDER}))

    def register(self):
        waits.register(self.connection, [self.waiter])

    def read(self):
        """Return the value of the fact in the snapshot; None if it is not stored."""
        fact = waits.read_snapshot(self.connection, [self.waiter]).facts.get(("", ORDER), {}).get(ORDER)
        return None if fact is None else fact.value

    def settle(self):
        unmet = waits.WaitSettlement(
            action_id=self.claimed.id, token=self.claimed.token, check_seconds=HOUR, changes_at=None, reason="not yet"
        )
        return waits.settle(self.connection, self.tick.id, [unmet])


def report(connection, value):
    connection.execute('select report_fact(\'{"type": "order", "id": "42"}\', \'state\', %s)', [Jsonb(value)])


def is_due(connection, action_id):
    found = connection.execute(
        "select status = 'pending' and scheduled_at <= scheduled_actions_now() from scheduled_actions where id = %s",
        [action_id],
    ).fetchone()
    return found[0]


def test_a_fact_reported_between_the_read_and_the_settlement_causes_another_check(connection, other):
    action_id = insert(connection)
    check = Check(connection, action_id)
    check.register()
    assert check.read() is None

    report(other, "approved")
    assert waits.wake(other, most=10) == 1
    check.settle()

    assert is_due(connection, action_id)


def test_a_fact_committed_after_the_read_wakes_the_action(connection, other):
    action_id = insert(connection)
    check = Check(connection, action_id)
    with other.transaction():
        report(other, "approved")
        check.register()
        assert check.read() is None
    check.settle()
    assert not is_due(connection, action_id)

    waits.wake(connection, most=10)

    assert is_due(connection, action_id)


def test_a_fact_committed_before_the_read_causes_no_further_check(connection, other):
    action_id = insert(connection)
    check = Check(connection, action_id)
    check.register()
    report(other, "draft")
    waits.wake(other, most=10)
    check.register()
    assert check.read() == "draft"

    check.settle()

    assert not is_due(connection, action_id)


def test_a_wake_waits_for_an_open_settlement_and_makes_the_action_due(connection, other):
    action_id = insert(connection)
    check = Check(connection, action_id)
    check.register()
    assert check.read() is None
    report(other, "approved")

    with ThreadPoolExecutor(1) as pool:
        with connection.transaction():
            check.settle()
            woken = pool.submit(waits.wake, other, most=10)
            wait_until(lambda: is_waiting(connection))
        assert woken.result(PATIENCE) == 1

    assert is_due(connection, action_id)


def test_a_settlement_waits_for_an_open_wake_and_makes_the_action_due(connection, other, monkeypatch):
    monkeypatch.setattr(waits, "LOCK_WAIT_MS", str(PATIENCE * 1000))
    action_id = insert(connection)
    check = Check(connection, action_id)
    check.register()
    assert check.read() is None
    report(other, "approved")

    with ThreadPoolExecutor(1) as pool:
        with other.transaction():
            waits.wake(other, most=10)
            settled = pool.submit(check.settle)
            wait_until(lambda: is_waiting(other))
        assert settled.result(PATIENCE).statuses == {action_id: "pending"}

    assert is_due(connection, action_id)


def test_an_open_transaction_that_reported_a_fact_does_not_block_checks(connection, other):
    action_id = insert(connection)
    check = Check(connection, action_id)

    with other.transaction():
        report(other, "approved")
        connection.execute("set lock_timeout = '100ms'")
        check.register()
        check.read()
        assert check.settle().statuses == {action_id: "pending"}
        assert waits.wake(connection, most=10) == 0


def test_a_settlement_whose_claim_was_lost_changes_nothing(connection):
    action_id = insert(connection)
    check = Check(connection, action_id)
    connection.execute("update scheduled_actions set claim_token = gen_random_uuid() where id = %s", [action_id])

    assert check.settle().statuses == {}
    assert row(connection, action_id)["status"] == "processing"


def test_concurrent_facts_checks_and_wakes_lose_no_wake(connection, database_url):
    with (
        psycopg.connect(database_url, autocommit=True) as reporter,
        psycopg.connect(database_url, autocommit=True) as waker,
    ):
        race(connection, reporter, waker, rounds=100)


def race(connection, reporter, waker, *, rounds):
    for number in range(rounds):
        action_id = insert(connection)
        check = Check(connection, action_id)
        start = threading.Barrier(3)

        def check_it(check=check, start=start):
            start.wait(PATIENCE)
            check.register()
            seen = check.read()
            check.settle()
            return seen

        def report_it(number=number, start=start):
            start.wait(PATIENCE)
            report(reporter, number)

        def wake_it(start=start):
            start.wait(PATIENCE)
            waits.wake(waker, most=10)

        with ThreadPoolExecutor(3) as pool:
            done = [pool.submit(work) for work in (check_it, report_it, wake_it)]
            seen = done[0].result(PATIENCE)
            for future in done:
                future.result(PATIENCE)
        waits.wake(connection, most=10)

        assert seen == number or is_due(connection, action_id), f"round {number}: the wake was lost"
        connection.execute("delete from scheduled_actions")
        connection.execute("delete from scheduled_action_waits")


@pytest.mark.parametrize(
    "text", ["a", "é", '"', "\\", "/", "\n", "\t", "\b", "\x1f", "\x7f", "\u2028", "😀", "", "a:b"]
)
def test_a_topic_is_the_same_in_python_and_in_sql(connection, text):
    key = FactKey(text, f"id {text}", f"{text} name")

    found = connection.execute("select scheduled_actions_fact_topic(%s, %s, %s, %s)", [text, *key]).fetchone()

    assert found == (UUID(bytes=waits.topic_of(text, key)),)


def test_only_the_settlement_of_a_claimed_action_waits_for_the_disk(connection):
    check = Check(connection, insert(connection))
    awaited = insert(connection)
    unmet = unclaimed_settlement(connection, insert(connection))

    def synchronous_commit_of(step):
        with connection.transaction():
            step()
            return connection.execute("show synchronous_commit").fetchone()[0]

    steps = [
        check.register,
        lambda: waits.sql.run(connection, "watch_awaited", {"ids": [awaited]}),
        check.settle,
        lambda: waits.settle(connection, check.tick.id, [unmet]),
        lambda: waits.end(connection, [check.claimed.id]),
    ]

    # The disk has the registration when it has the settlement, because its record comes first.
    assert [synchronous_commit_of(step) for step in steps] == ["off", "off", "on", "off", "off"]
    assert connection.execute("show synchronous_commit").fetchone()[0] == "on"


# -- ends of actions ---------------------------------------------------------------------------------------------------


def check_of_waiting(connection, awaited):
    """Return the check of an action that waits for another action, which is claimed."""
    action_id = insert(connection, action_type="test:after")
    return Check(connection, action_id, needs=Needs(actions={awaited}))


def test_the_end_of_a_predecessor_wakes_the_waiting_action(connection, other):
    awaited = insert(connection)
    tick = a_tick(connection)
    (claimed,), _ = claims.claim_free(connection, tick, wanted=1, after=claims.START, excluded=())
    check = check_of_waiting(connection, awaited)
    check.register()
    check.read()
    check.settle()

    settling.settle(other, tick, [an_outcome(claimed)], running=[])
    waits.wake(other, most=10)

    assert is_due(connection, check.claimed.id)


def test_an_uncommitted_end_of_a_predecessor_is_reported_as_not_watched(connection, other):
    awaited = insert(connection)
    tick = a_tick(connection)
    (claimed,), _ = claims.claim_free(connection, tick, wanted=1, after=claims.START, excluded=())
    check = check_of_waiting(connection, awaited)

    with other.transaction():
        settling.settle(other, tick, [an_outcome(claimed)], running=[])
        check.register()
        seen = waits.read_snapshot(connection, [check.waiter]).actions["", awaited]

    assert (seen.status, seen.is_watched) == ("processing", False)


def test_a_predecessor_is_not_pruned_while_an_action_waits_for_it(connection):
    from scheduled_actions.core.config import Settings
    from scheduled_actions.ticks import store as tick_store

    awaited = insert(connection)
    tick = a_tick(connection)
    (claimed,), _ = claims.claim_free(connection, tick, wanted=1, after=claims.START, excluded=())
    check = check_of_waiting(connection, awaited)
    check.register()
    check.settle()
    settling.settle(connection, tick, [an_outcome(claimed)], running=[])
    connection.execute("update scheduled_actions set completed_at = '2020-01-01' where id = %s", [awaited])

    assert tick_store.prune_actions(connection, Settings(), limit=10) == 0
    waits.end(connection, [check.claimed.id])
    assert tick_store.prune_actions(connection, Settings(), limit=10) == 1


def test_waits_of_ended_actions_are_pruned_after_an_hour(connection):

    check = Check(connection, insert(connection))
    check.register()
    check.settle()
    assert waits.prune(connection, limit=10) == 0

    connection.execute("update scheduled_actions set status = 'cancelled' where id = %s", [check.claimed.id])
    assert waits.prune(connection, limit=10) == 0, "it was registered within the hour"
    move_clock(connection, timedelta(hours=2))

    assert waits.prune(connection, limit=10) == 1


def test_pruning_reaches_ended_waits_behind_many_active_ones(connection):

    active, ended = insert(connection), insert(connection, status="completed")
    for action_id, count in ((active, 25), (ended, 5)):
        connection.execute(
            "insert into scheduled_action_waits (topic, action_id)"
            " select gen_random_uuid(), %s from generate_series(1, %s)",
            [action_id, count],
        )
    move_clock(connection, timedelta(hours=2))

    assert sum(waits.prune(connection, limit=10) for _ in range(3)) == 5
    assert waits.prune(connection, limit=10) == 0
    assert connection.execute("select count(*) from scheduled_action_waits").fetchone() == (25,)


@pytest.mark.parametrize("changed", [set(), {"first"}, {"first", "second"}])
def test_a_settlement_returns_only_the_actions_that_have_not_changed_since_they_were_read(connection, changed):
    ids = {name: insert(connection) for name in ("first", "second")}
    unmet = [unclaimed_settlement(connection, one) for one in ids.values()]
    for name in changed:
        connection.execute("update scheduled_actions set priority = 5 where id = %s", [ids[name]])

    settled = waits.settle(connection, a_tick(connection).id, unmet)

    assert settled.statuses == {ids[name]: "pending" for name in ids.keys() - changed}
    assert not settled.has_woken


def test_a_settlement_cancels_an_action_whose_cancellation_was_requested(connection):
    action_id = insert(connection)
    check = Check(connection, action_id)
    connection.execute("update scheduled_actions set cancel_requested_at = now() where id = %s", [action_id])

    assert check.settle().statuses == {action_id: "cancelled"}
    assert row(connection, action_id)["status"] == "cancelled"


def unclaimed_settlement(connection, action_id):
    """Return the settlement of an action that is not claimed, with the current version of its row."""
    (version,) = connection.execute("select xmin::text from scheduled_actions where id = %s", [action_id]).fetchone()
    return waits.WaitSettlement(
        action_id, waits.UNCLAIMED, check_seconds=HOUR, changes_at=None, reason="not yet", version=version
    )
