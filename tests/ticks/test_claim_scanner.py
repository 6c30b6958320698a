"""The positions of a tick's scans in the due range."""

from __future__ import annotations

import time

from scheduled_actions.actions import settling
from scheduled_actions.ticks.claiming.scanner import ClaimScanner
from scheduled_actions.ticks.rules.plan import TickBudget
from tests.factories import a_tick, an_outcome, insert_many, projects


def test_a_scan_that_passed_a_held_group_claims_it_when_it_is_free(database_url, connection):
    first, second = insert_many(connection, 2, lock_group="g")
    now = time.monotonic()
    budget = TickBudget(started=now, run_until=now + 20, answer_by=now + 50)
    tick = a_tick(connection)
    with projects(database_url) as a_project:
        walk = ClaimScanner(a_project().processor.state, budget)

        def claimed_until_done():
            # All steps are within `FRESH_SECONDS`, so that no new scan begins.
            found = []
            while not walk.is_done:
                found += walk.step(connection, tick, wanted=10, excluded=(), now=now).kept
                if len(found) == 1:
                    return found
            return found

        (holder,) = claimed_until_done()
        assert claimed_until_done() == []
        walk.scan_again()
        assert [walk.step(connection, tick, wanted=10, excluded=(), now=now).kept for _ in range(2)] == [[], []]
        settling.settle(connection, tick, [an_outcome(holder)], running=None)
        walk.scan_again()

        (next_one,) = claimed_until_done()

    assert [holder.id, next_one.id] == [first, second]
