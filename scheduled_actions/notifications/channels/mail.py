"""Send one email through an SMTP server, with one of three outcomes.

`SendResult`: the server accepted the message for at least one recipient; sending it again would duplicate it.
`MailRefused`: a permanent failure (a 5yz reply, RFC 5321 §4.2.1). `MailDeferred`: a temporary failure (a 4yz reply, or
no connection); the same message may be accepted later.
"""

import email.errors
import email.policy
import re
import smtplib
import socket
import ssl
import time
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from functools import partial
from typing import Any

from scheduled_actions.core.config import TOML_NAME, Config, Email
from scheduled_actions.core.errors import ConfigInvalid, InvalidArgument, NotConfigured, ScheduledActionsError
from scheduled_actions.core.errors.families import error_class
from scheduled_actions.database import handoff
from scheduled_actions.outbound import network

#: Headers are not folded below the limit of RFC 5322 §2.1.1: the library would fold a long URL into an encoded word,
#: which mail clients do not recognise as a URL. Bodies have 7 bits, which every server accepts.
_WIRE = email.policy.SMTP.clone(max_line_length=998, cte_type="7bit")

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
#: Quoted local parts are not accepted, because parsers interpret them differently.
_ADDR_SPEC = re.compile(r"[\w!#$%&'*+/=?^`{|}~.-]{1,64}@[\w-]+(\.[\w-]+)*")
_ADDR_SPEC_LIMIT = 254
_REPLY_LIMIT = 200
#: A login may be sent unencrypted to these hosts.
_LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost")
#: Maximum wait for the reply to QUIT.
_GOODBYE_SECONDS = 0.5


@error_class
class MailNotSent(ScheduledActionsError):
    """The server did not confirm the message. The error contains its reply, but no address of a recipient or login."""

    what: str
    reply: str = ""

    def __str__(self) -> str:
        return f"the mail server {self.what}: {self.reply}" if self.reply else f"the mail server {self.what}"


@error_class
class MailRefused(MailNotSent):
    """A permanent failure: the same message would be refused again."""


@error_class
class MailDeferred(MailNotSent):
    """A temporary failure: the same message may be accepted later."""


@dataclass(frozen=True, slots=True)
class SendResult:
    """The server accepted the message for at least one recipient."""

    message_id: str
    #: The number of accepted recipients.
    accepted: int
    #: The server's reply (`550 5.1.1 no such user`) by refused address.
    refused: dict[str, str]


def send(
    message: EmailMessage,
    *,
    settings: Email,
    username: str | None = None,
    password: str | None = None,
    ca_file: str | None = None,
    timeout: float,
) -> SendResult:
    """Send `message` to its To, Cc and Bcc recipients; the Bcc header is not sent.

    Args:
        message: Complete: From, Date and Message-ID are set.
        settings: The server and its security.
        username: ASCII. If the username and the password are None or empty, no login is sent.
        password: ASCII, as SMTP requires.
        ca_file: The PEM file of the certificate authorities to trust; None: those of the system.
        timeout: Maximum seconds for the whole conversation, not for each reply.

    Raises:
        MailRefused: No recipient was accepted, because of permanent failures.
        MailDeferred: No recipient was accepted, at least one because of a temporary failure, such as a lost connection.
            If the connection broke after the last byte, the server may have accepted the message; the Message-ID
            identifies duplicates.
        NotConfigured: There is no server, the login is incomplete or not ASCII, or `ca_file` cannot be read.
        ConfigInvalid: The login would be sent unencrypted.
        InvalidArgument: The message has no recipient.
    """
    _check_login(settings, username, password)
    tls = None if settings.security == "none" else _tls_context(ca_file)
    recipients = _recipients(message)
    if timeout <= 0:
        raise MailDeferred("was not contacted", "no time is left in this attempt")
    if network.substitute is not None:
        network.substitute.mail(message)
        return SendResult(message_id=str(message["Message-ID"]), accepted=len(recipients), refused={})
    if not (host := settings.host):
        raise NotConfigured(
            "email.host",
            f"set host under [email] in {TOML_NAME} to your SMTP server, or SCHEDULED_ACTIONS_EMAIL_HOST; in "
            "development, `scheduled-actions dev` catches mails while it runs, if aiosmtpd is installed",
        )
    try:
        connect = partial(_ConversationOverTls, context=tls) if settings.security == "tls" else _Conversation
        smtp = connect(host, settings.port, timeout=timeout)
        try:
            if settings.security == "starttls":
                smtp.starttls(context=tls)
            if username and password:
                smtp.login(username, password)
            refused = _transmit(smtp, message, recipients)
        finally:
            smtp.leave()
    except OSError as error:  # includes smtplib's own errors
        # The cause is left out: it contains replies and addresses.
        raise _error_of(error) from None
    return SendResult(
        message_id=str(message["Message-ID"]),
        accepted=len(recipients) - len(refused),
        refused={address: _text(code, reply) for address, (code, reply) in refused.items()},
    )


