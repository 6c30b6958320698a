"""Match the actions of a test against an expectation, and describe the differences."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from scheduled_actions.core.action import Action
from scheduled_actions.core.messages import counted
from scheduled_actions.recurrence.phrases import truncate

#: Maximum number of actions listed in an error.
_LISTED_MOST = 10
_PAYLOAD_LENGTH = 300
#: Tolerance of an instant relative to the action's creation: the caller may have used its own clock.
_TOLERANCE = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """An action as a test describes it.

    Args:
        action_type: The exact action type.
        payload__contains: A part of the payload, whose objects have at least these keys, and whose lists have at least
            these elements. None: any payload.
        scheduled_at: The exact aware instant, or the time after the creation of the action (within a second); None: any
            instant.
        columns: Other fields of `Action`, each with its value.
    """

    action_type: str
    payload__contains: Any = None
    scheduled_at: datetime | timedelta | None = None
    columns: Mapping[str, Any]

    def __str__(self) -> str:
        parts = [f'"{self.action_type}"']
        if self.payload__contains is not None:
            parts.append(f"payload containing {_short(self.payload__contains)}")
        if self.scheduled_at is not None:
            parts.append(f"scheduled_at {_instant(self.scheduled_at)}")
        return ", ".join([*parts, *(f"{name} {value!r}" for name, value in self.columns.items())])

    def differences(self, action: Action) -> list[str]:
        """Return a phrase for each difference between an action and the expectation; empty if the action matches.

        An action of another type has only that difference.
        """
        if action.action_type != self.action_type:
            return [f'its type is "{action.action_type}"']
        differences: list[str] = []
        if self.payload__contains is not None:
            differences += _missing(_plain(self.payload__contains), action.payload, "payload")
        expected, after = self.scheduled_at, action.scheduled_at - action.created_at
        if isinstance(expected, timedelta) and abs(after - expected) > _TOLERANCE:
            differences.append(f"it is scheduled {after} after its creation, not {expected}")
        if isinstance(expected, datetime) and action.scheduled_at != expected:
            differences.append(f"its scheduled_at is {_instant(action.scheduled_at)}, not {_instant(expected)}")
        return differences + [
            f"its {name} is {getattr(action, name)!r}, not {value!r}"
            for name, value in self.columns.items()
            if _text(getattr(action, name)) != _text(value)
        ]


def matching(expected: Expectation, actions: Sequence[Action], *, count: int | None) -> list[Action]:
    """Return the actions that match the expectation.

    Args:
        expected: The expectation.
        actions: All actions.
        count: The expected number of matching actions; None: at least one.

    Raises:
        AssertionError: A different number of actions matches; the message lists the first matching actions and, if too
            few match, the most similar others with their differences.
    """
    found = [action for action in actions if not expected.differences(action)]
    if len(found) == count or (count is None and found):
        return found
    wanted = "at least one action" if count is None else counted(count, "action")
    lines = [f"expected {wanted} of {expected}; found {len(found)}."]
    if found:
        lines += ["Matching:", *map(_line, found[:_LISTED_MOST])]
    others = [action for action in actions if action not in found]
    if others and (count is None or len(found) < count):
        lines.append("Also scheduled:" if found else "Scheduled instead:")
        others.sort(key=lambda one: (one.action_type != expected.action_type, len(expected.differences(one))))
        for action in others[:_LISTED_MOST]:
            lines += [_line(action), *(f"    {difference}" for difference in expected.differences(action))]
        if len(others) > _LISTED_MOST:
            lines.append(f"  and {len(others) - _LISTED_MOST} more")
    if not actions:
        lines.append("Nothing was scheduled.")
    raise AssertionError("\n".join(lines))


def _line(action: Action) -> str:
    team = "" if action.team_id is None else f" team {action.team_id}"
    error = "" if action.error_message is None else f" ({action.error_message})"
    status = f'  "{action.action_type}" {action.status}{error}'
    return f"{status} at {_instant(action.scheduled_at)}{team} payload {_short(action.payload)}"


def _instant(value: datetime | timedelta) -> str:
    return f"{value} after its creation" if isinstance(value, timedelta) else value.isoformat()


def _short(value: Any) -> str:  # noqa: ANN401 - any JSON
    return truncate(json.dumps(_plain(value), ensure_ascii=False), _PAYLOAD_LENGTH)


def _plain(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a value after a round trip through JSON: tuples as lists, UUIDs and instants as strings."""
    return json.loads(json.dumps(value, default=_text))


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _missing(wanted: Any, actual: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - any JSON
    """Yield a phrase for each part of the wanted value that the actual value lacks; compares like Postgres's `@>`."""
    match wanted, actual:
        case dict(), dict():
            yield from (f"its {path} has no {name!r}" for name in wanted if name not in actual)
            for name in (name for name in wanted if name in actual):
                yield from _missing(wanted[name], actual[name], f"{path}.{name}")
        case list(), list():
            for item in wanted:
                if all(list(_missing(item, other, path)) for other in actual):
                    yield f"its {path} does not contain {_short(item)}"
        case _ if isinstance(wanted, bool) != isinstance(actual, bool) or wanted != actual:
            yield f"its {path} is {_short(actual)}, not {_short(wanted)}"
