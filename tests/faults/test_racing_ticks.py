"""Sixteen clients and four processes race for the same actions."""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta

import pytest

from tests.faults.ledger import by_group, overlaps
from tests.faults.serving import Pings, wait_until

pytestmark = pytest.mark.slow

ACTIONS = 10_000
GROUPED = 3_000
GROUPS = 50


def test_racing_ticks_run_every_action_once_and_every_lock_group_in_order(serve, actions, ledger, record_property):
    oldest = ledger.now() - timedelta(hours=1)
    actions.schedule(
        *(
            {
                "action_type": "proof:work",
                "payload": {"number": number},
                "scheduled_at": (oldest + timedelta(seconds=number / 100)).isoformat(),
                "lock_group": f"group {number % GROUPS}" if number < GROUPED else None,
            }
            for number in range(ACTIONS)
        )
    )
    service = serve(workers=4)

    started = time.monotonic()
    with Pings([service.port]) as pings:
        wait_until(actions.are_settled, within=240, what="all actions are settled")
    seconds = time.monotonic() - started

    runs = ledger.runs()
    assert Counter(Counter(run.action_id for run in runs).values()) == {1: ACTIONS}
    assert actions.statuses() == {"completed": ACTIONS}
    assert {row["attempts"] for row in actions.all()} == {1}
    assert overlaps(runs) == []
    groups = by_group(runs)
    assert len(groups) == GROUPS
    for members in groups.values():
        numbers = [run.payload["number"] for run in members]
        assert numbers == sorted(numbers)
    assert len({run.pid for run in runs}) == 4, "all processes ran actions"
    assert set(pings.statuses) == {200}
    assert sum(answer.report["processed"] for answer in pings.answers) == ACTIONS
    assert service.ping().report["remaining"] == 0
    assert actions.holds() == 0
    record_property("measured", f"{ACTIONS / seconds:.0f} actions/s, {len(pings.answers)} pings")
