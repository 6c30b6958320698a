"""Webhooks: events, routing, filters, endpoints, deliveries, throttling, watched tables.

A consumer written in Python checks what it received in one line:

    from scheduled_actions import webhooks

    webhooks.verify(request.get_data(), request.headers, os.environ["WEBHOOK_SECRET"])
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scheduled_actions.core import signing
from scheduled_actions.core.errors import SignatureInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SignatureInvalid", "verify"]


def verify(
    body: bytes,
    headers: Mapping[str, str],
    secret: str,
    *,
    now: float | None = None,
    tolerance_seconds: float = signing.TOLERANCE_SECONDS,
) -> None:
    """Return if the request was signed with the secret, and not too long ago.

    The same message may come more than once, with the same `webhook-id`: remember the ids you have handled.

    Args:
        body: Exactly as it came, before any parsing.
        headers: In any case.
        secret: `whsec_…`; during rotation the old and the new one, separated by a comma.
        now: Seconds since 1970; None: this machine's clock.
        tolerance_seconds: How far the timestamp may be from `now`, either way.

    Raises:
        SignatureInvalid: Do not trust the request; answer 401 or 400.
        NotConfigured: The secret is none.
    """
    keys = signing.keys_of(secret)
    signing.verify(body, headers, keys, now=time.time() if now is None else now, tolerance_seconds=tolerance_seconds)
