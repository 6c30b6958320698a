"""What became of a post, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a post."""

    #: The HTTP status; None when there was no complete answer.
    status: int | None
    #: The beginning of the body, for people.
    excerpt: str
    duration_seconds: float
    #: How long the receiver asks to be left alone, between nothing and 24 hours; None when it does not ask.
    retry_after: timedelta | None = None
    #: Why there was no complete answer, naming the host and never the path; None when there was one.
    error: str | None = None
    #: What the receiver wants of its deliveries, in lower case; None when it does not say.
    wish: str | None = None
    #: Whether the host is one that webhooks do not reach: then nothing was sent.
    is_forbidden: bool = False
