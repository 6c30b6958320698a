"""Sign and verify requests as defined by Standard Webhooks (`v1`: HMAC-SHA256).

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence

from scheduled_actions.core.errors import (
    InvalidArgument,
    NotConfigured,
    SignatureExpired,
    SignatureHeaderInvalid,
    SignatureHeaderMissing,
    SignatureMismatch,
)

#: Identifies the message; the same in all its retries.
ID_HEADER = "webhook-id"
#: When this attempt was sent, in seconds since 1970.
TIMESTAMP_HEADER = "webhook-timestamp"
#: One signature per key, separated by spaces.
SIGNATURE_HEADER = "webhook-signature"

TOLERANCE_SECONDS = 300.0
#: Maximum number of signatures that are compared; a rotation needs two.
SIGNATURE_LIMIT = 8

_SECRET_PREFIX = "whsec_"  # noqa: S105 - the prefix of secrets
_EXPECTED = f"use {_SECRET_PREFIX} followed by the base64 of 24 to 64 random bytes"
_KEY_BYTES = range(24, 65)
_VERSION = b"v1,"


def sign(keys: Sequence[bytes], *, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`: one signature per key.

    Args:
        keys: The raw bytes behind each `whsec_`, none of them empty.
        message_id: An id without a dot, because a dot separates it from the timestamp.
        timestamp: Seconds since 1970.
        body: The exact bytes of the request body.

    Raises:
        InvalidArgument: There is no key, a key is empty, or the id is empty or contains a dot.
    """
    if not keys or not all(keys):
        raise InvalidArgument("keys", problem="must contain at least one key, and no empty keys")
    if not message_id or "." in message_id:
        raise InvalidArgument("message_id", problem=f"must be a non-empty id without a dot, not {message_id!r}")
    return b" ".join(_signatures(keys, message_id, str(timestamp), body)).decode()


def verify(
    body: bytes,
    headers: Mapping[str, str],
    keys: Sequence[bytes],
    *,
    now: float,
    tolerance_seconds: float = TOLERANCE_SECONDS,
) -> None:
    """Verify the signature and the age of a request.

    Repeated ids are not detected: the caller has to store the ids of processed messages.

    Args:
        body: The received bytes, before any parsing.
        headers: The request's headers; names in any case.
        keys: The raw bytes of each secret; without a key every signature is rejected.
        now: Seconds since 1970.
        tolerance_seconds: Maximum difference between the timestamp and `now`.

    Raises:
        SignatureInvalid: A header is missing or malformed, the timestamp is outside the tolerance, or none of the first
            eight signatures matches.
    """
    message_id = _header(headers, ID_HEADER)
    timestamp = _header(headers, TIMESTAMP_HEADER)
    presented = _header(headers, SIGNATURE_HEADER)
    if "." in message_id:
        raise SignatureHeaderInvalid(ID_HEADER, "an id without a dot")
    if not re.fullmatch(r"[0-9]{1,12}", timestamp):
        raise SignatureHeaderInvalid(TIMESTAMP_HEADER, "a whole number of seconds since 1970")
    age_seconds = now - int(timestamp)
    if not abs(age_seconds) <= tolerance_seconds:
        raise SignatureExpired(age_seconds, tolerance_seconds)
    expected = _signatures([key for key in keys if key], message_id, timestamp, body)
    # As bytes: compare_digest rejects strings outside ASCII.
    candidates = [one.encode(errors="replace") for one in presented.split(" ", SIGNATURE_LIMIT)[:SIGNATURE_LIMIT]]
    # All pairs are compared, each in constant time.
    if not any([hmac.compare_digest(one, other) for one in expected for other in candidates]):  # noqa: C419
        raise SignatureMismatch


def keys_of(secret: str, *, name: str = "the webhook secret") -> tuple[bytes, ...]:
    """Return the keys of a `whsec_` secret: one, or several separated by commas during rotation.

    Args:
        secret: Each key as `whsec_` and the base64 of 24 to 64 bytes.
        name: Name of the secret in errors.

    Raises:
        NotConfigured: The secret is empty or malformed; the message does not contain it.
    """
    parts = [part.strip() for part in secret.split(",") if part.strip()]
    if not parts:
        raise NotConfigured(name, _EXPECTED)
    return tuple(_key(part, name) for part in parts)


def _key(part: str, name: str) -> bytes:
    try:
        key = base64.b64decode(part.removeprefix(_SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not part.startswith(_SECRET_PREFIX) or len(key) not in _KEY_BYTES:
        raise NotConfigured(name, _EXPECTED, problem="is invalid")
    return key


def _header(headers: Mapping[str, str], name: str) -> str:
    for key, value in headers.items():
        if key.lower() == name and value:
            return value
    raise SignatureHeaderMissing(name)


def _signatures(keys: Sequence[bytes], message_id: str, timestamp: str, body: bytes) -> list[bytes]:
    """Return the signature of each key, with its version."""
    content = f"{message_id}.{timestamp}.".encode(errors="replace") + body
    return [_VERSION + base64.b64encode(hmac.digest(key, content, hashlib.sha256)) for key in keys]
