"""Conditions that only the world can answer: queries, HTTP, functions of the project."""

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
def asked():
    """Return the checks that the project's function was asked for."""
    return []


@pytest.fixture
def project(tmp_path, database_url, connection, asked):
    connection.execute("create table stock (item text, amount numeric, owner text)")
    connection.execute("create sequence numbers")
    (tmp_path / "scheduled_actions.toml").write_text(
        f"{QUERIES}\n[conditions]\nprivate_networks = ['127.0.0.0/8']\n", encoding="utf-8"
    )

    @action("order:ship")
    def ship(payload: dict):
        return None

    @condition("truck-is-there")
    def truck_is_there(check):
        asked.append(check)
        match check.parameters.get("answer", True):
            case "raise":
                raise RuntimeError("the yard is on fire")
            case "leave":
                raise SystemExit
            case "count":
                with psycopg.connect(database_url) as own:
                    found = own.execute(
                        "select count(*) from pg_stat_activity where datname = current_database()"
                        " and backend_type = 'client backend' and pid <> pg_backend_pid()"
                    ).fetchone()
                asked.extend(found)
                return True
            case answer:
                return answer

    runtime = Runtime(config.load(tmp_path, {"DATABASE_URL": database_url}), registry=Registry.of(ship, truck_is_there))
    yield runtime
    runtime.close()


def schedule(project, given, **arguments):
    new = NewAction(action_type="order:ship", payload={"n": 1}, condition=given, **arguments)
    return project.scheduler.schedule_action(new).id


def ended(project, connection, given, **arguments):
    """Return how an action with this condition ended, and why."""
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
def test_a_query_holds_while_it_has_rows_or_its_figure_compares(project, connection, amount, given, status):
    if amount is not None:
        connection.execute("insert into stock values ('bolt', %s)", [amount])

    assert ended(project, connection, given)[0] == status


def test_a_query_sees_the_team_of_its_action(project, connection):
    connection.execute("insert into stock values ('bolt', 1, 'ours')")

    assert ended(project, connection, {"kind": "query", "name": "mine"}, team_id="ours")[0] == "completed"
    assert ended(project, connection, {"kind": "query", "name": "mine"}, team_id="theirs")[0] == "skipped"
    assert ended(project, connection, {"kind": "query", "name": "mine"})[0] == "skipped"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("writing", "FeatureNotSupported"),
        ("changing", "ReadOnlySql"),
        ("slow", "took longer than 0.05 s"),
        ("misspelt", "UndefinedTable"),
    ],
)
def test_a_query_that_changes_something_takes_too_long_or_is_none_never_runs_its_action(
    project, connection, name, error
):
    connection.execute("insert into stock values ('bolt', 1)")

    status, reason = ended(project, connection, {"not": {"kind": "query", "name": name}}, max_attempts=1)

    assert status == "failed"
    assert reason.startswith("its condition cannot be judged: condition.not: ")
    assert error in reason
    assert connection.execute("select count(*) from stock").fetchone() == (1,)


def test_a_waiting_action_asks_again_and_runs_once_the_answer_is_right(project, connection):
    action_id = schedule(project, {"wait": STOCK, "check_interval": 60})
    project.processor.tick()
    assert row(connection, action_id)["waiting"]["unmet"] == 'condition.wait: query "stock" has no row'
    assert row(connection, action_id)["started_at"] is None

    connection.execute("insert into stock values ('bolt', 1)")
    move_clock(connection, timedelta(minutes=1))
    project.processor.tick()

    assert row(connection, action_id)["status"] == "completed"


def test_a_wait_with_a_broken_condition_goes_on_waiting(project, connection):
    status, reason = ended(project, connection, {"wait": {"kind": "query", "name": "slow"}})

    assert (status, reason) == ("pending", "condition.wait: took longer than 0.05 s")


TRUCK = 'condition: function "truck-is-there"'
# -- functions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        (True, ("completed", None)),
        (False, ("skipped", f"condition_not_met: {TRUCK} says no")),
        ("it is late", ("skipped", f"condition_not_met: {TRUCK}: it is late")),
        ("raise", ("failed", f"its condition cannot be judged: {TRUCK} raised RuntimeError")),
        ("leave", ("failed", f"its condition cannot be judged: {TRUCK} raised SystemExit")),
        (1, ("failed", f"its condition cannot be judged: {TRUCK} answered a int, not a bool")),
    ],
)
def test_a_function_of_the_project_says_whether_its_condition_holds(project, connection, asked, answer, ending):
    given = {"kind": "custom", "name": "truck-is-there", "parameters": {"answer": answer}}

    assert ended(project, connection, given, max_attempts=1, team_id="ours") == ending
    (check,) = asked
    assert (check.action_type, check.payload, check.team_id) == ("order:ship", {"n": 1}, "ours")