def submit(message: EmailMessage, config: Config, *, name: str, timeout: float) -> SendResult:
    """Send `message` from the configured sender through the configured server, or to a running `dev` without one.

    Args:
        message: Without From, Date and Message-ID.
        config: Contains the server, and the login in its environment.
        name: The local part of the Message-ID, which identifies duplicates.
        timeout: Maximum seconds; the setting `email.timeout_seconds` applies if it is lower.

    Raises:
        MailRefused, MailDeferred, NotConfigured, ConfigInvalid, InvalidArgument: As for `send`. ConfigInvalid also for
            an invalid sender.
    """
    settings, environ = config.settings.email, config.environ
    origin = sender(settings)
    message["From"] = origin
    message["Date"] = datetime.now(UTC)
    message["Message-ID"] = f"<{name}@{origin.domain}>"
    seconds = min(settings.timeout_seconds, timeout)
    if not settings.host and (dev := handoff.find(config)) is not None and dev.mail_port is not None:
        caught = replace(settings, host="127.0.0.1", port=dev.mail_port, security="none")
        return send(message, settings=caught, timeout=seconds)
    return send(
        message,
        settings=settings,
        username=environ.get("SMTP_USERNAME"),
        password=environ.get("SMTP_PASSWORD"),
        ca_file=environ.get("SMTP_CA_FILE"),
        timeout=seconds,
    )


def parse_address(text: str) -> Address:
    """Parse one address: `ann@example.org` or `Ann <ann@example.org>`.

    Raises:
        ValueError: The string is not a single address; the message of the error does not contain it.
    """
    message = "is not a single email address, such as ann@example.org or Ann <ann@example.org>"
    one_line(text)
    try:
        header: Any = email.policy.SMTP.header_factory("To", text)
    except Exception:  # noqa: BLE001 - the library's parser raises various errors, including TypeError
        raise ValueError(message) from None
    is_list = len(header.addresses) != 1 or header.groups[0].display_name is not None
    if is_list or any(isinstance(defect, email.errors.InvalidHeaderDefect) for defect in header.defects):
        raise ValueError(message)
    address: Address = header.addresses[0]
    if len(address.addr_spec) > _ADDR_SPEC_LIMIT or not _ADDR_SPEC.fullmatch(address.addr_spec):
        raise ValueError(message)
    return address


def one_line(text: str) -> str:
    """Return `text` unchanged if it is safe in a header.

    Encoded words are also rejected: before Python 3.11.10, the library decoded line ends in them (CVE-2024-6923).

    Raises:
        ValueError: `text` contains a line end, another control character, or the start of an encoded word.
    """
    if _CONTROL.search(text):
        raise ValueError("contains a line end or another control character; a header is a single line")
    if "=?" in text:
        raise ValueError('contains "=?", the start of an encoded word; write plain text')
    return text


def sender(settings: Email) -> Address:
    """Return the address of the setting `email.sender`.

    Raises:
        ConfigInvalid: The setting is not a single address.
    """
    try:
        return parse_address(settings.sender)
    except ValueError as error:
        raise ConfigInvalid("email.sender", settings.sender, str(error), TOML_NAME) from None


def _check_login(settings: Email, username: str | None, password: str | None) -> None:
    if bool(username) != bool(password):
        missing = "SMTP_PASSWORD" if username else "SMTP_USERNAME"
        raise NotConfigured(missing, "set both SMTP_USERNAME and SMTP_PASSWORD, or neither")
    if not username or not password:
        return
    if not (username.isascii() and password.isascii()):
        raise NotConfigured("SMTP_USERNAME and SMTP_PASSWORD", "use ASCII characters only", problem="are invalid")
    if settings.security == "none" and settings.host not in {"", None, *_LOCAL_HOSTS}:
        raise ConfigInvalid(
            "email.security",
            settings.security,
            "must be starttls or tls, because a login would be sent unencrypted",
            TOML_NAME,
        )


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        raise NotConfigured(
            "SMTP_CA_FILE", "set it to the path of a readable PEM file of certificates", problem="is invalid"
        ) from error


