"""What docs/how-to/receive-webhooks.md shows receives what is sent."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook

from scheduled_actions.webhooks import signing

PAGE = Path(__file__).parents[2] / "docs/how-to/receive-webhooks.md"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = '{"event":"task:created","entity":"task","entity_id":"t1","data":{"name":"Zoë"}}'.encode()


def headers(secret=SECRET):
    """Return the headers of a delivery as we send them."""
    at = int(datetime.now(UTC).timestamp())
    signature = signing.sign(signing.keys_of(secret), message_id="0197a000", timestamp=at, body=BODY)
    return {"webhook-id": "0197a000", "webhook-timestamp": str(at), "webhook-signature": signature}


def block(heading):
    """Return the Python below a heading."""
    return re.search(rf"## {heading}\n\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]


def test_the_flask_application_takes_what_is_signed_and_refuses_the_rest(monkeypatch, capsys):
    monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
    names = {"__name__": "shown"}
    exec(compile(block("Flask"), "receive-webhooks.md", "exec"), names)
    client = names["app"].test_client()

    good = client.post("/hook", data=BODY, headers=headers())
    bad = client.post("/hook", data=BODY + b" ", headers=headers())

    assert (good.status_code, bad.status_code) == (204, 401)
    assert capsys.readouterr().out == "task:created t1 {'name': 'Zoë'}\n"


def test_the_fastapi_application_calls_the_library_as_it_takes_it():
    """FastAPI is not installed here: what it hands over are bytes, and headers in lower case."""
    text = block("FastAPI")

    assert 'Webhook(os.environ["WEBHOOK_SECRET"]).verify(await request.body(), dict(request.headers))' in text
    assert Webhook(SECRET).verify(BODY, headers())["entity_id"] == "t1"


@pytest.mark.parametrize("heading", ["Flask", "FastAPI"])
def test_what_is_shown_compiles(heading):
    compile(block(heading), heading, "exec")
