"""Headers that an endpoint's owner adds to its deliveries: which may be, and what they may hold."""

from __future__ import annotations

import re
from collections.abc import Mapping

from scheduled_actions.core.errors import InvalidArgument

#: Headers of one endpoint.
COUNT_LIMIT = 20
#: Characters of one value.
VALUE_LIMIT = 1024

#: They say how a message is framed and whom it is for, or are ours to write.
_OURS = frozenset({
    "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "cookie", "date", "expect",
    "forwarded", "host", "http2-settings", "keep-alive", "proxy-authorization", "proxy-connection", "range", "te",
    "trailer", "transfer-encoding", "upgrade", "user-agent", "via",
})  # fmt: skip
_OUR_PREFIXES = ("webhook-", "proxy-", "sec-", "x-forwarded-")
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")


def check(given: object) -> dict[str, str]:
    """Return the headers, their names in lower case.

    Raises:
        InvalidArgument: One may not be; the message names it and never shows its value.

    Source: RFC 9110 §5.1 and §5.5 for what names and values are made of.
    """
    if not isinstance(given, Mapping) or len(given) > COUNT_LIMIT:
        raise InvalidArgument("headers", type(given).__name__, f"an object of at most {COUNT_LIMIT} names and values")
    kept: dict[str, str] = {}
    for name, value in given.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidArgument("headers", name, "the name of a header")
        lowered = name.lower()
        if lowered in _OURS or lowered.startswith(_OUR_PREFIXES):
            raise InvalidArgument("headers", name, "one that may be set: it says how the message is framed or signed")
        if lowered in kept:
            raise InvalidArgument("headers", name, "given once: upper and lower case are one")
        if not isinstance(value, str) or len(value) > VALUE_LIMIT or not _VALUE.fullmatch(value):
            expected = f"given a value of 1 to {VALUE_LIMIT} printable ASCII characters, no space at either end"
            raise InvalidArgument("headers", name, expected)
        kept[lowered] = value
    return kept
