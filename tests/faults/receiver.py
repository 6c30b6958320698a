"""A webhook receiver built on the official library of Standard Webhooks, as a consumer would write it."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(eq=False)
class Receiver:
    """What came to one endpoint."""

    port: int
    secret: str
    #: The content of each delivery that the library took, by its `webhook-id`, as often as it came.
    received: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    #: Why the library refused a delivery.
    refused: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}/hooks"

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Answer on the port while the block lasts; before and after it, connections are refused."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(receiver.take(body, dict(self.headers.items())))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Keep quiet."""

        with ThreadingHTTPServer(("127.0.0.1", self.port), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                thread.join(timeout=10)

    def take(self, body: bytes, headers: dict[str, str]) -> int:
        """Verify a delivery and keep it; return the status to answer."""
        lowered = {name.lower(): value for name, value in headers.items()}
        try:
            Webhook(self.secret).verify(body, lowered)
        except WebhookVerificationError as error:
            self.refused.append(str(error))
            return 401
        self.received.append((lowered["webhook-id"], json.loads(body)))
        return 204
