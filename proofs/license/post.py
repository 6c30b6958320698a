"""SMTP server on loopback that keeps each received mail with its time of arrival."""

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
    """A received mail."""

    #: Time of arrival by the database's clock.
    at: datetime
    to: str
    subject: str
    text: str

    def day(self, zone: ZoneInfo) -> str:
        """Return the day of arrival, for example `16 November`."""
        shown = self.at.astimezone(zone)
        return f"{shown.day} {shown:%B}"


class PostOffice:
    """Keep received mails; `now` returns the time of arrival."""

    def __init__(self) -> None:
        self.letters: list[Letter] = []
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: ANN401, N802 - aiosmtpd's own
        """Accept and keep a mail."""
        message = message_from_bytes(envelope.content, policy=policy.default)
        body = message.get_body(("plain",))
        text = "" if body is None else body.get_content().replace("\r\n", "\n")
        self.letters.append(Letter(self.now(), str(message["To"]), str(message["Subject"]), text))
        return "250 OK"


@contextmanager
def open_post_office() -> Iterator[tuple[PostOffice, int]]:
    """Yield a post office and the loopback port of its SMTP server."""
    office = PostOffice()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    server = Controller(office, hostname="127.0.0.1", port=port, server_hostname="localhost")
    server.start()
    try:
        yield office, port
    finally:
        server.stop()
