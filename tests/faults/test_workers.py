"""Workers of an executor as real processes that are killed, frozen, stopped, or have a wrong clock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from scheduled_actions.database.embedded import attach
from scheduled_actions.database.migrate import migrate
from scheduled_actions.executors.ready import CLAIM_SECONDS
from tests.faults.actions import Actions
from tests.faults.serving import has_ended, stop_postgres, wait_until

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
SETTINGS = """
[executors.media]
types = ["proof:*"]
"""
#: The timeout of the handlers here, and the lease of an action that a worker has taken over.
TIMEOUT_SECONDS = 5
TAKEN_SECONDS = TIMEOUT_SECONDS + 15 + 30
HOUR = 3600


class WorkerProcess:
    """`executors work media` as a process of its own."""

    def __init__(self, project, environ, *options, log):
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "scheduled_actions.cli", "--project", project, "executors", "work", "media",
                 *options],
                cwd=project, env=environ, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        self.pid = self.process.pid

    def kill(self, number=signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)
        if number == signal.SIGKILL:
            self.process.wait(timeout=30)
            wait_until(lambda: has_ended(self.pid), within=30, what="the worker has ended")

    def logged(self):
        return self.log.read_text(errors="replace")


@pytest.fixture
def project(project):
    (project / "scheduled_actions.toml").write_text(SETTINGS, encoding="utf-8")
    return project


@pytest.fixture
def work(project, environ, tmp_path):
    """Return a function that starts a worker, and waits until it is seen; all are killed after the test."""
    started = []

    def start(*options, **changes):
        settings = {"SCHEDULED_ACTIONS_DEFAULT_TIMEOUT_SECONDS": str(TIMEOUT_SECONDS), "PYTHONUNBUFFERED": "1"}
        worker = WorkerProcess(
            project, {**environ, **settings, **changes}, *options, log=tmp_path / f"worker-{len(started)}.log"
        )
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.kill()


@pytest.fixture
def tick(project, environ):
    """Return a function that runs one tick in a process of its own, which rescues what has been lost."""

    def run(directory=project):
        command = [sys.executable, "-m", "scheduled_actions.cli", "--project", directory, "process", "--json"]
        subprocess.run(command, env=environ, check=True, capture_output=True, timeout=60)

    return run


def outcomes(row):
    return [entry["outcome"] for entry in row["history"]]


def are(actions, ids, status):
    return lambda: {actions.one(one)["status"] for one in ids} == {status}


def test_actions_of_a_worker_killed_before_they_start_are_not_charged(work, tick, actions, ledger):
    """The worker's take-over waits for a lock: its actions are claimed, and none has started."""
    ids = actions.schedule(*[{"action_type": "proof:work", "payload": {"number": n}} for n in range(2)])
    actions.connection.execute(
        "create function hold_back() returns trigger language plpgsql as"
        " $$ begin if new.announced_at is not null then perform pg_sleep(60); end if; return new; end $$;"
        "create trigger hold_back before update on scheduled_actions for each row execute function hold_back()"
    )
    worker = work("--concurrency", "2")
    wait_until(are(actions, ids, "processing"), within=30, what="both are claimed")

    worker.kill()
    actions.connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where query like '%%take%%' and pid <> pg_backend_pid()"
        " and datname = current_database()"
    )
    actions.connection.execute("drop trigger hold_back on scheduled_actions")
    actions.move_clock(CLAIM_SECONDS + 1)
    tick()

    assert ledger.count() == 0
    for one in ids:
        row = actions.one(one)
        assert (row["status"], row["attempts"], row["history"]) == ("pending", 0, [])
    work()
    wait_until(are(actions, ids, "completed"), within=30, what="another worker runs them")
    assert {actions.one(one)["attempts"] for one in ids} == {1}


