"""Scans of the queues of limit keys: they pass every queue, and end although some actions cannot run now."""

from __future__ import annotations

from scheduled_actions.actions.claims import BatchClaimer, ClaimResult
from scheduled_actions.core import config
from scheduled_actions.limits import claims as limit_claims, store
from scheduled_actions.schedules import store as schedules
from scheduled_actions.ticks.claiming.queue_scan import QueueScan
from tests.factories import a_tick


class ReturnsFirst:
    """A claim hook that returns one action to its queue, as that of schedules returns some occurrences."""

    column = "limit_keys"

    def __init__(self, action_id):
        self.action_id = action_id

    def after_claim(self, connection, claimed):
        if any(one.id == self.action_id for one in claimed):
            schedules.unclaim(connection, [self.action_id])
        return ClaimResult([one for one in claimed if one.id != self.action_id])


def scheduled(connection, *keys):
    return [
        connection.execute("select id from schedule_action('test:run', limits => %s)", [[key]]).fetchone()[0]
        for key in keys
    ]


def scan_all(connection, scan, *, now=0.0, most=50):
    tick, claimed = a_tick(connection), []
    while not scan.is_empty and most:
        claimed += scan.step(connection, tick, wanted=10, excluded=(), now=now).kept
        most -= 1
    assert scan.is_empty
    return [one.id for one in claimed]


def test_an_action_that_a_hook_returns_does_not_keep_the_next_ones_waiting(connection):
    store.write_rules(connection, config.settings_of({"limits": {"one:*": {"at_once": 1}}}).limits)
    first, second, _ = scheduled(connection, "one:a", "one:a", "one:a")
    scan = QueueScan(BatchClaimer((ReturnsFirst(first),)))

    assert scan_all(connection, scan) == [second]
    slots = connection.execute("select action_id from scheduled_action_limit_slots").fetchall()
    assert slots == [(second,)]
    status, parked_by = connection.execute(
        "select status, parked_by from scheduled_actions where id = %s", [first]
    ).fetchone()
    assert (status, parked_by) == ("pending", "limit")


def test_a_scan_visits_more_queues_than_one_claim(connection):
    store.write_rules(connection, config.settings_of({"limits": {"k:*": {"at_once": 1}}}).limits)
    ids = scheduled(connection, *(f"k:{number}" for number in range(450)))

    assert sorted(scan_all(connection, QueueScan(BatchClaimer(())), most=200)) == sorted(ids)


def test_a_scan_inserts_the_row_of_a_key_again_that_was_pruned_meanwhile(connection):
    store.write_rules(connection, config.settings_of({"limits": {"one:*": {"at_once": 1}}}).limits)
    scan = QueueScan(BatchClaimer(()))
    first = scheduled(connection, "one:a")
    assert scan_all(connection, scan) == first

    connection.execute("delete from scheduled_action_limit_slots")
    connection.execute("update scheduled_action_limit_keys set used_at = used_at - interval '61 minutes'")
    limit_claims.prune_keys(connection, limit=10)
    second = scheduled(connection, "one:a")
    scan.scan_again()

    assert scan_all(connection, scan) == second
