"""Encrypt stored secrets with a key from the environment, so that a copy of the database reveals none.

Uses Fernet of `cryptography` (AES-128 in CBC mode with an HMAC, authenticated, versioned). During rotation
there are several keys: the first encrypts, all decrypt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import ExtraMissing, NotConfigured, SecretUnreadable

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

KEY_NAME = "SCHEDULED_ACTIONS_ENCRYPTION_KEY"
_EXPECTED = (
    "set it to 32 random bytes in base64, such as the output of `head -c 32 /dev/urandom | base64`; without it no "
    "secret can be stored"
)


@dataclass(frozen=True, repr=False)
class SecretBox:
    """Encrypts and decrypts strings with the configured keys."""

    #: 32 bytes each, in base64; parsed on first use. The first encrypts, all decrypt.
    _keys: Sequence[str]

    def seal(self, text: str) -> str:
        """Encrypt a string; return printable ASCII.

        Raises:
            NotConfigured: No key is configured, or a key is malformed.
            ExtraMissing: `cryptography` is not installed.
        """
        return self._fernet.encrypt(text.encode()).decode()

    def open(self, sealed: str, *, what: str) -> str:
        """Decrypt a string.

        Args:
            sealed: A result of `seal`.
            what: Description of the secret in errors.

        Raises:
            SecretUnreadable: The string was encrypted with none of the configured keys.
            NotConfigured: No key is configured, or a key is malformed.
            ExtraMissing: `cryptography` is not installed.
        """
        fernet = self._fernet
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - an extra

        try:
            return fernet.decrypt(sealed.encode()).decode()
        except InvalidToken:
            raise SecretUnreadable(what, KEY_NAME) from None

    @cached_property
    def _fernet(self) -> MultiFernet:
        if not self._keys:
            raise NotConfigured(KEY_NAME, _EXPECTED)
        try:
            from cryptography.fernet import Fernet, MultiFernet  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ExtraMissing("cryptography", "encryption") from error
        try:
            return MultiFernet([Fernet(_in_base64(key)) for key in self._keys])
        except ValueError:
            raise NotConfigured(KEY_NAME, _EXPECTED, problem="is invalid") from None


def _in_base64(key: str) -> str:
    """Return a key in URL-safe base64 with padding, as the library requires it."""
    return key.rstrip("=").replace("+", "-").replace("/", "_") + "=" * (-len(key.rstrip("=")) % 4)
