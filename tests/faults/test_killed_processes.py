"""Processes are killed in the middle of their work; what they held is found, charged rightly, and done."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter, defaultdict
from contextlib import suppress

import pytest

from tests.faults.actions import EFFECTS
from tests.faults.ledger import overlaps
from tests.faults.serving import Pings, has_ended, wait_until

pytestmark = pytest.mark.slow

#: Ticks short enough that the lease of a killed one (15 seconds longer) is over soon.
SHORT_TICKS = {"max_duration_seconds": 4, "max_run_seconds": 2.5, "default_timeout_seconds": 2}
LEASE_SECONDS = 4 + 15
CONCURRENCY = 8
KILLS = 20
WORKERS = 3
SCHEDULED = 1_800
#: Each of them leaves one effect and schedules one more.
TRANSACTIONS = SCHEDULED // 10
ACTIONS = SCHEDULED + TRANSACTIONS


def test_twenty_kills_lose_nothing_and_repeat_only_what_was_running(serve, actions, ledger, record_property):
    actions.connection.execute(EFFECTS)
    actions.schedule(
        *(
            {
                "action_type": "proof:transact" if number % 10 == 1 else "proof:work",
                "payload": {"number": number, "seconds": 0.1},
                "max_attempts": 10,
                "lock_group": f"group {number // 10 % 20}" if number % 10 == 0 else None,
            }
            for number in range(SCHEDULED)
        )
    )
    service = serve(workers=WORKERS, concurrency=CONCURRENCY, **SHORT_TICKS)
    killed = {}

    with Pings([service.port]) as pings:
        for number in range(1, KILLS + 1):
            victim = wait_until(lambda: _busiest(service, ledger), within=20, what="a process works")
            if number % 5:
                os.kill(victim, signal.SIGKILL)
                wait_until(lambda pid=victim: has_ended(pid), within=5, what="the process is gone")
                killed[victim] = ledger.now()
            else:
                workers = service.workers()
                service.kill()
                killed.update(dict.fromkeys(workers, ledger.now()))
                service.start()
        wait_until(lambda: not actions.ungrouped_pending(), within=60, what="the rest waits for the dead")
    # No ping is open, so nobody who lives holds a lease.
    actions.move_clock(LEASE_SECONDS + 1)
    with Pings([service.port]):
        wait_until(actions.are_settled, within=60, what="all is settled")

    assert actions.statuses() == {"completed": ACTIONS}
    runs = ledger.runs()
    assert len({run.action_id for run in runs}) == ACTIONS
    assert overlaps(runs) == []
    _assert_repeats_follow_kills(runs, killed)
    assert list(actions.effects().values()) == [1] * TRANSACTIONS
    charged_unstarted = _assert_charges_match(actions, runs)
    # Announced, and killed before the handler wrote its first line: together with the repeated, what was in flight.
    assert len(runs) - ACTIONS + charged_unstarted <= CONCURRENCY * len(killed)
    service.ping()
    assert (actions.holds(), actions.open_ticks()) == (0, 0), "nothing of the dead stays"
    assert set(pings.statuses) >= {200}
    assert not {status for status in pings.statuses if isinstance(status, int)} - {200}
    record_property(
        "measured",
        f"{len(killed)} processes killed: {len(runs) - ACTIONS} runs repeated, {charged_unstarted} charged unseen;"
        f" pings {dict(pings.statuses)}",
    )


def _busiest(service, ledger):
    """Return the worker with the most in flight, once one is in the middle: some have ended, several go on."""
    ended, running = ledger.ended(), ledger.running(for_seconds=0.05)
    works = [pid for pid in service.workers() if ended[pid] >= CONCURRENCY and running[pid] >= CONCURRENCY // 2]
    return max(works, key=lambda pid: running[pid], default=None)


def _assert_repeats_follow_kills(runs, killed):
    by_action = defaultdict(list)
    for run in runs:
        by_action[run.action_id].append(run)
    repeated = [run for several in by_action.values() for run in several[:-1]]
    for run in repeated:
        # Begun and not settled when its process was killed: no other run is ever repeated.
        assert run.pid in killed
        # The server still carries out what the dead had sent: a start can be written just after the kill.
        assert -1 < (killed[run.pid] - run.started_at).total_seconds() < 3
    at_work = Counter(run.pid for run in repeated if run.ended_at is None)
    assert max(at_work.values()) <= CONCURRENCY
    assert all(run.ended_at is not None or run in repeated for run in runs)


def _assert_charges_match(actions, runs):
    starts = Counter(run.action_id for run in runs)
    charged_unstarted = 0
    for row in actions.all():
        told = [entry["attempt"] for entry in row["history"]] or [1]
        assert told == list(range(1, row["attempts"] + 1))
        assert [entry["outcome"] for entry in row["history"][:-1]] == ["crashed"] * (row["attempts"] - 1)
        assert starts[row["id"]] <= row["attempts"]
        charged_unstarted += row["attempts"] - starts[row["id"]]
    return charged_unstarted


def test_an_action_that_kills_its_process_fails_alone(serve, actions, ledger):
    killers = actions.schedule(
        {"action_type": "proof:kill-process", "payload": {"seconds": 0.3}, "max_attempts": 3},
        {"action_type": "proof:kill-process", "payload": {"seconds": 0.3}, "max_attempts": 1},
    )
    beside = actions.schedule(
        *({"action_type": "proof:work", "payload": {"seconds": 1.5}, "max_attempts": 1} for _ in range(2))
    )
    waiting = actions.schedule(
        *({"action_type": "proof:work", "payload": {"seconds": 0.1}, "max_attempts": 1} for _ in range(20))
    )
    service = serve(concurrency=4, **SHORT_TICKS)

    deaths = 0
    deadline = time.monotonic() + 60
    while not actions.are_settled():
        assert time.monotonic() < deadline, f"not settled: {actions.statuses()}"
        with suppress(OSError):
            wait_until(service.workers, within=10, what="a worker is there")
            service.ping()
            continue
        deaths += 1
        actions.move_clock(LEASE_SECONDS + 1)

    assert [actions.one(killer)["status"] for killer in killers] == ["failed", "failed"]
    assert [actions.one(killer)["attempts"] for killer in killers] == [3, 1]
    assert all("the process ended" in actions.one(killer)["error_message"] for killer in killers)
    for neighbour in beside + waiting:
        row = actions.one(neighbour)
        assert (row["status"], row["attempts"]) == ("completed", 1)
    runs = ledger.runs()
    starts = Counter(run.action_id for run in runs)
    assert {neighbour: starts[neighbour] for neighbour in waiting} == dict.fromkeys(waiting, 1)
    assert all(starts[neighbour] == 2 for neighbour in beside), "they ran beside the first death"
    # Only the first death had company: each killer's last start had its process for itself.
    assert deaths == 1 + 2 + 1
    for killer in killers:
        last = [run for run in runs if run.action_id == killer][-1]
        assert [run.action_id for run in runs if run.pid == last.pid and run.ended_at is None] == [killer]
