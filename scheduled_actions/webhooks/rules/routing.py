"""Route an event to endpoints by patterns.

An event is `entity:verb`, split at its first colon: `invoice.line:paid` is `invoice.line` and `paid`; `a:b:c` is `a`
and `b:c`. A pattern is split the same way. In a pattern, `*` matches any characters within its side, including none:
`task:*`, `*:created`, `task.*:created`, `*:*`. Matching is case-sensitive.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from scheduled_actions.core.config import EndpointSection
from scheduled_actions.core.errors import InvalidArgument

#: The longest event or pattern, in characters.
NAME_LIMIT = 200
#: Maximum number of stars in one pattern.
STAR_LIMIT = 8

EVENT_SHAPE = f"an event such as task:created (entity, colon, verb; at most {NAME_LIMIT} characters, all printable)"
PATTERN_SHAPE = (
    f"a pattern such as task:created, task:* or *:* (entity, colon, verb; printable ASCII without spaces, at most "
    f"{NAME_LIMIT} characters, at most {STAR_LIMIT // 2} stars on each side, no adjacent stars)"
)


def _side(letters: str) -> str:
    return rf"(\*|\*?{letters}+(\*{letters}+){{0,{STAR_LIMIT // 2 - 2}}}\*?)"


#: A valid pattern of an endpoint, as a regular expression for Python and JSON Schema.
PATTERN = f"^{_side('[!-)+-9;-~]')}:{_side('[!-)+-~]')}$"


def route(
    event: str,
    *,
    endpoints: Mapping[str, EndpointSection],
    routing: Literal["all", "most_specific"] = "all",
    default_endpoint: str | None = None,
) -> tuple[str, ...]:
    """Return the names of the enabled endpoints that receive an event.

    Args:
        event: `entity:verb`.
        endpoints: By name, in declared order.
        routing: `all`: every endpoint with a matching pattern, in declared order. `most_specific`: only the endpoint
            with the most specific pattern, in the order exact, `task:*`, `*:created`, `*:*`; then the pattern with the
            most characters other than `*`; then in declared order.
        default_endpoint: Receives events that match no other endpoint, if it is enabled.

    Raises:
        InvalidArgument: The event or a pattern is invalid.
    """
    enabled = {name: endpoint.patterns for name, endpoint in endpoints.items() if endpoint.enabled}
    matched = matching(event, enabled)
    if not matched:
        return (default_endpoint,) if default_endpoint in enabled else ()
    if routing == "all":
        return matched
    return (min(matched, key=lambda name: min(_rank(one) for one in enabled[name] if matches(event, one))),)


def matching(event: str, endpoints: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the names of the endpoints with a pattern that matches the event, in the given order.

    Raises:
        InvalidArgument: The event or a pattern is invalid.
    """
    return tuple(name for name, patterns in endpoints.items() if any(matches(event, one) for one in patterns))


def matches(event: str, pattern: str) -> bool:
    """Return whether a pattern matches an event.

    No regular expression is built from the pattern, so no pattern causes backtracking.

    Raises:
        InvalidArgument: The event or the pattern is invalid.
    """
    entity, verb = split_event(event)
    entity_pattern, verb_pattern = split_pattern(pattern)
    return _fits(entity, entity_pattern) and _fits(verb, verb_pattern)


def split_event(event: str) -> tuple[str, str]:
    """Return the entity and the verb of an event.

    Raises:
        InvalidArgument: A side is missing, the event is too long, or a character is not printable.
    """
    entity, _, verb = event.partition(":") if isinstance(event, str) else ("", "", "")
    if not (entity and verb) or len(event) > NAME_LIMIT or not event.isprintable():
        raise InvalidArgument("event", event, EVENT_SHAPE)
    return entity, verb


def split_pattern(pattern: str) -> tuple[str, str]:
    """Return the two sides of a pattern.

    Raises:
        InvalidArgument: A side is missing, or the pattern has too many characters or stars.
    """
    entity, _, verb = pattern.partition(":")
    if not (entity and verb) or len(pattern) > NAME_LIMIT or pattern.count("*") > STAR_LIMIT:
        raise InvalidArgument("webhook pattern", pattern, PATTERN_SHAPE)
    return entity, verb


def check_pattern(pattern: object) -> str:
    """Validate a pattern of an endpoint; return it unchanged.

    Raises:
        InvalidArgument: The pattern is invalid.
    """
    if not isinstance(pattern, str) or len(pattern) > NAME_LIMIT or not re.fullmatch(PATTERN, pattern):
        raise InvalidArgument("webhook pattern", pattern, PATTERN_SHAPE)
    return pattern


def _fits(text: str, pattern: str) -> bool:
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    end = len(text) - len(last)
    if not (text.startswith(first) and text.endswith(last) and len(first) <= end):
        return False
    # The leftmost match of each piece leaves the most room for the next one, so there is no backtracking.
    position = len(first)
    for piece in middle:
        found = text.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True


def _rank(pattern: str) -> tuple[bool, bool, int]:
    """Return the sort key of a pattern; more specific patterns sort first."""
    entity, verb = split_pattern(pattern)
    # Among patterns with stars on the same sides, the one with more other characters is more specific.
    return "*" in entity, "*" in verb, -len(pattern.replace("*", ""))
