"""Unusual requests: encodings, repeated members, forged cursors, and malformed headers and ticks."""

from __future__ import annotations

import gzip
import itertools

import pytest

from tests.factories import CRON_SECRET
from tests.web.conftest import ADMIN_TOKEN

BEARER = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
JSON = BEARER | {"Content-Type": "application/json"}
NEW = b'{"action_type": "test:run", "payload": {"n": 1}}'
#: The lists with a cursor.
LISTS = (
    "/actions", "/schedules", "/deadlines", "/facts", "/tokens", "/calendar/feeds", "/webhooks/endpoints",
    "/webhooks/deliveries", "/calendar",
)  # fmt: skip

TICK_PATHS = ("/cron/process", "/api/v1/cron/process/")


def count(connection):
    return connection.execute("select count(*) from scheduled_actions").fetchone()[0]


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (gzip.compress(NEW), {"Content-Encoding": "gzip"}),
        (gzip.compress(b" " * 50_000_000), {"Content-Encoding": "gzip"}),
        (NEW.decode().encode("utf-16"), {}),
        (b"--x\r\n\r\n--x--", {"Content-Type": "multipart/form-data; boundary=x"}),
        (b"action_type=test:run", {"Content-Type": "application/x-www-form-urlencoded"}),
        (NEW, {"Content-Type": "text/json"}),
    ],
    ids=["gzip", "zip bomb", "utf-16", "multipart", "form", "text/json"],
)
def test_a_body_that_is_not_plain_json_is_refused(shared_client, shared_connection, body, headers):
    answer = shared_client.post("/api/v1/actions", data=body, headers=JSON | headers)

    assert answer.status_code in {400, 415}
    assert answer.json["code"] in {"body_unreadable", "unsupported_media_type"}
    assert count(shared_connection) == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"action_type": "test:run", "payload": {"a": ["x", {"b": "\\u0000"}]}}', "payload.a.1.b"),
        (b'{"action_type": "test:run\\u0000", "payload": {}}', "action_type"),
    ],
)
def test_the_error_of_an_unstorable_value_names_its_path(shared_client, shared_connection, body, field):
    answer = shared_client.post("/api/v1/actions", data=body, headers=JSON)

    assert (answer.status_code, answer.json["code"]) == (400, "body_unreadable")
    assert [one["field"] for one in answer.json["errors"]] == [field]
    assert count(shared_connection) == 0


def test_the_last_of_several_members_with_the_same_name_is_used(client):
    sent = b'{"action_type": "test:run", "payload": {"n": 1}, "payload": {"n": 2, "n": 3}}'

    assert client.post("/api/v1/actions", data=sent, headers=JSON).json["payload"] == {"n": 3}


@pytest.mark.parametrize("query", ["q=%ff%fe", "q=%ED%A0%80", "q=%C0%AF", "%ff=1", "q=%", "q=%zz", "&&&", "=", "q"])
def test_a_malformed_query_string_never_causes_a_server_error(shared_client, query):
    answer = shared_client.get(f"/api/v1/actions?{query}", headers=BEARER)

    assert answer.status_code in {200, 400}
    assert answer.mimetype in {"application/json", "application/problem+json"}


@pytest.mark.parametrize("query", ["colour=red", "limit=1&limit=1", "cursor=1%27%20or%201=1", "limit=1e3", "cursor="])
def test_every_list_rejects_invalid_parameters_by_name(shared_api, query):
    for path in LISTS:
        answer = shared_api("GET", f"{path}?{query}")

        assert (answer.status_code, answer.json["code"]) == (400, "fields_invalid"), path
        assert [one["field"] for one in answer.json["errors"]] == [query.partition("=")[0]], path


@pytest.mark.parametrize(
    "cursor",
    [
        "9999-99-99T99:99:99~0~" + "0" * 32,
        "2026-03-04T12:00:00~9~" + "0" * 32,
        "2026-03-04T12:00:00~0~" + "g" * 32,
        "~~",
    ],
)
def test_a_forged_calendar_cursor_is_rejected(shared_api, cursor):
    answer = shared_api("GET", f"/calendar?cursor={cursor}")

    assert answer.status_code == 400
    assert [one["field"] for one in answer.json["errors"]] == ["cursor"]


@pytest.mark.parametrize("cursor", ["", "~~", "x" * 100, "'"])
@pytest.mark.parametrize("path", LISTS)
def test_the_error_of_an_invalid_cursor_explains_which_cursor_to_send(shared_api, path, cursor):
    answer = shared_api("GET", f"{path}?cursor={cursor}")

    expected = {"field": "cursor", "message": "is an invalid cursor: send next_cursor of the previous page"}
    assert (answer.status_code, answer.json["errors"]) == (400, [expected])


