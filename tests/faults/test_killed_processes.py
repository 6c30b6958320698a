"""Processes are killed during ticks; their actions are rescued, charged correctly, and completed."""

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

#: Ticks are so short that the lease of a killed one, 15 seconds longer, ends soon. A cold process on a busy machine
#: can take more than two seconds to the first line of a handler, and no handler must reach its timeout here.
SHORT_TICKS = {"max_duration_seconds": 8, "max_run_seconds": 2.5, "default_timeout_seconds": 6}
LEASE_SECONDS = 8 + 15
CONCURRENCY = 8
KILLS = 20
WORKERS = 3
#: Number of actions scheduled at a time; a dead process keeps some of them until its lease has ended.
BATCH = 400
#: Each action of this type writes one effect and schedules one follow-up.
TRANSACT = "proof:transact"


def test_twenty_kills_lose_nothing_and_repeat_only_running_actions(serve, actions, ledger, record_property):
    actions.connection.execute(EFFECTS)
    service = serve(workers=WORKERS, concurrency=CONCURRENCY, **SHORT_TICKS)
    given = []
    #: By process, the instants before and after its end.
    killed = {}

    def a_victim():
        victim = _busiest(service, ledger)
        if victim is None and actions.ungrouped_pending() < BATCH // 2:
            # However slow this loop is compared with the workers, actions are always left to run.
            given.extend(actions.schedule(*map(_work, range(BATCH))))
        return victim

    with Pings([service.port]) as pings:
        for number in range(1, KILLS + 1):
            victim = wait_until(a_victim, within=60, what="a process runs actions")
            asked_at = ledger.now()
            if number % 5:
                os.kill(victim, signal.SIGKILL)
                wait_until(lambda pid=victim: has_ended(pid), within=30, what="the process has ended")
                killed[victim] = asked_at, ledger.now()
            else:
                workers = service.workers()
                service.kill()
                killed.update(dict.fromkeys(workers, (asked_at, ledger.now())))
                service.start()
            if number == KILLS // 2:
                # From now on actions of the first dead process are rescued while others are killed.
                wait_until(lambda: _crashed(actions), within=60, what="the first lease of a dead process has ended")
        wait_until(
            lambda: not actions.ungrouped_pending(),
            within=120,
            what="dead processes lease the remaining actions",
        )
    # No ping is in progress, so no live process holds a lease.
    actions.move_clock(LEASE_SECONDS + 1)
    with Pings([service.port]):
        wait_until(actions.are_settled, within=120, what="all actions are settled")

    rows = actions.all()
    transactions = Counter(row["id"] for row in rows if row["action_type"] == TRANSACT)
    assert actions.statuses() == {"completed": len(rows)}
    assert len(rows) == len(given) + len(transactions)
    ids = {row["id"] for row in rows}
    assert set(given) < ids
    runs = ledger.runs()
    assert {run.action_id for run in runs} == ids
    assert overlaps(runs) == []
    _assert_repeats_follow_kills(runs, killed)
    assert actions.effects() == transactions
    charged_unstarted = _assert_charges_match(rows, runs, actions.lost_ticks())
    service.ping()
    assert (actions.holds(), actions.open_ticks()) == (0, 0), "no hold or open tick of a dead process is left"
    assert set(pings.statuses) >= {200}
    assert not {status for status in pings.statuses if isinstance(status, int)} - {200}
    record_property(
        "measured",
        f"{len(killed)} processes killed: {len(runs) - len(rows)} runs of {len(rows)} repeated,"
        f" {charged_unstarted} charged without a record; pings {dict(pings.statuses)}",
    )


