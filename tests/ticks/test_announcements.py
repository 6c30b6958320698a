"""Announcements of starts: a rescue charges those in the latest announcement of the tick that leased the action."""

from __future__ import annotations

from uuid import uuid4

import pytest

from scheduled_actions.actions import claims, settling
from scheduled_actions.core.action import Status
from scheduled_actions.ticks import store as tick_store
from tests.factories import a_tick, an_outcome, insert, row


@pytest.fixture
def tick(connection):
    """Return a tick that has begun and not ended."""
    return a_tick(connection)


def claim(connection, tick):
    claimed, _ = claims.claim_free(connection, tick, wanted=10, after=claims.START, excluded=())
    return claimed


def running(connection, tick):
    return connection.execute(
        "select running, finished_at is not null from scheduled_action_ticks where id = %s", [tick.id]
    ).fetchone()


def test_a_late_announcement_does_not_overwrite_a_newer_one(connection, tick):
    first, second = uuid4(), uuid4()
    settling.settle(connection, tick, [], running=[second], announcement=2)

    late = settling.settle(connection, tick, [], running=[first], announcement=1)

    assert running(connection, tick) == ([second], False)
    assert not late.announced


def test_a_repeated_announcement_changes_nothing(connection, tick):
    first = uuid4()

    settled = [settling.settle(connection, tick, [], running=[first], announcement=1) for _ in range(2)]

    assert [one.announced for one in settled] == [True, True]


def test_a_late_completion_settles_but_does_not_announce(connection, tick):
    insert(connection)
    (claimed,) = claim(connection, tick)
    settling.settle(connection, tick, [], running=[], announcement=2)

    late = settling.Completion(claimed.id, claimed.token, 0, 1, 3)
    settling.complete(connection, tick, [late], running=[uuid4()], announcement=1)

    assert row(connection, claimed.id)["status"] == "completed"
    assert running(connection, tick) == ([], False)


@pytest.mark.parametrize("running_late", [[], [uuid4()]])
def test_an_announcement_that_arrives_after_the_ticks_end_does_not_open_it_again(connection, tick, running_late):
    tick_store.finish_tick(connection, tick, outcome="finished", counts={}, announcement=2)

    settling.settle(connection, tick, [], running=running_late, announcement=1)

    assert running(connection, tick) == ([], True)


def test_a_late_end_does_not_close_a_tick_that_continues(connection, tick):
    started = uuid4()
    settling.settle(connection, tick, [], running=[started], announcement=2)

    tick_store.finish_tick(connection, tick, outcome="finished", counts={}, announcement=1)

    assert running(connection, tick) == ([started], False)


def test_only_the_tick_that_leased_an_action_charges_its_start(connection, tick):
    insert(connection)
    (claimed,) = claim(connection, tick)
    settling.settle(connection, tick, [], running=[claimed.id], announcement=1)
    # The first tick's process froze. The action was released, and claimed by a tick that died before an announcement.
    settling.settle(connection, tick, [an_outcome(claimed, status=Status.PENDING, charge=0)], running=None)
    connection.execute("update scheduled_actions set scheduled_at = now() - interval '1 hour'")
    claim(connection, a_tick(connection, lease_seconds=30))
    connection.execute(
        "with moved as (update scheduled_action_ticks set lease_expires_at = lease_expires_at - interval '2 minutes')"
        " update scheduled_actions set lease_expires_at = lease_expires_at - interval '2 minutes'"
    )

    (expired,) = tick_store.expired_leases(connection, limit=10)

    assert not expired.was_started
