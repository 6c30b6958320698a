"""A heartbeat is heard by a real receiver after each good tick, and no tick waits for it or fails with it."""

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
def a_project(database_url):
    with projects(database_url) as make:
        yield make


class Receiver:
    """Keeps what it was posted; answers once it may."""

    def __init__(self):
        self.status = 200
        self.heard = queue.SimpleQueue()
        self.may_answer = threading.Event()
        self.may_answer.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                receiver.heard.put(self.path)
                receiver.may_answer.wait(PATIENCE)
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/ping/secret-uuid"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def next(self):
        return self.heard.get(timeout=PATIENCE)


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.may_answer.set()
    receiver.server.shutdown()
    receiver.server.server_close()


@pytest.fixture
def clock():
    """Give a list whose one number is the time, in seconds."""
    return [1000.0]


@pytest.fixture
def a_heartbeat(receiver, clock):
    def make(**options):
        return Heartbeat(receiver.url, reach=Reach(), monotonic=lambda: clock[0], **options)

    return make


def test_a_good_tick_is_told_of(a_project, receiver):
    report = a_project(heartbeat_url=receiver.url).processor.tick()

    assert report.success
    assert receiver.next() == "/ping/secret-uuid"


def told(connection):
    """Return what the rows of ticks say of heartbeats, the oldest first."""
    rows = connection.execute("select counts ->> 'heartbeat' from scheduled_action_ticks order by started_at")
    return [heartbeat for (heartbeat,) in rows]


@pytest.mark.parametrize("work", [0, 1], ids=["idle", "at work"])
@pytest.mark.parametrize(("status", "outcome"), [(200, "answered"), (404, "was refused: HTTP 404")])
def test_a_ticks_row_says_how_the_heartbeat_before_it_went(a_project, receiver, status, outcome, work):
    receiver.status = status
    project = a_project(nothing, heartbeat_url=receiver.url)
    for _ in range(2):
        with project.database.connection() as connection:
            insert_many(connection, work, action_type="test:nothing")
        assert project.processor.tick().processed == work
        wait_until(lambda: not project.heartbeat.is_sending)

    with project.database.connection() as connection:
        assert told(connection) == ["unsent", outcome]


def test_without_a_heartbeat_no_row_speaks_of_one(a_project, connection):
    a_project().processor.tick()

    assert told(connection) == [None]


def test_a_tick_that_breaks_is_told_of_as_failed(a_project, receiver, connection):
    project = a_project(heartbeat_url=receiver.url)
    connection.execute("alter table scheduled_action_ticks rename to away")

    with pytest.raises(Exception, match="migrate"):
        project.processor.tick()

    assert receiver.next() == "/ping/secret-uuid/fail"


def test_a_tick_that_processes_nothing_because_it_may_not_tells_nobody(a_project, receiver):
    a_project(heartbeat_url=receiver.url, enabled=False).processor.tick()

    assert receiver.heard.empty()


def test_no_tick_waits_for_a_receiver_that_does_not_answer(a_project, receiver):
    receiver.may_answer.clear()
    project = a_project(heartbeat_url=receiver.url)

    assert project.processor.tick().success
    assert receiver.next()
    # The answer is still awaited: another tick sends no second beat.
    assert project.heartbeat.is_sending
    assert project.processor.tick().success
    assert receiver.heard.empty()


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/x", "no address at all", "http://10.0.0.1/forbidden"])
def test_no_tick_fails_with_a_heartbeat_that_cannot_be_sent_and_the_log_says_so(a_project, url, caplog):
    project = a_project(heartbeat_url=url)

    assert project.processor.tick().success

    wait_until(lambda: not project.heartbeat.is_sending)
    assert "heartbeat.failed" in caplog.text
    assert "forbidden" not in caplog.text
    assert "/x" not in caplog.text


def test_good_ticks_close_together_send_one_beat_and_a_broken_one_is_always_told(a_heartbeat, receiver, clock):
    heartbeat = a_heartbeat(waits=True)

    for step, has_failed in ((0, False), (5, False), (6, False), (1, True), (0, True), (0, False), (9, False)):
        clock[0] += step
        heartbeat.beat(has_failed=has_failed)

    told = [receiver.next() for _ in range(5)]
    good, bad = "/ping/secret-uuid", "/ping/secret-uuid/fail"
    assert told == [good, good, bad, bad, good]
    assert receiver.heard.empty()


def test_where_the_host_freezes_processes_the_beat_is_sent_before_the_tick_answers(a_heartbeat, receiver):
    heartbeat = a_heartbeat(waits=True)

    heartbeat.beat()

    assert not heartbeat.is_sending
    assert receiver.next()


def test_a_frozen_hosts_tick_waits_two_seconds_at_most(a_heartbeat, receiver, caplog):
    receiver.may_answer.clear()
    heartbeat = a_heartbeat(waits=True)

    heartbeat.beat()

    wait_until(lambda: not heartbeat.is_sending)
    # Elsewhere a beat may take ten seconds; a busy machine adds to these two.
    assert re.search(r"did not answer in time: given up after [2-5]\.", caplog.text)


@pytest.mark.parametrize(("variable", "waits"), [("VERCEL", True), ("NOTHING", False)])
def test_the_host_decides_whether_the_beat_is_waited_for(database_url, tmp_path, variable, waits):
    from scheduled_actions.core import config
    from scheduled_actions.runtime import Runtime

    environ = {"SCHEDULED_ACTIONS_HEARTBEAT_URL": "https://hc.example/uuid", variable: "1"}

    assert Runtime(config.load(tmp_path, environ)).heartbeat.waits is waits
