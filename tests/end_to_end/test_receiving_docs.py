"""The receivers in docs/how-to/receive-webhooks.md accept signed deliveries and reject all others."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook

from scheduled_actions.core import signing

PAGE = Path(__file__).parents[2] / "docs/how-to/receive-webhooks.md"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = '{"event":"task:created","entity":"task","entity_id":"t1","data":{"name":"Zoë"}}'.encode()


def headers(secret=SECRET):
    """Return the headers of a delivery as we send them."""
    at = int(datetime.now(UTC).timestamp())
    signature = signing.sign(signing.keys_of(secret), message_id="0197a000", timestamp=at, body=BODY)
    return {"webhook-id": "0197a000", "webhook-timestamp": str(at), "webhook-signature": signature}


def block(heading, language="python"):
    """Return the first program in a language below a heading."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)[1]


@pytest.fixture
def flask_client(monkeypatch):
    monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
    names = {"__name__": "shown"}
    exec(compile(block("Flask"), "receive-webhooks.md", "exec"), names)
    return names["app"].test_client()


def test_the_flask_application_accepts_only_signed_requests(flask_client, capsys):
    good = flask_client.post("/hook", data=BODY, headers=headers())
    bad = flask_client.post("/hook", data=BODY + b" ", headers=headers())

    assert (good.status_code, bad.status_code) == (204, 401)
    assert capsys.readouterr().out == "0197a000 task:created t1 {'name': 'Zoë'}\n"


@pytest.mark.parametrize("signature", ["junk", "v1,junk", "v1,a,b", "v1,é", ""])
def test_a_malformed_signature_is_rejected_like_a_wrong_one(flask_client, signature):
    answered = flask_client.post("/hook", data=BODY, headers={**headers(), "webhook-signature": signature})

    assert answered.status_code == 401


def test_a_malformed_body_is_rejected(flask_client):
    assert flask_client.post("/hook", data=b"\xff", headers=headers()).status_code == 401


def test_the_fastapi_application_calls_the_library_correctly():
    """FastAPI is not installed here; it passes the body as bytes, and lower-case header names."""
    text = block("FastAPI")

    assert "webhook.verify(await request.body(), dict(request.headers))" in text
    assert "except (WebhookVerificationError, ValueError):" in text
    assert Webhook(SECRET).verify(BODY, headers())["entity_id"] == "t1"


def test_a_message_that_arrives_twice_is_stored_once(connection):
    names = {}
    exec(compile(block("Each message once"), "receive-webhooks.md", "exec"), names)
    connection.execute(block("Each message once", "sql"))
    event = json.loads(BODY)

    told = [names["put_aside"](connection, message_id, event) for message_id in ("a", "b", "a")]

    assert told == [True, True, False]
    assert connection.execute("select id, event from webhook_inbox order by id").fetchall() == [
        ("a", event),
        ("b", event),
    ]


@pytest.mark.parametrize("heading", ["Flask", "FastAPI"])
def test_the_examples_compile(heading):
    compile(block(heading), heading, "exec")
