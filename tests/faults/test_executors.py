"""Ticks, brokers and workers that are killed, frozen or wrong: no action is lost, or has two live holders at a time.

Each test asserts at its end that each start was charged, and nothing else.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from scheduled_actions.operations import registry_build
from tests.executors import brokers
from tests.faults.serving import has_ended, wait_until
from tests.faults.workers import ENVIRON, TAKEN_SECONDS, Fleet, Queue, python_path, write_project

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

#: `make proof-executors` runs each test this many times with each carrier.
IS_WHOLE = os.environ.get("EXECUTORS") == "whole"
REPETITIONS = 20 if IS_WHOLE else 1
BROKERS = ["redis", "rabbitmq"] if IS_WHOLE else ["redis"]
HOUR = 3600

with_broker = pytest.mark.parametrize("carrier", BROKERS, indirect=True)


@pytest.fixture(params=["postgres", *BROKERS], scope="module")
def carrier(request):
    return request.param


@pytest.fixture(params=range(REPETITIONS), ids=lambda number: f"{number + 1}")
def repetition(request):
    return request.param


@pytest.fixture(scope="module")
def queues(tmp_path_factory):
    """Return a function that returns the queue of a broker, which is started by the first call."""
    started = {}
    with ExitStack() as stack:

        def find(name):
            if name not in started:
                start = {"redis": brokers.redis, "rabbitmq": brokers.rabbitmq}[name]
                server = stack.enter_context(start(tmp_path_factory.mktemp(name)))
                started[name] = Queue(server, keeps_messages=name == "rabbitmq")
            return started[name]

        yield find


@pytest.fixture
def queue(carrier, queues):
    """Return the empty queue of a running broker; None if there is no broker. A test may kill the broker."""
    if carrier == "postgres":
        return None
    queue = queues(carrier)
    queue.create()
    return queue


@pytest.fixture
def project(project, carrier):
    write_project(project, carrier)
    return project


@pytest.fixture(scope="module")
def totals():
    """Return the counts of the tests so far, by test and carrier."""
    return defaultdict(Counter)


@pytest.fixture
def fleet(  # noqa: PLR0917 - all that its processes need
    request, carrier, queue, project, environ, tmp_path, actions, ledger, totals, repetition, record_property
):
    """Yield the processes of the project; all are killed after the test."""
    urls = {} if queue is None else {"MEDIA_BROKER_URL": queue.server.url}
    fleet = Fleet(carrier, queue, project, environ | ENVIRON | urls, tmp_path, actions=actions, ledger=ledger)
    yield fleet
    fleet.close()
    total = totals[request.function.__name__, carrier]
    total.update(fleet.counts)
    if repetition == REPETITIONS - 1:
        counts = ", ".join(f"{number} {what}" for what, number in sorted(total.items()))
        record_property("measured", f"{REPETITIONS} times with {carrier}: {counts}")


def some_work(actions, number, **payload):
    return actions.schedule(
        *[{"action_type": "proof:work", "payload": {"number": n, **payload}} for n in range(number)]
    )


def outcomes(row):
    return [entry["outcome"] for entry in row["history"]]


def all_are(ids, status, attempts=1):
    return dict.fromkeys(ids, (status, attempts))


# -- workers ---------------------------------------------------------------------------------------------------------


def test_actions_of_a_worker_killed_before_it_takes_them_over_are_not_charged(fleet, actions):
    """The worker's take-over waits in the database: it has claims or tickets, and no handler has started."""
    ids = some_work(actions, 2)
    actions.connection.execute(
        "create function hold_back() returns trigger language plpgsql as"
        " $$ begin if new.announced_at is not null then perform pg_sleep(60); end if; return new; end $$;"
        "create trigger hold_back before update on scheduled_actions for each row execute function hold_back()"
    )
    waiting = (
        "select pid from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'"
        " and pid <> pg_backend_pid()"
    )
    worker = fleet.work()
    fleet.send()
    wait_until(lambda: actions.connection.execute(waiting).fetchall(), within=60, what="it takes an action over")

    fleet.kill(worker)
    actions.connection.execute(f"select pg_terminate_backend(pid) from ({waiting}) w")
    actions.connection.execute("drop trigger hold_back on scheduled_actions")
    fleet.rescue(fleet.untaken_seconds)
    assert {actions.one(one)["attempts"] for one in ids} == {0}
    assert [actions.one(one)["history"] for one in ids] == [[], []]
    fleet.work()
    fleet.wait_for(ids, "completed")

    fleet.check(all_are(ids, "completed"))


