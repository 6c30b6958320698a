"""A secret that never prints itself, and how a request shows it."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

#: A secret shorter than this closes the endpoint.
SECRET_MIN_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret that never prints itself. During rotation it may hold two values, separated by a comma."""

    name: str
    _value: str
    #: Every value that opens the door: each half of a rotation, and the whole string as some callers send it.
    accepted: tuple[bytes, ...] = field(init=False, compare=False)
    #: Whether it is set, and long enough to protect anything.
    is_usable: bool = field(init=False, compare=False)

    def __post_init__(self) -> None:
        whole = self._value.strip()
        values = dict.fromkeys([whole, *(half.strip() for half in whole.split(","))])
        accepted = tuple(value.encode() for value in values if len(value) >= SECRET_MIN_LENGTH)
        object.__setattr__(self, "accepted", accepted)
        object.__setattr__(self, "is_usable", bool(accepted))

    def __repr__(self) -> str:
        """Return the name alone."""
        return f"Secret({self.name})"

    def reveal(self) -> str:
        """Return the value itself."""
        return self._value

    def matches(self, presented: str) -> bool:
        """Whether a header's value is one that the secret accepts."""
        # Header values reach us decoded as Latin-1: these are the bytes that were sent. Every value is compared, each
        # in constant time, so that the time taken tells nothing.
        sent = presented.encode("latin-1", "replace")
        return any([hmac.compare_digest(sent, accepted) for accepted in self.accepted])  # noqa: C419 - never stop early


def bearer(value: str | None) -> str | None:
    """Return what an Authorization header bears; None where it bears nothing."""
    scheme, _, credentials = (value or "").strip().partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else None
