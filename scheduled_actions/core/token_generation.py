"""Secrets that are made here, shown once, and known afterwards by their digest alone."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass

#: 256 bits: nobody guesses one, so that a plain digest protects it.
_RANDOM_BYTES = 32
_RANDOM_CHARACTERS = 43
#: So much behind the prefix is kept to recognise one by.
_HINT_CHARACTERS = 4


@dataclass(frozen=True, slots=True)
class Minted:
    """A new secret, and what is kept of it."""

    secret: str
    digest: bytes
    #: Its first characters.
    hint: str


@dataclass(frozen=True, slots=True)
class Minting:
    """Makes secrets of one kind.

    Args:
        prefix: What each begins with, so that people and scanners of repositories know one when they see it.
    """

    prefix: str

    def mint(self) -> Minted:
        """Return a new one."""
        secret = self.prefix + secrets.token_urlsafe(_RANDOM_BYTES)
        return Minted(secret, digest_of(secret), self.hint_of(secret))

    def hint_of(self, secret: str) -> str:
        """Return the first characters of a secret."""
        return secret[: len(self.prefix) + _HINT_CHARACTERS]

    def is_one(self, text: str) -> bool:
        """Whether a text has the form of one."""
        return re.fullmatch(rf"{self.prefix}[A-Za-z0-9_-]{{{_RANDOM_CHARACTERS}}}", text) is not None


def digest_of(secret: str) -> bytes:
    """Return what is kept of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
