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

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_FIELD = re.compile(r"\{([^{}]*)\}")
_NAMES = re.compile(r"team_id|user_id|payload(\.[A-Za-z_][A-Za-z0-9_]*)+")
_FIELDS = "fields such as {payload.customer}, {team_id} or {user_id}"
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
        if _CONTROL.search(key):
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
        if key.endswith("*") and key in patterns:
            problem = f'is the pattern "{key}"; give a key that it matches, such as "{key[:-1]}acme"'
            raise InvalidArgument("limit", key, problem=problem)
        if pattern_of(key, patterns) is None:
            near = nearest(key, [one.removesuffix("*") for one in patterns])
            example = f'add one to scheduled_actions.toml, such as [limits."{_prefix(key)}"] with at_once = 3'
            hint = example if near is None else f'did you mean "{near}"? Otherwise {example}'
            raise InvalidArgument(
                "limit", key, problem=f'has the key "{key}", which matches no pattern of [limits]; {hint}'
            )


def _prefix(key: str) -> str:
    kind, colon, _ = key.partition(":")
    return f"{kind}:*" if colon else key


def check_templates(value: str | Sequence[str]) -> list[str]:
    """Return the limit keys that a handler declares, which may contain fields such as `{payload.customer}`, as a list.

    Raises:
        InvalidArgument: The value is neither a key nor a list of one to three different keys, or a field is neither
            `team_id`, `user_id` nor a field of the payload.
    """
    templates = check(value)
    for template in templates:
        unknown = [field for field in _FIELD.findall(template) if not _NAMES.fullmatch(field)]
        if unknown:
            problem = f"{template!r} has the unknown field {{{unknown[0]}}}: write {_FIELDS}"
            raise InvalidArgument("limit", template, problem=problem)
        if set("{}") & set(_FIELD.sub("", template)):
            problem = f"{template!r} has a brace that belongs to no field: write {_FIELDS}"
            raise InvalidArgument("limit", template, problem=problem)
    return templates


def can_match(template: str, patterns: Collection[str]) -> bool:
    """Return whether any key that a template gives may match a pattern; compares the text before the first field."""
    prefix, *fields = _FIELD.split(template)
    if not fields:
        return pattern_of(template, patterns) is not None
    return any(
        one.startswith(prefix) or (one.endswith("*") and prefix.startswith(one.removesuffix("*"))) for one in patterns
    )


def unmatched(options: Mapping[str, Mapping[str, Any]], patterns: Collection[str]) -> dict[str, str]:
    """Return, by action type, the first limit key of a handler that can never match a pattern.

    Args:
        options: The options of handlers by action type, as the generated registry contains them.
        patterns: The patterns of the settings.
    """
    return {
        action_type: never[0]
        for action_type, given in options.items()
        if (never := [one for one in given.get("limit") or () if not can_match(one, patterns)])
    }


def fill_in(
    templates: Sequence[str],
    payload: Any,  # noqa: ANN401 - any JSON
    *,
    team_id: str | None,
    user_id: str | None,
) -> list[str]:
    """Return the limit keys that a handler's templates give for an action, without repetitions.

    Args:
        templates: As `check_templates` returns them.
        payload: The stored payload. If it is a list, the fields are those of its first item.
        team_id: The team of the action; None: no team.
        user_id: The user of the action; None: no user.

    Raises:
        InvalidArgument: A field is missing, or its value is neither a string nor a number; or a key is too long or
            contains a control character.
    """
    values = {"payload": payload[0] if isinstance(payload, list) and payload else payload}
    values |= {"team_id": team_id, "user_id": user_id}

    def fill(match: re.Match[str]) -> str:
        found: Any = values
        for part in match[1].split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        if found is None:
            raise InvalidArgument(
                "limit", problem=f"{match.string!r} of the handler needs {match[1]}, which is missing"
            )
        if isinstance(found, bool) or not isinstance(found, str | int | float):
            raise InvalidArgument(
                "limit", problem=f"{match.string!r} of the handler needs {match[1]} to be a string or a number"
            )
        # 5 and 5.0 are the same number in JSON.
        return str(int(found) if isinstance(found, float) and found.is_integer() else found)

    return check(list(dict.fromkeys(_FIELD.sub(fill, template) for template in templates)))
