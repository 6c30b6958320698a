"""Mail through a real SMTP server: delivery, refusals, timeouts, logins and headers."""

from __future__ import annotations

import contextlib
import socket
import time
import traceback
from dataclasses import replace
from email.message import EmailMessage

import pytest
from aiosmtpd.smtp import AuthResult

from scheduled_actions.core.config import Email
from scheduled_actions.core.errors import ConfigInvalid, InvalidArgument, NotConfigured
from scheduled_actions.notifications.channels import mail
from tests.mail_server import CERTIFICATE, ELSEWHERE, Mailbox, free_port, serving

PASSWORD = "correct horse battery staple"


@pytest.fixture
def serve():
    """Return a function that serves a mailbox until the test ends and returns the settings for its server."""
    with contextlib.ExitStack() as running:
        yield lambda mailbox, **options: running.enter_context(serving(mailbox, **options))


def a_message(*, to="ann@example.org", text="Hello Ann!\n", **headers):
    message = EmailMessage()
    message["From"] = "Acme <no-reply@acme.example>"
    message["To"] = to
    message["Subject"] = "Welcome"
    message["Message-ID"] = "<0199@acme.example>"
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    message.set_content(text)
    return message


def send(message, settings, *, timeout=10.0, **options):
    return mail.send(message, settings=settings, timeout=timeout, **options)


def an_authenticator(*, reply=None):
    def check(_server, _session, _envelope, _mechanism, auth_data):
        if reply is None and auth_data.password == PASSWORD.encode():
            return AuthResult(success=True)
        return AuthResult(success=False, handled=False, message=reply)

    return check


# Accepted messages


def test_all_recipients_get_the_message_without_the_bcc_header(serve):
    mailbox = Mailbox()
    settings = serve(mailbox)
    message = a_message(to="Ann <ann@example.org>", Cc="bob@example.org", Bcc="eve@example.org, ann@example.org")

    sent = send(message, settings)

    assert sent == mail.SendResult(message_id="<0199@acme.example>", accepted=3, refused={})
    assert mailbox.envelopes[0].mail_from == "no-reply@acme.example"
    assert mailbox.envelopes[0].rcpt_tos == ["ann@example.org", "bob@example.org", "eve@example.org"]
    assert mailbox.message()["To"] == "Ann <ann@example.org>"
    assert mailbox.text() == "Hello Ann!\n"
    assert b"eve@" not in mailbox.envelopes[0].content
    assert message["Bcc"] == "eve@example.org, ann@example.org"


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_with_tls_the_message_is_sent_encrypted(serve, security):
    mailbox = Mailbox()
    settings = serve(mailbox, security=security)

    send(a_message(), settings, ca_file=CERTIFICATE)

    assert mailbox.was_encrypted == [True]


@pytest.mark.parametrize("text", ["Grüße 👩\u200d💻\n", "long " * 400 + "\n", ".\n..\nFrom here\n"])
def test_any_text_is_sent_in_seven_bits_and_arrives_unchanged(serve, text):
    mailbox = Mailbox()

    send(a_message(text=text), serve(mailbox))

    assert mailbox.envelopes[0].content.isascii()
    assert mailbox.text() == text


@pytest.mark.parametrize("end", ["\r\n.\r\n", "\n.\n", "\r.\r", "\n.\r\n"])
def test_a_text_cannot_smuggle_a_second_message(serve, end):
    mailbox = Mailbox()
    text = f"Hello{end}MAIL FROM:<evil@example.org>\r\nRCPT TO:<eve@example.org>\r\nDATA\r\nYour money!{end}"

    send(a_message(text=text), serve(mailbox))

    assert mailbox.heard[-1] == "MAIL no-reply@acme.example"
    assert "Your money!" in mailbox.message().get_content()


def test_a_long_url_in_a_header_is_not_folded(serve):
    mailbox = Mailbox()
    url = f"<https://acme.example/unsubscribe/{'x' * 200}>"

    send(a_message(List_Unsubscribe=url), serve(mailbox))

    assert f"List-Unsubscribe: {url}\r\n".encode() in mailbox.envelopes[0].content


