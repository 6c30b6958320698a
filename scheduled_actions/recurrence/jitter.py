"""Spreading what is due at one instant, always in the same way."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

from scheduled_actions.core.errors import InvalidArgument

_YEAR_SECONDS = 366 * 86400


def jittered(at: datetime, *, key: str, seconds: float) -> datetime:
    """Return the instant, put off by less than `seconds`: as much each time for the same key and instant.

    Args:
        at: Aware.
        key: Whose occurrence it is, such as a schedule's id; each has a delay of its own.
        seconds: From zero, which puts nothing off, to a year.

    Raises:
        InvalidArgument: `seconds` is no such number.
    """
    if not 0 <= seconds <= _YEAR_SECONDS:
        raise InvalidArgument("seconds", seconds, "a number of seconds between 0 and a year")
    drawn = hashlib.sha256(f"{key}\0{at.astimezone(UTC).isoformat()}".encode()).digest()
    # In whole microseconds: a float would be rounded up to all of them now and then.
    return at + timedelta(microseconds=int.from_bytes(drawn[:8], "big") * int(seconds * 1_000_000) >> 64)
