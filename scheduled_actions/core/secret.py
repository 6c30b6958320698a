"""Secrets from environment variables, and their comparison with the secrets in requests."""

import hmac
from dataclasses import dataclass
from functools import cached_property

from scheduled_actions.core.errors import NotConfigured

#: A shorter secret is treated as not configured.
SECRET_MIN_LENGTH = 16


@dataclass(frozen=True)
class Secret:
    """A secret from an environment variable; `repr` shows only its name.

    During rotation, the secret contains two values, separated by a comma.
    """

    name: str
    _value: str

    @cached_property
    def accepted(self) -> tuple[bytes, ...]:
        """The accepted values of 16 or more characters: each value of a rotation, and the whole string.

        Some callers send the whole string, because they read the same environment variable.
        """
        text = self._value.strip()
        values = dict.fromkeys([text, *(part.strip() for part in text.split(","))])
        return tuple(value.encode() for value in values if len(value) >= SECRET_MIN_LENGTH)

    @property
    def is_usable(self) -> bool:
        """Whether one of the values has at least 16 characters."""
        return bool(self.accepted)

    def check_usable(self, note: str = "") -> None:
        """Raise unless one of the values has at least 16 characters.

        Args:
            note: Appended to the advice in the error, such as "; until then the API is closed".

        Raises:
            NotConfigured: The secret is not set or too short; the message does not contain it.
        """
        if not self.is_usable:
            raise NotConfigured(
                self.name,
                f"set it to at least {SECRET_MIN_LENGTH} random characters{note}",
                problem="is too short" if self._value.strip() else "is not configured",
            )

    def __repr__(self) -> str:
        """Return the name without the value."""
        return f"Secret({self.name})"

    def reveal(self) -> str:
        """Return the whole value of the environment variable."""
        return self._value

    def matches(self, presented: str) -> bool:
        """Return whether the value of a request header equals an accepted value."""
        # Header values are decoded as Latin-1. All values are compared, each in constant time.
        sent = presented.encode("latin-1", "replace")
        return any([hmac.compare_digest(sent, accepted) for accepted in self.accepted])  # noqa: C419 - never stop early


def bearer(value: str | None) -> str | None:
    """Return the bearer token of an Authorization header; None if it is missing or has another scheme."""
    scheme, _, credentials = (value or "").strip().partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else None
