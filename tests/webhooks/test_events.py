from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import UUID

import pytest
from pydantic import ValidationError
from standardwebhooks.webhooks import Webhook

from scheduled_actions import webhooks
from scheduled_actions.actions.model import arguments_of
from scheduled_actions.core import config
from scheduled_actions.core.action import Action, Status
from scheduled_actions.core.errors import ConfigInvalid, InvalidArgument, NotConfigured
from scheduled_actions.database.connection import Database
from scheduled_actions.outbound import bounded_http, delivery
from scheduled_actions.registry.handler import OPTIONS_ATTRIBUTE, Context, Fail, RetryAfter, Skip
from scheduled_actions.webhooks.endpoints.directory import EndpointDirectory
from scheduled_actions.webhooks.sending import DELIVERY_RETRY, DeliveryFailed, WebhookEvent, event_payload, send_webhook

EVENT_ID = UUID("0197a000-0000-7000-8000-000000000001")
DELIVERY_ID = UUID("0197a000-0000-7000-8000-000000000002")
CREATED_AT = datetime(2026, 3, 4, 12, 0, 0, 250000, tzinfo=UTC)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


def an_action(**changes):
    values = dict.fromkeys(field.name for field in fields(Action))
    values |= {
        "id": DELIVERY_ID,
        "action_type": "webhook:send",
        "status": Status.PROCESSING,
        "priority": 0,
        "attempts": 1,
        "history": (),
        "lock_group_blocks": False,
        "created_at": CREATED_AT,
        "updated_at": CREATED_AT,
        "scheduled_at": CREATED_AT,
    }
    return Action(**values | changes)


def a_context(*, attempt=1, seconds_left=20.0, scheduled=None, **changes):
    """Return the context of an attempt; the actions that it schedules are added to the list `scheduled`."""

    def prepare(action_type, payload, **options):
        follow_up = arguments_of({"action_type": action_type, "payload": payload, **options})
        scheduled.append(follow_up)
        return follow_up

    return Context(
        action=an_action(**changes),
        attempt=attempt,
        state=None,
        log=logging.LoggerAdapter(logging.getLogger("tests"), {}),
        _monotonic=lambda: 0.0,
        _deadline=seconds_left,
        _prepare=prepare,
        _is_stopped=lambda: False,
    )


def an_event(**changes):
    values = {
        "event": "task:created",
        "entity_type": "task",
        "entity_id": "t1",
        "data": {"name": "Zoë", "n": 1},
    }
    return WebhookEvent.model_validate(values | changes)


@pytest.fixture
def configured(tmp_path, database_url, connection):
    """Return a function that loads the endpoints of a configuration: `[webhooks]` in TOML, and an environment."""
    with closing(Database(lambda: database_url)) as database:

        def load(toml, **environ):
            (tmp_path / "scheduled_actions.toml").write_text(f"[webhooks]\n{toml}")
            return EndpointDirectory(config.load(tmp_path, environ), database)

        yield load


TWO_ENDPOINTS = """
[webhooks.endpoints.crm]
env_var = "CRM_URL"
patterns = ["task:*"]
secret_env_var = "CRM_SECRET"
[webhooks.endpoints.audit]
env_var = "AUDIT_URL"
"""


