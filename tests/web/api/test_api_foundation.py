"""The parts that all routes of the management API share: paths, methods, bodies, queries and server errors."""

from __future__ import annotations

import json

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from scheduled_actions.web.api.dispatch import ROUTES
from tests.factories import insert
from tests.web.conftest import ADMIN_TOKEN, Api, application

PROBLEM = {"type", "title", "status", "detail", "code"}
BEARER = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
JSON = BEARER | {"Content-Type": "application/json"}
UNKNOWN = "0197a000-0000-7000-8000-00000000ffff"


def post(client, body, **headers):
    return client.post("/api/v1/actions", data=body, headers=JSON | headers)


def errors(response):
    return {one["field"]: one["message"] for one in response.json["errors"]}


# -- paths and methods -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/nope",
        "/nope/",
        "/actions/x/y/z",
        "/actions//retry",
        "/tokens/1/2",
        "//",
        "//x",
        "/%0A",
        "/x%0Ay",
        "/%2F",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_unknown_path_returns_a_problem_document(shared_api, path, method):
    response = shared_api(method, path)

    assert response.status_code == 404
    assert response.mimetype == "application/problem+json"
    assert set(response.json) == PROBLEM
    assert response.json["code"] == "unknown_route"


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/actions", "GET, POST, HEAD, OPTIONS"),
        ("TRACE", "/actions", "GET, POST, HEAD, OPTIONS"),
        ("DELETE", "/actions", "GET, POST, HEAD, OPTIONS"),
        ("GET", "/actions/batch", "POST, OPTIONS"),
        ("PATCH", "/actions/counts", "GET, HEAD, OPTIONS"),
        ("POST", f"/actions/{UNKNOWN}", "GET, PATCH, DELETE, HEAD, OPTIONS"),
        ("HEAD", f"/actions/{UNKNOWN}/retry", "POST, OPTIONS"),
        ("QUERY", "/ticks", "GET, HEAD, OPTIONS"),
    ],
)
def test_an_unsupported_method_returns_the_allowed_methods(shared_api, method, path, allow):
    response = shared_api(method, path)

    assert response.status_code == 405
    assert response.headers["Allow"] == allow
    assert response.mimetype == "application/problem+json"
    if method != "HEAD":
        assert response.json["code"] == "method_not_allowed"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_options_lists_the_methods_without_a_token(shared_client, route):
    response = shared_client.options(f"/api/v1{route.path}")

    assert response.status_code == 204
    assert route.method in response.headers["Allow"].split(", ")
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/actions", "/actions/counts", "/action-types", "/ticks", "/tokens"])
def test_a_trailing_slash_is_ignored_without_a_redirect(shared_api, path):
    plain, slashed, head = shared_api("GET", path), shared_api("GET", f"{path}/"), shared_api("HEAD", f"{path}/")

    assert plain.status_code == slashed.status_code == head.status_code == 200
    assert slashed.data == plain.data
    assert (head.data, head.headers["Content-Length"]) == (b"", plain.headers["Content-Length"])


def test_the_routes_can_be_mounted_under_a_prefix(runtime):
    api = Api(application(runtime, url_prefix="/scheduled").test_client(), ADMIN_TOKEN, prefix="/scheduled/api/v1")

    response = api("POST", "/actions", {"action_type": "test:run", "payload": {}})

    assert response.status_code == 201
    assert response.headers["Location"] == f"/scheduled/api/v1/actions/{response.json['id']}"
    assert api("GET", f"/actions/{response.json['id']}/").status_code == 200


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_no_response_may_be_cached(shared_client, shared_api, route):
    path = route.path.replace("{id}", UNKNOWN)

    for response in (shared_api(route.method, path), shared_client.open(f"/api/v1{path}", method=route.method)):
        assert response.headers["Cache-Control"] == "no-store"


# -- bodies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonp"])
def test_a_body_without_a_json_content_type_is_rejected(shared_client, content_type):
    response = shared_client.post("/api/v1/actions", data=b"{}", headers=BEARER | {"Content-Type": content_type})

    assert (response.status_code, response.json["code"]) == (415, "unsupported_media_type")
    assert "application/json" in response.json["detail"]


def test_json_that_is_not_utf_8_is_rejected(shared_client):
    response = post(shared_client, b"{}", **{"Content-Type": "application/json; charset=latin-1"})

    assert (response.status_code, response.json["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=UTF-8", "application/x+json"])
def test_every_json_content_type_is_accepted(client, content_type):
    response = post(client, b'{"action_type": "test:run", "payload": {}}', **{"Content-Type": content_type})

    assert response.status_code == 201


