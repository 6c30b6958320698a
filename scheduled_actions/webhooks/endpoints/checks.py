"""What an endpoint's settings may be: each checked, and made what the table takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions.core import checks as arguments
from scheduled_actions.core import retry, signing
from scheduled_actions.core.errors import InvalidArgument, NotConfigured
from scheduled_actions.core.json_text import encode
from scheduled_actions.outbound import delivery
from scheduled_actions.webhooks.rules import filters, headers, routing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The longest description, in characters.
DESCRIPTION_LIMIT = 1000
#: Deliveries a second.
RATE_LEAST, RATE_MOST = 0.001, 10000


def check_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as they are kept.

    Raises:
        RequestError: One is unknown or cannot be; the message names it.
    """
    for name in given:
        if name not in _CHECKS:
            raise InvalidArgument("endpoint", name, f"a setting; there are {', '.join(_CHECKS)}")
    return {name: _CHECKS[name](value) for name, value in given.items()}


def check_secret(given: str) -> str:
    """Return the one secret that is given; the message of a refusal does not repeat it."""
    try:
        keys = signing.keys_of(given)
    except NotConfigured as error:
        raise InvalidArgument("secret", "what is given", error.expected) from None
    if len(keys) != 1:
        raise InvalidArgument("secret", "what is given", "one secret: a rotation keeps the one before by itself")
    return given.strip()


def _url(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidArgument("url", value, "a text")
    delivery.check_tenant_url(value)
    return value


def _description(value: object) -> str:
    text = arguments.check_text("description", value) if isinstance(value, str) else None
    if text is None or len(text) > DESCRIPTION_LIMIT:
        raise InvalidArgument("description", value, f"a text of at most {DESCRIPTION_LIMIT:,} characters")
    return text


def _patterns(value: object) -> list[str]:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= 100:  # noqa: PLR2004 - said in the message
        raise InvalidArgument("patterns", value, f"a list of 1 to 100, each {routing.PATTERN_SHAPE}")
    for pattern in value:
        if not isinstance(pattern, str):
            raise InvalidArgument("patterns", pattern, routing.PATTERN_SHAPE)
        routing.check_pattern(pattern)
    return list(value)


def _filter(value: object) -> Mapping[str, Any] | None:
    wanted = filters.check(value)
    if wanted is not None:
        encode("filter", wanted, limit=4 * filters.LENGTH_LIMIT)
    return wanted


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument("enabled", value, "true or false")
    return value


def _ordering(value: object) -> str:
    if value not in {"none", "fifo"}:
        raise InvalidArgument("ordering", value, "none or fifo")
    return str(value)


def _rate(value: Any) -> float | None:  # noqa: ANN401 - it is what is judged
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not RATE_LEAST <= value <= RATE_MOST:
        raise InvalidArgument("rate_limit", value, f"a number of deliveries a second from {RATE_LEAST} to {RATE_MOST}")
    return float(value)


def _retry(value: Any) -> dict[str, Any] | None:  # noqa: ANN401 - it is what is judged
    return None if value is None else retry.parse(value).as_json()


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "url": _url,
    "description": _description,
    "patterns": _patterns,
    "filter": _filter,
    "enabled": _flag,
    "ordering": _ordering,
    "rate_limit": _rate,
    "retry": _retry,
    "headers": headers.check,
}
#: The names of the settings.
SETTINGS = frozenset(_CHECKS)