@pytest.fixture
def receiver():
    """Return a local receiver: `got` contains its requests; `answer` is its response: status, headers and body."""
    bounded_http.close()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            server.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            status, headers, text = server.answer
            if status is None:
                server.closing.wait(10)
                return
            self.send_response_only(status)
            for name, value in {"Content-Length": str(len(text)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.got, server.answer, server.closing = [], (200, {}, b"ok"), threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}/services/T0KEN"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.closing.set()
    bounded_http.close()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def to_crm(configured, receiver):
    """Return the endpoints of a configuration whose endpoint `crm` is the receiver."""
    return configured(TWO_ENDPOINTS, CRM_URL=receiver.url, CRM_SECRET=SECRET)


def test_an_event_becomes_one_delivery_per_matching_endpoint(configured):
    scheduled = []
    context = a_context(
        scheduled=scheduled,
        id=EVENT_ID,
        team_id="blue",
        priority=-5,
        max_attempts=4,
        target_type="task",
        target_id="t1",
        user_id="ann",
        created_by="api",
    )

    result = send_webhook(an_event(), context, configured(TWO_ENDPOINTS))

    assert result == {"endpoints": ["crm", "audit"]}
    assert scheduled == [
        {
            "action_type": "webhook:send",
            "payload": {
                "event": "task:created",
                "entity_type": "task",
                "entity_id": "t1",
                "data": {"name": "Zoë", "n": 1},
                "endpoint": name,
            },
            "dedup_window": 0,
            "team_id": "blue",
            "priority": -5,
            "max_attempts": 4,
            "target": {"type": "task", "id": "t1"},
            "user_id": "ann",
            "created_by": "api",
            "metadata": {"event_action_id": str(EVENT_ID), "event_at": "2026-03-04T12:00:00.250000Z"},
        }
        for name in ("crm", "audit")
    ]


@pytest.mark.parametrize("half", [{}, {"target_type": "task"}, {"target_id": "t1"}])
def test_an_incomplete_target_of_an_event_is_not_copied_to_its_deliveries(configured, half):
    scheduled = []

    send_webhook(an_event(), a_context(scheduled=scheduled, **half), configured(TWO_ENDPOINTS))

    assert [follow_up.get("target") for follow_up in scheduled] == [None, None]


def test_an_event_is_routed_by_the_settings(configured):
    scheduled = []
    context = a_context(scheduled=scheduled)

    result = send_webhook(an_event(), context, configured('routing = "most_specific"' + TWO_ENDPOINTS))

    assert result == {"endpoints": ["crm"]}
    assert [follow_up["payload"]["endpoint"] for follow_up in scheduled] == ["crm"]


def test_an_event_without_a_matching_endpoint_is_skipped_and_named_in_the_reason(configured):
    result = send_webhook(an_event(), a_context(), configured(""))

    assert result == Skip("no endpoint receives task:created")


def test_an_unmatched_event_goes_to_the_default_endpoint(configured):
    settings = configured('default_endpoint = "crm"\n[webhooks.endpoints.crm]\nenv_var = "U"\npatterns = ["a:b"]')

    result = send_webhook(an_event(), a_context(scheduled=[]), settings)

    assert result == {"endpoints": ["crm"]}


def test_the_error_for_an_invalid_pattern_in_the_settings_contains_the_pattern(configured):
    with pytest.raises(ConfigInvalid, match=r"entity:verb.* not 'task'"):
        configured('[webhooks.endpoints.crm]\nenv_var = "U"\npatterns = ["task"]')


def test_a_delivery_posts_the_event_as_compact_json(to_crm, receiver):
    notes = {"event_action_id": str(EVENT_ID), "event_at": "2026-03-04T11:59:59.500000Z"}
    context = a_context(team_id="blue", metadata=notes)

    result = send_webhook(an_event(endpoint="crm"), context, to_crm)

    ((path, headers, body),) = receiver.got
    assert path == "/services/T0KEN"
    assert body.decode() == (
        '{"event":"task:created","entity":"task","entity_id":"t1","team_id":"blue","data":{"name":"Zoë","n":1},'
        '"timestamp":"2026-03-04T11:59:59.500000Z","action_id":"0197a000-0000-7000-8000-000000000001"}'
    )
    assert headers["content-type"] == "application/json"
    assert headers["webhook-id"] == str(DELIVERY_ID)
    duration_ms = result.pop("duration_ms")
    assert result == {"status": 200, "endpoint": "crm", "answer": "ok"}
    assert isinstance(duration_ms, int)
    assert duration_ms >= 0


def test_a_delivery_signature_covers_the_exact_body(to_crm, receiver):
    send_webhook(an_event(endpoint="crm"), a_context(), to_crm)

    ((_, headers, body),) = receiver.got
    assert Webhook(SECRET).verify(body, headers) == json.loads(body)
    webhooks.verify(body, headers, SECRET)
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 30


def test_during_rotation_a_delivery_carries_a_signature_for_each_secret(configured, receiver):
    settings = configured(TWO_ENDPOINTS, CRM_URL=receiver.url, CRM_SECRET=f"{OLD_SECRET},{SECRET}")

    send_webhook(an_event(endpoint="crm"), a_context(), settings)

    ((_, headers, body),) = receiver.got
    for secret in (OLD_SECRET, SECRET):
        Webhook(secret).verify(body, headers)


def test_deliveries_to_an_endpoint_without_a_secret_variable_are_not_signed(configured, receiver):
    settings = configured(TWO_ENDPOINTS, AUDIT_URL=receiver.url)

    send_webhook(an_event(endpoint="audit"), a_context(), settings)

    ((_, headers, _),) = receiver.got
    assert "webhook-signature" not in headers
    assert {"webhook-id", "webhook-timestamp"} <= set(headers)


def test_a_retry_sends_the_same_id_and_the_same_bytes(to_crm, receiver):
    receiver.answer = (500, {}, b"")
    for attempt in (1, 2):
        with pytest.raises(DeliveryFailed):
            send_webhook(an_event(endpoint="crm"), a_context(attempt=attempt), to_crm)

    (_, first, first_body), (_, second, second_body) = receiver.got

    assert first["webhook-id"] == second["webhook-id"]
    assert first_body == second_body


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {},
        {"note": "mine"},
        {"event_at": 5, "event_action_id": []},
        {"event_at": "yesterday", "event_action_id": "x"},
        {"event_at": "2026-03-04T12:00:00", "event_action_id": None},
    ],
)
def test_a_delivery_without_fan_out_metadata_uses_its_own_id_and_time(to_crm, receiver, metadata):
    created_at = datetime(2026, 3, 4, 13, 0, tzinfo=timezone(timedelta(hours=1)))

    send_webhook(an_event(endpoint="crm"), a_context(metadata=metadata, created_at=created_at), to_crm)

    body = json.loads(receiver.got[0][2])
    assert body["timestamp"] == "2026-03-04T12:00:00Z"
    assert body["action_id"] == str(DELIVERY_ID)
    assert body["team_id"] is None


