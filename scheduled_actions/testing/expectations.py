"""What a test expects of the actions in the table, and in which words it is told that there is no such one."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.action import Action
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.testing.clock import check_aware

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Actions told when there is none as expected.
_TOLD_MOST = 10
_PAYLOAD_LENGTH = 300
#: How far an instant counted from the action's creation may be off: the caller's own clock may have been asked.
_CLOSE = timedelta(seconds=1)
_COLUMNS = frozenset(one.name for one in fields(Action)) - {"action_type", "payload", "scheduled_at"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """An action as a test describes it.

    Args:
        action_type: Exactly this type.
        payload__contains: Objects hold at least these keys, lists at least these elements; None: any payload.
        scheduled_at: The instant, or how long after its creation (a second is forgiven); None: any.
        columns: Other fields of `Action`, each with its value.

    Raises:
        InvalidArgument: There is no such field, or the instant is none.
    """

    action_type: str
    payload__contains: Any = None
    scheduled_at: datetime | timedelta | None = None
    columns: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name in self.columns:
            if name not in _COLUMNS:
                near = get_close_matches(name, _COLUMNS, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise InvalidArgument("argument", name, f"a field of Action{hint}")
        if self.scheduled_at is not None and not isinstance(self.scheduled_at, timedelta):
            check_aware(self.scheduled_at)

    def __str__(self) -> str:
        told = [f'"{self.action_type}"']
        if self.payload__contains is not None:
            told.append(f"payload containing {_short(self.payload__contains)}")
        if self.scheduled_at is not None:
            told.append(f"scheduled_at {_instant(self.scheduled_at)}")
        told += [f"{name} {value!r}" for name, value in self.columns.items()]
        return ", ".join(told)

    def differences(self, action: Action) -> list[str]:
        """Return in what an action is not as expected; nothing when it is."""
        if action.action_type != self.action_type:
            return [f'its type is "{action.action_type}"']
        found: list[str] = []
        if self.payload__contains is not None:
            found += _missing(_plain(self.payload__contains), action.payload, "payload")
        found += self._difference_of_time(action)
        found += [
            f"its {name} is {getattr(action, name)!r}, not {value!r}"
            for name, value in self.columns.items()
            if _text(getattr(action, name)) != _text(value)
        ]
        return found

    def _difference_of_time(self, action: Action) -> Iterator[str]:
        match self.scheduled_at:
            case timedelta():
                after = action.scheduled_at - action.created_at
                if abs(after - self.scheduled_at) > _CLOSE:
                    yield f"it is scheduled {after} after its creation, not {self.scheduled_at}"
            case datetime() if action.scheduled_at != self.scheduled_at:
                yield f"its scheduled_at is {_instant(action.scheduled_at)}, not {_instant(self.scheduled_at)}"
            case _:
                pass


def matching(expected: Expectation, actions: Sequence[Action], *, count: int | None) -> list[Action]:
    """Return the actions that are as expected.

    Args:
        expected: What they are like.
        actions: All there are.
        count: How many there should be; None: at least one.

    Raises:
        AssertionError: There are none, or not as many; the message tells what there is instead.
    """
    found = [one for one in actions if not expected.differences(one)]
    if len(found) == count or (count is None and found):
        return found
    wanted = "at least one action" if count is None else f"{count} action{'' if count == 1 else 's'}"
    lines = [f"expected {wanted} of {expected}; there {'is' if len(found) == 1 else 'are'} {len(found)}."]
    if found:
        lines += ["As expected:", *(_line(one) for one in found[:_TOLD_MOST])]
    others = [one for one in actions if one not in found]
    if others and (count is None or len(found) < count):
        near = sorted(others, key=lambda one: (one.action_type != expected.action_type, len(expected.differences(one))))
        lines.append("What was scheduled instead:" if not found else "What else was scheduled:")
        for one in near[:_TOLD_MOST]:
            lines += [_line(one), *(f"    {why}" for why in expected.differences(one))]
        if len(near) > _TOLD_MOST:
            lines.append(f"  and {len(near) - _TOLD_MOST} more")
    if not actions:
        lines.append("Nothing was scheduled at all.")
    raise AssertionError("\n".join(lines))


def _line(action: Action) -> str:
    team = "" if action.team_id is None else f" team {action.team_id}"
    error = "" if action.error_message is None else f" ({action.error_message})"
    return (
        f'  "{action.action_type}" {action.status}{error} at {_instant(action.scheduled_at)}{team} '
        f"payload {_short(action.payload)}"
    )


def _instant(value: datetime | timedelta) -> str:
    return f"{value} after its creation" if isinstance(value, timedelta) else value.isoformat()


def _short(value: Any) -> str:  # noqa: ANN401 - any JSON
    text = json.dumps(_plain(value), ensure_ascii=False)
    return text if len(text) <= _PAYLOAD_LENGTH else f"{text[: _PAYLOAD_LENGTH - 1]}…"


def _plain(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a value as JSON would bring it back: tuples as lists, UUIDs and instants as text."""
    return json.loads(json.dumps(value, default=_text))


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _missing(wanted: Any, actual: Any, where: str) -> Iterator[str]:  # noqa: ANN401 - any JSON
    """Yield what an actual value lacks of the wanted one, as Postgres's `@>` would judge."""
    match wanted, actual:
        case dict(), dict():
            for name, value in wanted.items():
                if name not in actual:
                    yield f"its {where} has no {name!r}"
                else:
                    yield from _missing(value, actual[name], f"{where}.{name}")
        case list(), list():
            for one in wanted:
                if all(list(_missing(one, other, where)) for other in actual):
                    yield f"its {where} does not hold {_short(one)}"
        case _ if type(wanted) is not type(actual) and isinstance(wanted, bool) != isinstance(actual, bool):
            yield f"its {where} is {_short(actual)}, not {_short(wanted)}"
        case _ if wanted != actual:
            yield f"its {where} is {_short(actual)}, not {_short(wanted)}"
