"""What takes the place of the network in tests: every way out of this process asks here first."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from email.message import EmailMessage

    from scheduled_actions.outbound.answer import Answer


class Substitute(Protocol):
    """Takes what would leave the process; called from any thread."""

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Return what an HTTP post is answered."""

    def get(self, url: str) -> tuple[int, bytes]:
        """Return the status and the body that an HTTP GET is answered; raises OSError where there is no answer."""

    def mail(self, message: EmailMessage) -> None:
        """Take a complete mail; the server accepts it for all recipients."""

    def notify(self, address: str, subject: str, text: str) -> None:
        """Take a notice to a service of apprise; it is accepted."""


_substitute: Substitute | None = None


def substitute() -> Substitute | None:
    """Return what takes the place of the network; None, but in tests: the network itself."""
    return _substitute


@contextmanager
def replaced(by: Substitute) -> Iterator[None]:
    """Replace the network of this process for as long as the block lasts."""
    global _substitute  # noqa: PLW0603 - what is sent comes from the threads of the runner
    before, _substitute = _substitute, by
    try:
        yield
    finally:
        _substitute = before