NEW = '{"action_type": "test:run", "payload": {"n": %s}}'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{} {}",
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{}",
        (NEW % "NaN").encode(),
        (NEW % "-Infinity").encode(),
        (NEW % "1e999").encode(),
        (NEW % '"\\u0000"').encode(),
        (NEW % '{"\\u0000": 1}').encode(),
        (NEW % '"\\ud800"').encode(),
        (NEW % '"\\udc00\\ud800"').encode(),
        (NEW % ("1" * 4301)).encode(),
        (NEW % ("[" * 101 + "]" * 101)).encode(),
        (NEW % ("[" * 5000 + "]" * 5000)).encode(),
        (NEW % ('{"a":' * 200 + "1" + "}" * 200)).encode(),
    ],
    ids=lambda body: body[:60],
)
def test_an_unreadable_or_unstorable_body_is_rejected_and_nothing_is_scheduled(shared_client, shared_connection, body):
    response = post(shared_client, body)

    assert (response.status_code, response.json["code"]) == (400, "body_unreadable")
    assert shared_connection.execute("select count(*) from scheduled_actions").fetchone() == (0,)


@pytest.mark.parametrize("body", [b"[]", b"1", b'"x"', b"null", b"true"])
def test_a_body_that_is_not_an_object_is_rejected(shared_client, body):
    response = post(shared_client, body)

    assert (response.status_code, response.json["code"]) == (400, "fields_invalid")
    assert errors(response) == {"body": "should be a JSON object"}


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize(("path", "limit"), [("/actions", 1024 * 1024), ("/actions/batch", 4 * 1024 * 1024)])
def test_a_body_over_the_size_limit_is_rejected(shared_client, path, limit, chunked):
    options = {"environ_overrides": {"CONTENT_LENGTH": "", "wsgi.input_terminated": True}} if chunked else {}

    response = shared_client.post(f"/api/v1{path}", data=b" " * (limit + 1), headers=JSON, **options)

    assert (response.status_code, response.json["code"]) == (413, "too_large")
    assert list(errors(response)) == ["body"]


def test_a_chunked_body_is_read(client):
    body = b'{"action_type": "test:run", "payload": {}}'

    response = client.post(
        "/api/v1/actions",
        data=body,
        headers=JSON,
        environ_overrides={"CONTENT_LENGTH": "", "wsgi.input_terminated": True},
    )

    assert response.status_code == 201


def test_an_incomplete_body_is_rejected(shared_client):
    response = shared_client.post(
        "/api/v1/actions", data=b'{"action_type"', headers=JSON, environ_overrides={"CONTENT_LENGTH": "500"}
    )

    assert (response.status_code, response.json["code"]) == (400, "body_unreadable")


def test_a_body_that_the_application_has_already_read_is_available(runtime):
    from flask import request

    app = application(runtime)
    app.before_request(lambda: request.get_data() and None)

    response = post(app.test_client(), b'{"action_type": "test:run", "payload": {"n": 1}}')

    assert (response.status_code, response.json["payload"]) == (201, {"n": 1})


def test_extreme_but_storable_values_are_stored_unchanged(api):
    payload = {"big": 10**4000, "small": 5e-324, "😀": "\u2028", "zero": -0.0, "deep": json.loads("[" * 90 + "]" * 90)}

    scheduled = api.schedule(payload=payload)

    assert scheduled["payload"] == payload
    assert api("GET", f"/actions/{scheduled['id']}").json["payload"] == payload


def test_every_invalid_field_is_listed_with_the_expected_value(shared_api):
    response = shared_api(
        "POST",
        "/actions",
        {
            "action_typ": "test:run",
            "payload": [],
            "priority": 40000,
            "max_attempts": True,
            "timezone": "Mars/Olympus",
            "retry": {"kind": "exponential", "base_seconds": -1},
            "target": {"type": 1, "name": "x"},
            "dedup_window": "5",
            "team_id": "",
            "user_id": 42,
        },
    )

    assert (response.status_code, response.json["code"]) == (400, "fields_invalid")
    assert response.mimetype == "application/problem+json"
    assert errors(response) == {
        "action_type": "is required",
        "action_typ": 'is an unknown field; did you mean "action_type"?',
        "payload": "should be a JSON object",
        "priority": "should be less than or equal to 32767, not 40000",
        "max_attempts": "should be a valid integer",
        "timezone": 'should be an IANA time zone, such as "Europe/Berlin"',
        "retry.base_seconds": "-1 is not a number of seconds between 0 and a year",
        "target.type": "should be a valid string",
        "target.id": "is required",
        "target.name": "is an unknown field; known fields: type, id",
        "dedup_window": "should be a valid number",
        "team_id": "should have at least 1 character",
        "user_id": "should be a valid string",
    }


