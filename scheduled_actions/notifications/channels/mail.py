"""Sending one email through an SMTP server, so that what happened is never in doubt.

Three ends are possible. `SendResult`: the server took the message for at least one recipient, and sending it
again would reach somebody twice. `MailRefused`: it said no for good (a 5yz reply, RFC 5321 §4.2.1).
`MailDeferred`: not now (a 4yz reply, or no conversation at all); the same message may pass later.
"""

from __future__ import annotations

import email.errors
import email.policy
import re
import smtplib
import socket
import ssl
import time
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.config import TOML_NAME
from scheduled_actions.core.errors import ConfigInvalid, InvalidArgument, NotConfigured, ScheduledActionsError
from scheduled_actions.outbound import network

if TYPE_CHECKING:
    from email.headerregistry import Address
    from email.message import EmailMessage

    from scheduled_actions.core.config import Config, Email

#: Headers in one piece up to the limit of RFC 5322 §2.1.1: the library folds a long URL by making it an
#: encoded word, which no reader takes for a URL. Bodies in 7 bits, as every server takes them.
_WIRE = email.policy.SMTP.clone(max_line_length=998, cte_type="7bit")

#: The server's reply by the address it refused.
_Replies = dict[str, tuple[int, bytes]]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
#: No local parts in quotes: parsers disagree about them, and one of them decides where the mail goes.
_ADDR_SPEC = re.compile(r"[\w!#$%&'*+/=?^`{|}~.-]{1,64}@[\w-]+(\.[\w-]+)*")
_ADDR_SPEC_LIMIT = 254
_REPLY_LIMIT = 200
#: How long the answer to a goodbye is waited for.
_GOODBYE_SECONDS = 0.5


class MailNotSent(ScheduledActionsError):
    """Nobody got the message. Says what the server did, never who was to get it or how we logged in."""

    code = "mail_not_sent"

    def __init__(self, what: str, reply: str = "") -> None:
        self.what = what
        self.reply = reply
        super().__init__(f"the mail server {what}: {reply}" if reply else f"the mail server {what}")


class MailRefused(MailNotSent):
    """The server said no for good: the same message would be refused again."""

    code = "mail_refused"


class MailDeferred(MailNotSent):
    """The server said not now, or could not be talked to: the same message may pass later."""

    code = "mail_deferred"


@dataclass(frozen=True, slots=True)
class SendResult:
    """The server took the message for at least one recipient."""

    message_id: str
    #: How many recipients the server took.
    accepted: int
    #: The server's reply (`550 5.1.1 no such user`) by the address it refused.
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
    """Send `message` to everybody in its To, Cc and Bcc; the Bcc header itself stays here.

    Args:
        message: Complete: From, Date and Message-ID are set.
        settings: Where to, and how the way is protected.
        username: Log in so; None or empty, like the password: no login.
        password: ASCII, for SMTP's login knows nothing else.
        ca_file: PEM file of the authorities to trust instead of the system's.
        timeout: Seconds for the whole conversation, not for each reply.

    Raises:
        MailRefused: Refused for good; nobody got it.
        MailDeferred: Refused for now; nobody got it, unless the connection broke after the last byte of the
            message: the server may have taken it then, and the Message-ID betrays a second copy.
        NotConfigured: The login is half there, or the file of authorities cannot be read.
        ConfigInvalid: The password would travel in the clear.
    """
    _check_login(settings, username, password)
    tls = None if settings.security == "none" else _tls_context(ca_file)
    recipients = _recipients(message)
    if timeout <= 0:
        raise MailDeferred("was not asked", "no time is left in this attempt")
    if (instead := network.substitute()) is not None:
        instead.mail(message)
        return SendResult(message_id=str(message["Message-ID"]), accepted=len(recipients), refused={})
    try:
        smtp = _connected(settings, tls, timeout)
        try:
            if settings.security == "starttls":
                smtp.starttls(context=tls)
            if username and password:
                smtp.login(username, password)
            refused = _hand_over(smtp, message, recipients)
        finally:
            smtp.leave()
    except OSError as error:  # smtplib's own errors are OSErrors, too
        # Without its cause: replies and addresses hang on it, and whoever prints the chain would print them.
        raise _explained(error) from None
    return SendResult(
        message_id=str(message["Message-ID"]),
        accepted=len(recipients) - len(refused),
        refused={address: _text(code, reply) for address, (code, reply) in refused.items()},
    )