def test_actions_of_a_worker_killed_while_it_runs_them_are_charged_and_run_alone_afterwards(fleet, actions, ledger):
    ids = some_work(actions, 2, seconds=3)
    worker = fleet.work()
    fleet.send()
    wait_until(lambda: ledger.running().total() == 2, within=15, what="it runs both")

    fleet.kill(worker)
    assert ledger.ended().total() == 0
    fleet.rescue(TAKEN_SECONDS)
    fleet.work()
    fleet.wait_for(ids, "completed")

    fleet.check(all_are(ids, "completed", 2))
    assert {tuple(outcomes(actions.one(one))) for one in ids} == {("crashed", "completed")}
    again = [run for run in ledger.runs() if run.attempt == 2]
    # Either two processes have run one each, or one process has run them one after the other.
    assert again[0].pid != again[1].pid or again[0].ended_at <= again[1].started_at


def test_the_action_that_kills_its_process_fails_and_its_companion_completes(fleet, actions, ledger):
    killer, companion = actions.schedule(
        {"action_type": "proof:kill-process", "payload": {"seconds": 0.5}, "max_attempts": 2},
        {"action_type": "proof:work", "payload": {"seconds": 2}, "max_attempts": 1},
    )
    for attempt in (1, 2):
        # A new worker each time: that of Postgres is one process.
        worker = fleet.work()
        if attempt == 1:
            fleet.send()
        else:
            fleet.rescue(TAKEN_SECONDS)
        for _ in range(10):
            with suppress(AssertionError):
                wait_until(lambda n=attempt: len(ledger.runs("proof:kill-process")) == n, within=8, what="it starts")
                break
            fleet.rescue(TAKEN_SECONDS)
        [*_, run] = ledger.runs("proof:kill-process")
        assert run.attempt == attempt
        if fleet.queue is None:
            worker.process.wait(timeout=30)
        wait_until(lambda pid=run.pid: has_ended(pid), within=30, what="it has killed its process")
        fleet.died(run.pid)
    fleet.work()
    fleet.rescue(TAKEN_SECONDS)
    fleet.wait_for([killer], "failed")
    fleet.complete([companion])

    assert set(outcomes(actions.one(killer))) == {"crashed"}
    # With Postgres, the companion was in the killed process: its only attempt was given back.
    assert [actions.one(one)["attempts"] for one in (killer, companion)] == [2, 1]
    assert fleet.overlaps() == []
    assert len([run for run in ledger.runs("proof:work") if run.ended_at is not None]) == 1


def test_the_late_outcome_of_a_frozen_worker_changes_nothing_while_another_one_runs_the_action(fleet, actions, ledger):
    [one] = some_work(actions, 1, seconds=3)
    frozen = fleet.work()
    fleet.send()
    wait_until(ledger.running, within=60, what="the worker runs the action")
    fleet.freeze(frozen)
    other = fleet.work()
    fleet.rescue(TAKEN_SECONDS)
    for _ in range(10):
        with suppress(AssertionError):
            wait_until(lambda: ledger.running().keys() & other.pids(), within=8, what="another worker runs it")
            break
        # The broker may have handed the message to the frozen process: it is delayed then.
        fleet.rescue(fleet.untaken_seconds)
    before = actions.one(one)

    frozen.kill(signal.SIGCONT)
    wait_until(lambda: "action.stale" in frozen.logged(), within=60, what="the late outcome is refused")
    fleet.wait_for([one], "completed")

    after = actions.one(one)
    assert (before["status"], outcomes(before)) == ("processing", ["crashed"])
    assert after["result"]["pid"] in other.pids()
    assert outcomes(after) == ["crashed", "completed"]
    fleet.check(all_are([one], "completed", 2))


