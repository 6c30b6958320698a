"""A webhook receiver built on the official library of Standard Webhooks, as a consumer would write it."""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def a_secret() -> str:
    """Return a new secret for an endpoint and its receiver."""
    return f"whsec_{base64.b64encode(os.urandom(32)).decode()}"


@dataclass(eq=False)
class Receiver:
    """The receiver of one endpoint, and the deliveries that it got."""

    port: int
    secret: str
    #: Whether it answers 503 to the first delivery of each entity.
    fails_first: bool = False
    #: Seconds before it answers.
    delay_seconds: float = 0.0
    #: The `webhook-id` and content of each delivery that the library accepted, in the order of arrival.
    received: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    #: When each of these arrived, on the monotonic clock.
    received_at: list[float] = field(default_factory=list)
    #: The reasons for which the library rejected deliveries.
    refused: list[str] = field(default_factory=list)
    #: Entities whose first delivery was answered with 503.
    failed_first: set[str] = field(default_factory=set)
    #: The number of deliveries without an answer.
    unanswered: int = 0

    @property
    def url(self) -> str:
        """The URL at which it listens."""
        return f"http://127.0.0.1:{self.port}/hooks"

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Answer on the port while the block lasts; before and after it, connections are refused."""
        with self._served(self.take):
            yield

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Accept deliveries without answering while the block lasts; close their connections at its end."""
        is_over = threading.Event()

        def leave_waiting(_body: bytes, _headers: dict[str, str]) -> None:
            self.unanswered += 1
            is_over.wait()

        with self._served(leave_waiting):
            try:
                yield
            finally:
                is_over.set()

    @contextmanager
    def _served(self, take: Callable[[bytes, dict[str, str]], int | None]) -> Iterator[None]:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = take(body, dict(self.headers.items()))
                if status is None:
                    return
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        with ThreadingHTTPServer(("127.0.0.1", self.port), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                thread.join(timeout=10)

    def take(self, body: bytes, headers: dict[str, str]) -> int:
        """Verify a delivery and store it; return the status of the answer."""
        lowered = {name.lower(): value for name, value in headers.items()}
        try:
            Webhook(self.secret).verify(body, lowered)
        except WebhookVerificationError as error:
            self.refused.append(str(error))
            return 401
        content = json.loads(body)
        if self.fails_first and content["entity_id"] not in self.failed_first:
            self.failed_first.add(content["entity_id"])
            return 503
        time.sleep(self.delay_seconds)
        self.received_at.append(time.monotonic())
        self.received.append((lowered["webhook-id"], content))
        return 204
