"""External checks of conditions: queries, HTTP requests and project functions."""

from __future__ import annotations

import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg
import pytest
from psycopg.types.json import Jsonb

from scheduled_actions import action, condition
from scheduled_actions.actions.model import NewAction
from scheduled_actions.core import config
from scheduled_actions.core.errors import DatabaseUnavailable, RequestError
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import Runtime
from tests.factories import insert, move_clock, row, statuses

QUERIES = """
[queries.stock]
sql = "select amount from stock where item = %(item)s"

[queries.mine]
sql = "select from stock where owner = %(team_id)s;"

[queries.owner]
sql = "select owner from stock where item = %(item)s"

[queries.writing]
sql = "with gone as (delete from stock returning 1) select * from gone"

[queries.changing]
sql = "select nextval('numbers')"

[queries.misspelt]
sql = "select * from stok"

[queries.slow]
sql = "select pg_sleep(30)"
timeout_seconds = 0.05
"""


@pytest.fixture
def received():
    """Return the list of checks that the project function received."""
    return []


@pytest.fixture
def project(tmp_path, database_url, connection, received):
    connection.execute("create table stock (item text, amount numeric, owner text)")
    connection.execute("create sequence numbers")
    (tmp_path / "scheduled_actions.toml").write_text(
        f"{QUERIES}\n[conditions]\nprivate_networks = ['127.0.0.0/8']\n", encoding="utf-8"
    )

    @action("order:ship")
    def ship(payload: dict):
        return None

    @condition("truck-arrived")
    def truck_arrived(check):
        received.append(check)
        match check.parameters.get("result", True):
            case "raise":
                raise RuntimeError("the yard is closed")
            case "leave":
                raise SystemExit
            case "count":
                with psycopg.connect(database_url) as own:
                    found = own.execute(
                        "select count(*) from pg_stat_activity where datname = current_database()"
                        " and backend_type = 'client backend' and pid <> pg_backend_pid()"
                    ).fetchone()
                received.extend(found)
                return True
            case result:
                return result

    runtime = Runtime(config.load(tmp_path, {"DATABASE_URL": database_url}), registry=Registry.of(ship, truck_arrived))
    yield runtime
    runtime.close()


def schedule(project, given, **arguments):
    new = NewAction(action_type="order:ship", payload={"n": 1}, condition=given, **arguments)
    return project.scheduler.schedule_action(new).id


def end_of(project, connection, given, **arguments):
    """Run an action with this condition; return its status and the reason."""
    action_id = schedule(project, given, **arguments)
    project.processor.tick()
    found = row(connection, action_id)
    return found["status"], found["error_message"] or (found["waiting"] and found["waiting"]["unmet"])


STOCK = {"kind": "query", "name": "stock", "parameters": {"item": "bolt"}}


@pytest.mark.parametrize(
    ("amount", "given", "status"),
    [
        (None, STOCK, "skipped"),
        (1, STOCK, "completed"),
        (7, {**STOCK, "op": "gte", "value": 7}, "completed"),
        (6, {**STOCK, "op": "gte", "value": 7}, "skipped"),
        (None, {**STOCK, "op": "lt", "value": 7}, "skipped"),
        (1, {"not": STOCK}, "skipped"),
        (None, {"any": [STOCK, {"kind": "time_elapsed", "seconds": 0}]}, "completed"),
        (1, {"all": [STOCK, {"kind": "time_elapsed", "duration": "1h"}]}, "skipped"),
    ],
)
def test_a_query_holds_with_a_row_or_a_matching_value(project, connection, amount, given, status):
    if amount is not None:
        connection.execute("insert into stock values ('bolt', %s)", [amount])

    assert end_of(project, connection, given)[0] == status


@pytest.mark.parametrize(("owner", "status"), [("ours", "completed"), ("theirs", "skipped"), (None, "skipped")])
def test_a_query_can_compare_a_text(project, connection, owner, status):
    connection.execute("insert into stock values ('bolt', 1, %s)", [owner])

    assert end_of(project, connection, {**STOCK, "name": "owner", "op": "eq", "value": "ours"})[0] == status


def test_the_reason_of_an_unmet_query_contains_its_value_and_the_wanted_value(project, connection):
    given = {**STOCK, "op": "gte", "value": 7}
    without_row = end_of(project, connection, given)[1]
    connection.execute("insert into stock values ('bolt', 6)")

    assert without_row.endswith('query "stock" returned no row; the condition requires gte 7')
    assert end_of(project, connection, given)[1].endswith('query "stock" returned 6.0; the condition requires gte 7')