def test_the_action_that_kills_its_worker_fails_alone_and_its_companion_completes(work, tick, actions, ledger):
    killer, companion = actions.schedule(
        {"action_type": "proof:kill-process", "payload": {"seconds": 0.5}, "max_attempts": 2},
        {"action_type": "proof:work", "payload": {"seconds": 2}, "max_attempts": 1},
    )
    deaths = 0
    for _ in range(6):
        if actions.are_settled():
            break
        worker = work("--concurrency", "2")
        wait_until(
            lambda worker=worker: actions.are_settled() or worker.process.poll() is not None,
            within=60,
            what="the worker is killed, or everything is settled",
        )
        if worker.process.poll() is not None:
            deaths += 1
            actions.move_clock(TAKEN_SECONDS + 1)
            tick()
        else:
            worker.kill()

    killed, done = actions.one(killer), actions.one(companion)
    assert (killed["status"], set(outcomes(killed))) == ("failed", {"crashed"})
    assert killed["attempts"] == 2
    assert (done["status"], done["attempts"]) == ("completed", 1)
    assert outcomes(done)[-1] == "completed"
    assert 2 <= deaths <= 4
    alone = [run for run in ledger.runs("proof:work") if run.ended_at is not None]
    assert len(alone) == 1


def test_a_worker_frozen_past_its_lease_changes_nothing_afterwards(work, tick, actions, ledger):
    [one] = actions.schedule({"action_type": "proof:work", "payload": {"seconds": 1}})
    frozen = work("--concurrency", "1")
    wait_until(ledger.running, within=30, what="the worker runs the action")
    frozen.kill(signal.SIGSTOP)
    actions.move_clock(TAKEN_SECONDS + 1)
    tick()
    other = work("--concurrency", "1")
    wait_until(are(actions, [one], "completed"), within=30, what="another worker runs the action")
    before = actions.one(one)

    frozen.kill(signal.SIGCONT)
    wait_until(lambda: "action.stale" in frozen.logged(), within=30, what="the late outcome is refused")

    assert actions.one(one) == before
    assert outcomes(before) == ["crashed", "completed"]
    assert before["result"]["pid"] == other.pid
    assert len(ledger.runs()) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_handlers_end_and_releases_the_rest_uncharged(work, actions, ledger, number):
    ids = actions.schedule(*[{"action_type": "proof:work", "payload": {"seconds": 2}} for _ in range(4)])
    worker = work("--concurrency", "2")
    wait_until(lambda: ledger.running().total() == 2, within=30, what="two handlers are running")

    worker.process.send_signal(number)
    code = worker.process.wait(timeout=30)

    assert code == 0, worker.logged()
    rows = [actions.one(one) for one in ids]
    assert Counter((row["status"], row["attempts"]) for row in rows) == {("completed", 1): 2, ("pending", 0): 2}
    assert all(row["claim_token"] is None for row in rows)
    assert "2 processed, 2 succeeded" in worker.logged()
    assert "Traceback" not in worker.logged()
    [[finished]] = actions.connection.execute("select finished_at is not null from scheduled_action_workers")
    assert finished


@pytest.mark.parametrize("wrong", [HOUR, -HOUR], ids=["an hour ahead", "an hour behind"])
def test_a_worker_with_a_wrong_clock_follows_the_clock_of_the_database(work, actions, ledger, wrong):
    path = os.pathsep.join(filter(None, [str(HERE / "wrong_clock"), os.environ.get("PYTHONPATH", "")]))
    now = ledger.now()
    later = (now + timedelta(seconds=HOUR / 2)).isoformat()
    at_once, due_later = actions.schedule(
        {"action_type": "proof:tell-time", "payload": {}},
        {"action_type": "proof:work", "payload": {}, "scheduled_at": later},
    )

    work(PYTHONPATH=path, PROOF_CLOCK_WRONG_BY=str(wrong))
    wait_until(are(actions, [at_once], "completed"), within=30, what="the due action has run")
    other = work()
    wait_until(lambda: _workers(actions) == 2, within=30, what="the other worker looks for actions, too")
    before = actions.one(due_later)["status"]
    actions.move_clock(HOUR / 2)
    wait_until(are(actions, [due_later], "completed"), within=30, what="the later action has run")

    row = actions.one(at_once)
    assert abs(row["result"]["time"] - now.timestamp() - wrong) < 60, "the clock was wrong"
    assert abs(row["started_at"] - now) < timedelta(seconds=60)
    assert abs(row["completed_at"] - now) < timedelta(seconds=60)
    assert before == "pending"
    assert other.process.poll() is None


