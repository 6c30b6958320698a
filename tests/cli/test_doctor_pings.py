"""`doctor` names faults of the cron: missed pings, doubled pings, and callers that disconnect or use a wrong secret."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import closing, contextmanager
from datetime import timedelta

import pytest
from werkzeug.serving import make_server

from scheduled_actions import action
from scheduled_actions.core import config
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import Runtime
from tests.cli.conftest import ADMIN_TOKEN, CRON_SECRET
from tests.factories import PATIENCE, insert, move_clock, wait_until
from tests.web.conftest import application

held = threading.Event()


@action("test:hold", timeout_seconds=PATIENCE)
def hold(payload: dict):
    held.wait(PATIENCE)


@pytest.fixture
def runtime(database_url, tmp_path):
    values = {"DATABASE_URL": database_url, "CRON_SECRET": CRON_SECRET, "ADMIN_TOKEN": ADMIN_TOKEN}
    runtime = Runtime(config.load(tmp_path, values), registry=Registry.of(hold))
    yield runtime
    runtime.close()


@pytest.fixture
def ping(runtime):
    """Return a function that pings as a cron does and returns the status."""
    client = application(runtime).test_client()

    def once(*, caller="curl/8.5.0", headers=None):
        sent_headers = {"x-cron-secret": CRON_SECRET} if headers is None else headers
        return client.get("/cron/process", headers={"user-agent": caller, **sent_headers}).status_code

    return once


@pytest.fixture
def check(run):
    """Return a function that returns the status, detail and remedy of a check of `doctor`."""

    def check_one(name):
        (found,) = [check for check in run("doctor", "--json").json["checks"] if check["name"] == name]
        return found["status"], found["detail"], found["remedy"]

    return check_one


def test_a_cron_that_pings_each_minute_is_ok(ping, check, connection):
    for minute in range(8):
        move_clock(connection, timedelta(minutes=minute))
        assert ping() == 200

    status, detail, remedy = check("ticks")
    assert (status, remedy) == ("ok", None)
    assert re.fullmatch(r"last ping \d+ seconds? ago, by curl/8\.5\.0", detail)
    assert check("doubled_pings") == ("ok", "no ping comes twice", None)
    assert check("hung_up_pings")[0] == check("lost_ticks")[0] == check("refused_pings")[0] == "ok"


def test_a_missed_cron_is_named(ping, check, connection):
    ping()
    move_clock(connection, timedelta(minutes=12))

    status, detail, remedy = check("ticks")

    assert (status, detail) == ("warning", "nothing has called /cron/process for 12 minutes (last caller: curl/8.5.0)")
    assert "check that the cron job runs" in remedy


def test_a_doubled_cron_is_named(ping, check, connection):
    for minute in range(5):
        move_clock(connection, timedelta(minutes=minute))
        ping()
        ping(caller="Vercel")

    status, detail, remedy = check("doubled_pings")

    assert status == "warning"
    assert detail == "pings come twice: 5 of 10 started within 10 seconds of another (Vercel, curl/8.5.0)"
    assert "keep one of these crons" in remedy


def test_a_ping_during_a_tick_is_stored_in_the_row_of_the_tick(ping, connection, runtime):
    held.clear()
    insert(connection, action_type="test:hold")
    first = threading.Thread(target=ping)
    first.start()
    wait_until(lambda: is_running(connection))

    assert ping(caller="Vercel") == 200
    held.set()
    first.join(PATIENCE)

    (row,) = connection.execute("select outcome, counts -> 'joined' from scheduled_action_ticks").fetchall()
    assert row == ("finished", ["Vercel"])


def is_running(connection):
    return connection.execute("select from scheduled_action_ticks where running <> '{}'").rowcount > 0


@contextmanager
def served(runtime):
    server = make_server("127.0.0.1", 0, application(runtime), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join(PATIENCE)
        server.server_close()


def ping_and_hang_up(port, connection):
    """Ping, and disconnect while the handler is running, as a caller with a short time limit does."""
    headers = f"Host: x\r\nUser-Agent: cron-job.org\r\nx-cron-secret: {CRON_SECRET}"
    with closing(socket.create_connection(("127.0.0.1", port))) as caller:
        caller.sendall(f"GET /cron/process HTTP/1.1\r\n{headers}\r\n\r\n".encode())
        wait_until(lambda: is_running(connection))


def test_a_cron_that_disconnects_before_the_response_is_named_with_a_setting(runtime, check, connection):
    with served(runtime) as port:
        for _ in range(2):
            held.clear()
            insert(connection, action_type="test:hold")
            ping_and_hang_up(port, connection)
            held.set()
            wait_until(lambda: not is_running(connection))
            wait_until(lambda: runtime.processor.state.single_flight.notify() is False)

    outcomes = connection.execute("select outcome from scheduled_action_ticks").fetchall()
    assert outcomes == [("hung_up",), ("hung_up",)]
    # Pretend that the caller waited for ten seconds each time.
    connection.execute("update scheduled_action_ticks set counts = counts || '{\"hung_up_seconds\": 10.1}'")
    status, detail, remedy = check("hung_up_pings")
    assert status == "warning"
    assert detail.startswith("cron-job.org disconnected within 10.1 seconds in 2 of its last 2 pings")
    assert (
        "set max_run_seconds = 6 (SCHEDULED_ACTIONS_MAX_RUN_SECONDS): handlers that start last then have 2 " in remedy
    )


def test_pings_with_a_wrong_secret_are_reported_without_the_secret(ping, check, connection):
    secret = "the-secret-of-another-deployment"

    for _ in range(3):
        assert ping(headers={"x-cron-secret": secret}) == 401

    status, detail, remedy = check("refused_pings")
    assert status == "warning"
    # The first rejected ping is stored immediately, and later ones at most once a minute, to limit the writes.
    assert re.fullmatch(
        r"a caller \(curl/8\.5\.0\) uses a wrong CRON_SECRET: 1 ping in a day, last try \d+ seconds? ago", detail
    )
    assert "if it is your cron, update its secret" in remedy
    stored = str(connection.execute("select value from scheduled_action_settings").fetchall())
    assert secret not in stored


def test_a_scanner_without_a_secret_causes_no_warning_while_the_cron_pings(ping, check):
    assert ping() == 200
    assert ping(headers={}, caller="a-scanner") == 401

    status, detail, _ = check("refused_pings")
    assert status == "ok"
    assert re.fullmatch(r"1 ping refused in a day, last try \d+ seconds? ago \(a-scanner\)", detail)


def test_a_wrong_secret_is_answered_with_401_without_a_database(tmp_path):
    values = {"DATABASE_URL": "postgresql://127.0.0.1:1/none", "CRON_SECRET": CRON_SECRET}
    client = application(Runtime(config.load(tmp_path, values), registry=Registry.of())).test_client()

    assert client.get("/cron/process", headers={"x-cron-secret": "wrong"}).status_code == 401


def test_a_tick_without_an_end_is_named(ping, check, connection):
    ping()
    connection.execute(
        "insert into scheduled_action_ticks (id, started_at, lease_expires_at) values"
        " (gen_random_uuid(), now() - interval '3 minutes', now() - interval '1 minute')"
    )

    assert check("lost_ticks")[1].startswith("1 of the last 2 ticks did not end")
