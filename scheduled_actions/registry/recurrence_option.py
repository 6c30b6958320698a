"""What `@action(recurrence=…)` takes: a rule as text, or a rule beside how its occurrences are planned."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeAlias

from scheduled_actions.core.errors import InvalidArgument

#: A rule as text, or a mapping with the keys below.
Declared: TypeAlias = str | Mapping[str, Any]

_TEXT = ((str,), "a text")
_WHOLE = ((int,), "a whole number")
_SECONDS = ((int, float), "a number of seconds")
_OBJECT = ((dict,), "a JSON object: a dict")

_ACTIONS = ((dict, list), 'an action to schedule, {"action_type": …, "payload": …}, or a list of them')

#: What each key is, and in words. The values themselves are judged as those of every schedule, when the registry is
#: built and when the schedule is made.
KEYS: dict[str, tuple[tuple[type, ...], str]] = {
    "rule": ((str,), 'a rule: "daily", "0 9 * * 1-5", or an RRULE'),
    "name": _TEXT,
    "timezone": _TEXT,
    "payload": _OBJECT,
    "recurrence_type": _TEXT,
    "misfire": _TEXT,
    "misfire_grace_seconds": _SECONDS,
    "catch_up_limit": _WHOLE,
    "catch_up_seconds": _SECONDS,
    "overlap": _TEXT,
    "pause_after_failures": _WHOLE,
    "skip": _OBJECT,
    "jitter_seconds": _SECONDS,
    "until": ((str,), 'an instant as text: "2027-01-31T17:00:00+01:00", or without an offset in its time zone'),
    "remaining": _WHOLE,
    "priority": _WHOLE,
    "max_attempts": _WHOLE,
    "lock_group": _TEXT,
    "lock_group_blocks": ((bool,), "True or False"),
    "team_id": _TEXT,
    "metadata": _OBJECT,
    "condition": _OBJECT,
    "on_success": _ACTIONS,
    "on_failure": _ACTIONS,
}


def checked(given: object) -> str | dict[str, Any]:
    """Return a declaration as it is kept: a copy, without the keys that are None.

    Raises:
        InvalidArgument: It is neither text nor dict, has no rule, an unknown key, or a value of the wrong type.
    """
    if isinstance(given, str):
        return given
    if not isinstance(given, dict):
        raise InvalidArgument("recurrence", type(given).__name__, "a rule as text, or a dict with the key rule")
    unknown = sorted((key for key in given if key not in KEYS), key=str)
    if unknown:
        near = difflib.get_close_matches(str(unknown[0]), KEYS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(KEYS)}"
        raise InvalidArgument("recurrence", unknown[0], f"one of its keys; {hint}")
    if given.get("rule") is None:
        raise InvalidArgument("recurrence.rule", None, KEYS["rule"][1])
    kept = {key: value for key, value in given.items() if value is not None}
    for key, value in kept.items():
        types, expected = KEYS[key]
        if type(value) not in types:
            # Nothing of a payload is repeated.
            raise InvalidArgument(f"recurrence.{key}", type(value).__name__ if dict in types else value, expected)
    if "until" in kept:
        _instant(kept["until"])
    return copy.deepcopy(kept)


def normalised(declared: Declared) -> dict[str, Any]:
    """Return a checked declaration as a mapping of what `schedule_recurring_action` takes, beside `rule`.

    The text form is a rule and nothing else; `until` becomes a datetime, naive where it is a wall time of its zone.
    """
    if isinstance(declared, str):
        return {"rule": declared}
    return {key: _instant(value) if key == "until" else value for key, value in declared.items()}


def _instant(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument("recurrence.until", text, KEYS["until"][1]) from None
