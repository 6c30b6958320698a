"""Limit keys: check those of an action, find the pattern of a key, and fill in the templates of a handler."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from scheduled_actions.core import checks
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.messages import nearest

#: Maximum number of limit keys of an action.
MAX_KEYS = 3
#: Maximum length of a key, in characters.
KEY_LIMIT = 255

_FIELD = re.compile(r"\{([^{}]*)\}")
_NAMES = re.compile(r"team_id|user_id|payload(\.[A-Za-z_][A-Za-z0-9_]*)+")
_EXPECTED = f"a key such as api:acme, or a list of 1 to {MAX_KEYS} keys"


def check(value: str | Sequence[str], *, name: str = "limit") -> list[str]:
    """Return one to three different limit keys as a list.

    Args:
        value: A key of 1 to 255 characters without control characters, or a list of such keys.
        name: Name of the argument in errors.

    Raises:
        InvalidArgument: The value is neither a key nor a list of them, or a key is invalid.
    """
    keys = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []
    if not 1 <= len(keys) <= MAX_KEYS:
        raise InvalidArgument(name, value, _EXPECTED)
    for key in keys:
        checks.check_name(name, key, longest=KEY_LIMIT)
        if not key.isprintable():
            raise InvalidArgument(name, key, "a key without control characters")
    if len(set(keys)) < len(keys):
        raise InvalidArgument(name, value, "keys that differ from each other")
    return keys


def pattern_of(key: str, patterns: Collection[str]) -> str | None:
    """Return the pattern that applies to a key: the key itself, or the longest prefix with `*`; None: no pattern.

    The SQL function `scheduled_actions_limit` applies the same rule to the stored patterns.
    """
    if key in patterns and not key.endswith("*"):
        return key
    prefixes = (one for one in patterns if one.endswith("*") and key.startswith(one[:-1]))
    return max(prefixes, key=len, default=None)


def check_known(keys: Sequence[str], patterns: Collection[str]) -> None:
    """Raise `InvalidArgument` for a key that no pattern of the settings matches: it would never be claimed."""
    for key in keys:
        if pattern_of(key, patterns) is None:
            near = nearest(key, [one.removesuffix("*") for one in patterns])
            example = f'add one to scheduled_actions.toml, such as [limits."{_prefix(key)}"] with at_once = 3'
            hint = example if near is None else f"did you mean {near}? Otherwise {example}"
            raise InvalidArgument("limit", key, problem=f'the key "{key}" matches no pattern of [limits]; {hint}')


def _prefix(key: str) -> str:
    kind, colon, _ = key.partition(":")
    return f"{kind}:*" if colon else key


def check_templates(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return the limit keys of a handler, which may contain fields such as `{payload.customer}`.

    Raises:
        InvalidArgument: The value is no valid list of keys, or a field is neither `team_id`, `user_id` nor a field of
            the payload.
    """
    templates = check(value)
    for template in templates:
        rest = _FIELD.sub("", template)
        for field in _FIELD.findall(template):
            if not _NAMES.fullmatch(field):
                raise InvalidArgument("limit", template, "fields such as {payload.customer}, {team_id} or {user_id}")
        if "{" in rest or "}" in rest:
            raise InvalidArgument("limit", template, "braces only around fields such as {payload.customer}")
    return tuple(templates)


def fill_in(
    templates: Sequence[str],
    payload: Any,  # noqa: ANN401 - any JSON
    *,
    team_id: str | None,
    user_id: str | None,
) -> list[str]:
    """Return the limit keys that a handler's templates give for an action; equal keys are given once.

    Raises:
        InvalidArgument: A field is missing, or its value is neither a string nor a number; or a key is too long.
    """
    values: Mapping[str, Any] = {"payload": payload, "team_id": team_id, "user_id": user_id}

    def fill(match: re.Match[str]) -> str:
        found: Any = values
        for part in match[1].split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        if found is None or isinstance(found, bool) or not isinstance(found, str | int | float):
            raise InvalidArgument(
                "limit", problem=f"the handler's limit key needs {match[1]}, a string or number, which is missing"
            )
        return str(found)

    return check(list(dict.fromkeys(_FIELD.sub(fill, template) for template in templates)))