def test_a_query_receives_the_team_of_its_action(project, connection):
    connection.execute("insert into stock values ('bolt', 1, 'ours')")

    assert end_of(project, connection, {"kind": "query", "name": "mine"}, team_id="ours")[0] == "completed"
    assert end_of(project, connection, {"kind": "query", "name": "mine"}, team_id="theirs")[0] == "skipped"
    assert end_of(project, connection, {"kind": "query", "name": "mine"})[0] == "skipped"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("writing", "FeatureNotSupported"),
        ("changing", "ReadOnlySql"),
        ("slow", "the query took longer than 0.05 s"),
        ("misspelt", "UndefinedTable"),
    ],
)
def test_a_writing_slow_or_invalid_query_fails_its_action(project, connection, name, error):
    connection.execute("insert into stock values ('bolt', 1)")

    status, reason = end_of(project, connection, {"not": {"kind": "query", "name": name}}, max_attempts=1)

    assert status == "failed"
    assert reason.startswith("the condition cannot be evaluated: condition.not: ")
    assert error in reason
    assert connection.execute("select count(*) from stock").fetchone() == (1,)


def test_a_waiting_action_repeats_its_check_and_runs_when_it_succeeds(project, connection):
    action_id = schedule(project, {"wait": STOCK, "check_interval": 60})
    project.processor.tick()
    assert row(connection, action_id)["waiting"]["unmet"] == 'condition.wait: query "stock" returned no row'
    assert row(connection, action_id)["started_at"] is None

    connection.execute("insert into stock values ('bolt', 1)")
    move_clock(connection, timedelta(minutes=1))
    project.processor.tick()

    assert row(connection, action_id)["status"] == "completed"


def test_a_wait_for_a_query_or_a_fact_ends_when_the_fact_is_reported(project, connection):
    order = {"type": "order", "id": "1"}
    fact = {"kind": "field_value", "target": order, "field": "paid", "value": True}
    action_id = schedule(project, {"wait": {"any": [STOCK, fact]}, "check_interval": 60})
    for _ in range(2):
        project.processor.tick()
        move_clock(connection, timedelta(minutes=1))

    project.processor.tick()
    project.facts.report(order, "paid", value=True)
    project.processor.tick()

    assert row(connection, action_id)["status"] == "completed"


def test_a_wait_with_a_broken_condition_continues(project, connection):
    status, reason = end_of(project, connection, {"wait": {"kind": "query", "name": "slow"}})

    assert (status, reason) == ("pending", "condition.wait: the query took longer than 0.05 s")


TRUCK = 'condition: function "truck-arrived"'
# -- functions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (True, ("completed", None)),
        (False, ("skipped", f"condition_not_met: {TRUCK} returned False")),
        ("it is late", ("skipped", f"condition_not_met: {TRUCK}: it is late")),
        ("raise", ("failed", f"the condition cannot be evaluated: {TRUCK} raised RuntimeError")),
        ("leave", ("failed", f"the condition cannot be evaluated: {TRUCK} raised SystemExit")),
        (
            1,
            (
                "failed",
                f"the condition cannot be evaluated: {TRUCK} returned int, not a bool or a reason",
            ),
        ),
    ],
)
def test_a_project_function_decides_its_condition(project, connection, received, result, expected):
    given = {"kind": "custom", "name": "truck-arrived", "parameters": {"result": result}}

    assert end_of(project, connection, given, max_attempts=1, team_id="ours") == expected
    (check,) = received
    assert (check.action_type, check.payload, check.team_id) == ("order:ship", {"n": 1}, "ours")


def test_an_external_check_keeps_no_connection_open(project, connection, received):
    given = {"kind": "custom", "name": "truck-arrived", "parameters": {"result": "count"}}

    assert end_of(project, connection, given)[0] == "completed"
    assert received[1:] == [2]  # the connections of this test and of the tick


def test_no_external_check_runs_if_facts_decide_the_condition(project, connection, received):
    unknown = {"kind": "document_state", "target": {"type": "order", "id": "1"}, "state": "packed"}
    given = {"kind": "custom", "name": "truck-arrived"}

    assert end_of(project, connection, {"all": [given, unknown]})[0] == "skipped"
    assert received == []


