"""Many threads of two processes schedule under one key, while ticks claim, fail and retry their actions."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path

import psycopg
import pytest

from tests.faults.pooler import pooled
from tests.faults.serving import Pings, wait_until

pytestmark = pytest.mark.slow

PROCESSES = 2
THREADS = 16
CALLS = 60


@pytest.mark.parametrize("way", [nullcontext, pooled], ids=["directly", "through a pooler"])
def test_one_key_from_many_threads_loses_no_event_and_delivers_the_latest(  # noqa: PLR0917 - fixtures
    way, serve, actions, ledger, environ, record_property
):
    with way(environ["DATABASE_URL"]) as address:
        changed = {"DATABASE_URL": address}
        service = serve(workers=2, environ=changed)
        with Pings([service.port], clients=4) as pings:
            calls = _calls(environ | changed, THREADS, processes=PROCESSES)
            calls += _calls(environ | changed, 1, processes=1, calls=2, first=PROCESSES * THREADS * CALLS)
            wait_until(actions.are_settled, within=120, what="all actions are settled")

    rows = {str(row["id"]): row for row in actions.all()}
    assert {row["status"] for row in rows.values()} == {"completed"}
    assert {row["attempts"] for row in rows.values()} == {2}, "each action failed once and was retried"
    assert {call["id"] for call in calls} == set(rows)
    delivered = _delivered(ledger, rows)
    _assert_nothing_gathered_is_lost(calls, delivered)
    _assert_the_latest_is_delivered(calls, delivered)
    assert set(pings.statuses) == {200}
    assert "group_refused" not in service.logged()
    merged = sum(call["deduplicated"] for call in calls)
    assert merged > len(calls) / 10, "too few calls were merged to prove anything"
    record_property("measured", f"{len(calls)} calls, {merged} merged, {len(rows)} actions")


def _calls(environ, threads, *, processes, calls=CALLS, first=0):
    """Run the processes at the same time until all have ended; return the result that each call printed."""
    program = Path(__file__).with_name("schedule_from_threads.py")
    commands = [
        [sys.executable, program, str(threads), str(calls), str(first + number * threads * calls)]
        for number in range(processes)
    ]
    started = [subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) for command in commands]
    outputs = [process.communicate(timeout=120)[0] for process in started]
    assert [process.returncode for process in started] == [0] * processes
    return [json.loads(line) for text in outputs for line in text.splitlines()]


def _delivered(ledger, rows):
    """Return the payload that each action's handler got, which is the same in each attempt and in the table."""
    given = defaultdict(list)
    for run in ledger.runs():
        given[str(run.action_id)].append(run.payload)
    for action_id, row in rows.items():
        payload = row["payload"]
        stored = [one["number"] for one in payload] if isinstance(payload, list) else {"seconds": 0, **payload}
        assert given[action_id] == [stored, stored]
    return {action_id: payloads[-1] for action_id, payloads in given.items()}


def _assert_nothing_gathered_is_lost(calls, delivered):
    sent = [call["number"] for call in calls if call["action_type"] == "proof:gather"]
    arrived = [number for payload in delivered.values() if isinstance(payload, list) for number in payload]
    assert sorted(arrived) == sorted(sent)


def _assert_the_latest_is_delivered(calls, delivered):
    by_action = defaultdict(list)
    for call in calls:
        if call["action_type"] == "proof:work":
            by_action[call["id"]].append(call)
    for action_id, merged in by_action.items():
        [winner] = [call for call in merged if call["number"] == delivered[action_id]["number"]]
        # No call was later: every other call had begun before this one returned.
        assert all(call["begun"] <= winner["ended"] for call in merged)
    last = max((call for call in calls if call["action_type"] == "proof:work"), key=lambda call: call["begun"])
    assert delivered[last["id"]]["number"] == last["number"]


def test_two_transactions_that_cross_two_keys_both_commit_without_a_deadlock(actions, database_url, record_property):
    meet = threading.Barrier(2)
    took = {}
    scheduled = []

    def schedule(first, second):
        # If the transactions waited for each other, both waits would last too long.
        with psycopg.connect(database_url, options="-c deadlock_timeout=60s") as connection:
            begun = time.monotonic()
            scheduled.append(_schedule(connection, first))
            meet.wait(timeout=30)
            scheduled.append(_schedule(connection, second))
            connection.commit()
            took[first] = time.monotonic() - begun

    threads = [threading.Thread(target=schedule, args=keys) for keys in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=90)

    assert set(took) == {"a", "b"}, "both committed"
    assert max(took.values()) < 10
    assert len(scheduled) == 4
    assert {row["id"] for row in actions.all()} == set(scheduled), "a call that waits in vain inserts an action"
    record_property("measured", f"{', '.join(f'{seconds:.2f} s' for seconds in took.values())}")


def _schedule(connection, key):
    """Return the id of the action that the call inserted or merged into."""
    statement = "select s.id from schedule_action('proof:work', '{}', dedup_key => %s) s"
    return connection.execute(statement, [key]).fetchone()[0]