@pytest.mark.parametrize("path", ["/webhooks/deliveries/recover", "/webhooks/endpoints/e/replay-missed"])
def test_the_error_of_an_invalid_batch_cursor_explains_which_cursor_to_send(shared_api, path):
    answer = shared_api("POST", path, {"from": "2026-03-04T12:00:00Z", "cursor": "x"})

    expected = {"field": "cursor", "message": "is an invalid cursor: send next_cursor of the previous page"}
    assert (answer.status_code, answer.json["errors"]) == (400, [expected])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/actions", {"action_type": "test:run", "payload": {}}),
        ("/actions/batch", {"actions": [{"action_type": "test:run", "payload": {}}]}),
        ("/schedules", {"action_type": "test:run", "payload": {}, "recurrence": "daily"}),
    ],
)
def test_every_route_rejects_a_malformed_idempotency_key(shared_api, shared_connection, path, body):
    for key in ("", " ", "\t", "é", "a\x7f", "x" * 256, "\u2028"):
        answer = shared_api(
            "POST", path, body, environ_overrides={"HTTP_IDEMPOTENCY_KEY": key.encode().decode("latin-1")}
        )

        assert (answer.status_code, answer.json["code"]) == (400, "fields_invalid"), key
        assert [one["field"] for one in answer.json["errors"]] == ["Idempotency-Key"], key
    assert count(shared_connection) == 0


#: Unusual headers and bodies, which are sent with a valid secret.
UNUSUAL_REQUESTS = [
    ({}, b"\x00\xff" * 1000),
    ({"Content-Type": "application/json"}, b"{"),
    ({"Content-Encoding": "gzip"}, b"x"),
    ({"Expect": "100-continue"}, b"{}"),
    ({"Accept": "text/html", "Accept-Language": "\xff"}, b""),
    ({"X-Forwarded-For": "x" * 5000, "Cookie": "a=\xff"}, b""),
    ({"Content-Type": "multipart/form-data"}, b"--"),
    ({"Transfer-Encoding": "chunked"}, b"zz"),
    ({}, b" " * 2_000_000),
    ({"webhook-id": "x"}, b""),
]
WITHOUT_SECRET = [
    {},
    {"x-cron-secret": ""},
    {"x-cron-secret": "\xff" * 30},
    {"x-cron-secret": "x" * 100_000},
    {"Authorization": "Bearer"},
    {"Authorization": "Bearer  "},
    {"Authorization": "Basic \xff"},
    {"webhook-id": "a", "webhook-timestamp": "9" * 400, "webhook-signature": "v1,x"},
    {"webhook-id": "a", "webhook-timestamp": "NaN", "webhook-signature": "v1,\xff"},
    {"webhook-id": "\xff", "webhook-timestamp": "1", "webhook-signature": ","},
    {"webhook-id": "a.b", "webhook-timestamp": "-1", "webhook-signature": "v1,AAAA v1,AAAA"},
]
UNKNOWN_CALENDARS = [
    "x",
    "saf_",
    f"saf_{'x' * 43}",
    f"saf_{'x' * 50_000}",
    "%00",
    "%ED%A0%80",
    "..%2Fetc",
    "saf_%ff",
    "*",
    "%",
]


def test_a_tick_ignores_unusual_headers_and_bodies(client):
    for method, path, (headers, body) in itertools.product(("GET", "POST"), TICK_PATHS, UNUSUAL_REQUESTS):
        answer = client.open(path, method=method, headers={"x-cron-secret": CRON_SECRET, **headers}, data=body)
        rejected = client.open(path, method=method, headers={"x-cron-secret": "x" * 20, **headers}, data=body)

        assert (answer.status_code, answer.json["success"]) == (200, True), (method, path, headers)
        assert rejected.status_code in {401, 413}, (method, path, headers)


def test_a_tick_without_a_valid_secret_is_rejected(client):
    for path, headers in itertools.product(TICK_PATHS, WITHOUT_SECRET):
        answer = client.post(path, headers=headers, data=b"x")

        assert (answer.status_code, answer.json["code"]) == (401, "unauthorized"), headers


def test_an_unknown_calendar_address_is_not_found(shared_client):
    for method, secret in itertools.product(("GET", "HEAD"), UNKNOWN_CALENDARS):
        assert shared_client.open(f"/calendar/{secret}.ics", method=method).status_code == 404, secret