def _recipients(message: EmailMessage) -> list[str]:
    headers = [header for name in ("To", "Cc", "Bcc") for header in message.get_all(name, [])]
    recipients = list(dict.fromkeys(address.addr_spec for header in headers for address in header.addresses))
    if not recipients:
        raise InvalidArgument("message", problem="has no recipient in To, Cc or Bcc")
    return recipients


class _Conversation(smtplib.SMTP):
    """An SMTP client with one timeout for the whole conversation."""

    def __init__(self, host: str, port: int, *, timeout: float, **options: Any) -> None:  # noqa: ANN401 - SMTP_SSL's
        self._ends_at = time.monotonic() + timeout
        # Without a name, smtplib would look one up, which may take seconds.
        super().__init__(host, port, local_hostname="localhost", timeout=timeout, **options)
        if self.sock is not None:
            # The address literal that a client without a public host name sends in EHLO (RFC 5321 §4.1.3).
            address = str(self.sock.getsockname()[0]).partition("%")[0]
            self.local_hostname = f"[IPv6:{address}]" if self.sock.family == socket.AF_INET6 else f"[{address}]"

    def getreply(self) -> tuple[int, bytes]:
        """Return the server's reply.

        Raises:
            TimeoutError: The time of the conversation has passed.
        """
        seconds_left = self._ends_at - time.monotonic()
        if seconds_left <= 0:
            self.close()
            raise TimeoutError
        if self.sock is not None:
            self.sock.settimeout(seconds_left)
        return super().getreply()

    def leave(self) -> None:
        """Send QUIT and close the connection; errors are ignored, because the outcome of the message is known."""
        self._ends_at = min(self._ends_at, time.monotonic() + _GOODBYE_SECONDS)
        with suppress(OSError):
            self.quit()
        self.close()


class _ConversationOverTls(_Conversation, smtplib.SMTP_SSL):
    """A `_Conversation` with implicit TLS."""


def _transmit(smtp: smtplib.SMTP, message: EmailMessage, recipients: list[str]) -> dict[str, tuple[int, bytes]]:
    """Send a message; return the server's reply for each address that it refused.

    `SMTP.send_message` is not used: it changes lines that start with "From ".
    """
    origin = message["From"].addresses[0].addr_spec
    is_international = not all(address.isascii() for address in (origin, *recipients))
    smtp.ehlo_or_helo_if_needed()
    if is_international and not smtp.has_extn("smtputf8"):
        # Checked here, because smtplib would fail only when it sends the address.
        raise smtplib.SMTPNotSupportedError("SMTPUTF8 extension not supported by server.")
    public = copy(message)
    del public["Bcc"]
    data = public.as_bytes(policy=_WIRE.clone(utf8=is_international))
    return smtp.sendmail(origin, recipients, data, ["SMTPUTF8", "BODY=8BITMIME"] if is_international else [])


def _error_of(error: OSError) -> MailNotSent:  # noqa: PLR0911 - a table, one line a case
    match error:
        case smtplib.SMTPAuthenticationError(smtp_code=code):
            # The text of the reply is left out: it may repeat the login.
            return _error_class(code)("refused the login", str(code))
        case smtplib.SMTPRecipientsRefused(recipients=replies):
            # If one recipient failed temporarily, the whole failure is temporary.
            code, reply = min(replies.values())
            return _error_class(code)("refused every recipient", _without_addresses(_text(code, reply)))
        case smtplib.SMTPResponseException(smtp_code=code, smtp_error=reply):
            return _error_class(code)("refused the message", _without_addresses(_text(code, reply)))
        case smtplib.SMTPServerDisconnected():
            return MailDeferred("closed the connection", str(error))
        case smtplib.SMTPException():
            return MailRefused("does not support a required feature", str(error))
        case ssl.SSLCertVerificationError():
            return MailDeferred("has an untrusted certificate", error.verify_message)
        case TimeoutError():
            return MailDeferred("timed out")
        case _:
            return MailDeferred("cannot be reached", error.strerror or type(error).__name__)


def _error_class(code: int) -> type[MailNotSent]:
    return MailRefused if 500 <= code <= 599 else MailDeferred  # noqa: PLR2004 - RFC 5321 §4.2.1


def _text(code: int, reply: bytes | str) -> str:
    text = reply.decode(errors="replace") if isinstance(reply, bytes) else reply
    return f"{code} {' '.join(_CONTROL.sub(' ', text).split())}"[:_REPLY_LIMIT].rstrip()


def _without_addresses(text: str) -> str:
    return " ".join("…" if "@" in word[1:-1] else word for word in text.split(" "))
