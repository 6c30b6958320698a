"""The application's clock is an hour ahead or behind; only the database's clock counts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from tests.faults.serving import has_ended, wait_until

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
HOUR = 3600
#: Tolerance in seconds: far less than the hour, and enough for processes that start slowly on a busy machine.
MINUTE = 60
TICKS = {"max_duration_seconds": 8, "max_run_seconds": 5, "default_timeout_seconds": 5}
LEASE_SECONDS = 8 + 15


def wrong_by(seconds):
    """Return the environment of a process whose clock is wrong."""
    path = [str(HERE / "wrong_clock"), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, path)), "PROOF_CLOCK_WRONG_BY": str(seconds)}


def call(environ, wrong, **arguments):
    """Schedule from a process whose clock is wrong; return the result that it printed."""
    program = [sys.executable, HERE / "schedule_once.py", json.dumps(arguments)]
    done = subprocess.run(program, env=environ | wrong_by(wrong), capture_output=True, text=True, check=True)
    printed = json.loads(done.stdout)
    assert printed["time"] - time.time() == pytest.approx(wrong, abs=MINUTE), "its clock is wrong"
    return printed


@pytest.mark.parametrize("wrong", [HOUR, -HOUR], ids=["an hour ahead", "an hour behind"])
def test_due_and_completion_times_follow_the_clock_of_the_database(wrong, serve, actions, ledger, environ):
    service = serve(environ=wrong_by(wrong), **TICKS)
    at_once = UUID(call(environ, wrong, action_type="proof:tell-time", payload={})["id"])
    later = call(environ, wrong, action_type="proof:work", payload={}, delay=HOUR / 2)["id"]
    [failing] = actions.schedule(
        {"action_type": "proof:work", "payload": {"failures": 1}, "retry": [120], "lock_group": "a group"}
    )

    report = service.ping().report
    now = ledger.now()

    assert (report["processed"], report["remaining"]) == (2, 0)
    done, waiting, failed = (actions.one(UUID(str(one))) for one in (at_once, later, failing))
    assert done["result"]["time"] - now.timestamp() == pytest.approx(wrong, abs=MINUTE), "the clock was wrong"
    assert done["result"]["now"] - now.timestamp() == pytest.approx(wrong, abs=MINUTE)
    [run] = ledger.runs("proof:tell-time")
    assert abs(done["started_at"] - run.started_at) < timedelta(seconds=MINUTE)
    assert abs(done["completed_at"] - run.ended_at) < timedelta(seconds=MINUTE)
    assert (waiting["status"], waiting["attempts"]) == ("pending", 0)
    assert abs(waiting["scheduled_at"] - now - timedelta(seconds=HOUR / 2)) < timedelta(seconds=MINUTE)
    assert failed["status"] == "pending"
    assert abs(failed["scheduled_at"] - now - timedelta(seconds=120)) < timedelta(seconds=MINUTE)
    assert service.ping().report["processed"] == 0
    actions.move_clock(HOUR / 2)
    assert service.ping().report["succeeded"] == 2


@pytest.mark.parametrize("wrong", [HOUR, -HOUR], ids=["an hour ahead", "an hour behind"])
def test_a_lease_ends_by_the_clock_of_the_database(wrong, serve, actions, ledger):
    [held] = actions.schedule({"action_type": "proof:work", "payload": {"seconds": 4}, "lock_group": "a group"})
    holder = serve(environ=wrong_by(wrong), **TICKS)
    other = serve(environ=wrong_by(-wrong), **TICKS)
    [pid] = holder.workers()
    ping = threading.Thread(target=_ping, args=[holder])

    ping.start()
    wait_until(ledger.running, within=20, what="the first process runs the action")
    while_it_ran = other.ping().report
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: has_ended(pid), within=30, what="the first process has ended")
    ping.join(timeout=30)
    while_leased = [other.ping().report for _ in range(3)]
    actions.move_clock(LEASE_SECONDS + 1)
    afterwards = other.ping().report

    for report in (while_it_ran, *while_leased):
        assert (report["rescued"], report["processed"]) == (0, 0)
    assert (afterwards["rescued"], afterwards["succeeded"]) == (1, 1)
    row = actions.one(held)
    assert (row["status"], row["attempts"]) == ("completed", 2)
    assert [entry["outcome"] for entry in row["history"]] == ["crashed", "completed"]


def _ping(service):
    try:
        service.ping()
    except OSError:
        return


def test_a_dedup_window_is_measured_by_the_clock_of_the_database(actions, environ):
    same = {"action_type": "proof:work", "payload": {}, "dedup_key": "same", "dedup_window": HOUR}

    first = call(environ, HOUR, **same)
    second = call(environ, -HOUR, **same)
    actions.move_clock(HOUR - 5 * MINUTE)
    third = call(environ, HOUR, **same)
    actions.move_clock(5 * MINUTE + 1)
    fourth = call(environ, -HOUR, **same)

    results = [first, second, third, fourth]
    assert [one["deduplicated"] for one in results] == [False, True, True, False]
    assert [one["id"] == first["id"] for one in results] == [True, True, True, False]
