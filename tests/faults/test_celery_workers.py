"""Ticks, brokers and Celery workers that are killed, frozen or wrong: nothing is lost or runs twice at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from proofs.executors.__main__ import play
from scheduled_actions.operations import registry_build
from tests.executors import brokers
from tests.faults.serving import wait_until

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
#: `make proof-executors` runs each test this many times.
REPETITIONS = 20 if os.environ.get("EXECUTORS") == "whole" else 1
TICKET_SECONDS = 60
#: The timeout of the handlers here, and the lease of an action that a worker has taken over.
TIMEOUT_SECONDS = 5
TAKEN_SECONDS = TIMEOUT_SECONDS + 15 + 30
HOUR = 3600
SETTINGS = f"""
[executors.media]
types = ["proof:*"]
carrier = "celery"
url_env_var = "MEDIA_BROKER_URL"
ticket_seconds = {TICKET_SECONDS}
"""
APP = """
import os
from celery import Celery
from scheduled_actions.integrations.celery import connect
app = Celery("shop", broker=os.environ["MEDIA_BROKER_URL"])
connect(app)
"""


@pytest.fixture(autouse=True, params=range(REPETITIONS))
def repetition(request):
    return request.param


class CeleryProcess:
    """`celery worker` as a process group of its own."""

    def __init__(self, project, environ, number, log):
        self.log = log
        command = [sys.executable, "-m", "celery", "-A", "shop", "worker", "-Q", "media", "-l", "info"]
        command += ["-c", "2", "--without-gossip", "--without-mingle", "--without-heartbeat", "-n", f"{number}@here"]
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command, cwd=project, env=environ, stdout=output, stderr=output, start_new_session=True
            )

    def signal(self, number):
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait(timeout=30)

    def logged(self):
        return self.log.read_text(errors="replace")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with brokers.redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def broker(server):
    """Return the Redis server, empty and running; a test may kill it."""
    server.kill()
    server.start()
    return server


@pytest.fixture
def project(project):
    (project / "scheduled_actions.toml").write_text(SETTINGS, encoding="utf-8")
    (project / "shop.py").write_text(APP, encoding="utf-8")
    return project


@pytest.fixture
def environ(environ, broker):
    settings = {"SCHEDULED_ACTIONS_DEFAULT_TIMEOUT_SECONDS": str(TIMEOUT_SECONDS), "PYTHONUNBUFFERED": "1"}
    return {**environ, **settings, "MEDIA_BROKER_URL": broker.url}


@pytest.fixture
def work(project, environ, tmp_path):
    """Return a function that starts a Celery worker; all are killed after the test."""
    started = []

    def start(directory=project, **changes):
        number = len(started)
        started.append(CeleryProcess(directory, environ | changes, number, tmp_path / f"worker-{number}.log"))
        return started[-1]

    yield start
    for worker in started:
        worker.kill()


@pytest.fixture
def tick(project, environ):
    """Return a function that runs a tick in a process of its own: the first one rescues, the second one sends."""

    def run(times=1):
        command = [sys.executable, "-m", "scheduled_actions.cli", "--project", project, "process", "--json"]
        for _ in range(times):
            subprocess.run(command, env=environ, check=False, capture_output=True, timeout=60)

    return run


def outcomes(row):
    return [entry["outcome"] for entry in row["history"]]


def are(actions, ids, status):
    return lambda: {actions.one(one)["status"] for one in ids} == {status}


def some_work(actions, number, **payload):
    return actions.schedule(
        *[{"action_type": "proof:work", "payload": {"number": n, **payload}} for n in range(number)]
    )


def completed_once(actions, ids):
    """Return whether every action completed in its first attempt."""
    rows = [actions.one(one) for one in ids]
    return {(row["status"], row["attempts"]) for row in rows} == {("completed", 1)}


def test_a_tick_killed_between_claim_and_message_costs_time_but_no_attempt(work, tick, actions, ledger, environ):
    path = os.pathsep.join(filter(None, [str(HERE / "held_send"), os.environ.get("PYTHONPATH", "")]))
    ids = some_work(actions, 3)
    command = [sys.executable, "-m", "scheduled_actions.cli", "process"]
    held = subprocess.Popen(
        command, env=environ | {"PYTHONPATH": path}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_until(are(actions, ids, "processing"), within=30, what="all are claimed")
    held.kill()
    held.wait(timeout=30)
    work()

    tick()
    assert are(actions, ids, "processing")()
    actions.move_clock(TICKET_SECONDS + 1)
    tick(2)
    wait_until(are(actions, ids, "completed"), within=30, what="all have run")

    assert completed_once(actions, ids)
    assert ledger.count() == 3


def test_a_broker_that_loses_its_messages_costs_time_but_no_attempt(work, tick, actions, ledger, broker):
    ids = some_work(actions, 3)
    tick()
    assert are(actions, ids, "processing")()

    broker.kill()
    [waiting] = some_work(actions, 1)
    tick()
    assert actions.one(waiting)["status"] == "pending", "nothing is claimed while the broker is away"
    broker.start()
    work()
    tick()
    wait_until(are(actions, [waiting], "completed"), within=30, what="the action scheduled during the outage has run")
    assert are(actions, ids, "processing")()
    actions.move_clock(TICKET_SECONDS + 1)
    tick(2)
    wait_until(are(actions, ids, "completed"), within=30, what="the others have run")

    assert completed_once(actions, [*ids, waiting])
    assert ledger.count() == 4


def test_actions_of_a_worker_killed_before_it_takes_them_over_are_not_charged(work, tick, actions, ledger):
    """The worker's take-over waits in the database: it has the tickets, and no handler has started."""
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
    worker = work()
    tick()
    wait_until(
        lambda: actions.connection.execute(waiting).fetchall(), within=30, what="the worker takes an action over"
    )

    worker.kill()
    actions.connection.execute(f"select pg_terminate_backend(pid) from ({waiting}) w")
    actions.connection.execute("drop trigger hold_back on scheduled_actions")
    actions.move_clock(TICKET_SECONDS + 1)
    work()
    tick(2)
    wait_until(are(actions, ids, "completed"), within=30, what="another worker has run them")

    assert completed_once(actions, ids)
    assert ledger.count() == 2


