"""Receive webhooks on this machine, for `webhooks listen` and the demo."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from scheduled_actions.core.errors import LocalServerFailed

#: Maximum size of a request body in bytes; deliveries are smaller, because payloads have at most 256 KiB.
_BODY_LIMIT = 1024 * 1024


@contextmanager
def receiving(port: int, receive: Callable[[str, Mapping[str, str], bytes], int]) -> Iterator[str]:
    """Serve POST requests on threads until the block ends, and yield the address.

    Args:
        port: The port on 127.0.0.1; 0 chooses a free one.
        receive: Called with the path, headers and body of a request; returns the status of the response.
            Not called for a body over 1 MiB, which is answered with 413.

    Raises:
        LocalServerFailed: The port is in use, or this user may not use it.
    """

    class ReceiverHandler(BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self) -> None:
            length = self.headers.get("content-length") or "0"
            status: int = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            if length.isdecimal() and int(length) <= _BODY_LIMIT:
                status = receive(self.path, dict(self.headers.items()), self.rfile.read(int(length)))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing: requests are reported by `receive`."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), ReceiverHandler)
    except OSError as error:
        raise LocalServerFailed(
            f"cannot listen on port {port}: {error.strerror}", "--port 0 chooses a free one"
        ) from error
    # Closing the server waits for the requests in progress, because a sender counts a lost response as a failure.
    server.daemon_threads = False
    with server:
        threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
