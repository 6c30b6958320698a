"""Pings after the commit of due actions: one ping for many actions, and no delay or error for the caller."""

from __future__ import annotations

import http.server
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from handlers import deadline
from scheduled_actions import action
from scheduled_actions.actions.model import NewAction
from scheduled_actions.registry import Registry
from scheduled_actions.schedules import operations
from scheduled_actions.web.extension import ScheduledActions
from tests.factories import CRON_SECRET, NOW, PATIENCE, insert, projects, wait_until

MINUTE = timedelta(minutes=1)


@action("test:run")
def run(payload: dict):
    return None


class Receiver:
    """A server that counts pings, and answers each when the test allows it."""

    def __init__(self):
        self.headers, self.open, self.most = [], 0, 0
        self.answer = threading.Event()
        self.answer.set()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                receiver.open += 1
                receiver.most = max(receiver.most, receiver.open)
                receiver.headers.append((self.path, dict(self.headers)))
                receiver.answer.wait(PATIENCE)
                receiver.open -= 1
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                return None

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/app"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self.answer.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def a_project(database_url):
    with projects(database_url) as make:
        yield make


def schedule(project, connection=None, **arguments):
    return project.scheduler.schedule_action(
        NewAction(action_type="test:run", payload={}, **arguments), connection=connection
    )


def test_the_commit_of_a_due_action_sends_a_signed_ping_without_the_secret(a_project, receiver):
    project = a_project(run, url=receiver.url)

    schedule(project)
    wait_until(lambda: receiver.headers)

    ((path, headers),) = receiver.headers
    assert path == "/app/cron/process"
    assert CRON_SECRET not in str(headers)
    assert headers["x-scheduled-actions-wake"] == "1"
    assert headers["webhook-signature"].startswith("v1,")


DEADLINE = {"target": {"type": "order", "id": "1"}, "due_at": MINUTE}


def a_deadline(project):
    return project.deadlines.set(DEADLINE)[0].id


def a_schedule(project):
    return project.schedules.schedule_recurring("test:run", {}, "daily").id


class Wakes:
    """Counts the wake-ups instead of sending pings."""

    is_on = True

    def __init__(self):
        self.count = 0

    def notify(self, *, has_changed=False):
        self.count += 1

    def notify_after_commit(self, action_ids):
        raise AssertionError("the call commits itself")


def an_event(project):
    """Return the id of a delivery that failed."""
    with project.database.connection() as connection:
        payload = {"event": "task:created", "entity_type": "task", "entity_id": "1", "data": {}, "endpoint": "crm"}
        return insert(connection, action_type="webhook:send", payload=payload, status="failed")