def test_an_international_address_is_sent_unencoded(serve):
    mailbox = Mailbox()

    send(a_message(to="Jörg <jörg@exämple.org>"), serve(mailbox))

    assert mailbox.envelopes[0].rcpt_tos == ["jörg@exämple.org"]


def test_the_ehlo_command_contains_the_address_of_the_client(serve):
    mailbox = Mailbox()

    send(a_message(), serve(mailbox))

    assert mailbox.heard[0] == "EHLO [127.0.0.1]"


@pytest.mark.parametrize("reply", ["421 4.3.2 going down", "500 what?"])
def test_an_error_after_acceptance_does_not_change_the_result(serve, reply):
    mailbox = Mailbox({"QUIT": reply})

    sent = send(a_message(), serve(mailbox))

    assert sent.accepted == 1


def test_a_missing_reply_to_quit_is_not_awaited(serve):
    mailbox = Mailbox(seconds={"QUIT": 60})
    settings = serve(mailbox)
    started_at = time.monotonic()

    sent = send(a_message(), settings, timeout=60)

    assert sent.accepted == 1
    assert time.monotonic() - started_at < 10


# Refused messages


def test_refused_recipients_are_listed_with_the_servers_replies(serve):
    mailbox = Mailbox({"bob@example.org": "550 5.1.1 no such user", "eve@example.org": "451 4.7.1 greylisted"})

    sent = send(a_message(to="ann@example.org, bob@example.org, eve@example.org"), serve(mailbox))

    assert sent.accepted == 1
    assert sent.refused == {
        "bob@example.org": "550 5.1.1 no such user",
        "eve@example.org": "451 4.7.1 greylisted",
    }
    assert mailbox.envelopes[0].rcpt_tos == ["ann@example.org"]


@pytest.mark.parametrize(
    ("replies", "error_class"),
    [
        ({"MAIL": "550 5.7.1 not from you"}, mail.MailRefused),
        ({"MAIL": "452 4.3.1 disk full"}, mail.MailDeferred),
        ({"ann@example.org": "550 5.1.1 unknown", "bob@example.org": "553 5.1.3 bad"}, mail.MailRefused),
        ({"ann@example.org": "451 4.7.1 greylisted", "bob@example.org": "451 4.7.1 same"}, mail.MailDeferred),
        (
            {"ann@example.org": "550 5.1.1 unknown", "bob@example.org": "451 4.7.1 greylisted"},
            mail.MailDeferred,
        ),
        ({"ann@example.org": "421 4.3.2 going down"}, mail.MailDeferred),
        ({"DATA": "554 5.6.0 spam"}, mail.MailRefused),
        ({"DATA": "451 4.3.0 later"}, mail.MailDeferred),
    ],
)
def test_a_message_without_accepted_recipients_is_refused_or_deferred(serve, replies, error_class):
    mailbox = Mailbox(replies)

    with pytest.raises(mail.MailNotSent) as caught:
        send(a_message(to="ann@example.org, bob@example.org"), serve(mailbox))

    assert type(caught.value) is error_class
    assert caught.value.reply[:3] in {reply[:3] for reply in replies.values()}
    assert mailbox.envelopes == []


def test_the_error_of_a_refusal_contains_no_address(serve):
    mailbox = Mailbox({"ann@example.org": "550 5.1.1 <ann@example.org>: unknown in\ttable"})

    with pytest.raises(mail.MailRefused) as caught:
        send(a_message(), serve(mailbox))

    assert str(caught.value) == "the mail server refused every recipient: 550 5.1.1 … unknown in table"
    assert "ann@" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("replies", [{}, {"EHLO": "502 5.5.1 what?"}], ids=["without SMTPUTF8", "without EHLO"])
def test_an_international_address_needs_smtputf8(serve, replies):
    mailbox = Mailbox(replies)
    settings = serve(mailbox, enable_SMTPUTF8=False)

    with pytest.raises(mail.MailRefused, match="SMTPUTF8"):
        send(a_message(to="jörg@example.org"), settings)

    assert mailbox.envelopes == []


def test_an_unreachable_server_defers_the_message():
    settings = Email(host="127.0.0.1", port=free_port())

    with pytest.raises(mail.MailDeferred, match="cannot be reached: Connection refused"):
        send(a_message(), settings)