# -- HTTP --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def server():
    """Run an HTTP server that responds with the status and the body in its attributes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.server.body
            self.send_response(self.server.status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http_server:
        http_server.status, http_server.body = 200, b'{"state": {"name": "ready"}, "n": 3}'
        thread = threading.Thread(target=http_server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield http_server
        finally:
            http_server.shutdown()
            thread.join()


def http(server, **fields):
    return {"kind": "http", "url": f"http://127.0.0.1:{server.server_port}/orders/1", **fields}


@pytest.fixture
def run_against(project, connection, server):
    """Return a function that returns the status of an action after an HTTP response with this status."""

    def run(http_status, **fields):
        server.status = http_status
        return end_of(project, connection, http(server, **fields))[0]

    return run


@pytest.mark.parametrize(
    ("fields", "http_status", "status"),
    [
        ({}, 200, "completed"),
        ({}, 404, "skipped"),
        ({}, 302, "skipped"),
        ({"status": [200, 404]}, 404, "completed"),
        ({"pointer": "/state/name", "value": "ready"}, 200, "completed"),
        ({"pointer": "/state/name", "value": "late"}, 200, "skipped"),
        ({"pointer": "/n", "op": "gt", "value": 2}, 200, "completed"),
        ({"pointer": "/m", "op": "gt", "value": 2}, 200, "skipped"),
    ],
)
def test_an_http_response_is_evaluated_by_status_and_pointer(run_against, fields, http_status, status):
    assert run_against(http_status, **fields) == status


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"<html>", "did not answer with JSON"), (b'"' + b"x" * 70_000 + b'"', "answered with more than 65,536 bytes")],
)
def test_a_response_that_cannot_be_evaluated_fails_its_action(project, connection, server, body, reason):
    server.body = body

    status, message = end_of(project, connection, {"not": http(server, pointer="/n", value=1)}, max_attempts=1)

    assert status == "failed"
    assert reason in message


def test_an_unreachable_server_fails_its_action_without_the_url_in_the_error(project, connection):
    given = {"not": {"kind": "http", "url": "http://127.0.0.1:1/secret-path"}}

    status, message = end_of(project, connection, given, max_attempts=1)

    assert status == "failed"
    assert (
        message
        == "the condition cannot be evaluated: condition.not: 127.0.0.1:1 did not answer (ConnectionRefusedError)"
    )


# -- validation when scheduling ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"kind": "query", "name": "stok"},
            "a query of [queries]; known names: changing, mine, misspelt, owner, slow, stock, writing",
        ),
        ({"kind": "query", "name": "stock"}, "the query takes: item"),
        ({**STOCK, "parameters": {"item": ["a"]}}, "strings, numbers, booleans and nulls"),
        ({"kind": "custom", "name": "truck"}, "a function declared with @condition; known names: truck-arrived"),
        ({"kind": "http", "url": "ftp://127.0.0.1/"}, "http"),
        ({"kind": "http", "url": "https://x", "status": 99}, "status: 99 is not an HTTP status"),
        ({"kind": "http", "url": "https://x", "headers": {}}, 'is not a field of kind "http"'),
    ],
)
def test_an_invalid_check_is_rejected_when_the_action_is_scheduled(project, connection, given, message):
    with pytest.raises(RequestError) as rejected:
        schedule(project, {"wait": {"all": [given]}})

    assert message in str(rejected.value)
    assert statuses(connection) == {}


@pytest.mark.parametrize(
    "url", ["http://example.org/", "https://127.0.0.1/", "https://localhost/", "https://user:pw@example.org/"]
)
def test_without_private_networks_only_public_https_urls_are_requested(tmp_path, database_url, url):
    @action("order:ship")
    def ship(payload: dict):
        return None

    runtime = Runtime(config.load(tmp_path, {"DATABASE_URL": database_url}), registry=Registry.of(ship))
    try:
        with pytest.raises(RequestError, match="the URL"):
            schedule(runtime, {"kind": "http", "url": url})
    finally:
        runtime.close()


def test_the_row_stores_the_condition_as_given(project, connection):
    action_id = schedule(project, {"wait": STOCK})

    assert row(connection, action_id)["condition"] == {"wait": STOCK}


def test_a_check_whose_result_cannot_be_stored_uses_no_attempt(project, connection):
    action_id = insert(
        connection,
        action_type="order:ship",
        condition=Jsonb({"wait": {"kind": "custom", "name": "truck-arrived"}}),
    )
    database = project.database
    original, rejected = database.connection, []

    def refuse_workers(*limits):
        """Return connections only to the thread of the tick, like a server at its connection limit."""
        if threading.current_thread().name.startswith("scheduled-actions-"):
            rejected.append(1)
            raise DatabaseUnavailable("it has no connection to spare")
        return original(*limits)

    database.connection = refuse_workers
    project.processor.tick()
    database.connection = original

    assert rejected
    found = row(connection, action_id)
    assert (found["status"], found["attempts"]) == ("pending", 0)
    assert project.processor.tick().succeeded == 1