def submit(message: EmailMessage, config: Config, *, name: str, timeout: float) -> SendResult:
    """Send `message` from the project's sender through its server, as `send` does.

    Args:
        message: All but From, Date and Message-ID.
        config: Has the server, and in its environment the login.
        name: Names the message in its Message-ID, at the sender's domain: a second copy can be told as one.
        timeout: Seconds at most; the setting's are fewer.
    """
    settings, environ = config.settings.email, config.environ
    origin = sender(settings)
    message["From"] = origin
    message["Date"] = datetime.now(UTC)
    message["Message-ID"] = f"<{name}@{origin.domain}>"
    return send(
        message,
        settings=settings,
        username=environ.get("SMTP_USERNAME"),
        password=environ.get("SMTP_PASSWORD"),
        ca_file=environ.get("SMTP_CA_FILE"),
        timeout=min(settings.timeout_seconds, timeout),
    )


def parse_address(text: str) -> Address:
    """Return the one address that `text` is: `ann@example.org` or `Ann <ann@example.org>`.

    Raises:
        ValueError: It is none, or more than one; the message repeats nothing of it.
    """
    message = "is not one email address, such as ann@example.org or Ann <ann@example.org>"
    one_line(text)
    try:
        header: Any = email.policy.SMTP.header_factory("To", text)
    except Exception:  # noqa: BLE001 - on odd input the library's parser fails in ways of its own, TypeError included
        raise ValueError(message) from None
    is_list = len(header.addresses) != 1 or header.groups[0].display_name is not None
    if is_list or any(isinstance(defect, email.errors.InvalidHeaderDefect) for defect in header.defects):
        raise ValueError(message)
    address: Address = header.addresses[0]
    if len(address.addr_spec) > _ADDR_SPEC_LIMIT or not _ADDR_SPEC.fullmatch(address.addr_spec):
        raise ValueError(message)
    return address


def one_line(text: str) -> str:
    """Return `text` if it can stand in a header and cannot begin another one.

    Encoded words are refused as well: the library decodes them, and before Python 3.11.10 it wrote a line end
    hidden in one as a real one (CVE-2024-6923).

    Raises:
        ValueError: It holds a line end or another control character, or an encoded word.
    """
    if _CONTROL.search(text):
        message = "holds a line end or another control character; a header is one line of text"
        raise ValueError(message)
    if "=?" in text:
        message = 'holds "=?", the beginning of an encoded word; write the text itself'
        raise ValueError(message)
    return text


def sender(settings: Email) -> Address:
    """Return the address that the setting `email.sender` holds.

    Raises:
        ConfigInvalid: It holds none.
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
        raise NotConfigured("SMTP_USERNAME and SMTP_PASSWORD", "ASCII characters only")
    if settings.security == "none" and settings.host not in {"127.0.0.1", "::1", "localhost"}:
        expected = "must be starttls or tls: a login would travel in the clear"
        raise ConfigInvalid("email.security", settings.security, expected, TOML_NAME)


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        raise NotConfigured("SMTP_CA_FILE", "the path of a readable PEM file of certificates") from error


def _connected(settings: Email, tls: ssl.SSLContext | None, timeout: float) -> _Conversation:
    if settings.security == "tls":
        return _ConversationOverTls(settings.host, settings.port, context=tls, timeout=timeout)
    return _Conversation(settings.host, settings.port, timeout=timeout)


def _recipients(message: EmailMessage) -> list[str]:
    headers = [header for name in ("To", "Cc", "Bcc") for header in message.get_all(name, [])]
    recipients = list(dict.fromkeys(address.addr_spec for header in headers for address in header.addresses))
    if not recipients:
        raise InvalidArgument("message", "without To, Cc and Bcc", "addressed to anybody")
    return recipients


class _Conversation(smtplib.SMTP):
    """An SMTP client whose timeout is that of the whole conversation, not of each reply."""

    def __init__(self, host: str, port: int, *, timeout: float, **options: Any) -> None:  # noqa: ANN401 - SMTP_SSL's
        self._ends_at = time.monotonic() + timeout
        # A name of ours keeps smtplib from looking its own one up, which may take seconds.
        super().__init__(host, port, local_hostname="localhost", timeout=timeout, **options)
        if self.sock is not None:
            self.local_hostname = _address_literal(self.sock)

    def getreply(self) -> tuple[int, bytes]:
        """Return the server's reply, if it comes before the time is up."""
        seconds_left = self._ends_at - time.monotonic()
        if seconds_left <= 0:
            self.close()
            raise TimeoutError
        if self.sock is not None:
            self.sock.settimeout(seconds_left)
        return super().getreply()

    def leave(self) -> None:
        """Say goodbye and close; the mail's fate is settled, so no answer to that is an error."""
        self._ends_at = min(self._ends_at, time.monotonic() + _GOODBYE_SECONDS)
        with suppress(OSError):
            self.quit()
        self.close()