def test_while_the_world_is_asked_no_connection_waits_with_it(project, connection, asked):
    given = {"kind": "custom", "name": "truck-is-there", "parameters": {"answer": "count"}}

    assert ended(project, connection, given)[0] == "completed"
    assert asked[1:] == [2]  # this test's, and the tick's


def test_what_facts_have_settled_asks_nobody(project, connection, asked):
    unknown = {"kind": "document_state", "target": {"type": "order", "id": "1"}, "state": "packed"}
    given = {"kind": "custom", "name": "truck-is-there"}

    assert ended(project, connection, {"all": [given, unknown]})[0] == "skipped"
    assert asked == []


# -- HTTP --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def server():
    """Give a server that answers as its attributes say."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.server.body
            self.send_response(self.server.status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as listening:
        listening.status, listening.body = 200, b'{"state": {"name": "ready"}, "n": 3}'
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield listening
        finally:
            listening.shutdown()
            thread.join()


def http(server, **fields):
    return {"kind": "http", "url": f"http://127.0.0.1:{server.server_port}/orders/1", **fields}


@pytest.fixture
def run_against(project, connection, server):
    """Return a function that answers how an action ended whose server answered so."""

    def run(answer, **fields):
        server.status = answer
        return ended(project, connection, http(server, **fields))[0]

    return run


@pytest.mark.parametrize(
    ("fields", "answer", "status"),
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
def test_an_http_answer_is_judged_by_status_and_pointer(run_against, fields, answer, status):
    assert run_against(answer, **fields) == status


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"<html>", "does not answer JSON"), (b'"' + b"x" * 70_000 + b'"', "answers more than 65,536 bytes")],
)
def test_an_answer_that_cannot_be_judged_never_runs_its_action(project, connection, server, body, reason):
    server.body = body

    status, told = ended(project, connection, {"not": http(server, pointer="/n", value=1)}, max_attempts=1)

    assert status == "failed"
    assert reason in told


def test_a_server_that_does_not_answer_never_runs_its_action_and_is_not_described(project, connection):
    given = {"not": {"kind": "http", "url": "http://127.0.0.1:1/secret-path"}}

    status, told = ended(project, connection, given, max_attempts=1)

    assert status == "failed"
    assert told == "its condition cannot be judged: condition.not: 127.0.0.1:1 did not answer (ConnectionRefusedError)"


# -- at the caller's desk ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"kind": "query", "name": "stok"},
            "a query of [queries]; there are: changing, mine, misspelt, slow, stock, writing",
        ),
        ({"kind": "query", "name": "stock"}, "what the query takes: item"),
        ({**STOCK, "parameters": {"item": ["a"]}}, "texts, numbers, truth values and nulls"),
        ({"kind": "custom", "name": "truck"}, "a function of @condition; there are: truck-is-there"),
        ({"kind": "http", "url": "ftp://127.0.0.1/"}, "http"),
        ({"kind": "http", "url": "https://x", "status": 99}, "status: 99 is not an HTTP status"),
        ({"kind": "http", "url": "https://x", "headers": {}}, 'kind "http" has no such field'),
    ],
)
def test_what_could_not_be_asked_is_refused_when_the_action_is_scheduled(project, connection, given, message):
    with pytest.raises(RequestError) as refused:
        schedule(project, {"wait": {"all": [given]}})

    assert message in str(refused.value)
    assert statuses(connection) == {}


@pytest.mark.parametrize(
    "url", ["http://example.org/", "https://127.0.0.1/", "https://localhost/", "https://user:pw@example.org/"]
)
def test_without_private_networks_only_https_to_the_public_internet_is_asked(tmp_path, database_url, url):
    @action("order:ship")
    def ship(payload: dict):
        return None

    runtime = Runtime(config.load(tmp_path, {"DATABASE_URL": database_url}), registry=Registry.of(ship))
    try:
        with pytest.raises(RequestError, match="the URL"):
            schedule(runtime, {"kind": "http", "url": url})
    finally:
        runtime.close()


def test_the_condition_of_a_row_is_what_was_given(project, connection):
    action_id = schedule(project, {"wait": STOCK})

    assert row(connection, action_id)["condition"] == {"wait": STOCK}


def test_an_action_whose_condition_cannot_be_settled_for_want_of_a_connection_is_not_charged(project, connection):
    action_id = insert(
        connection,
        action_type="order:ship",
        condition=Jsonb({"wait": {"kind": "custom", "name": "truck-is-there"}}),
    )
    database = project.database
    ticks_own, refused = database.connection, []

    def no_more(*limits):
        """Lend connections to the tick's thread alone, as a server without a connection to spare does."""
        if threading.current_thread().name.startswith("scheduled-actions-"):
            refused.append(1)
            raise DatabaseUnavailable("it has no connection to spare")
        return ticks_own(*limits)

    database.connection = no_more
    project.processor.tick()
    database.connection = ticks_own

    assert refused
    found = row(connection, action_id)
    assert (found["status"], found["attempts"]) == ("pending", 0)
    assert project.processor.tick().succeeded == 1
