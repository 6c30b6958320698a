"""What every request may rely on: statuses of refusals, and bodies of the wrong shape."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from gunicorn.config import Config
from gunicorn.http.body import Body, ChunkedReader
from gunicorn.http.unreader import IterUnreader

from tests.api.conftest import ADMIN_TOKEN

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
def test_an_unknown_action_type_in_a_body_is_422_and_names_its_field(api, method, path, body, field):
    answer = api(method, path, body)

    assert answer.status_code == 422, answer.text
    assert answer.json["errors"][0]["field"] == field
    assert 'did you mean "test:run"?' in answer.json["detail"]


@pytest.mark.parametrize("action_type", [1, None, [], {}, True, ["test:run"]])
@pytest.mark.parametrize("where", ["on_timeout", "on_success", "on_failure"])
def test_an_action_type_of_a_follow_up_that_is_no_text_is_refused_at_its_place(api, where, action_type):
    follow_ups = [{"action_type": action_type, "payload": {}}]
    extras = {where: follow_ups}
    if where == "on_timeout":
        extras = {"condition": {"wait": DEADLINE_FACT, "on_timeout": follow_ups}}

    answer = api("POST", "/actions", {"action_type": "test:run", "payload": {}} | extras)

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
def test_a_body_whose_chunks_cannot_be_read_is_400(client, data):
    bearer = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/json"}
    signed = {"webhook-id": "1", "webhook-timestamp": str(int(time.time())), "webhook-signature": "v1,AAAA"}

    api = client.post("/api/v1/actions", environ_overrides=chunked(data), headers=bearer)
    ping = client.post("/cron/process", environ_overrides=chunked(data), headers=signed)
    form = client.post(
        "/dashboard/login",
        environ_overrides=chunked(data),
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )

    assert (api.status_code, api.json["code"]) == (400, "body_unreadable")
    assert (ping.status_code, ping.json["code"]) == (400, "body_unreadable")
    assert form.status_code == 400
