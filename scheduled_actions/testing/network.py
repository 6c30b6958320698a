"""The network of a test: nothing leaves the process, and what would have left is kept to look at."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduled_actions.outbound.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import EmailMessage

    from scheduled_actions.testing.captured import CapturedWebhooks


@dataclass(frozen=True, slots=True)
class CapturedNotice:
    """A notice to a service of apprise or to a webhook of notices."""

    #: Its URL, whole.
    address: str
    subject: str
    text: str


class NoNetwork:
    """Takes everything that would leave the process of a test.

    Args:
        webhooks: Takes the deliveries of events.
    """

    def __init__(self, webhooks: CapturedWebhooks) -> None:
        self._webhooks = webhooks
        self._lock = threading.Lock()
        #: In the order they were sent.
        self.mails: list[EmailMessage] = []
        self.notices: list[CapturedNotice] = []
        #: Status and body by URL.
        self.answers: dict[str, tuple[int, bytes]] = {}

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Take the delivery of an event, or a notice."""
        content = json.loads(body)
        if "event" in content:
            return self._webhooks.take(url, body, headers)
        self.notify(url, content.get("subject", ""), content.get("text", ""))
        return Answer(status=200, excerpt="", duration_seconds=0.0)

    def get(self, url: str) -> tuple[int, bytes]:
        """Return what the test answers a condition that asks this URL."""
        if url not in self.answers:
            raise ConnectionRefusedError
        return self.answers[url]

    def mail(self, message: EmailMessage) -> None:
        """Keep a mail."""
        with self._lock:
            self.mails.append(message)

    def notify(self, address: str, subject: str, text: str) -> None:
        """Keep a notice."""
        with self._lock:
            self.notices.append(CapturedNotice(address, subject, text))


def as_answer(document: Any, status: int) -> tuple[int, bytes]:  # noqa: ANN401 - any JSON
    """Return the answer to a GET as `NoNetwork.answers` holds it."""
    return status, json.dumps(document).encode()