def test_an_action_that_kills_its_worker_is_charged_and_fails_alone(work, tick, actions, ledger):
    killer, companion = actions.schedule(
        {"action_type": "proof:kill-process", "payload": {"seconds": 0.5}, "max_attempts": 2},
        {"action_type": "proof:work", "payload": {"seconds": 1}, "max_attempts": 1},
    )
    work()
    tick()
    wait_until(
        lambda: actions.one(companion)["status"] == "completed", within=30, what="the other process is not killed"
    )
    wait_until(lambda: ledger.count() == 2, within=30, what="both have started")

    for attempt in (1, 2):
        wait_until(
            lambda n=attempt: len(ledger.runs("proof:kill-process")) == n, within=30, what="it has killed a process"
        )
        actions.move_clock(TAKEN_SECONDS + 1)
        tick(2)

    killed = actions.one(killer)
    assert (killed["status"], killed["attempts"], outcomes(killed)) == ("failed", 2, ["crashed", "crashed"])
    assert (actions.one(companion)["attempts"], ledger.count()) == (1, 3)


def test_a_worker_frozen_past_its_lease_changes_nothing_afterwards(work, tick, actions, ledger):
    [one] = some_work(actions, 1, seconds=1)
    frozen = work()
    tick()
    wait_until(ledger.running, within=30, what="the worker runs the action")
    frozen.signal(signal.SIGSTOP)
    actions.move_clock(TAKEN_SECONDS + 1)
    work()
    tick(2)
    with suppress(AssertionError):
        # The frozen process may still be the one to which Redis hands the next message: then it is delayed.
        wait_until(are(actions, [one], "completed"), within=5, what="another worker has run the action")
    if actions.one(one)["status"] != "completed":
        actions.move_clock(TICKET_SECONDS + 1)
        tick(2)
    wait_until(are(actions, [one], "completed"), within=30, what="another worker has run the action")
    before = actions.one(one)

    frozen.signal(signal.SIGCONT)
    wait_until(lambda: "action.stale" in frozen.logged(), within=30, what="the late outcome is refused")

    assert actions.one(one) == before
    assert outcomes(before) == ["crashed", "completed"]
    assert len(ledger.runs()) == 2