def _workers(actions):
    [[count]] = actions.connection.execute("select count(*) from scheduled_action_workers")
    return count


def test_no_action_runs_twice_with_several_workers_of_which_some_are_stopped(work, actions, ledger):
    ids = actions.schedule(*[{"action_type": "proof:work", "payload": {"seconds": 0.02}} for _ in range(600)])
    workers = [work("--concurrency", "4") for _ in range(3)]
    wait_until(lambda: ledger.count() > 100, within=60, what="the workers are at work")

    workers[0].process.send_signal(signal.SIGTERM)
    workers[0].process.wait(timeout=30)
    wait_until(actions.are_settled, within=120, what="everything is settled")

    assert Counter(run.action_id for run in ledger.runs()) == Counter(ids)
    assert {(row["status"], row["attempts"]) for row in actions.all()} == {("completed", 1)}


def test_a_worker_killed_while_many_are_at_work_loses_nothing(work, tick, actions, ledger):
    ids = actions.schedule(*[{"action_type": "proof:work", "payload": {"seconds": 0.05}} for _ in range(300)])
    workers = [work("--concurrency", "4") for _ in range(2)]
    wait_until(lambda: ledger.count() > 50, within=60, what="the workers are at work")

    workers[0].kill()
    running = {run.action_id for run in ledger.runs() if run.pid == workers[0].pid and run.ended_at is None}
    wait_until(lambda: actions.statuses()["pending"] == 0, within=120, what="the other worker runs the rest")
    actions.move_clock(TAKEN_SECONDS + 1)
    tick()
    wait_until(actions.are_settled, within=60, what="everything is settled")

    rows = {row["id"]: row for row in actions.all()}
    assert set(rows) == set(ids)
    assert {row["status"] for row in rows.values()} == {"completed"}
    crashed = {one for one, row in rows.items() if "crashed" in outcomes(row)}
    assert running <= crashed
    assert all(rows[one]["attempts"] == 2 for one in crashed)
    assert all(rows[one]["attempts"] == 1 for one in set(ids) - crashed)


def test_an_older_process_without_the_section_does_not_run_the_types(work, tick, actions, ledger, project):
    worker = work("--concurrency", "1")
    wait_until(lambda: _workers(actions) == 1, within=30, what="the worker has started")
    worker.kill()
    older = project.with_name("older")
    (project / "scheduled_actions.toml").unlink()
    project.rename(older)
    [one] = actions.schedule({"action_type": "proof:work", "payload": {}})

    tick(older)
    tick(older)

    assert (actions.one(one)["status"], ledger.count()) == ("pending", 0)
    older.rename(project)
    (project / "scheduled_actions.toml").write_text(SETTINGS, encoding="utf-8")
    work("--once").process.wait(timeout=30)
    assert actions.one(one)["status"] == "completed"


def test_the_database_may_restart_while_handlers_run(project, environ, ledger, own_server, tmp_path):
    """The worker keeps the result of a handler that ends while the database is away."""
    local = attach(own_server)
    with psycopg.connect(local.dsn, autocommit=True) as connection:
        migrate(connection)
        [one] = Actions(connection).schedule({"action_type": "proof:work", "payload": {"seconds": 3}})
    worker = WorkerProcess(
        project, {**environ, "DATABASE_URL": local.dsn, "PYTHONUNBUFFERED": "1"}, log=tmp_path / "worker.log"
    )
    try:
        wait_until(ledger.running, within=30, what="the worker runs the action")
        stop_postgres(own_server, local.dsn, signal.SIGINT)
        wait_until(lambda: ledger.ended().total() == 1, within=30, what="the handler has ended")
        wait_until(lambda: "trying again" in worker.logged(), within=30, what="the worker has noticed")
        local.restart_if_ended()
        with psycopg.connect(local.dsn, autocommit=True) as connection:
            actions = Actions(connection)
            wait_until(are(actions, [one], "completed"), within=60, what="the result is stored")
            row = actions.one(one)
    finally:
        worker.kill()
        local.close()

    assert (row["attempts"], row["result"]["pid"]) == (1, worker.pid)
    assert ledger.count() == 1
