"""Validate the settings of an endpoint, and convert them to the values stored in the table."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from scheduled_actions.core import checks as arguments, retry, signing
from scheduled_actions.core.errors import InvalidArgument, NotConfigured
from scheduled_actions.core.json_text import encode
from scheduled_actions.core.messages import did_you_mean
from scheduled_actions.outbound import delivery
from scheduled_actions.webhooks.rules import filters, routing

#: The longest description, in characters.
DESCRIPTION_LIMIT = 1000
#: Bounds of a rate limit, in deliveries per second.
RATE_LEAST, RATE_MOST = 0.001, 10000
#: Maximum number of custom headers of one endpoint.
HEADERS_MOST = 20
#: Maximum number of characters of the value of a header.
HEADER_LIMIT = 1024

#: Headers that control the framing and routing of messages, headers that deliveries set, and cookies.
_RESERVED = frozenset({
    "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "cookie", "date", "expect",
    "forwarded", "host", "http2-settings", "keep-alive", "proxy-authorization", "proxy-connection", "range", "te",
    "trailer", "transfer-encoding", "upgrade", "user-agent", "via",
})  # fmt: skip
_RESERVED_PREFIXES = ("webhook-", "proxy-", "sec-", "x-forwarded-")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")


def check_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Validate settings of an endpoint; return them as they are stored.

    Raises:
        RequestError: A setting is unknown or invalid.
    """
    for name in given:
        if name not in CHECKS:
            hint = did_you_mean(str(name), CHECKS, otherwise=f"use {', '.join(CHECKS)}")
            raise InvalidArgument("endpoint", name, f"a setting of an endpoint; {hint}")
    return {name: CHECKS[name](value) for name, value in given.items()}


def check_secret(given: str) -> str:
    """Validate a single secret; return it without surrounding spaces.

    Raises:
        InvalidArgument: The secret is invalid, or there are several; the message does not contain it.
    """
    try:
        keys = signing.keys_of(given)
    except NotConfigured as error:
        raise InvalidArgument("secret", problem=f"is invalid: {error.expected}") from None
    if len(keys) != 1:
        raise InvalidArgument("secret", problem="must be a single secret: a rotation keeps the previous one valid")
    return given.strip()


def _url(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidArgument("url", value, "a string")
    delivery.check_tenant_url(value)
    return value


def _description(value: object) -> str:
    if not isinstance(value, str) or len(value) > DESCRIPTION_LIMIT:
        raise InvalidArgument("description", value, f"a string of at most {DESCRIPTION_LIMIT:,} characters")
    return arguments.check_text("description", value) or ""


def _patterns(value: object) -> list[str]:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= 100:  # noqa: PLR2004 - in the message
        raise InvalidArgument("patterns", value, f"a list of 1 to 100 items, each {routing.PATTERN_SHAPE}")
    return [routing.check_pattern(pattern) for pattern in value]


def _filter(value: object) -> Mapping[str, Any] | None:
    checked = filters.check(value)
    encode("filter", checked, limit=4 * filters.LENGTH_LIMIT)
    return checked


def _enabled(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument("enabled", value, "true or false")
    return value


def _rate_limit(value: Any) -> float | None:  # noqa: ANN401 - validated here
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not RATE_LEAST <= value <= RATE_MOST:
        raise InvalidArgument(
            "rate_limit", value, f"a number of deliveries per second from {RATE_LEAST} to {RATE_MOST:,}"
        )
    return float(value)


def check_headers(given: object) -> dict[str, str]:
    """Validate custom headers; return them with names in lower case.

    Raises:
        InvalidArgument: A header is not allowed, or there are too many; the message never contains a header's value.

    Source: RFC 9110 §5.1 and §5.5 for names and values.
    """
    if not isinstance(given, Mapping):
        raise InvalidArgument("headers", problem='must be an object of names and values, such as {"x-tenant": "acme"}')
    if len(given) > HEADERS_MOST:
        raise InvalidArgument("headers", problem=f"has {len(given)} entries; the limit is {HEADERS_MOST}")
    headers: dict[str, str] = {}
    for name, value in given.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise InvalidArgument("headers", name, "a valid header name, such as x-tenant, of at most 100 characters")
        lowered = name.lower()
        if lowered in _RESERVED or lowered.startswith(_RESERVED_PREFIXES):
            raise InvalidArgument("headers", problem=f'cannot contain "{name}": the header is reserved')
        if lowered in headers:
            raise InvalidArgument("headers", problem=f'contains "{name}" twice: header names are case-insensitive')
        if not isinstance(value, str) or len(value) > HEADER_LIMIT or not _HEADER_VALUE.fullmatch(value):
            raise InvalidArgument(
                "headers",
                problem=f'has an invalid value for "{name}": use 1 to {HEADER_LIMIT:,} printable ASCII characters '
                "without leading or trailing spaces",
            )
        headers[lowered] = value
    return headers


CHECKS: dict[str, Callable[[Any], Any]] = {
    "url": _url,
    "description": _description,
    "patterns": _patterns,
    "filter": _filter,
    "enabled": _enabled,
    "ordering": partial(arguments.check_choice, "ordering", choices=("none", "fifo")),
    "rate_limit": _rate_limit,
    "retry": lambda value: None if value is None else retry.parse(value).as_json(),
    "headers": check_headers,
}
