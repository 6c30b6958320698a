"""SMTP server for tests: accepts messages, or answers with the replies that a test sets."""

# ruff: noqa: N802 - aiosmtpd calls its hooks by these names

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import contextmanager
from email import message_from_bytes, policy
from pathlib import Path

from aiosmtpd.controller import Controller

from scheduled_actions.core.config import Email

VECTORS = Path(__file__).parent / "vectors" / "smtp"
#: Issued to localhost.
CERTIFICATE = str(VECTORS / "localhost.pem")
#: Issued to another name.
ELSEWHERE = str(VECTORS / "elsewhere.pem")


class Mailbox:
    """Record received commands and messages; `replies` and `seconds` set the answer and delay per command."""

    def __init__(self, replies=None, *, seconds=None):
        self.replies = replies or {}
        self.seconds = seconds or {}
        self.heard = []
        self.envelopes = []
        self.was_encrypted = []

    async def handle_EHLO(self, _server, session, _envelope, hostname, responses):
        self.heard.append(f"EHLO {hostname}")
        session.host_name = hostname
        return [self.replies["EHLO"]] if "EHLO" in self.replies else responses

    async def handle_MAIL(self, _server, _session, envelope, address, _options):
        self.heard.append(f"MAIL {address}")
        envelope.mail_from = address
        return self.replies.get("MAIL", "250 OK")

    async def handle_RCPT(self, _server, _session, envelope, address, _options):
        await asyncio.sleep(self.seconds.get("RCPT", 0))
        reply = self.replies.get(address, "250 OK")
        if reply.startswith("250"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(self, server, _session, envelope):
        reply = self.replies.get("DATA", "250 OK")
        if reply.startswith("250"):
            self.envelopes.append(envelope)
            self.was_encrypted.append(server.transport.get_extra_info("ssl_object") is not None)
        return reply

    async def handle_QUIT(self, _server, _session, _envelope):
        await asyncio.sleep(self.seconds.get("QUIT", 0))
        return self.replies.get("QUIT", "221 Bye")

    def message(self):
        [envelope] = self.envelopes
        return message_from_bytes(envelope.content, policy=policy.default)

    def text(self):
        return self.message().get_content().replace("\r\n", "\n")


@contextmanager
def serving(mailbox, *, security="none", certificate=CERTIFICATE, **options):
    """Serve a mailbox on a free port and yield the email settings for it."""
    if security != "none":
        options[{"starttls": "tls_context", "tls": "ssl_context"}[security]] = _tls(certificate)
    server = Controller(mailbox, hostname="127.0.0.1", port=free_port(), server_hostname="localhost", **options)
    server.start()
    try:
        yield Email(host="localhost", port=server.port, security=security)
    finally:
        server.stop()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def _tls(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, VECTORS / "key.pem")
    return context
