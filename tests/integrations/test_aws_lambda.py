"""AWS Lambda: recorded HTTP events reach the application, and events of EventBridge Scheduler run a tick."""

from __future__ import annotations

import base64
import json
import sys
import time

import pytest
from flask import Flask

from scheduled_actions import ScheduledActions, action
from scheduled_actions.core import signing
from scheduled_actions.core.errors import ExtraMissing, InvalidArgument
from scheduled_actions.integrations.aws_lambda import lambda_handler
from tests.factories import CRON_SECRET, insert, projects, statuses

#: The events as AWS delivers them, with other accounts, addresses and ids.
SCHEDULER = {
    "version": "0",
    "id": "5c7e3a52-0d51-4c9a-a1f1-9f4b6d7f0a11",
    "detail-type": "Scheduled Event",
    "source": "aws.scheduler",
    "account": "123456789012",
    "time": "2026-03-04T12:00:00Z",
    "region": "eu-central-1",
    "resources": ["arn:aws:scheduler:eu-central-1:123456789012:schedule/default/scheduled-actions"],
    "detail": "{}",
}
RULE = {**SCHEDULER, "source": "aws.events", "detail": {}}


def function_url(method, path, *, headers, body=None):
    """Return the event of a function URL or an HTTP API (format 2.0)."""
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"host": "abc123.lambda-url.eu-central-1.on.aws", "x-forwarded-proto": "https", **headers},
        "requestContext": {
            "accountId": "anonymous",
            "apiId": "abc123",
            "http": {
                "method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.7", "userAgent": "curl/8",
            },
            "requestId": "5c7e3a52",
            "stage": "$default",
            "time": "04/Mar/2026:12:00:00 +0000",
            "timeEpoch": 1772625600000,
        },
        "isBase64Encoded": body is not None,
    } | ({} if body is None else {"body": base64.b64encode(body).decode()})  # fmt: skip


def rest_api(method, path, *, headers):
    """Return the event of a REST API (format 1.0)."""
    return {
        "resource": "/{proxy+}",
        "path": path,
        "httpMethod": method,
        "headers": headers,
        "multiValueHeaders": {name: [value] for name, value in headers.items()},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "requestContext": {"resourcePath": "/{proxy+}", "httpMethod": method, "stage": "prod"},
        "body": None,
        "isBase64Encoded": False,
    }


class Context:
    """Lambda's context, with a fixed time left."""

    def __init__(self, seconds=60):
        self.seconds = seconds

    def get_remaining_time_in_millis(self):
        return self.seconds * 1000


@action("test:run")
def run(payload: dict): ...


@pytest.fixture
def project(database_url):
    with projects(database_url) as make:
        yield make(run)


@pytest.fixture
def handle(project):
    app = Flask("application")
    ScheduledActions(app, runtime=project)
    return lambda_handler(app)


@pytest.mark.parametrize("event", [SCHEDULER, RULE, {"source": "aws.scheduler"}], ids=["scheduler", "rule", "bare"])
def test_an_event_of_a_scheduler_runs_a_tick_without_a_secret(handle, connection, event):
    due = insert(connection)

    report = handle(event, Context())

    assert (report["success"], report["succeeded"]) == (True, 1)
    assert json.loads(json.dumps(report)) == report
    assert statuses(connection) == {due: "completed"}
    assert connection.execute("select caller from scheduled_action_ticks").fetchone() == (event["source"],)


@pytest.mark.parametrize("shape", [function_url, rest_api])
def test_a_ping_over_http_needs_the_secret(handle, connection, shape):
    due = insert(connection)

    refused = handle(shape("GET", "/cron/process", headers={"x-cron-secret": "wrong"}), Context())
    before = statuses(connection)
    answered = handle(shape("GET", "/cron/process", headers={"x-cron-secret": CRON_SECRET}), Context())

    assert (refused["statusCode"], before) == (401, {due: "pending"})
    assert (answered["statusCode"], json.loads(answered["body"])["succeeded"]) == (200, 1)


def test_a_ping_may_be_signed_with_its_body(handle):
    body, now = b'{"\xc3\xa4": 1}', int(time.time())
    signature = signing.sign([CRON_SECRET.encode()], message_id="msg_1", timestamp=now, body=body)
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(now), "webhook-signature": signature}

    answered = handle(function_url("POST", "/cron/process", headers=headers, body=body), Context())
    changed = handle(function_url("POST", "/cron/process", headers=headers, body=b"{}"), Context())

    assert (answered["statusCode"], changed["statusCode"]) == (200, 401)


@pytest.mark.parametrize(
    "event", [SCHEDULER, function_url("GET", "/cron/process", headers={"x-cron-secret": CRON_SECRET})]
)
def test_a_tick_ends_before_lambda_ends_the_invocation(handle, connection, event):
    due = insert(connection)

    # Less time than an action may take: nothing is started.
    handle(event, Context(seconds=2))

    assert statuses(connection) == {due: "pending"}


def test_any_other_event_is_refused_with_the_event_to_send(handle):
    with pytest.raises(InvalidArgument, match=r'invoke the function with {"source": "aws.scheduler"}'):
        handle({"Records": []}, Context())


def test_without_the_extra_a_request_names_the_package_and_ticks_run(handle, monkeypatch):
    monkeypatch.setitem(sys.modules, "apig_wsgi", None)

    assert handle(SCHEDULER, Context())["success"]
    with pytest.raises(ExtraMissing, match=r"pip install 'scheduled-actions\[lambda\]'"):
        handle(function_url("GET", "/healthz", headers={}), Context())
