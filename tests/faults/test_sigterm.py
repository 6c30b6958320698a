"""SIGTERM during a tick: the process starts no more actions, finishes or releases those that run, and exits."""

from __future__ import annotations

import os
import signal
import threading
import time
from datetime import timedelta

import pytest

from tests.faults.serving import has_ended, wait_until

pytestmark = pytest.mark.slow

CONCURRENCY = 4
#: Seconds that one handler takes; without the signal, the tick would start handlers for thirty seconds.
HANDLER_SECONDS = 1.0
TICKS = {"max_duration_seconds": 40, "max_run_seconds": 30}
#: Far less than the remaining time of the tick, and far more than a busy machine needs.
AT_ONCE_SECONDS = 12


@pytest.mark.parametrize("asked", ["worker", "master"])
def test_a_process_starts_no_action_after_sigterm_and_leaves_none_leased(
    asked, serve, actions, ledger, record_property
):
    actions.schedule(*_work(30))
    service = serve(workers=1, concurrency=CONCURRENCY, **TICKS)
    [worker] = service.workers()
    answers = []
    ping = threading.Thread(target=lambda: answers.append(service.ping()))

    ping.start()
    wait_until(lambda: ledger.count() > CONCURRENCY, within=20, what="the second wave has begun")
    os.kill(worker if asked == "worker" else service.master, signal.SIGTERM)
    asked_at, asked = ledger.now(), time.monotonic()
    wait_until(lambda: has_ended(worker), within=60, what="the worker has ended")
    took = time.monotonic() - asked
    ping.join(timeout=30)

    runs = ledger.runs()
    assert [run for run in runs if run.started_at > asked_at + timedelta(seconds=2 * HANDLER_SECONDS)] == []
    assert all(run.ended_at is not None for run in runs), "running handlers were completed"
    assert took < HANDLER_SECONDS + AT_ONCE_SECONDS
    [answer] = answers
    assert (answer.status, answer.report["succeeded"]) == (200, len(runs))
    assert actions.statuses() == {"completed": len(runs), "pending": 30 - len(runs)}
    waiting = [row for row in actions.all() if row["status"] == "pending"]
    assert all(row["attempts"] == 0 and row["history"] == [] for row in waiting), "released uncharged"
    record_property("measured", f"ended after {took:.2f} s, {len(runs)} of 30 done")


def _work(count):
    payload = {"seconds": HANDLER_SECONDS}
    return [{"action_type": "proof:work", "payload": {**payload, "number": number}} for number in range(count)]


def test_a_handler_that_checks_should_stop_ends_and_continues_in_another_process(
    serve, actions, ledger, record_property
):
    [listening] = actions.schedule({"action_type": "proof:listen"})
    service = serve(workers=1, **TICKS)
    [worker] = service.workers()
    ping = threading.Thread(target=service.ping)

    ping.start()
    wait_until(ledger.running, within=20, what="the handler is running")
    os.kill(worker, signal.SIGTERM)
    asked = time.monotonic()
    wait_until(lambda: has_ended(worker), within=60, what="the worker has ended")
    took = time.monotonic() - asked
    ping.join(timeout=30)

    row = actions.one(listening)
    assert (row["status"], row["attempts"]) == ("pending", 0)
    assert [entry["outcome"] for entry in row["history"]] == ["snoozed"]
    assert took < AT_ONCE_SECONDS
    record_property("measured", f"ended after {took:.2f} s")
