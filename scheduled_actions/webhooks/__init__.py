"""Webhooks: events, routing, filters, endpoints, deliveries, throttling, watched tables.

A Python receiver verifies a request with one call:

    from scheduled_actions import webhooks

    webhooks.verify(request.get_data(), request.headers, os.environ["WEBHOOK_SECRET"])
"""

import time
from collections.abc import Mapping

from scheduled_actions.core import signing
from scheduled_actions.core.errors import SignatureInvalid

__all__ = ["SignatureInvalid", "verify"]


def verify(
    body: bytes,
    headers: Mapping[str, str],
    secret: str,
    *,
    now: float | None = None,
    tolerance_seconds: float = signing.TOLERANCE_SECONDS,
) -> None:
    """Verify the signature and the age of a webhook request.

    A message can be delivered more than once, with the same `webhook-id`: store the ids that you have processed.

    Args:
        body: The raw body, before any parsing.
        headers: The request's headers; names in any case.
        secret: `whsec_…`; during a rotation the old and the new secret, separated by a comma.
        now: The current time in seconds since 1970; None: this machine's clock.
        tolerance_seconds: The maximum difference between the timestamp and `now`, in either direction.

    Raises:
        SignatureInvalid: The request cannot be trusted; respond with 401.
        NotConfigured: The secret is empty or malformed.
    """
    keys = signing.keys_of(secret)
    signing.verify(body, headers, keys, now=time.time() if now is None else now, tolerance_seconds=tolerance_seconds)