def test_the_errors_of_camel_case_fields_have_the_names_to_use(shared_api):
    action = shared_api(
        "POST",
        "/actions",
        {"actionType": "test:run", "payload": {}, "scheduledAt": 1, "maxAttempts": 2, "lockGroup": "a"},
    )
    nested = shared_api(
        "POST",
        "/deadlines",
        {
            "target": {"type": "license", "id": "1"},
            "due_at": "2027-01-01T00:00:00Z",
            "auto_actions": [{"offset": "1 day before", "actionType": "test:run"}],
        },
    )

    assert errors(action) == {
        "action_type": "is required",
        "actionType": 'is an unknown field; did you mean "action_type"?',
        "scheduledAt": 'is an unknown field; did you mean "scheduled_at"?',
        "maxAttempts": 'is an unknown field; did you mean "max_attempts"?',
        "lockGroup": 'is an unknown field; did you mean "lock_group"?',
    }
    assert errors(nested)["auto_actions.0.actionType"] == 'is an unknown field; did you mean "action_type"?'


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"retry": {"kind": "linear", "baseSeconds": 1}}, "'baseSeconds' is not a field of linear; did you mean"),
        (
            {"condition": {"kind": "action_status", "actionId": "1"}},
            'is not a field of kind "action_status"; did you mean "action_id"?',
        ),
        (
            {
                "condition": {
                    "wait": {"kind": "action_status", "action_id": "1", "status": "failed"},
                    "checkInterval": 1,
                }
            },
            'condition.checkInterval is not a field of a wait; did you mean "check_interval"?',
        ),
        ({"on_success": {"actionType": "test:run", "payload": {}}}, "'actionType' is unknown; did you mean"),
    ],
)
def test_the_error_of_a_camel_case_name_inside_an_argument_has_the_name_to_use(shared_api, argument, message):
    response = shared_api("POST", "/actions", {"action_type": "test:run", "payload": {}, **argument})

    assert response.status_code == 400
    assert message in response.json["detail"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/actions?limit=0", "limit: should be greater than or equal to 1, not 0"),
        ("/actions?cursor=abc", "cursor: is an invalid cursor: send next_cursor of the previous page"),
        ("/ticks?page=2", "page: is an unknown query parameter; known query parameters: limit, cursor"),
        ("/actions?teem_id=a", 'teem_id: is an unknown query parameter; did you mean "team_id"?'),
    ],
)
def test_the_error_of_a_parameter_has_its_value_and_what_is_expected(shared_api, path, message):
    assert shared_api("GET", path).json["detail"] == message


def test_errors_do_not_repeat_values_that_may_be_secret(shared_api):
    refused = shared_api("POST", "/actions", {"action_type": "test:run", "payload": "hunter2", "metadata": "hunter3"})

    assert refused.status_code == 400
    assert b"hunter" not in refused.data


def test_errors_have_the_name_of_the_field_instead_of_the_python_argument(api):
    schedule = {"action_type": "test:run", "payload": {}, "recurrence": "daily", "name": "n"}
    assert api("POST", "/schedules", schedule).status_code == 201

    backwards = {"from": "2020-01-02T00:00:00Z", "to": "2020-01-01T00:00:00Z"}
    refused = api("POST", "/schedules/n/backfill", backwards).json

    assert refused["detail"] == "to 2020-01-01 00:00:00+00:00 is before the start of the range"
    assert [one["field"] for one in refused["errors"]] == ["to"]


def test_the_number_of_listed_errors_is_limited(shared_api):
    response = shared_api("POST", "/actions", {f"field_{number}": 1 for number in range(1000)})

    assert response.status_code == 400
    assert len(response.json["errors"]) == 101
    assert len(response.data) < 16_000


def test_the_name_of_an_unknown_field_is_shortened_and_escaped(shared_api):
    response = shared_api("POST", "/actions", {"\x1b[31m" + "x" * 10_000: 1})

    assert "\x1b" not in response.json["detail"]
    assert len(response.data) < 1000


# -- queries -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=ten", "limit"),
        ("limit=1_0", "limit"),
        ("limit=", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("status=done", "status"),
        ("status=", "status"),
        ("cursor=x", "cursor"),
        ("cursor=", "cursor"),
        ("due_from=yesterday", "due_from"),
        ("due_to=2026-03-04T12:00:00", "due_to"),
        ("q=%00", "q"),
        ("team_id=", "team_id"),
        (f"action_type={'x' * 201}", "action_type"),
        ("offset=10", "offset"),
        ("limit=1&limit=2", "limit"),
    ],
)
def test_an_invalid_query_parameter_is_rejected_by_name(shared_api, query, field):
    response = shared_api("GET", f"/actions?{query}")

    assert (response.status_code, response.json["code"]) == (400, "fields_invalid")
    assert list(errors(response)) == [field]


def test_the_error_of_an_unescaped_plus_explains_how_to_escape_it(shared_api):
    response = shared_api("GET", "/actions?due_from=2026-03-04T12:00:00+02:00")

    assert response.status_code == 400
    assert "%2B" in errors(response)["due_from"]
    assert shared_api("GET", "/actions?due_from=2026-03-04T12:00:00%2B02:00").status_code == 200


