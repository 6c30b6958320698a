"""Secrets that are stored: encrypted with the key of the environment, so that a copy of the database tells none.

Fernet of `cryptography` (AES-128 in CBC mode with an HMAC, authenticated, versioned); several keys at once are a
rotation: the first encrypts, all decrypt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduled_actions.core.errors import ExtraMissing, NotConfigured, SecretUnreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.fernet import MultiFernet

KEY_NAME = "SCHEDULED_ACTIONS_ENCRYPTION_KEY"
_EXPECTED = (
    "32 random bytes in base64, such as `head -c 32 /dev/urandom | base64` prints; without it no secret can be stored"
)


class SecretBox:
    """Encrypts and decrypts texts.

    Args:
        keys: As the environment has them; looked at when first needed.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(keys)
        self._made: MultiFernet | None = None

    def seal(self, text: str) -> str:
        """Return the text encrypted, as printable ASCII.

        Raises:
            NotConfigured: There is no key, or it is none.
            ExtraMissing: `cryptography` is not installed.
        """
        return self._fernet().encrypt(text.encode()).decode()

    def open(self, sealed: str, *, what: str) -> str:
        """Return the text that was encrypted.

        Args:
            sealed: As `seal` returned it.
            what: What it is, for the message.

        Raises:
            SecretUnreadable: None of the keys encrypted it.
            NotConfigured: There is no key, or it is none.
            ExtraMissing: `cryptography` is not installed.
        """
        fernet = self._fernet()
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - an extra

        try:
            return fernet.decrypt(sealed.encode()).decode()
        except InvalidToken:
            raise SecretUnreadable(what, KEY_NAME) from None

    def _fernet(self) -> MultiFernet:
        if self._made is None:
            if not self._keys:
                raise NotConfigured(KEY_NAME, _EXPECTED)
            try:
                from cryptography.fernet import Fernet, MultiFernet  # noqa: PLC0415 - an extra
            except ImportError as error:
                raise ExtraMissing("cryptography", "encryption") from error
            try:
                self._made = MultiFernet([Fernet(_in_base64(key)) for key in self._keys])
            except ValueError:
                raise NotConfigured(KEY_NAME, _EXPECTED) from None
        return self._made


def _in_base64(key: str) -> str:
    """Return a key as the library takes it; some tools leave the padding out, some write the other alphabet."""
    return key.rstrip("=").replace("+", "-").replace("/", "_") + "=" * (-len(key.rstrip("=")) % 4)
