"""Catch mails on this machine: an SMTP server that stores each mail in the project's directory."""

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from scheduled_actions.core.config import Config
from scheduled_actions.database.embedded.cluster import free_port
from scheduled_actions.local.server import HOST
from scheduled_actions.notifications import caught_mails
from scheduled_actions.notifications.caught_mails import CaughtMail

#: The library of the SMTP server; an extra.
LIBRARY = "aiosmtpd"


def can_catch() -> bool:
    """Return whether the library of the SMTP server is installed."""
    return importlib.util.find_spec(LIBRARY) is not None


@contextmanager
def catching(config: Config, report: Callable[[CaughtMail], None]) -> Iterator[int | None]:
    """Catch mails until the block ends, and yield the port of the SMTP server.

    Yields None, and catches nothing, in production, and if `aiosmtpd` is not installed.

    Args:
        config: The project. The server also runs if it sets `email.host`, because settings may change meanwhile.
        report: Called with each mail, without its parts, on the thread of the server.
    """
    if config.is_production or not can_catch():
        yield None
        return
    from aiosmtpd.controller import Controller  # noqa: PLC0415 - an extra

    directory = config.project / caught_mails.DIRECTORY
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    class MailHandler:
        async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: ANN401, N802 - aiosmtpd's own
            try:
                mail = caught_mails.store(directory, envelope.content, envelope.rcpt_tos, now=datetime.now(UTC))
            except OSError as error:
                return f"451 the mail cannot be stored: {error.strerror}"
            report(mail)
            return "250 OK"

    server = Controller(
        MailHandler(), hostname=HOST, port=free_port(), data_size_limit=caught_mails.MAIL_BYTES, enable_SMTPUTF8=True
    )
    server.start()
    try:
        yield server.port
    finally:
        server.stop()
