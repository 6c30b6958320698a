"""The SMTP server of `dev` stores each mail, within limits; a mail is sent there if no other server is configured."""

from __future__ import annotations

import smtplib
import stat
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage

import pytest

from scheduled_actions.core import config
from scheduled_actions.core.errors import NotConfigured
from scheduled_actions.core.secret import Secret
from scheduled_actions.database import handoff
from scheduled_actions.local import mail as local_mail
from scheduled_actions.local.handoff import published
from scheduled_actions.notifications import caught_mails
from scheduled_actions.notifications.channels import mail

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
SECRET = Secret(handoff.NAME, "a-secret-of-these-tests")


def config_of(project, **environ):
    return config.load(project, {"DATABASE_URL": "postgresql://127.0.0.1/app"} | environ)


def a_message(**headers):
    message = EmailMessage()
    for name, value in ({"To": "Ann <ann@example.org>", "Subject": "Trade license"} | headers).items():
        message[name] = value
    message.set_content("Hello Ann!\nGrüße\n")
    message.add_alternative("<p>Hello <b>Ann</b></p>", subtype="html")
    return message


def submit(message, settings):
    return mail.submit(message, settings, name="019", timeout=10)


@pytest.fixture
def caught(tmp_path):
    """Catch mails in a project while the test runs; return the list of the reported ones."""
    reported = []
    settings = config_of(tmp_path)
    with (
        local_mail.catching(settings, reported.append) as port,
        published(settings, handoff.Dev(url="http://127.0.0.1:1", secret=SECRET, mail_port=port)),
    ):
        yield reported


def test_a_mail_without_a_configured_server_is_caught_with_its_hidden_recipients(tmp_path, caught):
    sent = submit(a_message(Bcc="boss@example.org"), config_of(tmp_path))

    (reported,) = caught
    (listed,) = caught_mails.newest(tmp_path / caught_mails.DIRECTORY)
    found = caught_mails.read(tmp_path / caught_mails.DIRECTORY, listed.id)
    assert listed == reported
    assert (found.recipients, found.subject) == ("ann@example.org, boss@example.org", "Trade license")
    assert found.sender == "scheduled-actions@localhost"
    assert found.text == "Hello Ann!\nGrüße\n"
    assert found.html == "<p>Hello <b>Ann</b></p>\n"
    assert dict(found.headers)["Message-ID"] == sent.message_id
    assert "Bcc" not in dict(found.headers)


def test_a_caught_mail_is_private_and_contains_the_message(tmp_path, caught):
    submit(a_message(), config_of(tmp_path))

    directory = tmp_path / caught_mails.DIRECTORY
    (path,) = directory.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert path.suffix == ".eml"
    assert b"Subject: Trade license\r\n" in path.read_bytes()


def test_a_login_in_the_environment_is_not_sent_to_the_catcher(tmp_path, caught):
    submit(a_message(), config_of(tmp_path, SMTP_USERNAME="ann", SMTP_PASSWORD="secret"))

    assert len(caught) == 1


def test_an_international_address_is_accepted(tmp_path, caught):
    submit(a_message(To="jörg@example.org", Subject="Grüße"), config_of(tmp_path))

    assert [(one.recipients, one.subject) for one in caught] == [("jörg@example.org", "Grüße")]


def test_a_mail_that_is_too_large_is_refused_and_not_stored(tmp_path, caught, monkeypatch):
    message = a_message()
    message.add_attachment(b"x" * caught_mails.MAIL_BYTES, maintype="application", subtype="pdf")

    with pytest.raises(mail.MailRefused):
        submit(message, config_of(tmp_path))

    assert caught == []


@pytest.mark.parametrize(
    "environ",
    [
        {"SCHEDULED_ACTIONS_ENV": "production"},
        {"SCHEDULED_ACTIONS_EMAIL_HOST": ""} | {"DATABASE_URL": "postgresql://127.0.0.1/another"},
    ],
)
def test_no_mail_is_caught_in_production_or_of_another_database(tmp_path, caught, environ):
    with pytest.raises(NotConfigured, match=r"email\.host is not configured: set host under"):
        submit(a_message(), config_of(tmp_path, **environ))

    assert caught == []


def test_a_configured_server_gets_the_mail_in_place_of_the_catcher(tmp_path, caught):
    settings = config_of(tmp_path, SCHEDULED_ACTIONS_EMAIL_HOST="127.0.0.1", SCHEDULED_ACTIONS_EMAIL_PORT="1")

    with pytest.raises(mail.MailDeferred, match="cannot be reached"):
        submit(a_message(), settings)

    assert caught == []


def test_without_a_catcher_and_a_server_the_error_names_the_setting(tmp_path):
    with pytest.raises(NotConfigured) as refused:
        submit(a_message(), config_of(tmp_path))

    assert "[email]" in str(refused.value)
    assert "SCHEDULED_ACTIONS_EMAIL_HOST" in str(refused.value)


def test_production_starts_no_catcher(tmp_path):
    with local_mail.catching(config_of(tmp_path, SCHEDULED_ACTIONS_ENV="production"), print) as port:
        assert port is None

    assert list(tmp_path.iterdir()) == []


def test_the_catcher_stops(tmp_path):
    with local_mail.catching(config_of(tmp_path), print) as port:
        assert port is not None

    with pytest.raises(OSError, match="refused"):
        smtplib.SMTP("127.0.0.1", port, timeout=5)


# -- the stored files --------------------------------------------------------------------------------------------------


def stored(directory, count, content=b"Subject: a\r\n\r\ntext"):
    return [caught_mails.store(directory, content, ["a@b.c"], now=NOW + timedelta(seconds=n)) for n in range(count)]


def test_the_newest_mails_are_kept_and_listed_first(tmp_path):
    made = stored(tmp_path, 203)

    assert [one.id for one in caught_mails.newest(tmp_path)] == [one.id for one in reversed(made[3:])]
    assert made[-1].caught_at == NOW + timedelta(seconds=202)


def test_the_size_of_all_mails_together_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(caught_mails, "_BYTES_MOST", 2_500)

    made = stored(tmp_path, 4, b"\r\n" + b"x" * 1_000)

    assert [one.id for one in caught_mails.newest(tmp_path)] == [made[3].id, made[2].id]


@pytest.mark.parametrize("name", ["../dev", "a", "20261128T120000000000-0123456z", ""])
def test_only_ids_of_mails_are_read(tmp_path, name):
    assert caught_mails.read(tmp_path, name) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"To: =?utf-8?q?\r\nSubject: =?utf-8?b?!!!?=\r\nContent-Type: text/plain; charset=no-such\r\n\r\n\xff text",
        b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: multipart/alternative\r\n\r\n",
        b"Content-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\n!!!",
        b"From: <" + b"a" * 100_000 + b"\r\nContent-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\ntext",
    ],
)
def test_a_malformed_mail_can_be_listed_and_read(tmp_path, content):
    (made,) = stored(tmp_path, 1, content)

    assert [one.id for one in caught_mails.newest(tmp_path)] == [made.id]
    assert caught_mails.read(tmp_path, made.id).id == made.id


def test_attachments_are_named(tmp_path):
    message = a_message()
    message.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="license.pdf")

    (made,) = stored(tmp_path, 1, message.as_bytes())

    assert caught_mails.read(tmp_path, made.id).attachments == ("license.pdf",)
