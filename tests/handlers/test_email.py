"""`email:send` against a real SMTP server."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from aiosmtpd.smtp import AuthResult
from pydantic import ValidationError

from handlers.email import Email, deliver, send_email
from scheduled_actions.core import config
from scheduled_actions.core.action import Action
from scheduled_actions.notifications.channels.mail import MailDeferred
from scheduled_actions.registry.handler import OPTIONS_ATTRIBUTE, Context, Fail
from tests.mail_server import CERTIFICATE, Mailbox, serving

PASSWORD = "correct horse battery staple"


@pytest.fixture
def configured(tmp_path):
    """Return a function that builds the configuration of a project whose mail server has these settings."""

    def load(settings, **environ):
        overrides = {
            "SCHEDULED_ACTIONS_EMAIL_HOST": settings.host,
            "SCHEDULED_ACTIONS_EMAIL_PORT": str(settings.port),
            "SCHEDULED_ACTIONS_EMAIL_SECURITY": settings.security,
            "SCHEDULED_ACTIONS_EMAIL_SENDER": "Acme <no-reply@acme.example>",
        }
        return config.load(tmp_path, {**overrides, **environ})

    return load


def an_email(**changes):
    return {"to": "ann@example.org", "subject": "Welcome", "text": "Hello Ann!\n", **changes}


def a_context(*, seconds_left=15.0):
    nothing = dict.fromkeys(Action.__dataclass_fields__)
    return Context(
        action=Action(**{**nothing, "id": uuid4(), "action_type": "email:send"}),
        attempt=1,
        state=None,
        log=logging.LoggerAdapter(logging.getLogger(__name__)),
        _monotonic=time.monotonic,
        _deadline=time.monotonic() + seconds_left,
        _prepare=lambda _type, _payload, /, **_options: {},
        _is_stopped=lambda: False,
    )


def run(payload, context, configuration):
    return deliver(Email.model_validate(payload), context, configuration)


def test_the_delivered_message_matches_the_payload(configured):
    mailbox = Mailbox()
    payload = an_email(
        to=["Ann <ann@example.org>", "Bob <bob@example.org>"],
        html="<p>Hello!</p>",
        cc="carol@example.org",
        bcc=["dave@example.org"],
        reply_to="Desk <desk@acme.example>",
        headers={"X-Campaign": "spring", "List-Unsubscribe": "<https://acme.example/u/1>"},
    )

    with serving(mailbox) as settings:
        run(payload, a_context(), configured(settings))

    message = mailbox.message()
    [envelope] = mailbox.envelopes
    assert [address.partition("@")[0] for address in envelope.rcpt_tos] == ["ann", "bob", "carol", "dave"]
    assert message["From"] == "Acme <no-reply@acme.example>"
    assert message["To"] == "Ann <ann@example.org>, Bob <bob@example.org>"
    assert message["Cc"] == "carol@example.org"
    assert message["Bcc"] is None
    assert message["Reply-To"] == "Desk <desk@acme.example>"
    assert message["Subject"] == "Welcome"
    assert message["X-Campaign"] == "spring"
    assert message["List-Unsubscribe"] == "<https://acme.example/u/1>"
    assert message.get_body(("plain",)).get_content().splitlines() == ["Hello Ann!"]
    assert message.get_body(("html",)).get_content().splitlines() == ["<p>Hello!</p>"]
    assert abs(message["Date"].datetime - datetime.now(UTC)) < timedelta(minutes=1)


def test_every_attempt_sends_the_same_message_id(configured):
    mailbox = Mailbox()
    context = a_context()

    with serving(mailbox) as settings:
        results = [run(an_email(), context, configured(settings)) for _ in range(2)]

    assert results == [{"message_id": f"<{context.id}@acme.example>", "accepted": 1, "refused": {}}] * 2
    sent = [envelope.content.partition(b"Message-ID: ")[2].splitlines()[0] for envelope in mailbox.envelopes]
    assert sent == [f"<{context.id}@acme.example>".encode()] * 2


def test_the_result_lists_the_refused_recipients(configured):
    mailbox = Mailbox({"bob@example.org": "550 5.1.1 no such user"})

    with serving(mailbox) as settings:
        result = run(an_email(to=["ann@example.org", "bob@example.org"]), a_context(), configured(settings))

    assert (result["accepted"], result["refused"]) == (1, {"bob@example.org": "550 5.1.1 no such user"})
    assert json.loads(json.dumps(result)) == result


def test_a_permanent_refusal_is_final(configured):
    mailbox = Mailbox({"ann@example.org": "550 5.1.1 no such user"})

    with serving(mailbox) as settings, pytest.raises(Fail, match="no such user"):
        run(an_email(), a_context(), configured(settings))


def test_a_temporary_refusal_is_left_to_the_retry(configured):
    mailbox = Mailbox({"ann@example.org": "451 4.7.1 greylisted"})

    with serving(mailbox) as settings, pytest.raises(MailDeferred, match="greylisted"):
        run(an_email(), a_context(), configured(settings))


def test_login_and_authority_come_from_the_environment(configured):
    mailbox = Mailbox()

    with serving(mailbox, security="starttls", auth_required=True, authenticator=_check) as settings:
        environ = {"SMTP_USERNAME": "app", "SMTP_PASSWORD": PASSWORD, "SMTP_CA_FILE": CERTIFICATE}
        result = run(an_email(), a_context(), configured(settings, **environ))

    assert result["accepted"] == 1
    assert mailbox.was_encrypted == [True]


def test_a_wrong_login_is_final_and_its_error_contains_no_password(configured):
    mailbox = Mailbox()

    with serving(mailbox, authenticator=_check, auth_require_tls=False) as settings:
        configuration = configured(settings, SMTP_USERNAME="app", SMTP_PASSWORD="not " + PASSWORD)
        with pytest.raises(Fail) as failure:
            run(an_email(), a_context(), configuration)

    assert failure.value.reason == "the mail server refused the login: 535"
    assert mailbox.envelopes == []


def _check(_server, _session, _envelope, _mechanism, auth_data):
    is_right = auth_data.password == PASSWORD.encode()
    return AuthResult(success=is_right, handled=False, message=f"535 5.7.8 not {auth_data.password.decode()}")


def test_an_attempt_without_remaining_time_sends_nothing(configured):
    mailbox = Mailbox()

    with serving(mailbox) as settings, pytest.raises(MailDeferred, match="no time is left"):
        run(an_email(), a_context(seconds_left=0), configured(settings))

    assert mailbox.heard == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"to": []}, "to"),
        ({"to": "ann"}, "to.0"),
        ({"to": "ann@example.org, bob@example.org"}, "to.0"),
        ({"to": ["ann@example.org\nBcc: eve@example.org"]}, "to.0"),
        ({"to": [f"user{number}@example.org" for number in range(101)]}, ""),
        ({"cc": [f"user{number}@example.org" for number in range(50)], "bcc": ["eve@example.org"] * 50}, ""),
        ({"subject": "Hi\nBcc: eve@example.org"}, "subject"),
        ({"subject": "Hi\r\n\r\nYour money!"}, "subject"),
        ({"subject": "=?utf-8?q?Hi=0ABcc:_eve=40example.org?="}, "subject"),
        ({"subject": ""}, "subject"),
        ({"subject": "a" * 999}, "subject"),
        ({"text": None}, "text"),
        ({"subject": None}, "subject"),
        ({"data": {"name": "Ann"}}, "data"),
        ({"reply_to": "desk@acme.example\nBcc: eve@example.org"}, "reply_to"),
        ({"headers": {"Bcc": "eve@example.org"}}, "headers.Bcc.[key]"),
        ({"headers": {"From": "eve@example.org"}}, "headers.From.[key]"),
        ({"headers": {"X-A: b\nBcc": "eve@example.org"}}, "headers.X-A: b\nBcc.[key]"),
        ({"headers": {"X-A\n": "eve@example.org"}}, "headers.X-A\n.[key]"),
        ({"headers": {"X-A": "b\r\nBcc: eve@example.org"}}, "headers.X-A"),
        ({"headers": {f"X-{number}": "a" for number in range(21)}}, "headers"),
        ({"bbc": "eve@example.org"}, "bbc"),
    ],
)
def test_an_invalid_email_is_rejected_when_it_is_scheduled(changes, field):
    with pytest.raises(ValidationError) as refusal:
        Email.model_validate(an_email(**changes))

    assert [".".join(map(str, problem["loc"])) for problem in refusal.value.errors()] == [field]


def test_a_hundred_recipients_are_accepted():
    payload = an_email(to=[f"user{number}@example.org" for number in range(100)])

    assert len(Email.model_validate(payload).to) == 100


def test_the_options_of_the_handler_match_the_documentation():
    options = getattr(send_email, OPTIONS_ATTRIBUTE)

    assert (options.action_type, options.timeout_seconds, options.max_attempts) == ("email:send", 15, 5)


def test_the_payload_has_a_json_schema():
    schema = Email.model_json_schema()

    assert schema["required"] == ["to"]
    assert schema["additionalProperties"] is False
    assert {one["type"] for one in schema["properties"]["to"]["anyOf"]} == {"string", "array"}