class _ConversationOverTls(_Conversation, smtplib.SMTP_SSL):
    """The same, with TLS from the first byte."""


def _address_literal(sock: socket.socket) -> str:
    """Return how RFC 5321 §4.1.3 wants a client without a public name to introduce itself."""
    address = str(sock.getsockname()[0]).partition("%")[0]
    return f"[IPv6:{address}]" if sock.family == socket.AF_INET6 else f"[{address}]"


def _hand_over(smtp: smtplib.SMTP, message: EmailMessage, recipients: list[str]) -> _Replies:
    origin = message["From"].addresses[0].addr_spec
    is_international = not all(address.isascii() for address in (origin, *recipients))
    smtp.ehlo_or_helo_if_needed()
    if is_international and not smtp.has_extn("smtputf8"):
        # smtplib checks this only where the server knows EHLO, and else fails in the middle of an address.
        raise smtplib.SMTPNotSupportedError("SMTPUTF8 extension not supported by server.")
    public = copy(message)
    del public["Bcc"]
    data = public.as_bytes(policy=_WIRE.clone(utf8=is_international))
    return smtp.sendmail(origin, recipients, data, ["SMTPUTF8", "BODY=8BITMIME"] if is_international else [])


def _explained(error: OSError) -> MailNotSent:  # noqa: PLR0911 - a table, one line a case
    match error:
        case smtplib.SMTPAuthenticationError(smtp_code=code):
            # The code alone: the text may echo what was sent.
            return _verdict(code)("refused the login", str(code))
        case smtplib.SMTPRecipientsRefused(recipients=replies):
            # A single recipient who was refused for now makes another attempt worth while.
            code, reply = min(replies.values())
            return _verdict(code)("refused every recipient", _without_addresses(_text(code, reply)))
        case smtplib.SMTPResponseException(smtp_code=code, smtp_error=reply):
            return _verdict(code)("refused the message", _without_addresses(_text(code, reply)))
        case smtplib.SMTPServerDisconnected():
            return MailDeferred("broke off", str(error))
        case smtplib.SMTPException():
            return MailRefused("cannot do what is asked of it", str(error))
        case ssl.SSLCertVerificationError():
            return MailDeferred("shows a certificate that cannot be trusted", error.verify_message)
        case TimeoutError():
            return MailDeferred("did not answer in time")
        case _:
            return MailDeferred("cannot be reached", error.strerror or type(error).__name__)


def _verdict(code: int) -> type[MailNotSent]:
    return MailRefused if 500 <= code <= 599 else MailDeferred  # noqa: PLR2004 - RFC 5321 §4.2.1


def _text(code: int, reply: bytes | str) -> str:
    text = reply.decode(errors="replace") if isinstance(reply, bytes) else reply
    return f"{code} {' '.join(_CONTROL.sub(' ', text).split())}"[:_REPLY_LIMIT].rstrip()


def _without_addresses(text: str) -> str:
    return " ".join("…" if "@" in word[1:-1] else word for word in text.split(" "))