@pytest.mark.parametrize("wrong", [HOUR, -HOUR], ids=["an hour ahead", "an hour behind"])
def test_a_worker_with_a_wrong_clock_follows_the_clock_of_the_database(work, tick, actions, ledger, wrong):
    path = os.pathsep.join(filter(None, [str(HERE / "wrong_clock"), os.environ.get("PYTHONPATH", "")]))
    now = ledger.now()
    [one] = actions.schedule({"action_type": "proof:tell-time", "payload": {}})

    work(PYTHONPATH=path, PROOF_CLOCK_WRONG_BY=str(wrong))
    tick()
    wait_until(are(actions, [one], "completed"), within=30, what="the action has run")

    row = actions.one(one)
    assert abs(row["result"]["time"] - now.timestamp() - wrong) < 60, "the clock was wrong"
    assert abs(row["started_at"] - now) < timedelta(seconds=60)
    assert (row["attempts"], row["history"]) == (1, [])


def test_a_worker_without_the_handler_sets_the_action_aside(work, tick, actions, project, tmp_path):
    older = tmp_path / "older"
    (older / "handlers").mkdir(parents=True)
    (older / "handlers" / "__init__.py").touch()
    for name in ("scheduled_actions.toml", "shop.py"):
        (older / name).write_text((project / name).read_text(encoding="utf-8"), encoding="utf-8")
    registry_build.write(older)
    [one] = some_work(actions, 1)

    worker = work(older, SCHEDULED_ACTIONS_PROJECT=str(older))
    tick()
    wait_until(are(actions, [one], "no_action"), within=30, what="the worker has no handler")
    worker.kill()
    work()
    tick(2)
    wait_until(are(actions, [one], "completed"), within=30, what="a worker with the handler has run it")

    assert actions.one(one)["attempts"] == 1


def test_nothing_is_lost_while_a_worker_and_the_broker_are_killed(work, tick, actions, ledger, broker):
    ids = some_work(actions, 150, seconds=0.05)
    workers = [work(), work()]
    tick()
    wait_until(lambda: ledger.count() > 20, within=60, what="the workers are at work")

    workers[0].kill()
    broker.kill()
    broker.start()
    for _ in range(10):
        if actions.are_settled():
            break
        actions.move_clock(TICKET_SECONDS + 1)
        tick(2)
        with suppress(AssertionError):
            wait_until(actions.are_settled, within=15, what="all have ended")
    rows = {row["id"]: row for row in actions.all()}
    runs = ledger.runs()

    assert {row["status"] for row in rows.values()} == {"completed"}
    assert set(rows) == set(ids)
    charged = Counter({one: row["attempts"] for one, row in rows.items()})
    assert Counter(run.action_id for run in runs) == charged, "each start is charged, and nothing else"
    by_action = {one: [run for run in runs if run.action_id == one] for one in ids}
    overlaps = [pair for those in by_action.values() for pair in pairwise(those) if not _is_over(*pair)]
    assert overlaps == []


def test_the_demo_loses_nothing(tmp_path, database_url):
    summary = play(tmp_path, database_url, 200)

    assert (summary.completed, summary.two_holders) == (200, 0)
    assert summary.runs >= 200


def _is_over(run, later):
    """Return whether a run had ended, or its process was killed, before the later one started."""
    return run.started_at < later.started_at and (run.ended_at is None or run.ended_at <= later.started_at)
