"""Which endpoints an event goes to.

An event is `entity:verb`, split at its first colon: `invoice.line:paid` is `invoice.line` and `paid`,
`a:b:c` is `a` and `b:c`. A pattern is split the same way; `*` stands for any characters, none included,
within its side: `task:*`, `*:created`, `task.*:created`, `*:*`. Upper and lower case differ.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from scheduled_actions.core.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scheduled_actions.core.config import Endpoint

#: The longest event or pattern, in characters.
NAME_LIMIT = 200
#: Nobody means more stars than that.
STAR_LIMIT = 8

EVENT_SHAPE = f"an event like task:created: entity, colon, verb, printable, at most {NAME_LIMIT} characters"
PATTERN_SHAPE = (
    f"a pattern like task:created, task:* or *:*: entity, colon, verb, printable ASCII without spaces, "
    f"at most {NAME_LIMIT} characters and {STAR_LIMIT // 2} stars on each side, no two of them together"
)


def _side(letters: str) -> str:
    return rf"(\*|\*?{letters}+(\*{letters}+){{0,{STAR_LIMIT // 2 - 2}}}\*?)"


#: A pattern as an endpoint takes it, as a regular expression of Python and of JSON Schema alike.
PATTERN = f"^{_side('[!-)+-9;-~]')}:{_side('[!-)+-~]')}$"


def route(
    event: str,
    *,
    endpoints: Mapping[str, Endpoint],
    routing: Literal["all", "most_specific"] = "all",
    default_endpoint: str | None = None,
) -> tuple[str, ...]:
    """Return the names of the enabled endpoints that get the event; none when nobody wants it.

    Args:
        event: `entity:verb`.
        endpoints: By name, in declared order.
        routing: `all`: every endpoint with a matching pattern, in declared order. `most_specific`: the one
            whose best pattern comes first in the order exact, `task:*`, `*:created`, `*:*`; among equals the
            first declared.
        default_endpoint: Gets what nobody else wants, if it is enabled.

    Raises:
        InvalidArgument: The event or a pattern has no such shape.
    """
    enabled = {name: endpoint.patterns for name, endpoint in endpoints.items() if endpoint.enabled}
    matched = matching(event, enabled)
    if not matched:
        return (default_endpoint,) if default_endpoint in enabled else ()
    if routing == "all":
        return matched
    return (min(matched, key=lambda name: _best_rank(event, enabled[name])),)


def matching(event: str, endpoints: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the names whose patterns match the event, in declared order.

    Raises:
        InvalidArgument: The event or a pattern has no such shape.
    """
    return tuple(name for name, patterns in endpoints.items() if any(matches(event, one) for one in patterns))


def matches(event: str, pattern: str) -> bool:
    """Return whether the pattern wants the event.

    Takes time in proportion to the two lengths, whatever the pattern: no regular expression is built from it.

    Raises:
        InvalidArgument: The event or the pattern has no such shape.
    """
    entity, verb = split_event(event)
    entity_pattern, verb_pattern = split_pattern(pattern)
    return _fits(entity, entity_pattern) and _fits(verb, verb_pattern)


def split_event(event: str) -> tuple[str, str]:
    """Return the entity and the verb of an event.

    Raises:
        InvalidArgument: A side is missing, it is too long, or a character in it cannot be printed.
    """
    if not isinstance(event, str):
        raise InvalidArgument("event", event, EVENT_SHAPE)
    entity, _, verb = event.partition(":")
    if not (entity and verb) or len(event) > NAME_LIMIT or not event.isprintable():
        raise InvalidArgument("event", event, EVENT_SHAPE)
    return entity, verb


def split_pattern(pattern: str) -> tuple[str, str]:
    """Return the two sides of a pattern.

    Raises:
        InvalidArgument: A side is missing, or it has too many characters or stars.
    """
    entity, _, verb = pattern.partition(":")
    if not (entity and verb) or len(pattern) > NAME_LIMIT or pattern.count("*") > STAR_LIMIT:
        raise InvalidArgument("webhook pattern", pattern, PATTERN_SHAPE)
    return entity, verb


def check_pattern(pattern: str) -> str:
    """Return a pattern that an endpoint may be given.

    Raises:
        InvalidArgument: It has no such shape.
    """
    if len(pattern) > NAME_LIMIT or not re.fullmatch(PATTERN, pattern):
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
    # The leftmost place for each piece leaves the most room for the next, so nothing is ever tried twice.
    place = len(first)
    for piece in middle:
        found = text.find(piece, place, end)
        if found < 0:
            return False
        place = found + len(piece)
    return True


def _best_rank(event: str, patterns: Iterable[str]) -> tuple[int, int]:
    return min(_rank(pattern) for pattern in patterns if matches(event, pattern))


def _rank(pattern: str) -> tuple[int, int]:
    """Return where a matching pattern stands, the most specific first."""
    entity, verb = split_pattern(pattern)
    match ("*" in entity, "*" in verb):
        case (False, False):
            rank = 0
        case (False, True):
            rank = 1
        case (True, False):
            rank = 2
        case _:
            rank = 3
    # `task.*:created` says more than `*:created`, and nothing says less than `*:*`.
    return rank, -len(pattern.replace("*", ""))
