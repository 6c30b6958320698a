"""Signatures of requests, the Standard Webhooks way (`v1`: HMAC-SHA256).

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import TYPE_CHECKING

from scheduled_actions.core.errors import (
    InvalidArgument,
    NotConfigured,
    SignatureHeaderInvalid,
    SignatureHeaderMissing,
    SignatureMismatch,
    SignatureOutOfTime,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Names the message; the same over all its retries.
ID_HEADER = "webhook-id"
#: When this attempt was made, in seconds since 1970.
TIMESTAMP_HEADER = "webhook-timestamp"
#: One signature per key, separated by spaces.
SIGNATURE_HEADER = "webhook-signature"

TOLERANCE_SECONDS = 300.0
#: Signatures looked at in one request; a rotation needs two.
SIGNATURE_LIMIT = 8

_SECRET_PREFIX = "whsec_"  # noqa: S105 - the mark of a secret, not one
_SECRET_SHAPE = f"{_SECRET_PREFIX} followed by the base64 of 24 to 64 random bytes"
_KEY_BYTES = range(24, 65)
_VERSION = b"v1,"


def sign(keys: Sequence[bytes], *, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`: one signature per key, so that a consumer may hold either one.

    Args:
        keys: The raw bytes behind each `whsec_`, none of them empty.
        message_id: Without a dot: the dot separates it from the timestamp.
        timestamp: Seconds since 1970.
        body: Exactly what is sent.

    Raises:
        InvalidArgument: There is no key, or the id is empty or has a dot.
    """
    if not keys or not all(keys):
        raise InvalidArgument("keys", len(keys), "at least one key, none of them empty")
    if not message_id or "." in message_id:
        raise InvalidArgument("message_id", message_id, "an id without a dot")
    content = _signed_content(message_id, str(timestamp), body)
    return b" ".join(_signature(key, content) for key in keys).decode()


def verify(
    body: bytes,
    headers: Mapping[str, str],
    keys: Sequence[bytes],
    *,
    now: float,
    tolerance_seconds: float = TOLERANCE_SECONDS,
) -> None:
    """Return if one of the keys signed this body, id and timestamp, and not too long ago.

    Whether the id was seen before is for the caller to know.

    Args:
        body: Exactly as it came, before any parsing.
        headers: In any case.
        keys: The raw bytes behind each secret; no key lets nothing in.
        now: Seconds since 1970.
        tolerance_seconds: How far the timestamp may be from `now`, either way.

    Raises:
        SignatureInvalid: A header is missing or is junk, the timestamp is out of time, or nothing matches.
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
        raise SignatureOutOfTime(age_seconds, tolerance_seconds)
    content = _signed_content(message_id, timestamp, body)
    expected = [_signature(key, content) for key in keys if key]
    # Every pair is compared to its end: the time taken says nothing about which came close.
    results = [hmac.compare_digest(one, other) for one in expected for other in _candidates(presented)]
    if not any(results):
        raise SignatureMismatch


def keys_of(secret: str) -> tuple[bytes, ...]:
    """Return the keys behind a `whsec_` secret: one, or two separated by a comma during rotation.

    Raises:
        NotConfigured: It is empty, or a part of it is no such secret; the message does not repeat it.
    """
    parts = [part.strip() for part in secret.split(",") if part.strip()]
    if not parts:
        raise NotConfigured("the webhook secret", _SECRET_SHAPE)
    return tuple(_key(part) for part in parts)


def _key(part: str) -> bytes:
    try:
        key = base64.b64decode(part.removeprefix(_SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not part.startswith(_SECRET_PREFIX) or len(key) not in _KEY_BYTES:
        raise NotConfigured("the webhook secret", _SECRET_SHAPE)
    return key


def _header(headers: Mapping[str, str], name: str) -> str:
    for key, value in headers.items():
        if key.lower() == name and value:
            return value
    raise SignatureHeaderMissing(name)


def _candidates(presented: str) -> Iterator[bytes]:
    for one in presented.split(" ", SIGNATURE_LIMIT)[:SIGNATURE_LIMIT]:
        # Bytes, because compare_digest refuses text outside ASCII.
        yield one.encode(errors="replace")


def _signed_content(message_id: str, timestamp: str, body: bytes) -> bytes:
    return f"{message_id}.{timestamp}.".encode(errors="replace") + body


def _signature(key: bytes, content: bytes) -> bytes:
    return _VERSION + base64.b64encode(hmac.digest(key, content, hashlib.sha256))