def test_a_message_without_recipients_is_rejected():
    message = a_message()
    del message["To"]

    with pytest.raises(InvalidArgument):
        send(message, Email())


# Timeouts


def test_a_silent_server_times_out():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings = Email(host="127.0.0.1", port=listener.getsockname()[1])
        started_at = time.monotonic()

        with pytest.raises(mail.MailDeferred, match="timed out"):
            send(a_message(), settings, timeout=0.2)

        assert time.monotonic() - started_at < 5


def test_the_timeout_applies_to_the_whole_conversation(serve):
    mailbox = Mailbox(seconds={"RCPT": 0.05})
    everybody = ", ".join(f"user{number}@example.org" for number in range(40))

    with pytest.raises(mail.MailDeferred):
        send(a_message(to=everybody), serve(mailbox), timeout=0.5)

    assert mailbox.envelopes == []


def test_without_time_left_no_connection_is_opened(serve):
    mailbox = Mailbox()

    with pytest.raises(mail.MailDeferred, match="no time is left"):
        send(a_message(), serve(mailbox), timeout=0.0)

    assert mailbox.heard == []


# Encryption and login


def test_a_server_without_starttls_gets_no_login_and_no_message(serve):
    mailbox = Mailbox()
    settings = replace(serve(mailbox), security="starttls")

    with pytest.raises(mail.MailRefused, match="STARTTLS"):
        send(a_message(), settings, ca_file=CERTIFICATE, username="app", password=PASSWORD)

    assert mailbox.heard == ["EHLO [127.0.0.1]"]


@pytest.mark.parametrize("security", ["starttls", "tls"])
@pytest.mark.parametrize(
    ("certificate", "ca_file"),
    [
        pytest.param(CERTIFICATE, None, id="untrusted authority"),
        pytest.param(ELSEWHERE, ELSEWHERE, id="made out to another name"),
    ],
)
def test_an_untrusted_certificate_defers_the_message(serve, security, certificate, ca_file):
    mailbox = Mailbox()
    settings = serve(mailbox, security=security, certificate=certificate)

    with pytest.raises(mail.MailDeferred, match="untrusted certificate"):
        send(a_message(), settings, ca_file=ca_file, username="app", password=PASSWORD)

    assert not any(heard.startswith("MAIL") for heard in mailbox.heard)


def test_the_error_for_an_unreadable_ca_file_names_its_variable():
    with pytest.raises(NotConfigured, match=r"^SMTP_CA_FILE is invalid: set it to the path"):
        send(a_message(), Email(security="tls"), ca_file="/no/such/file")


@pytest.mark.parametrize("security", ["none", "starttls", "tls"])
def test_the_login_is_sent_to_a_server_that_requires_it(serve, security):
    mailbox = Mailbox()
    settings = serve(
        mailbox, security=security, authenticator=an_authenticator(), auth_require_tls=security == "starttls"
    )

    send(a_message(), settings, ca_file=CERTIFICATE, username="app", password=PASSWORD)

    assert len(mailbox.envelopes) == 1


@pytest.mark.parametrize(
    ("reply", "error_class"),
    [
        pytest.param(f"535 5.7.8 no: {PASSWORD}", mail.MailRefused, id="for good"),
        pytest.param(f"454 4.7.0 not now: {PASSWORD}", mail.MailDeferred, id="for now"),
    ],
)
def test_the_error_of_a_refused_login_contains_no_reply_text(serve, reply, error_class):
    mailbox = Mailbox()
    settings = serve(mailbox, authenticator=an_authenticator(reply=reply), auth_require_tls=False)

    with pytest.raises(mail.MailNotSent) as caught:
        send(a_message(), settings, username="app", password=PASSWORD)

    assert type(caught.value) is error_class
    assert str(caught.value) == f"the mail server refused the login: {reply[:3]}"
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))
    assert mailbox.envelopes == []


