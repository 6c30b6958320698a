"""Who receives the demo's webhooks: a real HTTP server, which believes only what is signed with the secret it knows."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from scheduled_actions.webhooks import SignatureInvalid, verify

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request, whatever became of it."""

    #: Which of the endpoints.
    name: str
    webhook_id: str | None
    is_signed: bool
    #: What it was answered with.
    status: int
    #: What it says; None when it was not believed.
    content: Any


class Receiver:
    """Endpoints `/NAME` on a free port, one for each secret, for as long as the block lasts.

    Args:
        secrets: Of each endpoint, by name.
        failing_once: The name of one that answers its first signed request with 500.
    """

    def __init__(self, secrets: Mapping[str, str], *, failing_once: str) -> None:
        self.received: list[Received] = []
        self._secrets = secrets
        self._failing_once = failing_once
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True)

    def url(self, name: str) -> str:
        """Return the address of an endpoint."""
        return f"http://127.0.0.1:{self._server.server_port}/{name}"

    def at(self, name: str) -> list[Received]:
        """Return what an endpoint has received, in order."""
        with self._lock:
            return [one for one in self.received if one.name == name]

    def receive(self, name: str, headers: Mapping[str, str], body: bytes) -> int:
        """Take a request in, and return the status it is answered with."""
        webhook_id = headers.get("webhook-id")
        try:
            verify(body, headers, self._secrets[name])
        except (KeyError, SignatureInvalid):
            one = Received(
                name=name,
                webhook_id=webhook_id,
                is_signed=False,
                status=HTTPStatus.UNAUTHORIZED,
                content=None,
            )
        else:
            is_first = not any(before.is_signed for before in self.at(name))
            fails = name == self._failing_once and is_first
            status = HTTPStatus.INTERNAL_SERVER_ERROR if fails else HTTPStatus.OK
            one = Received(name=name, webhook_id=webhook_id, is_signed=True, status=status, content=json.loads(body))
        with self._lock:
            self.received.append(one)
        return one.status

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler_of(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            status = receiver.receive(self.path.strip("/"), dict(self.headers.items()), body)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing: the report tells what was received."""

    return Handler