@pytest.mark.parametrize("wrong", [HOUR, -HOUR], ids=["an hour ahead", "an hour behind"])
def test_a_worker_with_a_wrong_clock_follows_the_clock_of_the_database(fleet, actions, ledger, wrong):
    now = ledger.now()
    at_once, due_later = actions.schedule(
        {"action_type": "proof:tell-time", "payload": {}},
        {
            "action_type": "proof:work",
            "payload": {},
            "scheduled_at": (now + timedelta(seconds=HOUR / 2)).isoformat(),
        },
    )

    fleet.work(PROOF_CLOCK_WRONG_BY=str(wrong), **python_path("wrong_clock"))
    fleet.send()
    fleet.wait_for([at_once], "completed")
    # Another action shows that the worker has looked for due actions since.
    [marker] = some_work(actions, 1)
    fleet.send()
    fleet.wait_for([marker], "completed")
    before = actions.one(due_later)["status"]
    fleet.rescue(HOUR / 2)
    fleet.wait_for([due_later], "completed")

    row = actions.one(at_once)
    assert abs(row["result"]["time"] - now.timestamp() - wrong) < 120, "the clock was wrong"
    assert abs(row["started_at"] - now) < timedelta(seconds=120)
    assert abs(row["completed_at"] - now) < timedelta(seconds=120)
    assert (before, row["history"]) == ("pending", [])
    fleet.check(all_are([at_once, due_later, marker], "completed"))


def test_a_worker_without_the_handler_sets_the_action_aside(fleet, actions, tmp_path):
    older = tmp_path / "older"
    (older / "handlers").mkdir(parents=True)
    (older / "handlers" / "__init__.py").touch()
    write_project(older, fleet.carrier)
    registry_build.write(older)
    [one] = some_work(actions, 1)

    worker = fleet.work(older, SCHEDULED_ACTIONS_PROJECT=str(older))
    fleet.send()
    fleet.wait_for([one], "no_action")
    assert actions.one(one)["attempts"] == 0
    fleet.kill(worker)
    fleet.work()
    fleet.rescue(0)
    fleet.wait_for([one], "completed")

    fleet.check(all_are([one], "completed"))


def test_nothing_is_lost_while_a_worker_and_the_broker_are_killed(fleet, actions, ledger):
    ids = some_work(actions, 150, seconds=0.05)
    workers = [fleet.work(), fleet.work()]
    fleet.send()
    wait_until(lambda: ledger.count() > 20, within=60, what="the workers are at work")

    fleet.kill(workers[0])
    if fleet.queue is not None:
        fleet.queue.server.kill()
        fleet.queue.server.start()
    fleet.complete(ids, quiet_seconds=2.0)

    fleet.check(all_are(ids, "completed", None))
    crashed = [one for one in ids if "crashed" in outcomes(actions.one(one))]
    assert {actions.one(one)["attempts"] for one in crashed} <= {2}
    assert {actions.one(one)["attempts"] for one in set(ids) - set(crashed)} == {1}


def test_without_a_worker_explain_and_doctor_say_so(fleet, actions):
    ids = some_work(actions, 1)
    fleet.tick()
    actions.move_clock(150)

    explained = fleet.run("explain", str(ids[0]), "--json")
    checks = fleet.run("doctor", "--json")

    code = "executor_idle" if fleet.queue is None else "executor_ticket"
    assert f'"{code}"' in explained
    assert "executor media: no worker has taken a" in checks
    fleet.work()
    fleet.wait_for(ids, "completed")
    fleet.check(all_are(ids, "completed"))


# -- brokers and their messages --------------------------------------------------------------------------------------


@with_broker
def test_a_tick_killed_between_claim_and_message_costs_time_but_no_attempt(fleet, actions):
    ids = some_work(actions, 3)
    held = fleet.start_tick(**python_path("held_send"))
    fleet.wait_for(ids, "processing")
    with held:
        held.kill()
    fleet.counts["ticks killed"] += 1
    fleet.work()

    fleet.tick()
    assert fleet.are(ids, "processing")()
    assert fleet.queue.is_empty()
    fleet.rescue(fleet.untaken_seconds)
    fleet.wait_for(ids, "completed")

    fleet.check(all_are(ids, "completed"))


