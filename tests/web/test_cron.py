"""`/cron/process`: secrets, signatures, methods and answers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time

import pytest
from flask import Flask
from psycopg.conninfo import conninfo_to_dict

from scheduled_actions import ScheduledActions, action
from tests.factories import CRON_SECRET, insert, projects, statuses

FIELDS = {
    "success", "processed", "succeeded", "failed", "retried", "snoozed", "skipped", "rescued", "pruned", "remaining",
    "more", "busy", "errors", "duration_ms", "tick_id",
}  # fmt: skip
OPEN = {"x-cron-secret": CRON_SECRET}
ROUTES = ["/cron/process", "/cron/process/", "/api/v1/cron/process", "/api/v1/cron/process/"]


@action("test:run")
def run(payload):
    """Do nothing."""


@action("test:fail")
def fail(payload):
    raise ValueError(payload.get("text", "no") * payload.get("times", 1))


@pytest.fixture
def a_client(database_url):
    """Return a function that creates a client of an application with the given settings and secret."""
    with projects(database_url) as a_project:

        def make(*, secret=CRON_SECRET, url_prefix=None, **settings):
            app = Flask("scheduled_actions")
            ScheduledActions(app, runtime=a_project(run, fail, secret=secret, **settings), url_prefix=url_prefix)
            return app.test_client()

        yield make


@pytest.fixture
def client(a_client):
    """Return a client of an application with the secret of the tests."""
    return a_client()


# -- requests and responses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("route", ROUTES)
def test_a_ping_runs_one_tick_without_a_redirect(client, connection, route, method):
    action_id = insert(connection)

    response = client.open(route, method=method, headers=OPEN)

    assert response.status_code == 200
    assert response.mimetype == "application/json"
    assert response.headers["Cache-Control"] == "no-store"
    assert set(response.json) == FIELDS
    assert (response.json["success"], response.json["processed"], response.json["succeeded"]) == (True, 1, 1)
    assert statuses(connection) == {action_id: "completed"}


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS"])
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("headers", [OPEN, {}])
def test_head_and_options_never_process(client, connection, route, method, headers):
    action_id = insert(connection)

    response = client.open(route, method=method, headers=headers)

    assert response.status_code == 204
    assert response.headers["Allow"] == "GET, POST"
    assert statuses(connection) == {action_id: "pending"}


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_other_methods_are_refused(client, connection, method):
    action_id = insert(connection)

    response = client.open("/cron/process", method=method, headers=OPEN)

    assert response.status_code == 405
    assert response.headers["Allow"] == "GET, POST"
    assert response.json["code"] == "method_not_allowed"
    assert statuses(connection) == {action_id: "pending"}


def test_a_tick_with_failed_actions_answers_200_and_lists_them(client, connection):
    action_id = insert(connection, action_type="test:fail", max_attempts=1)

    response = client.post("/cron/process", headers=OPEN)

    assert response.status_code == 200
    assert response.json["failed"] == 1
    (error,) = response.json["errors"]
    assert set(error) == {"action_id", "action_type", "error"}
    assert (error["action_id"], error["action_type"]) == (str(action_id), "test:fail")


@pytest.mark.parametrize("text", ["x", '"\\', "😀", "\x01"])
def test_the_answer_stays_below_eight_kilobytes_with_long_errors(client, connection, text):
    for _ in range(30):
        insert(connection, action_type="test:fail", payload={"text": text, "times": 1000})

    response = client.post("/cron/process", headers=OPEN)

    assert response.json["retried"] == 30
    assert 0 < len(response.json["errors"]) <= 20
    assert len(response.data) < 8192


def test_an_error_with_invalid_characters_is_returned_as_json(database_url, connection):
    @action("test:run")
    def half(payload):
        raise ValueError("half a pair: \ud800")

    insert(connection)
    app = Flask("scheduled_actions")
    with projects(database_url) as a_project:
        ScheduledActions(app, runtime=a_project(half))

        response = app.test_client().post("/cron/process", headers=OPEN)

    assert response.status_code == 200
    assert "half a pair: ?" in response.json["errors"][0]["error"]


def test_the_response_of_a_disabled_project_has_enabled_false(a_client, connection):
    action_id = insert(connection)

    response = a_client(enabled=False).post("/cron/process", headers=OPEN)

    assert response.status_code == 200
    assert set(response.json) == FIELDS | {"enabled"}
    assert (response.json["enabled"], response.json["processed"]) == (False, 0)
    assert statuses(connection) == {action_id: "pending"}


def test_the_tick_stores_the_caller_of_the_ping(client, connection):
    client.post("/cron/process", headers=OPEN | {"User-Agent": "cron-job/7" + "x" * 500})

    (caller,) = connection.execute("select caller from scheduled_action_ticks").fetchone()
    assert caller.startswith("cron-job/7")
    assert len(caller) == 200


def test_the_routes_work_below_a_url_prefix(a_client, connection):
    client = a_client(url_prefix="/scheduled")

    assert client.get("/scheduled/cron/process", headers=OPEN).status_code == 200
    assert client.get("/scheduled/api/v1/cron/process", headers=OPEN).status_code == 200
    assert client.get("/cron/process", headers=OPEN).status_code == 404


# -- authorisation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"x-cron-secret": CRON_SECRET},
        {"X-CRON-SECRET": CRON_SECRET},
        {"Authorization": f"Bearer {CRON_SECRET}"},
        {"Authorization": f"bearer   {CRON_SECRET}"},
        {"x-cron-secret": "wrong", "Authorization": f"Bearer {CRON_SECRET}"},
        {"x-cron-secret": CRON_SECRET, "Authorization": "Basic d3Jvbmc6d3Jvbmc="},
    ],
)
def test_the_secret_is_accepted_in_either_header(client, headers):
    assert client.post("/cron/process", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-cron-secret": ""},
        {"x-cron-secret": "wrong"},
        {"x-cron-secret": CRON_SECRET[:-1]},
        {"x-cron-secret": CRON_SECRET + "x"},
        {"x-cron-secret": CRON_SECRET.upper()},
        {"Authorization": CRON_SECRET},
        {"Authorization": f"Basic {CRON_SECRET}"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer wrong"},
        {"Cookie": f"x-cron-secret={CRON_SECRET}"},
    ],
)
def test_a_ping_without_the_secret_is_refused_with_a_problem_document(client, connection, headers):
    action_id = insert(connection)

    response = client.post("/cron/process", headers=headers)

    assert response.status_code == 401
    assert response.mimetype == "application/problem+json"
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert response.headers["Cache-Control"] == "no-store"
    assert set(response.json) == {"type", "title", "status", "detail", "code"}
    assert (response.json["status"], response.json["code"]) == (401, "unauthorized")
    assert CRON_SECRET not in response.text
    assert statuses(connection) == {action_id: "pending"}
    assert connection.execute("select count(*) from scheduled_action_ticks").fetchone() == (0,)


def test_a_secret_in_the_query_is_refused(client):
    """URLs are stored in the logs of servers and proxies."""
    assert client.post(f"/cron/process?secret={CRON_SECRET}&x-cron-secret={CRON_SECRET}").status_code == 401


@pytest.mark.parametrize(
    "shown", ["old-secret-of-tests", "new-secret-of-tests", "old-secret-of-tests,new-secret-of-tests"]
)
def test_during_rotation_the_previous_and_the_new_secret_are_accepted(a_client, shown):
    client = a_client(secret="old-secret-of-tests,new-secret-of-tests")

    assert client.post("/cron/process", headers={"x-cron-secret": shown}).status_code == 200
    assert client.post("/cron/process", headers={"x-cron-secret": "older-secret-of-tests"}).status_code == 401


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        ("", "is not configured"),
        (" ", "is not configured"),
        ("short", "is too short"),
        ("0123456789abcde", "is too short"),
        ("short,shorter", "is too short"),
    ],
)
def test_a_secret_that_is_unset_or_too_short_closes_the_endpoint(a_client, connection, secret, problem):
    action_id = insert(connection)

    response = a_client(secret=secret).post(
        "/cron/process", headers={"x-cron-secret": secret, "Authorization": f"Bearer {secret}"}
    )

    assert response.status_code == 503
    assert response.mimetype == "application/problem+json"
    assert response.json["code"] == "not_configured"
    assert f"CRON_SECRET {problem}: set it to at least 16 random characters" in response.json["detail"]
    assert statuses(connection) == {action_id: "pending"}


@pytest.mark.parametrize(
    ("sent", "status"), [("schlüsselwörter-öä", 200), ("schlüsselwörter-öx", 401), ("\xff" * 20, 401)]
)
def test_a_non_ascii_secret_is_compared_byte_by_byte(a_client, sent, status):
    client = a_client(secret="schlüsselwörter-öä")
    wsgi_value = sent if "\xff" in sent else sent.encode().decode("latin-1")

    response = client.post("/cron/process", environ_overrides={"HTTP_X_CRON_SECRET": wsgi_value})

    assert response.status_code == status


# -- signed requests ---------------------------------------------------------------------------------------------------


def signed(body=b"", *, secret=CRON_SECRET, age=0, message_id="msg_1", **changes):
    """Return the headers of a request signed as defined by Standard Webhooks."""
    timestamp = str(int(time.time() - age))
    content = f"{message_id}.{timestamp}.".encode() + body
    digest = base64.b64encode(hmac.digest(secret.encode(), content, hashlib.sha256)).decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{digest}",
    } | changes


@pytest.mark.parametrize("body", [b"", b'{"n": 1}', b"\xff\x00"])
@pytest.mark.parametrize("age", [0, 240, -240])
def test_a_signed_request_needs_no_secret_header(client, connection, body, age):
    action_id = insert(connection)

    response = client.post("/cron/process", data=body, headers=signed(body, age=age))

    assert response.status_code == 200
    assert statuses(connection) == {action_id: "completed"}


def test_a_signed_get_without_a_body_is_accepted(client):
    assert client.get("/cron/process", headers=signed()).status_code == 200


def test_during_rotation_either_secret_signs(a_client):
    client = a_client(secret="old-secret-of-tests,new-secret-of-tests")

    for secret in ("old-secret-of-tests", "new-secret-of-tests"):
        assert client.post("/cron/process", headers=signed(secret=secret)).status_code == 200


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        pytest.param(b'{"n": 2}', signed(b'{"n": 1}'), id="another body"),
        pytest.param(b"", signed(**{"webhook-id": "msg_2"}), id="another id"),
        pytest.param(b"", signed(secret="another-secret-of-tests"), id="another key"),
        pytest.param(b"", signed(age=3600), id="an hour ago"),
        pytest.param(b"", signed(age=-3600), id="an hour ahead"),
        pytest.param(b"", signed(**{"webhook-timestamp": "soon"}), id="malformed time"),
        pytest.param(b"", signed(**{"webhook-timestamp": ""}), id="an empty time"),
        pytest.param(b"", signed(**{"webhook-id": ""}), id="no id"),
        pytest.param(b"", signed(**{"webhook-signature": "v1,bm9uZQ=="}), id="wrong signature"),
        pytest.param(b"", signed(**{"webhook-signature": "v1,é"}), id="malformed signature"),
        pytest.param(b"", signed(age=3600) | {"x-cron-secret": "wrong"}, id="old, and a wrong secret"),
    ],
)
def test_a_tampered_request_or_one_outside_the_time_tolerance_is_refused(client, connection, body, headers):
    action_id = insert(connection)

    response = client.post("/cron/process", data=body, headers=headers)

    assert response.status_code == 401
    assert response.json["code"] == "unauthorized"
    assert statuses(connection) == {action_id: "pending"}


def test_a_signed_body_over_the_limit_is_not_read(client):
    body = b"x" * (64 * 1024 + 1)

    response = client.post("/cron/process", data=body, headers=signed(body))

    assert (response.status_code, response.json["code"]) == (413, "too_large")


# -- database errors ---------------------------------------------------------------------------------------------------


def test_an_unavailable_database_causes_503_with_retry_after_until_it_returns(client, admin, database_url):
    name = conninfo_to_dict(database_url)["dbname"]
    assert client.post("/cron/process", headers=OPEN).status_code == 200
    admin.execute(f'alter database "{name}" allow_connections false')
    admin.execute("select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s", [name])

    failed = client.post("/cron/process", headers=OPEN)

    assert failed.status_code == 503
    assert int(failed.headers["Retry-After"]) > 0
    assert failed.mimetype == "application/problem+json"
    assert failed.json["code"] == "database_unavailable"
    assert conninfo_to_dict(database_url)["password"] not in failed.text
    admin.execute(f'alter database "{name}" allow_connections true')
    assert client.post("/cron/process", headers=OPEN).status_code == 200


def test_a_wrong_secret_is_refused_without_a_query(client, admin, database_url):
    name = conninfo_to_dict(database_url)["dbname"]
    admin.execute(f'alter database "{name}" allow_connections false')

    assert client.post("/cron/process", headers={"x-cron-secret": "wrong"}).status_code == 401


def test_missing_tables_cause_503_with_a_remedy(client, connection):
    connection.execute("drop table scheduled_action_ticks")

    response = client.post("/cron/process", headers=OPEN)

    assert (response.status_code, response.json["code"]) == (503, "schema_outdated")
    assert "scheduled-actions migrate" in response.json["detail"]


def test_a_database_error_causes_503_and_shows_no_statement(client, connection):
    connection.execute("alter table scheduled_action_ticks add check (caller <> 'refused')")

    response = client.post("/cron/process", headers=OPEN | {"User-Agent": "refused"})

    assert (response.status_code, response.json["code"]) == (503, "database_error")
    assert "insert" not in response.text
