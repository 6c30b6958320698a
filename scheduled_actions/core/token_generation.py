"""Generate tokens: secrets of which only the digest and a hint are stored."""

import hashlib
import re
import secrets
from dataclasses import dataclass

#: 256 bits cannot be guessed, so a plain digest is sufficient.
_RANDOM_BYTES = 32
_RANDOM_CHARACTERS = 43
#: Characters after the prefix that are stored as a hint.
_HINT_CHARACTERS = 4


@dataclass(frozen=True, slots=True)
class TokenKind:
    """A kind of token.

    Args:
        prefix: The start of each token of this kind, by which people and secret scanners recognize it.
    """

    prefix: str

    def generate(self) -> str:
        """Generate a token: the prefix and 256 random bits in URL-safe base64."""
        return self.prefix + secrets.token_urlsafe(_RANDOM_BYTES)

    def hint_of(self, token: str) -> str:
        """Return the hint of a token: the prefix and the first four characters after it."""
        return token[: len(self.prefix) + _HINT_CHARACTERS]

    def is_one(self, text: str) -> bool:
        """Return whether a string has the form of a token of this kind."""
        return re.fullmatch(rf"{self.prefix}[A-Za-z0-9_-]{{{_RANDOM_CHARACTERS}}}", text) is not None


def digest_of(token: str) -> bytes:
    """Return the SHA-256 digest of a token, which is stored in its place."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
