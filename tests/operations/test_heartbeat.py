"""Heartbeats: each tick sends one, and does not wait for it or fail because of it."""

from __future__ import annotations

import queue
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from scheduled_actions import action
from scheduled_actions.operations.heartbeat import Heartbeat
from scheduled_actions.outbound.reach import Reach
from tests.factories import PATIENCE, insert_many, projects, wait_until


@action("test:nothing")
def nothing(payload: dict):
    """Do nothing."""


@pytest.fixture
def create_project(database_url):
    with projects(database_url) as create:
        yield create


class Receiver:
    """HTTP server that records the paths of POST requests and responds when `may_respond` is set."""

    def __init__(self):
        self.status = 200
        self.received = queue.SimpleQueue()
        self.may_respond = threading.Event()
        self.may_respond.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                receiver.received.put(self.path)
                receiver.may_respond.wait(PATIENCE)
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/ping/secret-uuid"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def next(self):
        return self.received.get(timeout=PATIENCE)


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.may_respond.set()
    receiver.server.shutdown()
    receiver.server.server_close()


@pytest.fixture
def clock():
    """Return a list with a single number: the time in seconds."""
    return [1000.0]


@pytest.fixture
def create_heartbeat(receiver, clock):
    def create(**options):
        return Heartbeat(receiver.url, reach=Reach(), monotonic=lambda: clock[0], **options)

    return create


def test_a_successful_tick_sends_a_heartbeat(create_project, receiver):
    report = create_project(heartbeat_url=receiver.url).processor.tick()

    assert report.success
    assert receiver.next() == "/ping/secret-uuid"


def stored_heartbeats(connection):
    """Return the heartbeat results stored with the ticks, oldest first."""
    rows = connection.execute("select counts ->> 'heartbeat' from scheduled_action_ticks order by started_at")
    return [heartbeat for (heartbeat,) in rows]


@pytest.mark.parametrize("work", [0, 1], ids=["idle", "busy"])
@pytest.mark.parametrize(("status", "outcome"), [(200, "answered"), (404, "was refused: HTTP 404")])
def test_a_tick_stores_the_result_of_the_previous_heartbeat(create_project, receiver, status, outcome, work):
    receiver.status = status
    project = create_project(nothing, heartbeat_url=receiver.url)
    for _ in range(2):
        with project.database.connection() as connection:
            insert_many(connection, work, action_type="test:nothing")
        assert project.processor.tick().processed == work
        wait_until(lambda: not project.heartbeat.is_sending)

    with project.database.connection() as connection:
        assert stored_heartbeats(connection) == ["unsent", outcome]


def test_without_a_heartbeat_url_no_result_is_stored(create_project, connection):
    create_project().processor.tick()

    assert stored_heartbeats(connection) == [None]


def test_a_failed_tick_sends_a_failure_heartbeat(create_project, receiver, connection):
    project = create_project(heartbeat_url=receiver.url)
    connection.execute("alter table scheduled_action_ticks rename to away")

    with pytest.raises(Exception, match="migrate"):
        project.processor.tick()

    assert receiver.next() == "/ping/secret-uuid/fail"


def test_a_disabled_tick_sends_no_heartbeat(create_project, receiver):
    create_project(heartbeat_url=receiver.url, enabled=False).processor.tick()

    assert receiver.received.empty()


def test_a_tick_does_not_wait_for_a_receiver_that_does_not_respond(create_project, receiver):
    receiver.may_respond.clear()
    project = create_project(heartbeat_url=receiver.url)

    assert project.processor.tick().success
    assert receiver.next()
    # The first request is still open: another tick sends no second heartbeat.
    assert project.heartbeat.is_sending
    assert project.processor.tick().success
    assert receiver.received.empty()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/x", "no address at all", "http://10.0.0.1/forbidden"])
def test_a_heartbeat_that_cannot_be_sent_is_logged_and_does_not_fail_the_tick(create_project, url, caplog):
    project = create_project(heartbeat_url=url)

    assert project.processor.tick().success

    wait_until(lambda: not project.heartbeat.is_sending)
    assert "heartbeat.failed" in caplog.text
    assert "forbidden" not in caplog.text
    assert "/x" not in caplog.text


def test_successful_ticks_within_seconds_send_one_heartbeat_and_failures_are_always_sent(
    create_heartbeat, receiver, clock
):
    heartbeat = create_heartbeat(waits=True)

    for step, has_failed in ((0, False), (5, False), (6, False), (1, True), (0, True), (0, False), (9, False)):
        clock[0] += step
        heartbeat.beat(has_failed=has_failed)

    received = [receiver.next() for _ in range(5)]
    good, bad = "/ping/secret-uuid", "/ping/secret-uuid/fail"
    assert received == [good, good, bad, bad, good]
    assert receiver.received.empty()


def test_with_waits_the_heartbeat_is_sent_before_beat_returns(create_heartbeat, receiver):
    heartbeat = create_heartbeat(waits=True)

    heartbeat.beat()

    assert not heartbeat.is_sending
    assert receiver.next()


def test_with_waits_a_heartbeat_times_out_after_two_seconds(create_heartbeat, receiver, caplog):
    receiver.may_respond.clear()
    heartbeat = create_heartbeat(waits=True)

    heartbeat.beat()

    wait_until(lambda: not heartbeat.is_sending)
    # Without `waits` the limit is ten seconds; a busy machine may need longer than two.
    assert re.search(r"timed out after [2-5]\.", caplog.text)


@pytest.mark.parametrize(
    ("variable", "waits"),
    [("VERCEL", True), ("AWS_LAMBDA_FUNCTION_NAME", True), ("K_SERVICE", True), ("NOTHING", False)],
)
def test_ticks_wait_for_the_heartbeat_only_on_hosts_that_freeze_processes(database_url, tmp_path, variable, waits):
    from scheduled_actions.core import config
    from scheduled_actions.runtime import Runtime

    environ = {"SCHEDULED_ACTIONS_HEARTBEAT_URL": "https://hc.example/uuid", variable: "1"}

    assert Runtime(config.load(tmp_path, environ)).heartbeat.waits is waits
