"""A project that notifies people, for tests: its handler, people, database and mail server."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from handlers import notification
from scheduled_actions import runtime
from scheduled_actions.core import config
from scheduled_actions.registry import Registry
from tests.mail_server import Mailbox, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from email.message import EmailMessage
    from pathlib import Path

    from scheduled_actions.runtime import Runtime


@contextmanager
def notice_project(
    directory: Path, database_url: str, mailbox: Mailbox, *functions: Callable[..., Any], toml: str = "", **environ: str
) -> Iterator[Runtime]:
    """Yield the runtime of a project with the handler `notification:send`, and make it the runtime of this process."""
    (directory / "scheduled_actions.toml").write_text(f"concurrency = 2\n{toml}", encoding="utf-8")
    with serving(mailbox) as settings:
        values = {
            "DATABASE_URL": database_url,
            "SCHEDULED_ACTIONS_EMAIL_HOST": settings.host,
            "SCHEDULED_ACTIONS_EMAIL_PORT": str(settings.port),
            **environ,
        }
        made = runtime.Runtime(config.load(directory, values), registry=Registry.of(notification.send, *functions))
        before = runtime.use(made)
        try:
            yield made
        finally:
            runtime.use(before)
            made.close()


def mails(mailbox: Mailbox) -> list[EmailMessage]:
    """Return the messages that arrived, in order."""
    return [message_from_bytes(envelope.content, policy=policy.default) for envelope in mailbox.envelopes]


def text_of(mail: EmailMessage) -> str:
    """Return the plain text of a message."""
    body = mail.get_body(("plain",))
    assert body is not None
    return body.get_content().replace("\r\n", "\n")


@contextmanager
def a_receiver(*statuses: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the host and port of a server, and the posts that it receives.

    The server responds with each status once, and then always with the last.
    """
    posts: list[dict[str, Any]] = []
    left = list(statuses or (200,))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posts.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response_only(left.pop(0) if len(left) > 1 else left[0])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=[0.02], daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", posts
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