#: By name, what prepares a change, and the change, which may make something due.
CHANGES = {
    "set a deadline": (lambda _: None, lambda project, _: project.deadlines.set(DEADLINE)),
    "set deadlines": (lambda _: None, lambda project, _: project.deadlines.set_many([DEADLINE])),
    "move a deadline": (a_deadline, lambda project, id_: project.deadlines.move(id_, timedelta(0))),
    "move deadlines": (a_deadline, lambda project, id_: project.deadlines.move_many({id_: timedelta(0)})),
    "update a deadline": (a_deadline, lambda project, id_: project.deadlines.update(id_, timezone="Europe/Berlin")),
    "run a schedule": (a_schedule, lambda project, id_: operations.run_now(project.schedules, id_)),
    "backfill a schedule": (
        a_schedule, lambda project, id_: operations.backfill(project.schedules, id_, NOW - timedelta(days=2), NOW),
    ),
    "run an action": (
        lambda project: schedule(project, scheduled_at=MINUTE).id,
        lambda project, id_: project.action_operations.run_now(id_, by=None, team_id=None),
    ),
    "replay a delivery": (an_event, lambda project, id_: project.deliveries.replay(id_)),
    "recover deliveries": (an_event, lambda project, _: project.deliveries.recover(NOW)),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_may_make_something_due_wakes_a_tick(a_project, name):
    project = a_project(run, registry=Registry.of(run, deadline.mark_missed))
    project.__dict__["wake"] = wakes = Wakes()
    prepare, change = CHANGES[name]
    given = prepare(project)
    before = wakes.count

    change(project, given)

    assert wakes.count == before + 1


def test_a_change_in_the_callers_transaction_wakes_no_tick_before_its_commit(a_project, database_url):
    project = a_project(run, registry=Registry.of(run, deadline.mark_missed))
    project.__dict__["wake"] = wakes = Wakes()

    with psycopg.connect(database_url) as connection:
        project.deadlines.set(DEADLINE, connection=connection)

        assert wakes.count == 0


@pytest.mark.parametrize("arguments", [{"scheduled_at": MINUTE}])
def test_an_action_due_later_sends_no_ping(a_project, receiver, arguments):
    project = a_project(run, url=receiver.url)

    schedule(project, **arguments)
    project.scheduler.schedule_actions([{"action_type": "test:run", "payload": {}, **arguments}])
    schedule(project)
    wait_until(lambda: receiver.headers)

    assert len(receiver.headers) == 1


def test_many_due_actions_cause_one_ping_in_flight_and_one_after_it(a_project, receiver):
    project = a_project(run, url=receiver.url)
    receiver.answer.clear()
    schedule(project)
    wait_until(lambda: receiver.headers)

    for _ in range(20):
        schedule(project)
    receiver.answer.set()
    wait_until(lambda: len(receiver.headers) == 2 and not receiver.open)

    assert receiver.most == 1


def test_a_ping_waits_for_the_commit_of_the_callers_transaction(a_project, receiver, database_url):
    project = a_project(run, url=receiver.url)
    with psycopg.connect(database_url) as own:
        schedule(project, connection=own)
        time.sleep(0.3)
        assert receiver.headers == []

    wait_until(lambda: receiver.headers)


def test_at_most_a_thousand_uncommitted_actions_are_remembered(a_project, receiver):
    wake = a_project(run, url=receiver.url).wake

    for _ in range(3000):
        wake.notify_after_commit([uuid4()])

    assert len(wake.uncommitted) == 1000


def test_a_rolled_back_action_sends_no_ping(a_project, receiver, database_url):
    project = a_project(run, url=receiver.url)
    with psycopg.connect(database_url) as own:
        schedule(project, connection=own)
        own.rollback()
    time.sleep(0.5)

    assert receiver.headers == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "https://127.0.0.1:1"])
def test_an_unreachable_receiver_raises_no_error_in_the_caller(a_project, url):
    assert schedule(a_project(run, url=url)).id


def test_a_hanging_receiver_delays_no_caller(a_project, receiver):
    project = a_project(run, url=receiver.url)
    receiver.answer.clear()
    began = time.monotonic()

    for _ in range(10):
        schedule(project)

    assert time.monotonic() - began < 2


def test_without_an_address_or_a_secret_there_is_no_ping(a_project, receiver):
    schedule(a_project(run))
    schedule(a_project(run, url=receiver.url, secret=""))
    time.sleep(0.3)

    assert receiver.headers == []


def test_a_script_that_exits_immediately_has_sent_its_ping(receiver, database_url, tmp_path):
    script = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from pathlib import Path
from scheduled_actions import action, runtime, schedule_action
from scheduled_actions.core import config
from scheduled_actions.registry import Registry
@action("test:run")
def run(payload: dict):
    return None
environ = {{"DATABASE_URL": {database_url!r}, "CRON_SECRET": {CRON_SECRET!r}}}
environ["SCHEDULED_ACTIONS_URL"] = {receiver.url!r}
runtime.use(runtime.Runtime(config.load(Path({str(tmp_path)!r}), environ), registry=Registry.of(run)))
schedule_action("test:run", {{}})
"""
    receiver.answer.clear()

    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)

    assert len(receiver.headers) == 1


def test_the_ping_of_a_whole_application_runs_the_action(a_project, database_url):
    from flask import Flask
    from werkzeug.serving import make_server

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    app = Flask("test")
    ScheduledActions(app, runtime=a_project(run))
    server = make_server("127.0.0.1", port, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    project = a_project(run, url=f"http://127.0.0.1:{port}")

    scheduled = schedule(project)
    wait_until(lambda: project.scheduler.get_action(scheduled.id).status == "completed")
    server.shutdown()


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "example.com",
        "https://user:pw@example.com",
        "https://x/?a=1",
        "https://x:99999",
        "https://[1]",
        "https://a..b",
        f"https://{'a' * 64}.b",
        7,
    ],
)
def test_an_invalid_address_is_rejected(a_project, url):
    with pytest.raises(Exception, match="url"):
        a_project(run, url=url)
