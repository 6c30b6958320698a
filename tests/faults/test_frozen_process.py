"""A process is frozen until its leases have ended, and then continues."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter

import pytest

from tests.faults.actions import EFFECTS
from tests.faults.serving import Pings, wait_until

pytestmark = pytest.mark.slow

CONCURRENCY = 4
#: By the monotonic clock, the tick has time left when the process continues; only the lease has ended.
TICKS = {"max_duration_seconds": 50, "max_run_seconds": 40, "default_timeout_seconds": 6}
LEASE_SECONDS = 50 + 15


def test_outcomes_of_a_process_that_was_frozen_beyond_its_lease_are_refused(serve, actions, ledger):
    actions.connection.execute(EFFECTS)
    actions.schedule(
        *(
            {"action_type": action_type, "payload": {"number": number, "seconds": 2}, "max_attempts": 3}
            for number in range(2 * CONCURRENCY)
            for action_type in ("proof:work", "proof:transact", "proof:work")
        )
    )
    frozen = serve(workers=1, concurrency=CONCURRENCY, **TICKS)
    other = serve(workers=1, **TICKS)
    [pid] = frozen.workers()
    answers = []
    ping = threading.Thread(target=lambda: answers.append(frozen.ping()))

    ping.start()
    wait_until(lambda: ledger.running()[pid] == CONCURRENCY, within=20, what="the first wave runs")
    wait_until(lambda: _freeze(pid, actions), within=30, what="the process is frozen outside a claim")
    started = {run.action_id for run in ledger.runs() if run.pid == pid}
    leased = {row["id"] for row in actions.all() if row["status"] == "processing"}
    _drain(other, lambda: not actions.ungrouped_pending())
    looked = [other.ping().report for _ in range(3)]
    while_leased = Counter(run.action_id for run in ledger.runs())
    still_leased = {row["id"] for row in actions.all() if row["status"] == "processing"}

    actions.move_clock(LEASE_SECONDS + 1)
    _drain(other, actions.are_settled)
    before = actions.all()
    os.kill(pid, signal.SIGCONT)
    ping.join(timeout=60)

    assert len(started) == CONCURRENCY
    assert len(leased) > CONCURRENCY, "some actions were claimed and not started"
    assert len(leased) < 3 * 2 * CONCURRENCY, "the other process ran actions, too"
    assert still_leased == leased
    assert [(report["rescued"], report["processed"]) for report in looked] == [(0, 0)] * 3
    assert {while_leased[one] for one in started} == {1}, "no second claim while the lease is valid"
    assert {while_leased[one] for one in leased - started} == {0}
    assert actions.all() == before, "late outcomes changed nothing"
    assert {row["status"] for row in before} == {"completed"}
    for row in before:
        outcomes = [entry["outcome"] for entry in row["history"]]
        expected = (2, ["crashed", "completed"]) if row["id"] in started else (1, [])
        assert (row["attempts"], outcomes) == expected
        assert row["result"]["pid"] != pid
    assert {run.action_id for run in ledger.runs() if run.pid == pid} == started, "the process started no more actions"
    [answer] = answers
    assert (answer.status, answer.report["processed"]) == (200, 0)
    stale = [line for line in frozen.logged().splitlines() if "action.stale" in line]
    assert {one for one in started if any(str(one) in line for line in stale)} == started
    transacted = [row["id"] for row in before if row["action_type"] == "proof:transact"]
    assert actions.effects() == Counter(transacted)


def _freeze(pid, actions):
    """Freeze the process, but not during a claim, whose rows would stay locked until its connection ended."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: not _is_busy(actions), within=30, what="its last statement has ended")
    if not _are_pending_locked(actions):
        return True
    os.kill(pid, signal.SIGCONT)
    return False


def _are_pending_locked(actions):
    """Return whether another session has locked actions that it has not claimed."""
    return actions.connection.execute(
        "with free as (select id from scheduled_actions where status = 'pending' for update skip locked)"
        " select count(*) > (select count(*) from free) from scheduled_actions where status = 'pending'"
    ).fetchone()[0]


def _is_busy(actions):
    """Return whether another session runs a statement."""
    return actions.connection.execute(
        "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        " and state = 'active' and backend_type = 'client backend'"
    ).fetchone()[0]


def _drain(service, condition):
    with Pings([service.port], clients=1):
        wait_until(condition, within=120, what="the other process runs the remaining actions")
