"""Workers of an executor without a broker, as real processes: signals, older ticks, and a database that restarts.

What holds with each carrier is tested in `test_executors.py`.
"""

from __future__ import annotations

import signal
from collections import Counter

import psycopg
import pytest

from scheduled_actions.database.embedded import attach
from scheduled_actions.database.migrate import migrate
from tests.faults.actions import Actions
from tests.faults.serving import stop_postgres, wait_until
from tests.faults.workers import ENVIRON, Fleet, write_project

pytestmark = pytest.mark.slow


@pytest.fixture
def project(project):
    write_project(project, "postgres")
    return project


@pytest.fixture
def fleet(project, environ, tmp_path, actions, ledger):
    """Yield the processes of the project; all are killed after the test."""
    fleet = Fleet("postgres", None, project, environ | ENVIRON, tmp_path, actions=actions, ledger=ledger)
    yield fleet
    fleet.close()


def are(actions, ids, status):
    return lambda: {actions.one(one)["status"] for one in ids} == {status}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_handlers_end_and_releases_the_rest_uncharged(fleet, actions, ledger, number):
    ids = actions.schedule(*[{"action_type": "proof:work", "payload": {"seconds": 2}} for _ in range(4)])
    worker = fleet.work()
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


def _workers(actions):
    [[count]] = actions.connection.execute("select count(*) from scheduled_action_workers")
    return count


def test_no_action_runs_twice_with_several_workers_of_which_some_are_stopped(fleet, actions, ledger):
    ids = actions.schedule(*[{"action_type": "proof:work", "payload": {"seconds": 0.02}} for _ in range(600)])
    workers = [fleet.work(None, "--concurrency", "4") for _ in range(3)]
    wait_until(lambda: ledger.count() > 100, within=60, what="the workers are at work")

    workers[0].process.send_signal(signal.SIGTERM)
    workers[0].process.wait(timeout=30)
    wait_until(actions.are_settled, within=120, what="everything is settled")

    assert Counter(run.action_id for run in ledger.runs()) == Counter(ids)
    assert {(row["status"], row["attempts"]) for row in actions.all()} == {("completed", 1)}


def test_an_older_process_without_the_section_does_not_run_the_types(fleet, actions, ledger, project):
    worker = fleet.work()
    wait_until(lambda: _workers(actions) == 1, within=30, what="the worker has started")
    worker.kill()
    older = project.with_name("older")
    (project / "scheduled_actions.toml").unlink()
    project.rename(older)
    [one] = actions.schedule({"action_type": "proof:work", "payload": {}})

    fleet.tick(older)
    fleet.tick(older)

    assert (actions.one(one)["status"], ledger.count()) == ("pending", 0)
    older.rename(project)
    write_project(project, "postgres")
    fleet.work(None, "--once").process.wait(timeout=30)
    assert actions.one(one)["status"] == "completed"


def test_the_database_may_restart_while_handlers_run(fleet, ledger, own_server):
    """The worker keeps the result of a handler that ends while the database is away."""
    local = attach(own_server)
    with psycopg.connect(local.dsn, autocommit=True) as connection:
        migrate(connection)
        [one] = Actions(connection).schedule({"action_type": "proof:work", "payload": {"seconds": 3}})
    worker = fleet.work(DATABASE_URL=local.dsn)
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
