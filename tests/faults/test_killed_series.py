"""Processes are killed while they run series: no occurrence is missing or duplicated, and no series ends."""

from __future__ import annotations

import itertools
import os
import random
import signal
from collections import defaultdict
from datetime import timedelta

import pytest

from scheduled_actions import action, next_occurrence
from scheduled_actions.actions.hooks import SWEEP_SECONDS
from tests.factories import projects
from tests.faults.serving import Pings, has_ended, wait_until
from tests.faults.test_killed_processes import LEASE_SECONDS, SHORT_TICKS

pytestmark = pytest.mark.slow

KILLS = 12
#: Maximum time for which actions of dead processes stay leased: until the lease has ended and another tick begins.
HELD_SECONDS = LEASE_SECONDS + 60
FIXED, ROLLING = 30, 10
SECOND = timedelta(seconds=1)
KILLS_OF_FUNCTIONS = 4


@next_occurrence("half-minutes")
def half_minutes(moment):
    """Replace the function of the same name in the processes."""
    return moment.replace(second=moment.second // 30 * 30, microsecond=0) + timedelta(seconds=30)


@action("proof:work")
def work(payload: dict) -> None:
    """Replace the handler of the same type in the processes."""


#: Planning takes so long that a process can be killed during it.
SLOW_PLANNING = """
create function slow() returns trigger language plpgsql as 'begin perform pg_sleep(0.1); return null; end';
create trigger slow before update on scheduled_action_schedules for each statement execute function slow();
"""


@pytest.fixture
def make_series(database_url):
    """Return a function that creates fixed and rolling schedules with an occurrence per second, and returns ids."""
    with projects(database_url) as make:
        schedules = make(work).schedules
        yield lambda fixed, rolling: schedule_series(schedules, fixed, rolling)


def schedule_series(schedules, fixed, rolling):
    """Create fixed and rolling schedules with an occurrence per second; return the ids of both."""

    def a_schedule(**options):
        payload = {"seconds": 0.05}
        return schedules.schedule_recurring("proof:work", payload, "PT1S", max_attempts=20, **options).id

    always = {"misfire": "catch_up", "catch_up_limit": 1000, "overlap": "allow"}
    return (
        [a_schedule(**always) for _ in range(fixed)],
        [a_schedule(recurrence_type="rolling") for _ in range(rolling)],
    )


def test_series_survive_kills_without_missing_or_duplicate_occurrences(
    serve, actions, ledger, make_series, record_property
):
    series = make_series(FIXED, ROLLING)
    service = serve(workers=3, concurrency=8, **SHORT_TICKS)

    with Pings([service.port]):
        for number in range(1, KILLS + 1):
            victim = wait_until(
                lambda: _busy_worker(service, ledger), within=HELD_SECONDS, what="a process runs actions"
            )
            kill(victim)
            least = 60 * number
            wait_until(lambda least=least: ledger.count() > least, within=HELD_SECONDS, what="the series continue")

    assert_whole(service, actions, *series)
    record_property("measured", f"{KILLS} processes killed: {ledger.count()} runs of {len(actions.all())} occurrences")


@pytest.mark.parametrize(("fixed", "rolling"), [(FIXED, 0), (0, ROLLING)])
def test_a_process_killed_while_it_plans_has_claimed_or_settled_nothing(serve, actions, make_series, fixed, rolling):
    series = make_series(fixed, rolling)
    actions.connection.execute(SLOW_PLANNING)
    service = serve(workers=1, concurrency=8, **SHORT_TICKS)

    with Pings([service.port]):
        for _ in range(KILLS):
            wait_until(lambda: _is_planning(actions), within=HELD_SECONDS, what="the next occurrences are planned")
            for worker in service.workers():
                kill(worker)
            if rolling:
                # The dead process may hold the actions of all ten series.
                actions.move_clock(LEASE_SECONDS + 1)
    actions.connection.execute("drop trigger slow on scheduled_action_schedules")

    assert_whole(service, actions, *series)


def test_a_process_killed_between_its_claim_and_a_function_that_plans_leaves_a_series_to_the_sweep(
    serve, actions, database_url
):
    with projects(database_url) as make:
        schedule_id = (
            make(work, half_minutes)
            .schedules.schedule_recurring(
                "proof:work",
                {"seconds": 0.0},
                "custom:half-minutes",
                misfire="catch_up",
                catch_up_limit=1000,
                overlap="allow",
            )
            .id
        )
    service = serve(workers=1, concurrency=2, **SHORT_TICKS)

    with Pings([service.port]):
        for _ in range(KILLS_OF_FUNCTIONS):
            actions.move_clock(30)
            wait_until(
                lambda: _next_action_id(actions, schedule_id) is None, within=HELD_SECONDS, what="a function plans"
            )
            for worker in service.workers():
                kill(worker)
            actions.move_clock(LEASE_SECONDS + SWEEP_SECONDS + 1)
            wait_until(lambda: _is_caught_up(actions, schedule_id), within=HELD_SECONDS, what="the series is planned")

    assert_whole(service, actions, [schedule_id], [], step=30 * SECOND)


def _is_caught_up(actions, schedule_id):
    found = actions.connection.execute(
        "select count(*) from scheduled_action_schedules s join scheduled_actions a on a.id = s.next_action_id"
        " where s.id = %s and a.scheduled_at > scheduled_actions_now()",
        [schedule_id],
    )
    return found.fetchone()[0]


def kill(pid):
    """Kill a process and wait until it has ended."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: has_ended(pid), within=30, what="the process has ended")


def _is_planning(actions):
    found = actions.connection.execute(
        "select 1 from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'"
    )
    return found.fetchone()


def assert_whole(service, actions, fixed, rolling, *, step=SECOND, lease_seconds=LEASE_SECONDS, may_skip=()):
    """End the leases of dead processes; check that no occurrence is missing or duplicate and every series continues.

    Only actions of the types `may_skip` may end otherwise than completed: as skipped.
    """
    actions.move_clock(lease_seconds + 1)
    with Pings([service.port]):
        wait_until(
            lambda: not _late_or_leased(actions),
            within=240,
            what="all series have caught up",
        )
    by_schedule = defaultdict(list)
    for row in actions.all():
        by_schedule[row["schedule_id"]].append(row)
    for schedule_id in fixed:
        instants = sorted(row["occurrence_at"] for row in by_schedule[schedule_id])
        assert instants == [instants[0] + number * step for number in range(len(instants))]
    for schedule_id in [*fixed, *rolling]:
        living = [row for row in by_schedule[schedule_id] if row["status"] in {"pending", "processing"}]
        assert sum(row["attempts"] == 0 for row in living) >= 1
        assert sum(row["id"] == _next_action_id(actions, schedule_id) for row in living) == 1
    for schedule_id in rolling:
        rows = sorted(by_schedule[schedule_id], key=lambda row: row["occurrence_at"])
        for before, after in itertools.pairwise(rows):
            assert after["occurrence_at"] > before["completed_at"] - SECOND
    others = [
        (row["action_type"], row["status"], row["error_message"], row["history"])
        for row in actions.all()
        if row["status"] not in {"completed", "pending", "processing"}
        and not (row["status"] == "skipped" and row["action_type"] in may_skip)
    ]
    assert others == []


def _busy_worker(service, ledger):
    running = ledger.running(for_seconds=0.0)
    works = [pid for pid in service.workers() if running[pid]]
    return random.choice(works) if works else None


def _late_or_leased(actions):
    """Return the number of occurrences that are late, or leased by a dead process."""
    found = actions.connection.execute(
        "select count(*) from scheduled_actions a where a.status in ('pending', 'processing')"
        " and (a.scheduled_at < scheduled_actions_now() - interval '5 seconds' or a.attempts > 0)"
    )
    return found.fetchone()[0]


def _next_action_id(actions, schedule_id):
    found = actions.connection.execute(
        "select next_action_id from scheduled_action_schedules where id = %s", [schedule_id]
    )
    return found.fetchone()[0]