@pytest.mark.parametrize("query", ["force=yes", "force=1", "force=", "force=TRUE"])
def test_a_flag_is_true_or_false(shared_api, query):
    assert shared_api("PATCH", f"/actions/{UNKNOWN}?{query}", {}).status_code == 400


# -- server errors -----------------------------------------------------------------------------------------------------


def test_an_unavailable_database_returns_503_with_retry_after(api, admin, database_url):
    name = conninfo_to_dict(database_url)["dbname"]
    assert api("GET", "/actions").status_code == 200
    admin.execute(f'alter database "{name}" allow_connections false')
    admin.execute("select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s", [name])

    dead = api("GET", "/actions")

    assert (dead.status_code, dead.json["code"]) == (503, "database_unavailable")
    assert int(dead.headers["Retry-After"]) > 0
    assert conninfo_to_dict(database_url)["password"] not in dead.text
    admin.execute(f'alter database "{name}" allow_connections true')
    assert api("GET", "/actions").status_code == 200


def test_missing_tables_return_503_with_the_command_that_creates_them(api, connection):
    connection.execute("drop table scheduled_actions cascade")

    response = api("GET", "/actions")

    assert (response.status_code, response.json["code"]) == (503, "schema_outdated")
    assert "scheduled-actions migrate" in response.json["detail"]


def test_an_error_of_a_constraint_does_not_contain_the_statement(api, connection):
    connection.execute("alter table scheduled_actions add check (user_id <> 'refused')")

    response = api("POST", "/actions", {"action_type": "test:run", "payload": {}, "user_id": "refused"})

    assert (response.status_code, response.json["code"]) == (400, "refused_by_database")
    assert "Retry-After" not in response.headers
    assert "insert" not in response.text


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (psycopg.errors.UniqueViolation, 409, "conflicting_change"),
        (psycopg.errors.ForeignKeyViolation, 409, "conflicting_change"),
        (psycopg.errors.CheckViolation, 400, "refused_by_database"),
        (psycopg.errors.NotNullViolation, 400, "refused_by_database"),
        (psycopg.errors.LockNotAvailable, 409, "row_locked"),
        (psycopg.errors.DeadlockDetected, 409, "row_locked"),
        (psycopg.errors.SerializationFailure, 409, "row_locked"),
        (psycopg.errors.QueryCanceled, 503, "database_busy"),
        (psycopg.errors.DiskFull, 503, "database_error"),
    ],
)
def test_each_database_error_has_its_status_and_code(api, connection, error, status, code):
    """A trigger raises the error in the SQL function that inserts the action."""
    connection.execute(
        "create function refuse() returns trigger language plpgsql as"
        f" $$ begin raise exception 'refused' using errcode = '{error.sqlstate}'; end $$;"
        " create trigger refuse before insert on scheduled_actions for each row execute function refuse()"
    )

    response = api("POST", "/actions", {"action_type": "test:run", "payload": {}})

    assert (response.status_code, response.json["code"]) == (status, code)
    assert ("Retry-After" in response.headers) == (code not in {"conflicting_change", "refused_by_database"})


def test_reads_work_without_a_registry(tmp_path, connection, database_url):
    from scheduled_actions.core import config
    from scheduled_actions.runtime import Runtime

    runtime = Runtime(config.load(tmp_path, {"DATABASE_URL": database_url, "ADMIN_TOKEN": ADMIN_TOKEN}))
    api = Api(application(runtime).test_client(), ADMIN_TOKEN)
    action_id = insert(connection)

    listed, looked = api("GET", "/actions"), api("GET", f"/actions/{action_id}")
    changed = api("POST", f"/actions/{action_id}/cancel", {"force": True})

    runtime.close()
    assert listed.status_code == looked.status_code == 200
    assert (changed.status_code, changed.json["code"]) == (503, "registry_invalid")


@pytest.mark.parametrize(
    "columns",
    [
        {"scheduled_at": "-infinity"},
        {"scheduled_at": "infinity"},
        {"payload": "1" * 5001},
        *({"payload": "[" * depth + "]" * depth} for depth in (240, 250, 256, 500)),
        {"payload": "[" * 5000 + "]" * 5000},
        {"history": [1, "x"]},
        {"metadata": []},
    ],
    ids=lambda columns: str(columns)[:40],
)
def test_an_invalid_row_does_not_prevent_a_list(api, connection, columns):
    odd, plain = insert(connection, **columns), insert(connection)

    listed, shown = api("GET", "/actions"), api("GET", f"/actions/{odd}")

    assert [one["id"] for one in listed.json["actions"]] == [str(plain), str(odd)]
    assert shown.status_code == 200
