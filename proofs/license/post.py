"""A post office on loopback: a real SMTP server that keeps each letter with the instant at which it came."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email import message_from_bytes, policy
from typing import TYPE_CHECKING, Any

from aiosmtpd.controller import Controller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from zoneinfo import ZoneInfo


@dataclass(frozen=True)
class Letter:
    """One mail as it was received."""

    #: By the database's clock.
    at: datetime
    to: str
    subject: str
    text: str

    def day(self, zone: ZoneInfo) -> str:
        """Return the day on which it came: `16 November`."""
        shown = self.at.astimezone(zone)
        return f"{shown.day} {shown:%B}"


class PostOffice:
    """Keeps letters; `now` says when one comes."""

    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: ANN401, N802 - aiosmtpd's own
        """Take a letter."""
        message = message_from_bytes(envelope.content, policy=policy.default)
        body = message.get_body(("plain",))
        text = "" if body is None else body.get_content().replace("\r\n", "\n")
        self.letters.append(Letter(self.now(), str(message["To"]), str(message["Subject"]), text))
        return "250 OK"


@contextmanager
def open_post_office() -> Iterator[tuple[PostOffice, int]]:
    """Give a post office, and the port on loopback where it takes letters."""
    office = PostOffice()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    server = Controller(office, hostname="127.0.0.1", port=port, server_hostname="localhost")
    server.start()
    try:
        yield office, port
    finally:
        server.stop()