@with_broker
@pytest.mark.parametrize("fault", ["killed", "frozen"])
def test_while_the_broker_is_away_nothing_is_claimed_and_other_types_run(fleet, actions, fault):
    server = fleet.queue.server
    ids = some_work(actions, 3)
    [other] = actions.schedule({"action_type": "maintenance:prune", "payload": {}})
    server.kill() if fault == "killed" else server.freeze()

    try:
        report = fleet.tick()
        assert actions.one(other)["status"] == "completed"
        assert fleet.are(ids, "pending")()
        assert "executor media: the broker at" in json.dumps(report)
    finally:
        server.start() if fault == "killed" else server.unfreeze()
    fleet.counts[f"brokers {fault}"] += 1
    fleet.work()
    fleet.tick()
    fleet.wait_for(ids, "completed")

    fleet.check(all_are(ids, "completed"))


@with_broker
@pytest.mark.parametrize("fault", ["flushed", "restarted"])
def test_messages_that_the_broker_loses_cost_time_but_no_attempt(fleet, actions, fault):
    ids = some_work(actions, 3)
    fleet.tick()
    assert not fleet.queue.is_empty()
    if fault == "flushed":
        fleet.queue.create()
    else:
        fleet.queue.server.kill()
        fleet.queue.server.start()
    fleet.counts[f"brokers {fault}"] += 1
    is_kept = fault == "restarted" and fleet.queue.keeps_messages
    fleet.work()
    fleet.tick()

    if not is_kept:
        [marker] = some_work(actions, 1)
        fleet.tick()
        fleet.wait_for([marker], "completed")
        assert fleet.are(ids, "processing")()
        fleet.rescue(fleet.untaken_seconds)
        ids.append(marker)
    fleet.wait_for(ids, "completed")

    fleet.check(all_are(ids, "completed"))


@with_broker
def test_a_message_sent_three_times_runs_its_actions_once_and_a_late_one_runs_nothing(fleet, actions, ledger):
    ids = some_work(actions, 3, seconds=0.2)
    fleet.tick()
    first = fleet.queue.take()
    assert len(first) == 3
    fleet.queue.put([*first, *first, *first])
    fleet.work()
    fleet.wait_for(ids, "completed")

    late_ids = some_work(actions, 3)
    wait_until(fleet.queue.is_empty, within=60, what="the duplicates have arrived")
    assert ledger.count() == 3
    fleet.close()
    fleet.tick()
    old = fleet.queue.take()
    fleet.rescue(fleet.untaken_seconds)
    new = fleet.queue.take()
    assert (len(old), len(new)) == (3, 3)
    fleet.work()
    fleet.queue.put(old)
    [marker] = some_work(actions, 1)
    fleet.tick()
    fleet.wait_for([marker], "completed")
    assert fleet.are(late_ids, "processing")(), "old tickets run nothing"
    fleet.queue.put([*new, *old, *new])
    fleet.wait_for(late_ids, "completed")

    fleet.queue.put([*first, *old, *new])
    [last] = some_work(actions, 1)
    fleet.tick()
    fleet.wait_for([last], "completed")
    fleet.counts["duplicate or late messages"] += 6 + 3 + 6 + 9
    fleet.check(all_are([*ids, *late_ids, marker, last], "completed"))


@with_broker
def test_an_action_cancelled_before_its_ticket_is_taken_never_runs(fleet, actions, ledger):
    cancelled, kept = some_work(actions, 2)
    fleet.tick()
    assert fleet.are([cancelled, kept], "processing")()

    answer = fleet.run("actions", "cancel", str(cancelled), "--force")
    assert actions.one(cancelled)["status"] == "cancelled", answer
    fleet.work()
    fleet.wait_for([kept], "completed")
    wait_until(fleet.queue.is_empty, within=60, what="both tickets have arrived")

    fleet.check({cancelled: ("cancelled", 0), kept: ("completed", 1)})


def test_the_demo_loses_nothing():
    """In a process of its own, because other tests have imported other handlers."""
    program = "from proofs.executors.__main__ import main; raise SystemExit(main(200))"

    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "200 of 200 actions completed" in done.stdout
    assert "Actions with two live holders: 0" in done.stdout