def test_no_login_is_sent_to_a_server_without_auth(serve):
    mailbox = Mailbox()

    with pytest.raises(mail.MailRefused, match="AUTH"):
        send(
            a_message(),
            serve(mailbox, auth_exclude_mechanism=["PLAIN", "LOGIN"]),
            username="app",
            password=PASSWORD,
        )

    assert mailbox.envelopes == []


@pytest.mark.parametrize(
    ("login", "missing"), [({"username": "app"}, "SMTP_PASSWORD"), ({"password": PASSWORD}, "SMTP_USERNAME")]
)
def test_an_incomplete_login_is_rejected(login, missing):
    with pytest.raises(NotConfigured, match=f"^{missing} is not configured"):
        send(a_message(), Email(), **login)


def test_a_non_ascii_password_is_rejected_and_not_shown():
    with pytest.raises(NotConfigured, match=r"^SMTP_USERNAME and SMTP_PASSWORD are invalid: use ASCII") as caught:
        send(a_message(), Email(), username="app", password="geheimnisträger")

    assert "geheim" not in str(caught.value)
    assert "ä" not in str(caught.value)


def test_a_login_is_never_sent_unencrypted_to_another_machine():
    settings = Email(host="smtp.acme.example", security="none")

    with pytest.raises(ConfigInvalid, match=r"email\.security"):
        send(a_message(), settings, username="app", password=PASSWORD)


# Addresses and headers


@pytest.mark.parametrize(
    ("text", "addr_spec"),
    [
        ("ann@example.org", "ann@example.org"),
        (" Ann <ann@example.org> ", "ann@example.org"),
        ("Ann B. Cee <a+b@x-y.example.org>", "a+b@x-y.example.org"),
        ('"Cee, Ann" <ann@localhost>', "ann@localhost"),
        ("O'Neil <o'neil@example.org>", "o'neil@example.org"),
        ("Jörg <jörg@exämple.org>", "jörg@exämple.org"),
    ],
)
def test_a_parsed_address_parses_to_itself(text, addr_spec):
    address = mail.parse_address(text)

    assert address.addr_spec == addr_spec
    assert mail.parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ann",
        "ann@",
        "@example.org",
        "ann@example..org",
        ".ann@example.org",
        "ann@example.org, bob@example.org",
        "friends: ann@example.org;",
        "ann@example.org <bob@example.org>",
        "ann@example.org bob@example.org",
        '"a b"@example.org',
        "ann@[127.0.0.1]",
        "<ann@example.org",
        '"',
        " .;",
        f"{'a' * 65}@example.org",
        f"ann@{'a' * 250}.org",
        "ann@example.org\r\nBcc: eve@example.org",
        "ann@example.org\n",
        "=?utf-8?q?Ann=0ABcc:_eve=40example.org?= <ann@example.org>",
    ],
)
def test_an_invalid_address_is_rejected_and_not_shown(text):
    with pytest.raises(ValueError, match=r"is not a single email address|contains") as caught:
        mail.parse_address(text)

    assert caught.type is ValueError
    assert "eve" not in str(caught.value)


def test_unusual_display_names_are_preserved(serve):
    mailbox = Mailbox()
    names = ['"Doe, John; Dr."', "Jörg Größe", '"a \\"b\\" c"', "Ann B. Cee"]
    addresses = [mail.parse_address(f"{name} <user{i}@example.org>") for i in range(15) for name in names]

    send(a_message(to=addresses), serve(mailbox))

    assert list(mailbox.message()["To"].addresses) == addresses


@pytest.mark.parametrize(
    "text",
    ["Hi\nBcc: eve@example.org", "Hi\r", "a\x00b", "a\x85b", "a\u2028b", "a\tb", "=?utf-8?q?Hi=0ABcc:_x?="],
)
def test_text_with_line_ends_is_rejected_in_headers(text):
    with pytest.raises(ValueError, match="contains"):
        mail.one_line(text)


def test_header_text_can_be_of_any_script():
    assert mail.one_line("Grüße, 你好 👩\u200d💻 = ?") == "Grüße, 你好 👩\u200d💻 = ?"


def test_an_invalid_sender_is_reported_as_a_setting():
    with pytest.raises(ConfigInvalid, match=r"email\.sender = 'Acme'"):
        mail.sender(Email(sender="Acme"))