@pytest.mark.parametrize("entity_id", ["7", 7, 2**63 - 1, "0197a000-0000-7000-8000-000000000001"])
def test_an_entity_id_is_delivered_unchanged(to_crm, receiver, entity_id):
    send_webhook(an_event(endpoint="crm", entity_id=entity_id), a_context(), to_crm)

    assert json.loads(receiver.got[0][2])["entity_id"] == entity_id


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_status_completes_a_delivery(to_crm, receiver, status):
    receiver.answer = (status, {}, b"")

    assert send_webhook(an_event(endpoint="crm"), a_context(), to_crm)["status"] == status


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 429, 500, 502, 503, 504, 599])
def test_a_failure_is_retried_and_quotes_the_response(to_crm, receiver, status):
    receiver.answer = (status, {}, b"no such\0 luck")

    with pytest.raises(DeliveryFailed) as caught:
        send_webhook(an_event(endpoint="crm"), a_context(), to_crm)

    assert str(caught.value) == f'endpoint "crm" answered {status}: no such luck'


def test_one_kibibyte_of_a_long_response_is_kept(to_crm, receiver):
    receiver.answer = (500, {}, b"x" * 100_000)

    with pytest.raises(DeliveryFailed) as caught:
        send_webhook(an_event(endpoint="crm"), a_context(), to_crm)

    assert str(caught.value) == 'endpoint "crm" answered 500: ' + "x" * 1024


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_fails_without_naming_its_location(to_crm, receiver, status):
    receiver.answer = (status, {"Location": "/s3cret"}, b"moved to /s3cret")

    with pytest.raises(DeliveryFailed) as caught:
        send_webhook(an_event(endpoint="crm"), a_context(), to_crm)

    assert str(caught.value).startswith(f'endpoint "crm" answered {status}: redirects are not followed')
    assert "s3cret" not in str(caught.value)
    assert len(receiver.got) == 1


