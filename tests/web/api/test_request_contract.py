"""Statuses of rejected requests, malformed bodies, and the agreement of the OpenAPI document with the server."""

from __future__ import annotations

import re
import time
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from gunicorn.config import Config
from gunicorn.http.body import Body, ChunkedReader
from gunicorn.http.unreader import IterUnreader

from scheduled_actions import action
from scheduled_actions.core.errors import InvalidArgument, UrlInvalid
from scheduled_actions.registry import Registry
from scheduled_actions.schedules.sync import sync
from scheduled_actions.web.api.openapi import document as openapi
from scheduled_actions.webhooks.endpoints.checks import check_settings
from tests.web.conftest import ADMIN_TOKEN, Api, application, run

DEADLINE_FACT = {"kind": "document_state", "target": {"type": "a", "id": "1"}, "state": "x"}
UNKNOWN = {"action_type": "test:rnu", "payload": {}}


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/actions", UNKNOWN, "action_type"),
        ("POST", "/actions/batch", {"actions": [UNKNOWN]}, "actions.0.action_type"),
        ("POST", "/schedules", UNKNOWN | {"recurrence": "daily"}, "action_type"),
        (
            "POST",
            "/local-actions",
            UNKNOWN | {"local_time": "09:00", "users": [{"user_id": "ann", "timezone": "UTC"}]},
            "action_type",
        ),
        (
            "POST",
            "/actions",
            {"action_type": "test:run", "payload": {}, "on_failure": [UNKNOWN]},
            "on_failure.0.action_type",
        ),
    ],
)
def test_an_unknown_action_type_in_a_body_is_422_and_names_its_field(shared_api, method, path, body, field):
    answer = shared_api(method, path, body)

    assert answer.status_code == 422, answer.text
    assert answer.json["errors"][0]["field"] == field
    assert 'did you mean "test:run"?' in answer.json["detail"]


@pytest.mark.parametrize("action_type", [1, None, [], {}, True, ["test:run"]])
@pytest.mark.parametrize("where", ["on_timeout", "on_success", "on_failure"])
def test_the_error_of_a_follow_up_without_a_string_as_type_names_its_path(shared_api, where, action_type):
    follow_ups = [{"action_type": action_type, "payload": {}}]
    extras = {where: follow_ups}
    if where == "on_timeout":
        extras = {"condition": {"wait": DEADLINE_FACT, "on_timeout": follow_ups}}

    answer = shared_api("POST", "/actions", {"action_type": "test:run", "payload": {}} | extras)

    assert answer.status_code in {400, 422}, answer.text
    assert f"{where}.0" in answer.text


def chunked(data: bytes) -> dict[str, object]:
    """Return the environ of a request whose body gunicorn reads in chunks."""
    message = SimpleNamespace(trailers=[], cfg=Config(), limit_request_field_size=8190)
    reader = ChunkedReader(message, IterUnreader([data]))
    return {
        "wsgi.input": Body(reader),
        "wsgi.input_terminated": True,
        "HTTP_TRANSFER_ENCODING": "chunked",
        "CONTENT_LENGTH": "",
    }


@pytest.mark.parametrize(
    "data", [b"zz\r\n{}\r\n0\r\n\r\n", b"5\r\n{}\r\n", b"-1\r\n\r\n", b"\r\n", b"5", b"2\r\n{}zz\r\n"]
)
def test_a_body_with_malformed_chunks_returns_400(shared_client, data):
    bearer = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/json"}
    signed = {"webhook-id": "1", "webhook-timestamp": str(int(time.time())), "webhook-signature": "v1,AAAA"}

    posted = shared_client.post("/api/v1/actions", environ_overrides=chunked(data), headers=bearer)
    ping = shared_client.post("/cron/process", environ_overrides=chunked(data), headers=signed)
    form = shared_client.post(
        "/dashboard/login",
        environ_overrides=chunked(data),
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )

    assert (posted.status_code, posted.json["code"]) == (400, "body_unreadable")
    assert (ping.status_code, ping.json["code"]) == (400, "body_unreadable")
    assert form.status_code == 400


@pytest.mark.parametrize("target_id", ["2026/17", "/", "a//b", "x/history", "history", "%2F", "a%2Fb/c", "ü/ö"])
def test_the_target_id_of_a_fact_can_contain_slashes(api, target_id):
    path = f"/facts/invoice/{quote(target_id, safe='')}/state"

    reported = api("PUT", path, {"value": "open"})
    shown = api("GET", path)
    history = api("GET", f"{path}/history")
    gone = api("DELETE", f"{path}/")

    assert [one.status_code for one in (reported, shown, history, gone)] == [200, 200, 200, 200]
    assert shown.json["target_id"] == target_id
    assert api("GET", path).status_code == 404


def test_schema_names_are_unique():
    assert [name for name in openapi.document("")["components"]["schemas"] if "__" in name] == []


@pytest.mark.parametrize(
    ("pattern", "is_taken"),
    [
        ("task:created", True), ("*:*", True), ("task.*:cr*ed*", True), ("*a*b*:*", True), ("a:b:c", True),
        ("a+b@c/d:(x)", True), ("**", False), ("**:*", False), ("*:**", False), ("a**b:c", False), ("a b:c", False),
        ("*a*b*c*d*:x", False), ("a:", False), ("ä:b", False), ("a\n:b", False), ("a:b\n", False),
    ],
)  # fmt: skip
def test_the_document_and_the_server_accept_the_same_patterns(pattern, is_taken):
    schema = openapi.document("")["components"]["schemas"]["CreateEndpointRequest"]["properties"]["patterns"]["items"]

    assert (re.search(schema["pattern"].replace("$", r"\Z"), pattern) is not None) is is_taken
    if is_taken:
        assert check_settings({"patterns": [pattern]}) == {"patterns": [pattern]}
    else:
        with pytest.raises(InvalidArgument):
            check_settings({"patterns": [pattern]})


@pytest.mark.parametrize("host", ["*", "*.example.com", "a!b.example", "a(b).example", "a,b.example", "$x.example"])
def test_an_invalid_host_is_rejected(host):
    with pytest.raises(UrlInvalid):
        check_settings({"url": f"https://{host}/"})


@pytest.mark.parametrize("host", ["a.example", "a_b.example", "xn--4ca.example", "bücher.example", "93.184.216.34"])
def test_a_valid_host_is_accepted(host):
    assert check_settings({"url": f"https://{host}/x"})


@action("report:send", recurrence="daily")
def send_report(payload: dict): ...


def test_a_change_that_a_deployment_would_revert_returns_a_warning(a_runtime):
    runtime = a_runtime(registry=Registry.of(send_report, run))
    api = Api(application(runtime).test_client(), ADMIN_TOKEN)
    sync(runtime.schedules)
    new = {"action_type": "report:send", "payload": {}, "recurrence": "hourly"}

    changed = api("PATCH", "/schedules/report:send", {"recurrence": "hourly"}).json
    put = api("POST", "/schedules", new | {"name": "report:send"}).json
    gone = api("DELETE", "/schedules/report:send").json
    own = api("POST", "/schedules", new | {"name": "own"}).json
    paused = api("POST", "/schedules/own/pause", {}).json

    for answer in (changed, put, gone):
        assert "the next deployment that changes any declaration" in answer["warnings"][0]
    assert own["warnings"] == []
    assert "warnings" not in paused
    sync(runtime.schedules, force=True)
    assert runtime.schedules.get("report:send").recurrence == "daily"
