"""The outcome of an HTTP post, and the network substitute that tests install."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from email.message import EmailMessage
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class PostResult:
    """The outcome of an HTTP post."""

    #: The HTTP status; None without a complete response.
    status: int | None
    #: The beginning of the response body, at most 1 KiB; empty without a complete response.
    excerpt: str
    duration_seconds: float
    #: The delay that the receiver asked for: 0 to 24 hours; None without a valid `Retry-After`.
    retry_after: timedelta | None = None
    #: Why there is no complete response; names the host, never the path. None: there is a complete response.
    error: str | None = None
    #: The response header `webhook-delivery` in lower case, not validated; None if it is missing or empty.
    directive: str | None = None
    #: Whether the host has a forbidden address; nothing was sent then.
    is_forbidden: bool = False


class Substitute(Protocol):
    """A substitute for the network in tests; its methods are called from any thread."""

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> PostResult:
        """Return the result of an HTTP POST."""

    def get(self, url: str) -> tuple[int, bytes]:
        """Return the status and body of an HTTP GET; raise OSError for a failed connection."""

    def mail(self, message: EmailMessage) -> None:
        """Accept a complete email, addressed to all of its recipients."""

    def notify(self, address: str, subject: str, text: str) -> None:
        """Accept a notification to an apprise URL."""


#: Set only in tests; None: the real network.
substitute: Substitute | None = None


@contextmanager
def replaced(by: Substitute) -> Iterator[None]:
    """Replace the network with a substitute inside the block, for the whole process."""
    global substitute  # noqa: PLW0603 - handler threads use it, too
    before, substitute = substitute, by
    try:
        yield
    finally:
        substitute = before