def test_gone_is_final(to_crm, receiver):
    receiver.answer = (410, {}, b"unsubscribed")

    with pytest.raises(Fail, match='endpoint "crm" answered 410: unsubscribed'):
        send_webhook(an_event(endpoint="crm"), a_context(), to_crm)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
@pytest.mark.parametrize("as_date", [False, True], ids=["seconds", "date"])
def test_the_delay_of_retry_after_is_used(to_crm, receiver, status, as_date):
    now = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
    value = format_datetime(now + timedelta(seconds=90), usegmt=True) if as_date else "90"
    receiver.answer = (status, {"Retry-After": value, "Date": format_datetime(now, usegmt=True)}, b"busy")

    with pytest.raises(RetryAfter, match=f'endpoint "crm" answered {status}: busy') as caught:
        send_webhook(an_event(endpoint="crm"), a_context(), to_crm)

    assert caught.value.delay == timedelta(seconds=90)


@pytest.mark.parametrize(
    ("asked", "attempt", "delay"),
    [
        ("0", 1, timedelta(0)),
        ("7", 1, timedelta(seconds=7)),
        ("999999", 1, timedelta(hours=24)),
        ("1", 3, timedelta(seconds=150)),
        ("600", 3, timedelta(seconds=600)),
        ("1", 9, timedelta(hours=10)),
    ],
)
def test_a_short_retry_after_does_not_use_up_the_attempts(to_crm, receiver, asked, attempt, delay):
    receiver.answer = (429, {"Retry-After": asked}, b"")

    with pytest.raises(RetryAfter) as caught:
        send_webhook(an_event(endpoint="crm"), a_context(attempt=attempt), to_crm)

    assert caught.value.delay == delay


def test_retry_after_of_other_statuses_is_ignored(to_crm, receiver):
    receiver.answer = (500, {"Retry-After": "90"}, b"")

    with pytest.raises(DeliveryFailed, match="answered 500"):
        send_webhook(an_event(endpoint="crm"), a_context(), to_crm)


def test_a_delivery_times_out_with_its_attempt(to_crm, receiver):
    receiver.answer = (None, {}, b"")
    started = time.monotonic()

    with pytest.raises(DeliveryFailed) as caught:
        send_webhook(an_event(endpoint="crm"), a_context(seconds_left=0.8), to_crm)

    assert time.monotonic() - started < 4
    assert str(caught.value).startswith('endpoint "crm" did not respond: 127.0.0.1:')
    assert "timed out after" in str(caught.value)
    assert "T0KEN" not in str(caught.value)


def test_an_unknown_endpoint_fails_the_delivery_and_lists_the_known_ones(to_crm):
    with pytest.raises(Fail) as caught:
        send_webhook(an_event(endpoint="crn"), a_context(), to_crm)

    assert str(caught.value) == ('endpoint "crn" is not declared; did you mean "crm"? declared: audit, crm')


def test_a_disabled_endpoint_skips_its_deliveries(configured, receiver):
    settings = configured(TWO_ENDPOINTS + "enabled = false", AUDIT_URL=receiver.url)

    result = send_webhook(an_event(endpoint="audit"), a_context(), settings)

    assert result == Skip('endpoint "audit" is disabled')
    assert receiver.got == []


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (None, "is not configured"),
        ("", "is not configured"),
        ("ftp://example.com/T0KEN", "is invalid"),
        ("example.com/T0KEN", "is invalid"),
    ],
)
def test_a_missing_or_invalid_url_fails_with_the_variable_but_not_its_value(configured, url, problem):
    settings = configured(TWO_ENDPOINTS, **({} if url is None else {"AUDIT_URL": url}))

    with pytest.raises(NotConfigured, match=rf'AUDIT_URL {problem}: .* URL of endpoint "audit"') as caught:
        send_webhook(an_event(endpoint="audit"), a_context(), settings)

    assert "T0KEN" not in str(caught.value)