def _busiest(service, ledger):
    """Return the worker with the most runs in flight, among those with ended and several unfinished runs."""
    ended, running = ledger.ended(), ledger.running(for_seconds=0.05)
    works = [pid for pid in service.workers() if ended[pid] >= CONCURRENCY and running[pid] >= CONCURRENCY // 2]
    return max(works, key=lambda pid: running[pid], default=None)


def _work(number):
    return {
        "action_type": TRANSACT if number % 10 == 1 else "proof:work",
        "payload": {"number": number, "seconds": 0.1},
        "max_attempts": 10,
        "lock_group": f"group {number // 10 % 20}" if number % 10 == 0 else None,
    }


def _crashed(actions):
    """Return the number of attempts that rescues have charged."""
    found = actions.connection.execute(
        """select count(*) from scheduled_actions where history @> '[{"outcome": "crashed"}]'"""
    )
    return found.fetchone()[0]


def _assert_repeats_follow_kills(runs, killed):
    by_action = defaultdict(list)
    for run in runs:
        by_action[run.action_id].append(run)
    repeated = [run for several in by_action.values() for run in several[:-1]]
    for run in repeated:
        # Only a run that had begun and was not settled when its process was killed may be repeated.
        assert run.pid in killed, by_action[run.action_id]
        asked_at, gone_at = killed[run.pid]
        # Its tick was still running: earlier runs have been settled. The server completes the statements of a dead
        # process, so that a start can be recorded after its end.
        begun_before_end = (asked_at - run.started_at).total_seconds()
        assert begun_before_end < SHORT_TICKS["max_duration_seconds"], (run, killed[run.pid])
        assert (run.started_at - gone_at).total_seconds() < LEASE_SECONDS / 2, (run, killed[run.pid])
    at_work = Counter(run.pid for run in repeated if run.ended_at is None)
    assert max(at_work.values()) <= CONCURRENCY
    assert all(run.ended_at is not None or run in repeated for run in runs)


def _assert_charges_match(rows, runs, lost_ticks):
    starts = defaultdict(list)
    for run in runs:
        starts[run.action_id].append(run)
    charged_unstarted = 0
    for row in rows:
        attempts = [entry["attempt"] for entry in row["history"]] or [1]
        story = f"{row}\n" + "\n".join(map(str, starts[row["id"]]))
        assert attempts == list(range(1, row["attempts"] + 1)), story
        assert [entry["outcome"] for entry in row["history"][:-1]] == ["crashed"] * (row["attempts"] - 1), story
        assert len(starts[row["id"]]) <= row["attempts"], story
        # Announced, and killed before the handler recorded its start.
        charged_unstarted += row["attempts"] - len(starts[row["id"]])
    # In flight in one tick: the runs on its threads, and those that had just ended there.
    crashed = Counter(entry["tick"] for row in rows for entry in row["history"] if entry["outcome"] == "crashed")
    assert max(crashed.values()) <= 2 * CONCURRENCY
    assert set(crashed) <= lost_ticks
    return charged_unstarted


def test_an_action_that_kills_its_process_fails_alone(serve, actions, ledger):
    killers = actions.schedule(
        {"action_type": "proof:kill-process", "payload": {"seconds": 0.3}, "max_attempts": 3},
        {"action_type": "proof:kill-process", "payload": {"seconds": 0.3}, "max_attempts": 1},
    )
    neighbors = actions.schedule(
        *({"action_type": "proof:work", "payload": {"seconds": 1.5}, "max_attempts": 1} for _ in range(2))
    )
    waiting = actions.schedule(
        *({"action_type": "proof:work", "payload": {"seconds": 0.1}, "max_attempts": 1} for _ in range(20))
    )
    service = serve(concurrency=4, **SHORT_TICKS)

    deaths = 0
    deadline = time.monotonic() + 120
    while not actions.are_settled():
        assert time.monotonic() < deadline, f"not settled: {actions.statuses()}"
        with suppress(OSError):
            wait_until(service.workers, within=30, what="a worker is running")
            service.ping()
            continue
        deaths += 1
        actions.move_clock(LEASE_SECONDS + 1)

    assert [actions.one(killer)["status"] for killer in killers] == ["failed", "failed"]
    assert [actions.one(killer)["attempts"] for killer in killers] == [3, 1]
    assert all("the process ended" in actions.one(killer)["error_message"] for killer in killers)
    for neighbor in neighbors + waiting:
        row = actions.one(neighbor)
        assert (row["status"], row["attempts"]) == ("completed", 1)
    runs = ledger.runs()
    starts = Counter(run.action_id for run in runs)
    assert {neighbor: starts[neighbor] for neighbor in waiting} == dict.fromkeys(waiting, 1)
    for neighbor in neighbors:
        outcomes = [entry["outcome"] for entry in actions.one(neighbor)["history"]]
        assert outcomes == ["crashed", "completed"], (
            "they ran together with the first killed attempt, and with no other"
        )
        # The process may have died before they recorded their start.
        assert 1 <= starts[neighbor] <= 2
    # Only in the first killed process did other actions run: each further attempt of a killer ran alone.
    assert deaths == 1 + 2 + 1
    for killer in killers:
        last = [run for run in runs if run.action_id == killer][-1]
        assert [run.action_id for run in runs if run.pid == last.pid and run.ended_at is None] == [killer]
