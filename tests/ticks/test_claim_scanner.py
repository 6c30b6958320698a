"""Where a tick's claims stand on their way over the due range."""

from __future__ import annotations

import time

from scheduled_actions.actions import settling
from scheduled_actions.ticks.claiming.scanner import Walk
from scheduled_actions.ticks.rules.plan import Budget
from tests.factories import a_tick, an_outcome, insert_many, projects


def test_a_walk_that_passed_by_a_held_group_goes_on_when_the_group_is_free_again(database_url, connection):
    first, second = insert_many(connection, 2, lock_group="g")
    now = time.monotonic()
    budget = Budget.of(started=now, duration_seconds=50, run_seconds=20, linger_seconds=0, timeout_seconds=30)
    tick = a_tick(connection)
    with projects(database_url) as a_project:
        walk = Walk(a_project().processor.process, budget)

        def claimed_until_done():
            # Within the second of one walk: no other begins by itself.
            found = []
            while not walk.is_done:
                found += walk.step(connection, tick, wanted=10, excluded=(), now=now).kept
                if len(found) == 1:
                    return found
            return found

        (holder,) = claimed_until_done()
        assert claimed_until_done() == []
        walk.look_again()
        assert [walk.step(connection, tick, wanted=10, excluded=(), now=now).kept for _ in range(2)] == [[], []]
        settling.settle(connection, tick, [an_outcome(holder)], running=None)
        walk.look_again()

        (next_one,) = claimed_until_done()

    assert [holder.id, next_one.id] == [first, second]