@pytest.mark.parametrize("environ", [{}, {"CRM_SECRET": ""}, {"CRM_SECRET": "hunter2"}])
def test_no_request_is_sent_unsigned_if_the_secret_is_missing_or_invalid(configured, receiver, environ):
    settings = configured(TWO_ENDPOINTS, CRM_URL=receiver.url, **environ)

    problem = "is invalid" if environ.get("CRM_SECRET") else "is not configured"
    with pytest.raises(NotConfigured, match=f"^CRM_SECRET {problem}: use whsec_ followed by") as caught:
        send_webhook(an_event(endpoint="crm"), a_context(), settings)

    assert "hunter2" not in str(caught.value)
    assert receiver.got == []


def test_logs_contain_no_payload_path_or_secret(to_crm, caplog):
    caplog.set_level(logging.DEBUG, logger="tests")

    send_webhook(an_event(endpoint="crm"), a_context(), to_crm)

    assert "webhook.answered endpoint=crm status=200 duration_ms=" in caplog.text
    for hidden in ("Zoë", "T0KEN", SECRET):
        assert hidden not in caplog.text


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"event": ""}, "event"),
        ({"event": "task"}, "event"),
        ({"event": "task:"}, "event"),
        ({"event": ":created"}, "event"),
        ({"event": "x:" + "a" * 200}, "event"),
        ({"event": "task:cre\nated"}, "event"),
        ({"entity_type": ""}, "entity_type"),
        ({"entity_id": ""}, "entity_id"),
        ({"entity_id": None}, "entity_id"),
        ({"entity_id": True}, "entity_id"),
        ({"entity_id": 1.5}, "entity_id"),
        ({"entity_id": 2**63}, "entity_id"),
        ({"endpoint": ""}, "endpoint"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_an_invalid_event_payload_is_rejected_by_field(changes, where):
    with pytest.raises(ValidationError) as caught:
        an_event(**changes)

    assert {problem["loc"][0] for problem in caught.value.errors()} == {where}


def test_the_error_of_an_invalid_event_describes_the_format():
    with pytest.raises(ValidationError, match="should be an event such as task:created \\(entity, colon, verb"):
        an_event(event="task")


@pytest.mark.parametrize("data", [{}, [], "text", 5, None, {"deep": [{"er": None}]}])
def test_data_can_be_any_json(data):
    assert an_event(data=data).data == data


@pytest.mark.parametrize(
    ("event", "entity_type"),
    [("task:created", "task"), ("invoice.line:paid", "invoice.line"), ("a:b:c", "a")],
)
def test_the_payload_of_an_event_names_its_entity_type(event, entity_type):
    payload = event_payload(event, entity_id=7, data={"n": 1})

    assert payload == {"event": event, "entity_type": entity_type, "entity_id": 7, "data": {"n": 1}}
    assert WebhookEvent.model_validate(payload).endpoint is None


def test_the_payload_of_a_delivery_contains_its_endpoint():
    payload = event_payload("task:created", entity_id=EVENT_ID, data=None, endpoint="crm")

    assert payload["endpoint"] == "crm"
    assert payload["entity_id"] == str(EVENT_ID)


def test_event_payload_rejects_an_invalid_event():
    with pytest.raises(InvalidArgument, match="event: 'task' is not an event such as"):
        event_payload("task", entity_id=1, data={})


def test_the_default_retry_table_is_the_table_of_standard_webhooks():
    hours = 3600

    assert DELIVERY_RETRY.seconds == (
        5,
        5 * 60,
        30 * 60,
        2 * hours,
        5 * hours,
        10 * hours,
        14 * hours,
        20 * hours,
        24 * hours,
    )
    assert DELIVERY_RETRY.jitter == "equal"


def test_certificates_are_not_loaded_before_the_first_delivery():
    code = "import sys, scheduled_actions.webhooks.sending; sys.exit('certifi' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_handler_declares_the_table_and_leaves_time_for_the_settlement():
    from handlers import webhook

    options = getattr(webhook.send, OPTIONS_ATTRIBUTE)

    assert options.action_type == "webhook:send"
    assert options.retry == DELIVERY_RETRY
    assert options.max_attempts == len(DELIVERY_RETRY.seconds) + 1
    assert options.timeout_seconds > delivery.TOTAL_TIMEOUT
